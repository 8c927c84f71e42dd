/*
 * cluster: a router to whichever master owns the slot of a key.
 *
 * The router learns the map of slots from any node (CLUSTER SLOTS), and requests it again when it turns out to be
 * outdated: a node replies MOVED or is lost, or a slot has no owner; but at most once per REFRESH_MIN_NS.
 *
 *     MOVED           the request is sent again to the node named, which owns the slot from now on
 *     ASK             the request is sent again to the node named, after ASKING; the map stays
 *     anything else   is the answer
 *
 * A node that redirects a request has done nothing. Each of the two redirections is followed once, within the time
 * that is left. Requests for a node that is connecting for the first time wait for it until their deadline; those
 * for a node that was lost do not wait.
 *
 * Only the timer and the release of the router free connections: never a callback of one of them.
 */
#include <hiredis/hiredis.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ration/limit.h"
#include "redis/nodes.h"

#define NEVER_NS            UINT64_MAX
#define REFRESH_MIN_NS      (100 * RATION_NS_PER_MS)
#define REFRESH_MAX_NS      RATION_NS_PER_SECOND /* while nodes are down, or slots have no owner */
#define REFRESH_DEADLINE_NS (100 * RATION_NS_PER_MS)
#define SWEEP_NS            (10 * RATION_NS_PER_SECOND)
#define WAITING_MAX         1024
#define LAST_ERROR_SIZE     600

struct cluster {
    struct ration_redis_router router;
    struct ration_redis_nodes nodes;
    bool has_map;
    bool has_connected;
    bool is_closing;

    /* the node that was sent CLUSTER SLOTS; NULL: no request is in flight */
    struct ration_redis_node *map_node;
    uint32_t map_node_index;
    uint64_t map_requested_at_ns;
    uint64_t refresh_at_ns;    /* NEVER_NS: the map is current */
    uint64_t refresh_delay_ns; /* delay before the next refresh while the map is incomplete */
    uint64_t sweep_at_ns;

    /* requests for nodes that are connecting for the first time */
    struct ration_redis_request *waiting;
    struct ration_redis_request **waiting_end;
    uint32_t waiting_count;
    uint64_t waiting_deadline_ns; /* their earliest deadline */

    void *timer;
    char map_error[LAST_ERROR_SIZE / 2]; /* why there is no map */
    char last_error[LAST_ERROR_SIZE];
};

static struct cluster *cluster_of(struct ration_redis_router *router)
{
    return (struct cluster *)(void *)router;
}

static const struct cluster *read_cluster(const struct ration_redis_router *router)
{
    return (const struct cluster *)(const void *)router;
}

static bool is_error_starting_with(const redisReply *reply, const char *prefix)
{
    return reply->type == REDIS_REPLY_ERROR && strncmp(reply->str, prefix, strlen(prefix)) == 0;
}

/* Time ----------------------------------------------------------------------------------------- */

static void on_wake(void *argument);

static uint64_t earlier_of(uint64_t a_ns, uint64_t b_ns)
{
    return a_ns < b_ns ? a_ns : b_ns;
}

static void set_timer(struct cluster *cluster)
{
    const struct ration_redis_loop *loop = cluster->router.options.loop;
    uint64_t wake_at_ns = earlier_of(cluster->sweep_at_ns, cluster->waiting_deadline_ns);

    if (cluster->map_node == NULL)
        wake_at_ns = earlier_of(wake_at_ns, cluster->refresh_at_ns);
    loop->wake_at(loop->context, &cluster->timer, wake_at_ns, on_wake, cluster);
}

/* The map is outdated: requests it as soon as REFRESH_MIN_NS allows. */
static void refresh_map_soon(struct cluster *cluster)
{
    uint64_t now_ns = ration_redis_router_now(&cluster->router);
    uint64_t wake_at_ns = cluster->map_requested_at_ns + REFRESH_MIN_NS;

    if (wake_at_ns < now_ns || cluster->map_requested_at_ns == 0)
        wake_at_ns = now_ns;
    if (wake_at_ns < cluster->refresh_at_ns) {
        cluster->refresh_at_ns = wake_at_ns;
        set_timer(cluster);
    }
}

/* Requests the map again after a delay, which doubles each time. */
static void refresh_map_later(struct cluster *cluster)
{
    uint64_t now_ns = ration_redis_router_now(&cluster->router);

    cluster->refresh_at_ns = earlier_of(cluster->refresh_at_ns, now_ns + cluster->refresh_delay_ns);
    cluster->refresh_delay_ns = earlier_of(2 * cluster->refresh_delay_ns, REFRESH_MAX_NS);
}

/* Requests ------------------------------------------------------------------------------------- */

static void on_done(void *context, enum ration_redis_outcome outcome,
                    const struct redisReply *reply);

static void refuse_request(struct cluster *cluster, struct ration_redis_request *request)
{
    cluster->router.stats.refused++;
    request->done(request->context, RATION_REDIS_REFUSED, NULL);
}

static void wait_for_node(struct cluster *cluster, struct ration_redis_request *request)
{
    request->next = NULL;
    *cluster->waiting_end = request;
    cluster->waiting_end = &request->next;
    cluster->waiting_count++;
    if (request->deadline_ns < cluster->waiting_deadline_ns) {
        cluster->waiting_deadline_ns = request->deadline_ns;
        set_timer(cluster);
    }
}

static void send_to_node(struct cluster *cluster, struct ration_redis_request *request,
                         struct ration_redis_node *node)
{
    struct ration_redis_send_options send_options = {.deadline_ns = request->deadline_ns,
                                                     .is_asking = request->is_asking};

    request->node = node;
    if (ration_redis_connection_has_connected(node->connection))
        ration_redis_connection_send(node->connection, &request->argv, &send_options, on_done,
                                     request);
    else if (cluster->waiting_count < WAITING_MAX)
        wait_for_node(cluster, request);
    else
        refuse_request(cluster, request);
}

/* Sends the waiting requests whose node has connected or failed; refuses those whose deadline has passed. */
static void send_waiting_requests(struct cluster *cluster)
{
    struct ration_redis_request *request = cluster->waiting, *next;
    uint64_t now_ns = ration_redis_router_now(&cluster->router);

    cluster->waiting = NULL;
    cluster->waiting_end = &cluster->waiting;
    cluster->waiting_count = 0;
    cluster->waiting_deadline_ns = NEVER_NS;
    for (; request != NULL; request = next) {
        next = request->next;
        if (request->deadline_ns <= now_ns)
            refuse_request(cluster, request);
        else
            send_to_node(cluster, request, request->node);
    }
}

/* Follows a redirection. False: the error is not one, or it must not be followed. */
static bool follow_redirect(struct cluster *cluster, struct ration_redis_request *request,
                            const char *error)
{
    const struct ration_redis_node *from = request->node;
    struct ration_redis_redirect redirect;
    struct ration_redis_node *to;

    if (!ration_redis_redirect_read(error, &redirect))
        return false;
    cluster->router.stats.redirected++;
    if (redirect.address.host[0] == '\0')
        strcpy(redirect.address.host, from->address.host);
    to = ration_redis_nodes_get(&cluster->nodes, &redirect.address);
    if (!redirect.is_ask) {
        refresh_map_soon(cluster);
        if (to != NULL)
            ration_redis_nodes_set_owner(&cluster->nodes, redirect.slot, to);
    }
    if (to == NULL || (redirect.is_ask ? request->was_asked : request->was_moved) ||
        request->deadline_ns <= ration_redis_router_now(&cluster->router))
        return false;
    request->is_asking = redirect.is_ask;
    request->was_asked |= redirect.is_ask;
    request->was_moved |= !redirect.is_ask;
    send_to_node(cluster, request, to);
    return true;
}

static void on_done(void *context, enum ration_redis_outcome outcome,
                    const struct redisReply *reply)
{
    struct ration_redis_request *request = context;
    struct cluster *cluster = cluster_of(request->router);

    if (outcome == RATION_REDIS_ANSWERED && reply->type == REDIS_REPLY_ERROR) {
        if (follow_redirect(cluster, request, reply->str))
            return;
        if (is_error_starting_with(reply, "CLUSTERDOWN"))
            refresh_map_soon(cluster);
    }
    request->done(request->context, outcome, reply);
}

/* The slot of the first key, which follows the number of keys of a script, or the name of a command. */
static uint16_t slot_of_first_key(const struct ration_redis_argv *argv)
{
    size_t size = argv->count > 0 ? ration_redis_argv_size(argv, 0) : 0;
    bool is_script = (size == 4 && memcmp(ration_redis_argv_at(argv, 0), "EVAL", 4) == 0) ||
                     (size == 7 && memcmp(ration_redis_argv_at(argv, 0), "EVALSHA", 7) == 0);
    size_t key = is_script ? 3 : 1;

    if (argv->text.is_failed || argv->count <= key)
        return 0;
    return ration_redis_slot(ration_redis_argv_at(argv, key), ration_redis_argv_size(argv, key));
}

static void send_request(struct ration_redis_router *router, struct ration_redis_request *request)
{
    struct cluster *cluster = cluster_of(router);
    struct ration_redis_node *node =
        ration_redis_nodes_owner(&cluster->nodes, slot_of_first_key(&request->argv));

    request->router = router;
    request->is_asking = request->was_asked = request->was_moved = false;
    if (node != NULL && !cluster->is_closing) {
        send_to_node(cluster, request, node);
        return;
    }
    if (cluster->has_map && !cluster->is_closing)
        refresh_map_soon(cluster);
    refuse_request(cluster, request);
}

/* The map -------------------------------------------------------------------------------------- */

/*
 * Finds a node that has slots and is not connected: one that has never connected or failed (is_untried), or
 * one that has.
 */
static const struct ration_redis_node *find_disconnected_node(const struct cluster *cluster,
                                                              bool is_untried)
{
    for (uint32_t i = 0; i < cluster->nodes.count; i++) {
        const struct ration_redis_node *node = &cluster->nodes.all[i];

        if (node->connection != NULL && node->has_slots &&
            !ration_redis_connection_is_connected(node->connection) &&
            ration_redis_connection_has_connected(node->connection) == !is_untried)
            return node;
    }
    return NULL;
}

/* Finds a node that is connected; another than the last time, if there is one. */
static struct ration_redis_node *find_connected_node(struct cluster *cluster)
{
    struct ration_redis_nodes *nodes = &cluster->nodes;

    for (uint32_t i = 0; i < nodes->count; i++) {
        uint32_t index = (cluster->map_node_index + 1 + i) % nodes->count;

        if (nodes->all[index].connection != NULL &&
            ration_redis_connection_is_connected(nodes->all[index].connection)) {
            cluster->map_node_index = index;
            return &nodes->all[index];
        }
    }
    return NULL;
}

static bool has_untried_node(const struct cluster *cluster)
{
    for (uint32_t i = 0; i < cluster->nodes.count; i++)
        if (cluster->nodes.all[i].connection != NULL &&
            !ration_redis_connection_has_connected(cluster->nodes.all[i].connection))
            return true;
    return false;
}

static void update_has_connected(struct cluster *cluster)
{
    if (cluster->has_map)
        cluster->has_connected |= find_disconnected_node(cluster, true) == NULL;
    else
        cluster->has_connected |=
            cluster->map_error[0] != '\0' ||
            (!has_untried_node(cluster) && find_connected_node(cluster) == NULL);
}

static void on_map(void *context, enum ration_redis_outcome outcome, const struct redisReply *reply)
{
    struct cluster *cluster = context;
    const struct ration_redis_node *map_node = cluster->map_node;
    bool is_valid;

    if (cluster->is_closing)
        return;
    cluster->map_node = NULL;
    is_valid = outcome == RATION_REDIS_ANSWERED &&
               ration_redis_nodes_read(&cluster->nodes, reply, map_node->address.host);
    cluster->has_map |= is_valid;
    cluster->map_error[0] = '\0';
    if (!is_valid)
        snprintf(cluster->map_error, sizeof(cluster->map_error), "%s",
                 outcome != RATION_REDIS_ANSWERED   ? "no node answered CLUSTER SLOTS"
                 : reply->type == REDIS_REPLY_ERROR ? reply->str
                                                    : "no node has slots");
    if (!is_valid || find_disconnected_node(cluster, false) != NULL ||
        cluster->nodes.uncovered_count > 0)
        refresh_map_later(cluster);
    else
        cluster->refresh_delay_ns = REFRESH_MIN_NS;
    update_has_connected(cluster);
    send_waiting_requests(cluster);
    set_timer(cluster);
}

static void request_map(struct cluster *cluster)
{
    const struct ration_redis_url *url = cluster->router.options.url;
    struct ration_redis_argv argv;
    struct ration_redis_send_options send_options;

    cluster->refresh_at_ns = NEVER_NS;
    cluster->map_requested_at_ns = ration_redis_router_now(&cluster->router);
    cluster->map_node = find_connected_node(cluster);
    if (cluster->map_node == NULL) { /* all nodes are lost: start again with those of the URL */
        for (uint32_t i = 0; i < url->address_count; i++)
            (void)ration_redis_nodes_get(&cluster->nodes, &url->addresses[i]);
        refresh_map_later(cluster);
        return;
    }
    send_options = (struct ration_redis_send_options){.deadline_ns = cluster->map_requested_at_ns +
                                                                     REFRESH_DEADLINE_NS};
    ration_redis_argv_init(&argv);
    ration_redis_argv_add_text(&argv, "CLUSTER");
    ration_redis_argv_add_text(&argv, "SLOTS");
    ration_redis_connection_send(cluster->map_node->connection, &argv, &send_options, on_map,
                                 cluster);
    ration_redis_argv_done(&argv);
}

static void on_change(void *context)
{
    struct cluster *cluster = context;

    if (cluster->is_closing)
        return;
    if (!cluster->has_map || find_disconnected_node(cluster, false) != NULL)
        refresh_map_soon(cluster);
    update_has_connected(cluster);
    send_waiting_requests(cluster);
}

static void on_wake(void *argument)
{
    struct cluster *cluster = argument;
    uint64_t now_ns = ration_redis_router_now(&cluster->router);

    cluster->timer = NULL;
    if (cluster->waiting_deadline_ns <= now_ns)
        send_waiting_requests(cluster);
    if (cluster->sweep_at_ns <= now_ns && cluster->waiting == NULL && cluster->map_node == NULL) {
        cluster->sweep_at_ns = now_ns + SWEEP_NS;
        ration_redis_nodes_sweep(&cluster->nodes);
    } else if (cluster->sweep_at_ns <= now_ns) {
        cluster->sweep_at_ns = now_ns + REFRESH_MIN_NS;
    }
    if (cluster->refresh_at_ns <= now_ns && cluster->map_node == NULL)
        request_map(cluster);
    set_timer(cluster);
}

/* The router ----------------------------------------------------------------------------------- */

static void release_cluster(struct ration_redis_router *router)
{
    struct cluster *cluster = cluster_of(router);

    cluster->is_closing = true;
    while (cluster->waiting != NULL) {
        struct ration_redis_request *request = cluster->waiting;

        cluster->waiting = request->next;
        refuse_request(cluster, request);
    }
    ration_redis_nodes_done(&cluster->nodes);
    if (cluster->timer != NULL)
        router->options.loop->forget(router->options.loop->context, cluster->timer);
    free(cluster);
}

static void refresh_after_readonly(struct ration_redis_router *router)
{
    refresh_map_soon(cluster_of(router));
}

static bool is_connected(const struct ration_redis_router *router)
{
    const struct cluster *cluster = read_cluster(router);

    return cluster->has_map && cluster->nodes.uncovered_count == 0 &&
           find_disconnected_node(cluster, false) == NULL &&
           find_disconnected_node(cluster, true) == NULL;
}

static bool has_connected(const struct ration_redis_router *router)
{
    return read_cluster(router)->has_connected;
}

static bool is_trying(const struct ration_redis_router *router)
{
    const struct cluster *cluster = read_cluster(router);
    bool is_any_trying = !cluster->has_connected || cluster->map_node != NULL;

    for (uint32_t i = 0; i < cluster->nodes.count && !is_any_trying; i++)
        is_any_trying = cluster->nodes.all[i].connection != NULL &&
                        ration_redis_connection_is_trying(cluster->nodes.all[i].connection);
    return is_any_trying;
}

static const char *last_error(struct ration_redis_router *router)
{
    struct cluster *cluster = cluster_of(router);
    const struct ration_redis_node *node = find_disconnected_node(cluster, false);

    if (is_connected(router))
        return "";
    if (node == NULL)
        node = find_disconnected_node(cluster, true);
    if (node == NULL && !cluster->has_map && cluster->map_error[0] == '\0' &&
        cluster->nodes.all[0].connection != NULL)
        node = &cluster->nodes.all[0];
    if (node != NULL)
        snprintf(cluster->last_error, sizeof(cluster->last_error), "the node %s:%u: %s",
                 node->address.host, node->address.port,
                 ration_redis_connection_last_error(node->connection));
    else if (cluster->map_error[0] != '\0')
        snprintf(cluster->last_error, sizeof(cluster->last_error), "%s", cluster->map_error);
    else
        snprintf(cluster->last_error, sizeof(cluster->last_error), "%u slots have no node",
                 (unsigned)cluster->nodes.uncovered_count);
    return cluster->last_error;
}

static void add_cluster_stats(const struct ration_redis_router *router,
                              struct ration_redis_stats *stats)
{
    const struct ration_redis_nodes *nodes = &read_cluster(router)->nodes;

    for (uint32_t i = 0; i < nodes->count; i++)
        if (nodes->all[i].connection != NULL)
            ration_redis_connection_count(nodes->all[i].connection, stats);
}

ration_status ration_redis_cluster_create(const struct ration_redis_router_options *options,
                                          struct ration_redis_router **out_router)
{
    static const struct ration_redis_router_kind kind = {
        .release = release_cluster,
        .send = send_request,
        .leave = refresh_after_readonly,
        .is_connected = is_connected,
        .has_connected = has_connected,
        .is_trying = is_trying,
        .last_error = last_error,
        .add_stats = add_cluster_stats,
    };
    struct cluster *cluster = calloc(1, sizeof(*cluster));

    if (cluster == NULL)
        return RATION_ENOMEM;
    cluster->router.kind = &kind;
    cluster->router.options = *options;
    cluster->waiting_end = &cluster->waiting;
    cluster->waiting_deadline_ns = NEVER_NS;
    cluster->refresh_delay_ns = REFRESH_MIN_NS;
    cluster->refresh_at_ns = NEVER_NS;
    cluster->sweep_at_ns = ration_redis_router_now(&cluster->router) + SWEEP_NS;
    ration_redis_nodes_init(&cluster->nodes, &cluster->router, on_change, cluster);
    for (uint32_t i = 0; i < options->url->address_count; i++)
        (void)ration_redis_nodes_get(&cluster->nodes, &options->url->addresses[i]);
    update_has_connected(cluster);
    /* until a node is connected: then on_change() requests the map at once */
    refresh_map_later(cluster);
    set_timer(cluster);
    *out_router = &cluster->router;
    return RATION_OK;
}
