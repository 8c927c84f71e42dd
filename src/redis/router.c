#include "redis/router.h"

#include <stdlib.h>

/* One node ------------------------------------------------------------------------------------- */

struct single {
    struct ration_redis_router router;
    struct ration_redis_connection *connection;
};

static struct single *single_of(struct ration_redis_router *router)
{
    return (struct single *)(void *)router;
}

static const struct single *read_single(const struct ration_redis_router *router)
{
    return (const struct single *)(const void *)router;
}

static void release_single(struct ration_redis_router *router)
{
    ration_redis_connection_free(single_of(router)->connection);
    free(router);
}

static void send_single(struct ration_redis_router *router, struct ration_redis_request *request)
{
    struct ration_redis_send_options send_options = {.deadline_ns = request->deadline_ns};

    ration_redis_connection_send(single_of(router)->connection, &request->argv, &send_options,
                                 request->done, request->context);
}

static void leave_single(struct ration_redis_router *router)
{
    ration_redis_connection_renew(single_of(router)->connection,
                                  "it is a replica and rejects writes");
}

static bool is_single_connected(const struct ration_redis_router *router)
{
    return ration_redis_connection_is_connected(read_single(router)->connection);
}

static bool has_single_connected(const struct ration_redis_router *router)
{
    return ration_redis_connection_has_connected(read_single(router)->connection);
}

static bool is_single_trying(const struct ration_redis_router *router)
{
    return ration_redis_connection_is_trying(read_single(router)->connection);
}

static const char *single_last_error(struct ration_redis_router *router)
{
    return ration_redis_connection_last_error(single_of(router)->connection);
}

static void add_single_stats(const struct ration_redis_router *router,
                             struct ration_redis_stats *stats)
{
    ration_redis_connection_count(read_single(router)->connection, stats);
}

static ration_status create_single(const struct ration_redis_router_options *options,
                                   struct ration_redis_router **out_router)
{
    static const struct ration_redis_router_kind kind = {
        .release = release_single,
        .send = send_single,
        .leave = leave_single,
        .is_connected = is_single_connected,
        .has_connected = has_single_connected,
        .is_trying = is_single_trying,
        .last_error = single_last_error,
        .add_stats = add_single_stats,
    };
    const struct ration_redis_url *url = options->url;
    struct single *single = calloc(1, sizeof(*single));

    if (single == NULL)
        return RATION_ENOMEM;
    single->router.kind = &kind;
    single->router.options = *options;
    single->connection = ration_redis_router_open(
        &single->router, url->address_count > 0 ? &url->addresses[0] : NULL);
    if (single->connection == NULL) {
        free(single);
        return RATION_ENOMEM;
    }
    *out_router = &single->router;
    return RATION_OK;
}

/* Any kind ------------------------------------------------------------------------------------- */

struct ration_redis_connection *ration_redis_router_open(const struct ration_redis_router *router,
                                                         const struct ration_redis_address *address)
{
    const struct ration_redis_router_options *options = &router->options;
    struct ration_redis_endpoint endpoint = ration_redis_url_endpoint(options->url, address);
    struct ration_redis_connection *connection = NULL;

    endpoint.has_scripts = true;
    endpoint.is_master = options->url->kind == RATION_REDIS_SENTINEL;
    (void)ration_redis_connection_create(&endpoint, options->times, options->loop, &connection);
    return connection;
}

void ration_redis_router_close(struct ration_redis_router *router,
                               struct ration_redis_connection *connection)
{
    if (connection == NULL)
        return;
    ration_redis_connection_count(connection, &router->stats);
    ration_redis_connection_free(connection);
}

ration_status ration_redis_router_create(const struct ration_redis_router_options *options,
                                         struct ration_redis_router **out_router)
{
    switch (options->url->kind) {
    case RATION_REDIS_SENTINEL:
        return ration_redis_sentinel_create(options, out_router);
    case RATION_REDIS_CLUSTER:
        return ration_redis_cluster_create(options, out_router);
    default:
        return create_single(options, out_router);
    }
}

void ration_redis_router_free(struct ration_redis_router *router)
{
    if (router != NULL)
        router->kind->release(router);
}

void ration_redis_router_send(struct ration_redis_router *router,
                              struct ration_redis_request *request)
{
    if (request->deadline_ns == 0)
        request->deadline_ns = ration_redis_router_now(router) + router->options.times->timeout_ns;
    router->kind->send(router, request);
}

void ration_redis_router_leave(struct ration_redis_router *router)
{
    router->kind->leave(router);
}

bool ration_redis_router_is_connected(const struct ration_redis_router *router)
{
    return router->kind->is_connected(router);
}

bool ration_redis_router_has_connected(const struct ration_redis_router *router)
{
    return router->kind->has_connected(router);
}

const char *ration_redis_router_last_error(struct ration_redis_router *router)
{
    return router->kind->last_error(router);
}

void ration_redis_router_stats(const struct ration_redis_router *router,
                               struct ration_redis_stats *out_stats)
{
    *out_stats = router->stats;
    router->kind->add_stats(router, out_stats);
}
