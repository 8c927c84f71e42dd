/*
 * sentinel: a router to the master that the sentinels name.
 *
 *     searching:  ask a sentinel for the address of the master; if it does not know or answer, ask the next one
 *     found:      connect to that address. If it is a replica (ROLE), search again
 *     up:         no sentinel is connected. When the connection to the master is lost, search again
 *
 * The connection to a master that did not move reconnects by itself. While there is no master, the delay between
 * searches grows up to SEARCH_DELAY_MAX_NS.
 *
 * After creation, only the timer and the release of the router open or free connections: never a callback of one
 * of them.
 */
#include <hiredis/hiredis.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ration/limit.h"
#include "redis/router.h"

#define NEVER_NS            UINT64_MAX
#define SEARCH_DELAY_MAX_NS RATION_NS_PER_SECOND
#define QUERY_TIMEOUT_NS    (200 * RATION_NS_PER_MS)
#define LAST_ERROR_SIZE     600

struct sentinel {
    struct ration_redis_router router;
    struct ration_redis_connection *master; /* NULL: not found yet */
    struct ration_redis_address address;
    struct ration_redis_connection *queried; /* connection to a sentinel; NULL: none is queried */
    uint32_t queried_index;
    bool is_query_pending;
    bool has_query_failed; /* the current sentinel does not answer, or does not know the master */
    bool is_found;         /* found_address is that of the current master */
    struct ration_redis_address found_address;
    bool has_connected; /* all sentinels were tried once */
    uint64_t wake_at_ns;
    uint64_t search_delay_ns; /* delay before the next search */
    void *timer;
    char last_error[LAST_ERROR_SIZE];
};

static struct sentinel *sentinel_of(struct ration_redis_router *router)
{
    return (struct sentinel *)(void *)router;
}

static const struct sentinel *read_sentinel(const struct ration_redis_router *router)
{
    return (const struct sentinel *)(const void *)router;
}

static void on_wake(void *argument);

static void wake_at(struct sentinel *sentinel, uint64_t time_ns)
{
    const struct ration_redis_loop *loop = sentinel->router.options.loop;

    if (sentinel->timer != NULL && time_ns >= sentinel->wake_at_ns)
        return;
    sentinel->wake_at_ns = time_ns;
    loop->wake_at(loop->context, &sentinel->timer, time_ns, on_wake, sentinel);
}

static void wake_now(struct sentinel *sentinel)
{
    wake_at(sentinel, ration_redis_router_now(&sentinel->router));
}

static void wake_after_delay(struct sentinel *sentinel)
{
    wake_at(sentinel, ration_redis_router_now(&sentinel->router) + sentinel->search_delay_ns);
    sentinel->search_delay_ns = sentinel->search_delay_ns * 2 < SEARCH_DELAY_MAX_NS
                                    ? sentinel->search_delay_ns * 2
                                    : SEARCH_DELAY_MAX_NS;
}

static bool is_master_connected(const struct sentinel *sentinel)
{
    return sentinel->master != NULL && ration_redis_connection_is_connected(sentinel->master);
}

/* Querying a sentinel -------------------------------------------------------------------------- */

static bool read_address(const redisReply *reply, struct ration_redis_address *out_address)
{
    const redisReply *host, *port;

    if (reply->type != REDIS_REPLY_ARRAY || reply->elements != 2)
        return false;
    host = reply->element[0];
    port = reply->element[1];
    if (host->type != REDIS_REPLY_STRING || port->type != REDIS_REPLY_STRING || host->len == 0 ||
        (size_t)host->len >= sizeof(out_address->host))
        return false;
    strcpy(out_address->host, host->str);
    out_address->port = (unsigned)strtoul(port->str, NULL, 10);
    return out_address->port > 0 && out_address->port <= UINT16_MAX;
}

static void on_master_address(void *context, enum ration_redis_outcome outcome,
                              const struct redisReply *reply)
{
    struct sentinel *sentinel = context;

    sentinel->is_query_pending = false;
    if (outcome == RATION_REDIS_ANSWERED && read_address(reply, &sentinel->found_address)) {
        sentinel->is_found = true;
    } else {
        const struct ration_redis_address *address =
            &sentinel->router.options.url->addresses[sentinel->queried_index];

        sentinel->has_query_failed = true;
        snprintf(sentinel->last_error, sizeof(sentinel->last_error), "the sentinel %s:%u %s",
                 address->host, address->port,
                 outcome != RATION_REDIS_ANSWERED   ? "does not answer"
                 : reply->type == REDIS_REPLY_ERROR ? reply->str
                                                    : "does not know the master");
    }
    wake_now(sentinel);
}

static void query_master_address(struct sentinel *sentinel)
{
    struct ration_redis_send_options send_options = {
        .deadline_ns = ration_redis_router_now(&sentinel->router) + QUERY_TIMEOUT_NS};
    struct ration_redis_argv argv;

    sentinel->is_query_pending = true;
    ration_redis_argv_init(&argv);
    ration_redis_argv_add_text(&argv, "SENTINEL");
    ration_redis_argv_add_text(&argv, "get-master-addr-by-name");
    ration_redis_argv_add_text(&argv, sentinel->router.options.url->master);
    ration_redis_connection_send(sentinel->queried, &argv, &send_options, on_master_address,
                                 sentinel);
    ration_redis_argv_done(&argv);
}

static void on_sentinel_change(void *context)
{
    struct sentinel *sentinel = context;

    sentinel->has_query_failed = !ration_redis_connection_is_connected(sentinel->queried);
    wake_now(sentinel);
}

/* A sentinel has its own users, no databases, and needs no scripts. */
static void connect_sentinel(struct sentinel *sentinel)
{
    const struct ration_redis_router_options *options = &sentinel->router.options;
    const struct ration_redis_address *address = &options->url->addresses[sentinel->queried_index];
    const struct ration_redis_url *url = options->url;
    struct ration_redis_endpoint endpoint = {
        .host = address->host,
        .port = address->port,
        .user = url->sentinel_user[0] != '\0' ? url->sentinel_user : NULL,
        .password = url->sentinel_password[0] != '\0' ? url->sentinel_password : NULL,
    };

    if (ration_redis_connection_create(&endpoint, options->times, options->loop,
                                       &sentinel->queried) != RATION_OK) {
        wake_after_delay(sentinel);
        return;
    }
    sentinel->has_query_failed = ration_redis_connection_has_connected(sentinel->queried);
    ration_redis_connection_watch(sentinel->queried, on_sentinel_change, sentinel);
    if (sentinel->has_query_failed)
        wake_now(sentinel);
}

static void disconnect_sentinel(struct sentinel *sentinel)
{
    ration_redis_connection_free(sentinel->queried);
    sentinel->queried = NULL;
    sentinel->is_query_pending = sentinel->has_query_failed = false;
}

/* Tries the next sentinel at once; after the last one, the first again after a delay. */
static void try_next_sentinel(struct sentinel *sentinel)
{
    const struct ration_redis_address *address =
        &sentinel->router.options.url->addresses[sentinel->queried_index];

    if (!ration_redis_connection_is_connected(sentinel->queried))
        snprintf(sentinel->last_error, sizeof(sentinel->last_error), "the sentinel %s:%u: %s",
                 address->host, address->port,
                 ration_redis_connection_last_error(sentinel->queried));
    disconnect_sentinel(sentinel);
    sentinel->queried_index++;
    if (sentinel->queried_index < sentinel->router.options.url->address_count) {
        wake_now(sentinel);
    } else {
        sentinel->queried_index = 0;
        sentinel->has_connected = true;
        wake_after_delay(sentinel);
    }
}

/* The master ----------------------------------------------------------------------------------- */

static void on_master_change(void *context)
{
    struct sentinel *sentinel = context;

    if (is_master_connected(sentinel)) {
        sentinel->search_delay_ns = sentinel->router.options.times->retry_min_ns;
        wake_now(sentinel); /* to disconnect the sentinel, which is no longer needed */
    } else {
        wake_after_delay(sentinel);
    }
}

static void connect_master(struct sentinel *sentinel)
{
    bool is_same = sentinel->master != NULL &&
                   sentinel->address.port == sentinel->found_address.port &&
                   strcmp(sentinel->address.host, sentinel->found_address.host) == 0;

    sentinel->is_found = false;
    if (!is_same) {
        ration_redis_router_close(&sentinel->router, sentinel->master);
        sentinel->address = sentinel->found_address;
        sentinel->master = ration_redis_router_open(&sentinel->router, &sentinel->address);
        if (sentinel->master != NULL)
            ration_redis_connection_watch(sentinel->master, on_master_change, sentinel);
    }
    wake_after_delay(sentinel);
}

/* Takes the next step, whatever happened before. */
static void on_wake(void *argument)
{
    struct sentinel *sentinel = argument;

    sentinel->timer = NULL;
    sentinel->wake_at_ns = NEVER_NS;
    if (is_master_connected(sentinel))
        disconnect_sentinel(sentinel);
    else if (sentinel->is_found)
        connect_master(sentinel);
    else if (sentinel->queried == NULL)
        connect_sentinel(sentinel);
    else if (sentinel->has_query_failed)
        try_next_sentinel(sentinel);
    else if (ration_redis_connection_is_connected(sentinel->queried) && !sentinel->is_query_pending)
        query_master_address(sentinel);
}

/* The router ----------------------------------------------------------------------------------- */

static void release_sentinel(struct ration_redis_router *router)
{
    struct sentinel *sentinel = sentinel_of(router);

    ration_redis_connection_free(sentinel->queried);
    ration_redis_connection_free(sentinel->master);
    if (sentinel->timer != NULL)
        router->options.loop->forget(router->options.loop->context, sentinel->timer);
    free(sentinel);
}

static void send_request(struct ration_redis_router *router, struct ration_redis_request *request)
{
    struct sentinel *sentinel = sentinel_of(router);
    struct ration_redis_send_options send_options = {.deadline_ns = request->deadline_ns};

    if (sentinel->master != NULL) {
        ration_redis_connection_send(sentinel->master, &request->argv, &send_options, request->done,
                                     request->context);
    } else {
        router->stats.refused++;
        request->done(request->context, RATION_REDIS_REFUSED, NULL);
    }
}

static void leave_replica(struct ration_redis_router *router)
{
    struct sentinel *sentinel = sentinel_of(router);

    if (sentinel->master != NULL)
        ration_redis_connection_renew(sentinel->master, "it is a replica and rejects writes");
}

static bool is_connected(const struct ration_redis_router *router)
{
    return is_master_connected(read_sentinel(router));
}

static bool has_connected(const struct ration_redis_router *router)
{
    const struct sentinel *sentinel = read_sentinel(router);

    return sentinel->has_connected ||
           (sentinel->master != NULL && ration_redis_connection_has_connected(sentinel->master));
}

static bool is_trying(const struct ration_redis_router *router)
{
    const struct sentinel *sentinel = read_sentinel(router);

    return !sentinel->has_connected || sentinel->queried != NULL || sentinel->is_found ||
           (sentinel->master != NULL && ration_redis_connection_is_trying(sentinel->master));
}

static const char *last_error(struct ration_redis_router *router)
{
    struct sentinel *sentinel = sentinel_of(router);

    if (is_master_connected(sentinel))
        return "";
    if (sentinel->master != NULL)
        snprintf(sentinel->last_error, sizeof(sentinel->last_error), "the master %s:%u: %s",
                 sentinel->address.host, sentinel->address.port,
                 ration_redis_connection_last_error(sentinel->master));
    return sentinel->last_error;
}

static void add_sentinel_stats(const struct ration_redis_router *router,
                               struct ration_redis_stats *stats)
{
    if (read_sentinel(router)->master != NULL)
        ration_redis_connection_count(read_sentinel(router)->master, stats);
}

ration_status ration_redis_sentinel_create(const struct ration_redis_router_options *options,
                                           struct ration_redis_router **out_router)
{
    static const struct ration_redis_router_kind kind = {
        .release = release_sentinel,
        .send = send_request,
        .leave = leave_replica,
        .is_connected = is_connected,
        .has_connected = has_connected,
        .is_trying = is_trying,
        .last_error = last_error,
        .add_stats = add_sentinel_stats,
    };
    struct sentinel *sentinel = calloc(1, sizeof(*sentinel));

    if (sentinel == NULL)
        return RATION_ENOMEM;
    sentinel->router.kind = &kind;
    sentinel->router.options = *options;
    sentinel->wake_at_ns = NEVER_NS;
    sentinel->search_delay_ns = options->times->retry_min_ns;
    snprintf(sentinel->last_error, sizeof(sentinel->last_error),
             "no sentinel has been queried yet");
    *out_router = &sentinel->router;
    connect_sentinel(sentinel);
    return RATION_OK;
}
