/*
 * route: the way from a client to the node that has a key.
 *
 *     redis://, unix:       one link, whatever the key
 *     redis+sentinel://     a link to the master that sentinels name (sentinel.c)
 *     redis+cluster://      a link to each master, and a map of who has which keys (cluster.c)
 *
 * What is sent is an errand. It is told once, in time. It is sent again, to another node, only where the
 * answer says that nothing was done.
 */
#ifndef RATION_REDIS_ROUTE_H
#define RATION_REDIS_ROUTE_H

#include "redis/link.h"
#include "redis/url.h"

struct ration_redis_route;

/* A command on its way. Whoever sends it keeps it until done() is told. */
struct ration_redis_errand {
    struct ration_redis_words words;
    uint64_t
        deadline_ns; /* 0: set when it is sent first. Then it stays, however often it is sent */
    ration_redis_done *done;
    void *context;

    /* The route's. */
    struct ration_redis_route *route;
    struct ration_redis_errand *next;
    void *node;
    bool is_asking;
    bool was_moved;
    bool was_asked;
};

/* What a route is made of. All of it is borrowed for as long as the route lives. */
struct ration_redis_route_options {
    const struct ration_redis_url *url;
    const struct ration_redis_times *times;
    const struct ration_redis_loop *loop;
};

/* Release: ration_redis_route_free(). Returns RATION_ENOMEM. */
ration_status ration_redis_route_create(const struct ration_redis_route_options *options,
                                        struct ration_redis_route **out_route);

/* Whoever waits is told first. NULL is fine. */
void ration_redis_route_free(struct ration_redis_route *route);

/* done() may be told before this returns. */
void ration_redis_route_send(struct ration_redis_route *route, struct ration_redis_errand *errand);

/* What answered was a replica, which takes nothing: the master is elsewhere. */
void ration_redis_route_leave(struct ration_redis_route *route);

bool ration_redis_route_is_up(const struct ration_redis_route *route);

/* Whether it was ever up or has failed. */
bool ration_redis_route_is_tried(const struct ration_redis_route *route);

/* Why it is not up, for people; "" if it is. It is there until the route is used again. */
const char *ration_redis_route_trouble(struct ration_redis_route *route);

void ration_redis_route_stats(const struct ration_redis_route *route,
                              struct ration_redis_stats *out_stats);

/* For the kinds of routes ---------------------------------------------------------------------- */

struct ration_redis_route_kind {
    void (*release)(struct ration_redis_route *route);
    void (*send)(struct ration_redis_route *route, struct ration_redis_errand *errand);
    void (*leave)(struct ration_redis_route *route);
    bool (*is_up)(const struct ration_redis_route *route);
    bool (*is_tried)(const struct ration_redis_route *route);
    bool (*is_trying)(const struct ration_redis_route *route);
    const char *(*trouble)(struct ration_redis_route *route);
    void (*count)(const struct ration_redis_route *route, struct ration_redis_stats *stats);
};

/* Each kind begins with it. */
struct ration_redis_route {
    const struct ration_redis_route_kind *kind;
    struct ration_redis_route_options options;
    struct ration_redis_stats stats; /* of links that are gone, and of what the route does itself */
};

ration_status ration_redis_sentinel_create(const struct ration_redis_route_options *options,
                                           struct ration_redis_route **out_route);
ration_status ration_redis_cluster_create(const struct ration_redis_route_options *options,
                                          struct ration_redis_route **out_route);

static inline uint64_t ration_redis_route_now(const struct ration_redis_route *route)
{
    return route->options.loop->now_ns(route->options.loop->context);
}

/* A link to a node that decides, at the address or (NULL) the URL's path. NULL: no memory. */
struct ration_redis_link *ration_redis_route_open(const struct ration_redis_route *route,
                                                  const struct ration_redis_address *address);

/* Releases a link, and keeps what it has done. */
void ration_redis_route_close(struct ration_redis_route *route, struct ration_redis_link *link);

#endif
