#include "redis/route.h"

#include <stdlib.h>

/* One node ------------------------------------------------------------------------------------- */

struct single {
    struct ration_redis_route route;
    struct ration_redis_link *link;
};

static struct single *single_of(struct ration_redis_route *route)
{
    return (struct single *)(void *)route;
}

static const struct single *read_single(const struct ration_redis_route *route)
{
    return (const struct single *)(const void *)route;
}

static void release_single(struct ration_redis_route *route)
{
    ration_redis_link_free(single_of(route)->link);
    free(route);
}

static void send_single(struct ration_redis_route *route, struct ration_redis_errand *errand)
{
    struct ration_redis_manner manner = {.deadline_ns = errand->deadline_ns};

    ration_redis_link_send(single_of(route)->link, &errand->words, &manner, errand->done,
                           errand->context);
}

static void leave_single(struct ration_redis_route *route)
{
    ration_redis_link_renew(single_of(route)->link, "it is a replica, and takes nothing");
}

static bool is_single_up(const struct ration_redis_route *route)
{
    return ration_redis_link_is_up(read_single(route)->link);
}

static bool is_single_tried(const struct ration_redis_route *route)
{
    return ration_redis_link_is_tried(read_single(route)->link);
}

static bool is_single_trying(const struct ration_redis_route *route)
{
    return ration_redis_link_is_trying(read_single(route)->link);
}

static const char *single_trouble(struct ration_redis_route *route)
{
    return ration_redis_link_trouble(single_of(route)->link);
}

static void count_single(const struct ration_redis_route *route, struct ration_redis_stats *stats)
{
    ration_redis_link_count(read_single(route)->link, stats);
}

static ration_status create_single(const struct ration_redis_route_options *options,
                                   struct ration_redis_route **out_route)
{
    static const struct ration_redis_route_kind kind = {
        .release = release_single,
        .send = send_single,
        .leave = leave_single,
        .is_up = is_single_up,
        .is_tried = is_single_tried,
        .is_trying = is_single_trying,
        .trouble = single_trouble,
        .count = count_single,
    };
    const struct ration_redis_url *url = options->url;
    struct single *single = calloc(1, sizeof(*single));

    if (single == NULL)
        return RATION_ENOMEM;
    single->route.kind = &kind;
    single->route.options = *options;
    single->link =
        ration_redis_route_open(&single->route, url->address_count > 0 ? &url->addresses[0] : NULL);
    if (single->link == NULL) {
        free(single);
        return RATION_ENOMEM;
    }
    *out_route = &single->route;
    return RATION_OK;
}

/* Any kind ------------------------------------------------------------------------------------- */

struct ration_redis_link *ration_redis_route_open(const struct ration_redis_route *route,
                                                  const struct ration_redis_address *address)
{
    const struct ration_redis_route_options *options = &route->options;
    struct ration_redis_place place = ration_redis_url_place(options->url, address);
    struct ration_redis_link *link = NULL;

    place.has_scripts = true;
    place.is_master = options->url->kind == RATION_REDIS_SENTINEL;
    (void)ration_redis_link_create(&place, options->times, options->loop, &link);
    return link;
}

void ration_redis_route_close(struct ration_redis_route *route, struct ration_redis_link *link)
{
    if (link == NULL)
        return;
    ration_redis_link_count(link, &route->stats);
    ration_redis_link_free(link);
}

ration_status ration_redis_route_create(const struct ration_redis_route_options *options,
                                        struct ration_redis_route **out_route)
{
    switch (options->url->kind) {
    case RATION_REDIS_SENTINEL:
        return ration_redis_sentinel_create(options, out_route);
    case RATION_REDIS_CLUSTER:
        return ration_redis_cluster_create(options, out_route);
    default:
        return create_single(options, out_route);
    }
}

void ration_redis_route_free(struct ration_redis_route *route)
{
    if (route != NULL)
        route->kind->release(route);
}

void ration_redis_route_send(struct ration_redis_route *route, struct ration_redis_errand *errand)
{
    if (errand->deadline_ns == 0)
        errand->deadline_ns = ration_redis_route_now(route) + route->options.times->deadline_ns;
    route->kind->send(route, errand);
}

void ration_redis_route_leave(struct ration_redis_route *route)
{
    route->kind->leave(route);
}

bool ration_redis_route_is_up(const struct ration_redis_route *route)
{
    return route->kind->is_up(route);
}

bool ration_redis_route_is_tried(const struct ration_redis_route *route)
{
    return route->kind->is_tried(route);
}

const char *ration_redis_route_trouble(struct ration_redis_route *route)
{
    return route->kind->trouble(route);
}

void ration_redis_route_stats(const struct ration_redis_route *route,
                              struct ration_redis_stats *out_stats)
{
    *out_stats = route->stats;
    route->kind->count(route, out_stats);
}
