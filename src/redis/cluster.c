/*
 * cluster: a route to whichever master has the slot of a key.
 *
 * The map of slots is learnt from any node (CLUSTER SLOTS), and again when it turns out to be old: a node
 * says MOVED, is lost, or nobody has a slot; but not more often than REFRESH_MIN_NS.
 *
 *     MOVED           sent again to the node named, which has the slot from now on
 *     ASK             sent again to the node named, behind ASKING; the map stays
 *     anything else   is the answer
 *
 * A node that refused in this way has done nothing. Each of the two is followed once, within the time
 * that is left. Errands for a node that is connected the first time wait for it so long, too; those for
 * one that was lost do not.
 *
 * Links are released by the timer only, so never while one of them tells something.
 */
#include <hiredis/hiredis.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ration/limit.h"
#include "redis/nodes.h"

#define NEVER_NS            UINT64_MAX
#define REFRESH_MIN_NS      (100 * RATION_NS_PER_MS)
#define REFRESH_MAX_NS      RATION_NS_PER_SECOND /* while something is wrong */
#define REFRESH_DEADLINE_NS (100 * RATION_NS_PER_MS)
#define SWEEP_NS            (10 * RATION_NS_PER_SECOND)
#define WAITING_MAX         1024
#define TROUBLE_SIZE        600

struct cluster {
    struct ration_redis_route route;
    struct ration_redis_nodes nodes;
    bool has_map;
    bool is_tried;
    bool is_ending;

    struct ration_redis_node *asked; /* for the map; NULL: nobody is */
    uint32_t asked_index;
    uint64_t asked_at_ns;   /* the last time */
    uint64_t refresh_at_ns; /* NEVER_NS: the map is right */
    uint64_t refresh_ns;    /* until it is asked for again while something is wrong */
    uint64_t sweep_at_ns;

    struct ration_redis_errand *waiting; /* for nodes that are connected the first time */
    struct ration_redis_errand **waiting_end;
    uint32_t waiting_count;
    uint64_t waiting_by_ns; /* the first of their deadlines */

    void *timer;
    char answer[TROUBLE_SIZE / 2]; /* what was said instead of a map */
    char trouble[TROUBLE_SIZE];
};

static struct cluster *cluster_of(struct ration_redis_route *route)
{
    return (struct cluster *)(void *)route;
}

static const struct cluster *read_cluster(const struct ration_redis_route *route)
{
    return (const struct cluster *)(const void *)route;
}

static bool begins(const redisReply *reply, const char *word)
{
    return reply->type == REDIS_REPLY_ERROR && strncmp(reply->str, word, strlen(word)) == 0;
}

/* Time ----------------------------------------------------------------------------------------- */

static void on_wake(void *argument);

static uint64_t sooner(uint64_t a_ns, uint64_t b_ns)
{
    return a_ns < b_ns ? a_ns : b_ns;
}

static void set_timer(struct cluster *cluster)
{
    const struct ration_redis_loop *loop = cluster->route.options.loop;
    uint64_t moment_ns = sooner(cluster->sweep_at_ns, cluster->waiting_by_ns);

    if (cluster->asked == NULL)
        moment_ns = sooner(moment_ns, cluster->refresh_at_ns);
    loop->wake_at(loop->context, &cluster->timer, moment_ns, on_wake, cluster);
}

/* The map is wrong: it is asked for as soon as it may be. */
static void want_map(struct cluster *cluster)
{
    uint64_t now_ns = ration_redis_route_now(&cluster->route);
    uint64_t moment_ns = cluster->asked_at_ns + REFRESH_MIN_NS;

    if (moment_ns < now_ns || cluster->asked_at_ns == 0)
        moment_ns = now_ns;
    if (moment_ns < cluster->refresh_at_ns) {
        cluster->refresh_at_ns = moment_ns;
        set_timer(cluster);
    }
}

/* Something is wrong that may take a while. */
static void want_map_later(struct cluster *cluster)
{
    uint64_t now_ns = ration_redis_route_now(&cluster->route);

    cluster->refresh_at_ns = sooner(cluster->refresh_at_ns, now_ns + cluster->refresh_ns);
    cluster->refresh_ns = sooner(2 * cluster->refresh_ns, REFRESH_MAX_NS);
}

/* Errands -------------------------------------------------------------------------------------- */

static void on_done(void *context, enum ration_redis_outcome outcome,
                    const struct redisReply *reply);

static void refuse(struct cluster *cluster, struct ration_redis_errand *errand)
{
    cluster->route.stats.refused++;
    errand->done(errand->context, RATION_REDIS_REFUSED, NULL);
}

static void wait_for_node(struct cluster *cluster, struct ration_redis_errand *errand)
{
    errand->next = NULL;
    *cluster->waiting_end = errand;
    cluster->waiting_end = &errand->next;
    cluster->waiting_count++;
    if (errand->deadline_ns < cluster->waiting_by_ns) {
        cluster->waiting_by_ns = errand->deadline_ns;
        set_timer(cluster);
    }
}

static void send_to(struct cluster *cluster, struct ration_redis_errand *errand,
                    struct ration_redis_node *node)
{
    struct ration_redis_manner manner = {.deadline_ns = errand->deadline_ns,
                                         .is_asking = errand->is_asking};

    errand->node = node;
    if (ration_redis_link_is_tried(node->link))
        ration_redis_link_send(node->link, &errand->words, &manner, on_done, errand);
    else if (cluster->waiting_count < WAITING_MAX)
        wait_for_node(cluster, errand);
    else
        refuse(cluster, errand);
}

/* Sends those whose node is there now, or will not be in time. */
static void look_at_waiting(struct cluster *cluster)
{
    struct ration_redis_errand *errand = cluster->waiting, *next;
    uint64_t now_ns = ration_redis_route_now(&cluster->route);

    cluster->waiting = NULL;
    cluster->waiting_end = &cluster->waiting;
    cluster->waiting_count = 0;
    cluster->waiting_by_ns = NEVER_NS;
    for (; errand != NULL; errand = next) {
        next = errand->next;
        if (errand->deadline_ns <= now_ns)
            refuse(cluster, errand);
        else
            send_to(cluster, errand, errand->node);
    }
}

/* Follows what a node answered instead of doing it. False: it is not to be followed. */
static bool follow(struct cluster *cluster, struct ration_redis_errand *errand, const char *error)
{
    const struct ration_redis_node *from = errand->node;
    struct ration_redis_redirect redirect;
    struct ration_redis_node *to;

    if (!ration_redis_redirect_read(error, &redirect))
        return false;
    cluster->route.stats.redirected++;
    if (redirect.address.host[0] == '\0')
        strcpy(redirect.address.host, from->address.host);
    to = ration_redis_nodes_get(&cluster->nodes, &redirect.address);
    if (!redirect.is_ask) {
        want_map(cluster);
        if (to != NULL)
            ration_redis_nodes_set_owner(&cluster->nodes, redirect.slot, to);
    }
    if (to == NULL || (redirect.is_ask ? errand->was_asked : errand->was_moved) ||
        errand->deadline_ns <= ration_redis_route_now(&cluster->route))
        return false;
    errand->is_asking = redirect.is_ask;
    errand->was_asked |= redirect.is_ask;
    errand->was_moved |= !redirect.is_ask;
    send_to(cluster, errand, to);
    return true;
}

static void on_done(void *context, enum ration_redis_outcome outcome,
                    const struct redisReply *reply)
{
    struct ration_redis_errand *errand = context;
    struct cluster *cluster = cluster_of(errand->route);

    if (outcome == RATION_REDIS_ANSWERED && reply->type == REDIS_REPLY_ERROR) {
        if (follow(cluster, errand, reply->str))
            return;
        if (begins(reply, "CLUSTERDOWN"))
            want_map(cluster);
    }
    errand->done(errand->context, outcome, reply);
}

/* The first key: behind the number of keys of a script, else behind the command. */
static uint16_t slot_of(const struct ration_redis_words *words)
{
    size_t size = words->count > 0 ? ration_redis_word_size(words, 0) : 0;
    bool is_script = (size == 4 && memcmp(ration_redis_word_at(words, 0), "EVAL", 4) == 0) ||
                     (size == 7 && memcmp(ration_redis_word_at(words, 0), "EVALSHA", 7) == 0);
    size_t key = is_script ? 3 : 1;

    if (words->text.is_failed || words->count <= key)
        return 0;
    return ration_redis_slot(ration_redis_word_at(words, key), ration_redis_word_size(words, key));
}

static void send(struct ration_redis_route *route, struct ration_redis_errand *errand)
{
    struct cluster *cluster = cluster_of(route);
    struct ration_redis_node *node =
        ration_redis_nodes_owner(&cluster->nodes, slot_of(&errand->words));

    errand->route = route;
    errand->is_asking = errand->was_asked = errand->was_moved = false;
    if (node != NULL && !cluster->is_ending) {
        send_to(cluster, errand, node);
        return;
    }
    if (cluster->has_map && !cluster->is_ending)
        want_map(cluster);
    refuse(cluster, errand);
}

/* The map -------------------------------------------------------------------------------------- */

/* A node of those that have slots, if any, which is not up. */
static const struct ration_redis_node *find_down(const struct cluster *cluster, bool is_untried)
{
    for (uint32_t i = 0; i < cluster->nodes.count; i++) {
        const struct ration_redis_node *node = &cluster->nodes.all[i];

        if (node->link != NULL && node->has_slots && !ration_redis_link_is_up(node->link) &&
            ration_redis_link_is_tried(node->link) == !is_untried)
            return node;
    }
    return NULL;
}

/* Any that can be asked; another than the last time, if there is one. */
static struct ration_redis_node *find_up(struct cluster *cluster)
{
    struct ration_redis_nodes *nodes = &cluster->nodes;

    for (uint32_t i = 0; i < nodes->count; i++) {
        uint32_t index = (cluster->asked_index + 1 + i) % nodes->count;

        if (nodes->all[index].link != NULL && ration_redis_link_is_up(nodes->all[index].link)) {
            cluster->asked_index = index;
            return &nodes->all[index];
        }
    }
    return NULL;
}

static bool is_any_untried(const struct cluster *cluster)
{
    for (uint32_t i = 0; i < cluster->nodes.count; i++)
        if (cluster->nodes.all[i].link != NULL &&
            !ration_redis_link_is_tried(cluster->nodes.all[i].link))
            return true;
    return false;
}

static void note_tried(struct cluster *cluster)
{
    if (cluster->has_map)
        cluster->is_tried |= find_down(cluster, true) == NULL;
    else
        cluster->is_tried |=
            cluster->answer[0] != '\0' || (!is_any_untried(cluster) && find_up(cluster) == NULL);
}

static void on_map(void *context, enum ration_redis_outcome outcome, const struct redisReply *reply)
{
    struct cluster *cluster = context;
    const struct ration_redis_node *asked = cluster->asked;
    bool is_right;

    if (cluster->is_ending)
        return;
    cluster->asked = NULL;
    is_right = outcome == RATION_REDIS_ANSWERED &&
               ration_redis_nodes_read(&cluster->nodes, reply, asked->address.host);
    cluster->has_map |= is_right;
    cluster->answer[0] = '\0';
    if (!is_right)
        snprintf(cluster->answer, sizeof(cluster->answer), "%s",
                 outcome != RATION_REDIS_ANSWERED   ? "no node answers CLUSTER SLOTS"
                 : reply->type == REDIS_REPLY_ERROR ? reply->str
                                                    : "no node has slots");
    if (!is_right || find_down(cluster, false) != NULL || cluster->nodes.uncovered_count > 0)
        want_map_later(cluster);
    else
        cluster->refresh_ns = REFRESH_MIN_NS;
    note_tried(cluster);
    look_at_waiting(cluster);
    set_timer(cluster);
}

static void ask_for_map(struct cluster *cluster)
{
    const struct ration_redis_url *url = cluster->route.options.url;
    struct ration_redis_words words;
    struct ration_redis_manner manner;

    cluster->refresh_at_ns = NEVER_NS;
    cluster->asked_at_ns = ration_redis_route_now(&cluster->route);
    cluster->asked = find_up(cluster);
    if (cluster->asked == NULL) { /* all are lost: as at the beginning */
        for (uint32_t i = 0; i < url->address_count; i++)
            (void)ration_redis_nodes_get(&cluster->nodes, &url->addresses[i]);
        want_map_later(cluster);
        return;
    }
    manner =
        (struct ration_redis_manner){.deadline_ns = cluster->asked_at_ns + REFRESH_DEADLINE_NS};
    ration_redis_words_init(&words);
    ration_redis_word_text(&words, "CLUSTER");
    ration_redis_word_text(&words, "SLOTS");
    ration_redis_link_send(cluster->asked->link, &words, &manner, on_map, cluster);
    ration_redis_words_done(&words);
}

static void on_change(void *context)
{
    struct cluster *cluster = context;

    if (cluster->is_ending)
        return;
    if (!cluster->has_map || find_down(cluster, false) != NULL)
        want_map(cluster);
    note_tried(cluster);
    look_at_waiting(cluster);
}

static void on_wake(void *argument)
{
    struct cluster *cluster = argument;
    uint64_t now_ns = ration_redis_route_now(&cluster->route);

    cluster->timer = NULL;
    if (cluster->waiting_by_ns <= now_ns)
        look_at_waiting(cluster);
    if (cluster->sweep_at_ns <= now_ns && cluster->waiting == NULL && cluster->asked == NULL) {
        cluster->sweep_at_ns = now_ns + SWEEP_NS;
        ration_redis_nodes_sweep(&cluster->nodes);
    } else if (cluster->sweep_at_ns <= now_ns) {
        cluster->sweep_at_ns = now_ns + REFRESH_MIN_NS;
    }
    if (cluster->refresh_at_ns <= now_ns && cluster->asked == NULL)
        ask_for_map(cluster);
    set_timer(cluster);
}

/* The route ------------------------------------------------------------------------------------ */

static void release(struct ration_redis_route *route)
{
    struct cluster *cluster = cluster_of(route);

    cluster->is_ending = true;
    while (cluster->waiting != NULL) {
        struct ration_redis_errand *errand = cluster->waiting;

        cluster->waiting = errand->next;
        refuse(cluster, errand);
    }
    ration_redis_nodes_done(&cluster->nodes);
    if (cluster->timer != NULL)
        route->options.loop->forget(route->options.loop->context, cluster->timer);
    free(cluster);
}

static void leave(struct ration_redis_route *route)
{
    want_map(cluster_of(route));
}

static bool is_up(const struct ration_redis_route *route)
{
    const struct cluster *cluster = read_cluster(route);

    return cluster->has_map && cluster->nodes.uncovered_count == 0 &&
           find_down(cluster, false) == NULL && find_down(cluster, true) == NULL;
}

static bool is_tried(const struct ration_redis_route *route)
{
    return read_cluster(route)->is_tried;
}

static bool is_trying(const struct ration_redis_route *route)
{
    const struct cluster *cluster = read_cluster(route);
    bool is_any = !cluster->is_tried || cluster->asked != NULL;

    for (uint32_t i = 0; i < cluster->nodes.count && !is_any; i++)
        is_any = cluster->nodes.all[i].link != NULL &&
                 ration_redis_link_is_trying(cluster->nodes.all[i].link);
    return is_any;
}

static const char *trouble(struct ration_redis_route *route)
{
    struct cluster *cluster = cluster_of(route);
    const struct ration_redis_node *node = find_down(cluster, false);

    if (is_up(route))
        return "";
    if (node == NULL)
        node = find_down(cluster, true);
    if (node == NULL && !cluster->has_map && cluster->answer[0] == '\0' &&
        cluster->nodes.all[0].link != NULL)
        node = &cluster->nodes.all[0];
    if (node != NULL)
        snprintf(cluster->trouble, sizeof(cluster->trouble), "the node %s:%u: %s",
                 node->address.host, node->address.port, ration_redis_link_trouble(node->link));
    else if (cluster->answer[0] != '\0')
        snprintf(cluster->trouble, sizeof(cluster->trouble), "%s", cluster->answer);
    else
        snprintf(cluster->trouble, sizeof(cluster->trouble), "nobody has %u of the slots",
                 (unsigned)cluster->nodes.uncovered_count);
    return cluster->trouble;
}

static void count(const struct ration_redis_route *route, struct ration_redis_stats *stats)
{
    const struct ration_redis_nodes *nodes = &read_cluster(route)->nodes;

    for (uint32_t i = 0; i < nodes->count; i++)
        if (nodes->all[i].link != NULL)
            ration_redis_link_count(nodes->all[i].link, stats);
}

ration_status ration_redis_cluster_create(const struct ration_redis_route_options *options,
                                          struct ration_redis_route **out_route)
{
    static const struct ration_redis_route_kind kind = {
        .release = release,
        .send = send,
        .leave = leave,
        .is_up = is_up,
        .is_tried = is_tried,
        .is_trying = is_trying,
        .trouble = trouble,
        .count = count,
    };
    struct cluster *cluster = calloc(1, sizeof(*cluster));

    if (cluster == NULL)
        return RATION_ENOMEM;
    cluster->route.kind = &kind;
    cluster->route.options = *options;
    cluster->waiting_end = &cluster->waiting;
    cluster->waiting_by_ns = NEVER_NS;
    cluster->refresh_ns = REFRESH_MIN_NS;
    cluster->refresh_at_ns = NEVER_NS;
    cluster->sweep_at_ns = ration_redis_route_now(&cluster->route) + SWEEP_NS;
    ration_redis_nodes_init(&cluster->nodes, &cluster->route, on_change, cluster);
    for (uint32_t i = 0; i < options->url->address_count; i++)
        (void)ration_redis_nodes_get(&cluster->nodes, &options->url->addresses[i]);
    note_tried(cluster);
    want_map_later(cluster); /* until a node is up, which asks at once */
    set_timer(cluster);
    *out_route = &cluster->route;
    return RATION_OK;
}
