/*
 * router: sends each request to the node that stores its key.
 *
 *     redis://, unix:       one connection, whatever the key
 *     redis+sentinel://     a connection to the master that the sentinels name (sentinel.c)
 *     redis+cluster://      a connection to each master, and a map from slots to masters (cluster.c)
 *
 * A request is completed once, by its deadline. The router sends it again, to another node, only if the reply says
 * that nothing was done.
 */
#ifndef RATION_REDIS_ROUTER_H
#define RATION_REDIS_ROUTER_H

#include "redis/redis_connection.h"
#include "redis/url.h"

struct ration_redis_router;

/* A command to be sent. The sender owns it, and must not release it before done() is called. */
struct ration_redis_request {
    struct ration_redis_argv argv;
    /*
     * 0: the router sets it when the request is first sent. It stays the same when the request is sent
     * again.
     */
    uint64_t deadline_ns;
    ration_redis_done *done;
    void *context;

    /* Used by the router only. */
    struct ration_redis_router *router;
    struct ration_redis_request *next;
    void *node;
    bool is_asking;
    bool was_moved;
    bool was_asked;
};

/* All members are borrowed for the life of the router. */
struct ration_redis_router_options {
    const struct ration_redis_url *url;
    const struct ration_redis_times *times;
    const struct ration_redis_loop *loop;
};

/* Release: ration_redis_router_free(). Returns RATION_ENOMEM. */
ration_status ration_redis_router_create(const struct ration_redis_router_options *options,
                                         struct ration_redis_router **out_router);

/* Completes all pending requests first. NULL is allowed. */
void ration_redis_router_free(struct ration_redis_router *router);

/* done() may be called before this returns. */
void ration_redis_router_send(struct ration_redis_router *router,
                              struct ration_redis_request *request);

/* Called when a reply came from a replica, which rejects writes: the router looks for the master. */
void ration_redis_router_leave(struct ration_redis_router *router);

bool ration_redis_router_is_connected(const struct ration_redis_router *router);

/* Whether it was up or has failed at least once. */
bool ration_redis_router_has_connected(const struct ration_redis_router *router);

/* Why it is not up, as text for people; "" if it is up. Valid until the next call on the router. */
const char *ration_redis_router_last_error(struct ration_redis_router *router);

void ration_redis_router_stats(const struct ration_redis_router *router,
                               struct ration_redis_stats *out_stats);

/* For the kinds of routers --------------------------------------------------------------------- */

struct ration_redis_router_kind {
    void (*release)(struct ration_redis_router *router);
    void (*send)(struct ration_redis_router *router, struct ration_redis_request *request);
    void (*leave)(struct ration_redis_router *router);
    bool (*is_connected)(const struct ration_redis_router *router);
    bool (*has_connected)(const struct ration_redis_router *router);
    bool (*is_trying)(const struct ration_redis_router *router);
    const char *(*last_error)(struct ration_redis_router *router);
    void (*add_stats)(const struct ration_redis_router *router, struct ration_redis_stats *stats);
};

/* The first member of each kind of router. */
struct ration_redis_router {
    const struct ration_redis_router_kind *kind;
    struct ration_redis_router_options options;
    struct ration_redis_stats stats; /* of closed connections, and of the router's own actions */
};

ration_status ration_redis_sentinel_create(const struct ration_redis_router_options *options,
                                           struct ration_redis_router **out_router);
ration_status ration_redis_cluster_create(const struct ration_redis_router_options *options,
                                          struct ration_redis_router **out_router);

static inline uint64_t ration_redis_router_now(const struct ration_redis_router *router)
{
    return router->options.loop->now_ns(router->options.loop->context);
}

/*
 * Opens a connection to a node that runs the scripts, at the address or (NULL) the URL's unix path. NULL: no
 * memory.
 */
struct ration_redis_connection *ration_redis_router_open(
    const struct ration_redis_router *router, const struct ration_redis_address *address);

/* Frees a connection after adding its counters to router->stats. */
void ration_redis_router_close(struct ration_redis_router *router,
                               struct ration_redis_connection *connection);

#endif
