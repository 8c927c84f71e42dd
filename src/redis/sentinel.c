/*
 * sentinel: a route to the master that sentinels name.
 *
 *     seeking:  ask a sentinel where the master is; if it does not know or answer, the next one
 *     found:    connect there. A replica says so (ROLE), and it is sought again
 *     up:       no sentinel is connected. When the link is lost, it is sought again
 *
 * The link to a master that did not move connects again by itself. Sentinels are asked less and less
 * often while there is none.
 *
 * Links are made and released by the timer only, so never while one of them tells something.
 */
#include <hiredis/hiredis.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ration/limit.h"
#include "redis/route.h"

#define NEVER_NS        UINT64_MAX
#define SEEK_MAX_NS     RATION_NS_PER_SECOND
#define ASK_DEADLINE_NS (200 * RATION_NS_PER_MS)
#define TROUBLE_SIZE    600

struct sentinel {
    struct ration_redis_route route;
    struct ration_redis_link *master; /* NULL: not found yet */
    struct ration_redis_address address;
    struct ration_redis_link *asked; /* a sentinel; NULL: none is asked */
    uint32_t asked_index;
    bool is_asking;
    bool is_useless; /* the one that is asked does not answer, or does not know */
    bool is_found;   /* found is where the master is now */
    struct ration_redis_address found;
    bool is_tried; /* all of them, once */
    uint64_t seek_at_ns;
    uint64_t seek_ns; /* until they are asked again */
    void *timer;
    char trouble[TROUBLE_SIZE];
};

static struct sentinel *sentinel_of(struct ration_redis_route *route)
{
    return (struct sentinel *)(void *)route;
}

static const struct sentinel *read_sentinel(const struct ration_redis_route *route)
{
    return (const struct sentinel *)(const void *)route;
}

static void on_wake(void *argument);

static void seek_at(struct sentinel *sentinel, uint64_t moment_ns)
{
    const struct ration_redis_loop *loop = sentinel->route.options.loop;

    if (sentinel->timer != NULL && moment_ns >= sentinel->seek_at_ns)
        return;
    sentinel->seek_at_ns = moment_ns;
    loop->wake_at(loop->context, &sentinel->timer, moment_ns, on_wake, sentinel);
}

static void seek_now(struct sentinel *sentinel)
{
    seek_at(sentinel, ration_redis_route_now(&sentinel->route));
}

static void seek_later(struct sentinel *sentinel)
{
    seek_at(sentinel, ration_redis_route_now(&sentinel->route) + sentinel->seek_ns);
    sentinel->seek_ns = sentinel->seek_ns * 2 < SEEK_MAX_NS ? sentinel->seek_ns * 2 : SEEK_MAX_NS;
}

static bool is_master_up(const struct sentinel *sentinel)
{
    return sentinel->master != NULL && ration_redis_link_is_up(sentinel->master);
}

/* Asking --------------------------------------------------------------------------------------- */

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

static void on_answer(void *context, enum ration_redis_outcome outcome,
                      const struct redisReply *reply)
{
    struct sentinel *sentinel = context;

    sentinel->is_asking = false;
    if (outcome == RATION_REDIS_ANSWERED && read_address(reply, &sentinel->found)) {
        sentinel->is_found = true;
    } else {
        const struct ration_redis_address *address =
            &sentinel->route.options.url->addresses[sentinel->asked_index];

        sentinel->is_useless = true;
        snprintf(sentinel->trouble, sizeof(sentinel->trouble), "the sentinel %s:%u %s",
                 address->host, address->port,
                 outcome != RATION_REDIS_ANSWERED   ? "does not answer"
                 : reply->type == REDIS_REPLY_ERROR ? reply->str
                                                    : "does not know the master");
    }
    seek_now(sentinel);
}

static void ask(struct sentinel *sentinel)
{
    struct ration_redis_manner manner = {.deadline_ns = ration_redis_route_now(&sentinel->route) +
                                                        ASK_DEADLINE_NS};
    struct ration_redis_words words;

    sentinel->is_asking = true;
    ration_redis_words_init(&words);
    ration_redis_word_text(&words, "SENTINEL");
    ration_redis_word_text(&words, "get-master-addr-by-name");
    ration_redis_word_text(&words, sentinel->route.options.url->master);
    ration_redis_link_send(sentinel->asked, &words, &manner, on_answer, sentinel);
    ration_redis_words_done(&words);
}

static void on_asked_change(void *context)
{
    struct sentinel *sentinel = context;

    sentinel->is_useless = !ration_redis_link_is_up(sentinel->asked);
    seek_now(sentinel);
}

/* A sentinel has users of its own, no database and no script of ours. */
static void connect_sentinel(struct sentinel *sentinel)
{
    const struct ration_redis_route_options *options = &sentinel->route.options;
    const struct ration_redis_address *address = &options->url->addresses[sentinel->asked_index];
    const struct ration_redis_url *url = options->url;
    struct ration_redis_place place = {
        .host = address->host,
        .port = address->port,
        .user = url->sentinel_user[0] != '\0' ? url->sentinel_user : NULL,
        .password = url->sentinel_password[0] != '\0' ? url->sentinel_password : NULL,
    };

    if (ration_redis_link_create(&place, options->times, options->loop, &sentinel->asked) !=
        RATION_OK) {
        seek_later(sentinel);
        return;
    }
    sentinel->is_useless = ration_redis_link_is_tried(sentinel->asked);
    ration_redis_link_watch(sentinel->asked, on_asked_change, sentinel);
    if (sentinel->is_useless)
        seek_now(sentinel);
}

static void disconnect_sentinel(struct sentinel *sentinel)
{
    ration_redis_link_free(sentinel->asked);
    sentinel->asked = NULL;
    sentinel->is_asking = sentinel->is_useless = false;
}

/* The next one, at once; or later, if that was the last. */
static void go_on(struct sentinel *sentinel)
{
    const struct ration_redis_address *address =
        &sentinel->route.options.url->addresses[sentinel->asked_index];

    if (!ration_redis_link_is_up(sentinel->asked))
        snprintf(sentinel->trouble, sizeof(sentinel->trouble), "the sentinel %s:%u: %s",
                 address->host, address->port, ration_redis_link_trouble(sentinel->asked));
    disconnect_sentinel(sentinel);
    sentinel->asked_index++;
    if (sentinel->asked_index < sentinel->route.options.url->address_count) {
        seek_now(sentinel);
    } else {
        sentinel->asked_index = 0;
        sentinel->is_tried = true;
        seek_later(sentinel);
    }
}

/* The master ----------------------------------------------------------------------------------- */

static void on_master_change(void *context)
{
    struct sentinel *sentinel = context;

    if (is_master_up(sentinel)) {
        sentinel->seek_ns = sentinel->route.options.times->retry_min_ns;
        seek_now(sentinel); /* the sentinel is not needed any more */
    } else {
        seek_later(sentinel);
    }
}

static void connect_master(struct sentinel *sentinel)
{
    bool is_same = sentinel->master != NULL && sentinel->address.port == sentinel->found.port &&
                   strcmp(sentinel->address.host, sentinel->found.host) == 0;

    sentinel->is_found = false;
    if (!is_same) {
        ration_redis_route_close(&sentinel->route, sentinel->master);
        sentinel->address = sentinel->found;
        sentinel->master = ration_redis_route_open(&sentinel->route, &sentinel->address);
        if (sentinel->master != NULL)
            ration_redis_link_watch(sentinel->master, on_master_change, sentinel);
    }
    seek_later(sentinel);
}

/* What is to be done next, whatever happened. */
static void on_wake(void *argument)
{
    struct sentinel *sentinel = argument;

    sentinel->timer = NULL;
    sentinel->seek_at_ns = NEVER_NS;
    if (is_master_up(sentinel))
        disconnect_sentinel(sentinel);
    else if (sentinel->is_found)
        connect_master(sentinel);
    else if (sentinel->asked == NULL)
        connect_sentinel(sentinel);
    else if (sentinel->is_useless)
        go_on(sentinel);
    else if (ration_redis_link_is_up(sentinel->asked) && !sentinel->is_asking)
        ask(sentinel);
}

/* The route ------------------------------------------------------------------------------------ */

static void release(struct ration_redis_route *route)
{
    struct sentinel *sentinel = sentinel_of(route);

    ration_redis_link_free(sentinel->asked);
    ration_redis_link_free(sentinel->master);
    if (sentinel->timer != NULL)
        route->options.loop->forget(route->options.loop->context, sentinel->timer);
    free(sentinel);
}

static void send(struct ration_redis_route *route, struct ration_redis_errand *errand)
{
    struct sentinel *sentinel = sentinel_of(route);
    struct ration_redis_manner manner = {.deadline_ns = errand->deadline_ns};

    if (sentinel->master != NULL) {
        ration_redis_link_send(sentinel->master, &errand->words, &manner, errand->done,
                               errand->context);
    } else {
        route->stats.refused++;
        errand->done(errand->context, RATION_REDIS_REFUSED, NULL);
    }
}

static void leave(struct ration_redis_route *route)
{
    struct sentinel *sentinel = sentinel_of(route);

    if (sentinel->master != NULL)
        ration_redis_link_renew(sentinel->master, "it is a replica, and takes nothing");
}

static bool is_up(const struct ration_redis_route *route)
{
    return is_master_up(read_sentinel(route));
}

static bool is_tried(const struct ration_redis_route *route)
{
    const struct sentinel *sentinel = read_sentinel(route);

    return sentinel->is_tried ||
           (sentinel->master != NULL && ration_redis_link_is_tried(sentinel->master));
}

static bool is_trying(const struct ration_redis_route *route)
{
    const struct sentinel *sentinel = read_sentinel(route);

    return !sentinel->is_tried || sentinel->asked != NULL || sentinel->is_found ||
           (sentinel->master != NULL && ration_redis_link_is_trying(sentinel->master));
}

static const char *trouble(struct ration_redis_route *route)
{
    struct sentinel *sentinel = sentinel_of(route);

    if (is_master_up(sentinel))
        return "";
    if (sentinel->master != NULL)
        snprintf(sentinel->trouble, sizeof(sentinel->trouble), "the master %s:%u: %s",
                 sentinel->address.host, sentinel->address.port,
                 ration_redis_link_trouble(sentinel->master));
    return sentinel->trouble;
}

static void count(const struct ration_redis_route *route, struct ration_redis_stats *stats)
{
    if (read_sentinel(route)->master != NULL)
        ration_redis_link_count(read_sentinel(route)->master, stats);
}

ration_status ration_redis_sentinel_create(const struct ration_redis_route_options *options,
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
    struct sentinel *sentinel = calloc(1, sizeof(*sentinel));

    if (sentinel == NULL)
        return RATION_ENOMEM;
    sentinel->route.kind = &kind;
    sentinel->route.options = *options;
    sentinel->seek_at_ns = NEVER_NS;
    sentinel->seek_ns = options->times->retry_min_ns;
    snprintf(sentinel->trouble, sizeof(sentinel->trouble), "no sentinel was asked yet");
    *out_route = &sentinel->route;
    connect_sentinel(sentinel);
    return RATION_OK;
}
