#include "redis/link.h"

#include <hiredis/async.h>
#include <hiredis/hiredis.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "redis/auth.h"
#include "redis/guard.h"
#include "redis/lookup.h"
#include "redis/pace.h"
#include "redis/scripts.h"

#define TROUBLE_SIZE  160
#define WINDOW_PROBE  1  /* asks under way, of a link that came back */
#define WINDOW_LATE   16 /* the same, of one that was late */
#define WINDOW_WELL   16 /* from here on one that came back is like any other */
#define WINDOW_MAX    (1u << 20)
#define SILENT_MAX    3 /* deadlines in a row that passed without an answer in time */
#define LOOK_EVERY_NS (3 * RATION_NS_PER_MS) /* whether the host's address is found */
#define NEVER_NS      UINT64_MAX

enum state { STATE_DOWN, STATE_LOOKING, STATE_CONNECTING, STATE_GREETING, STATE_UP };

/* One who waits for an answer. In the order of deadlines, which is nearly that of sending. */
struct call {
    struct call *next;
    struct call *previous;
    uint64_t deadline_ns;
    ration_redis_done *done; /* NULL: it was told already */
    void *context;
    bool is_listed;
};

struct ration_redis_link {
    struct ration_redis_place place;
    struct ration_redis_times times;
    struct ration_redis_loop loop;
    struct redisAsyncContext *redis; /* NULL: none */
    enum state state;
    unsigned greetings;                 /* answers to come before it is up */
    struct ration_redis_lookup *lookup; /* of the host's name; NULL: none is under way */
    unsigned tries;
    bool is_tried;
    bool is_on_trial; /* it came back, and has yet to show that it answers */

    uint64_t retry_at_ns; /* down */
    struct ration_redis_pace pace;
    uint64_t connect_by_ns; /* looking, connecting, greeting */
    unsigned silent_count;
    uint64_t silent_by_ns; /* when it is given up, unless it says something */
    uint32_t window;       /* asks that may be under way */
    uint32_t under_way;
    uint32_t answered_in_window;

    struct call *first; /* whose deadline runs */
    struct call *last;
    void *timer;
    void (*changed)(void *context);
    void *changed_context;
    char trouble[TROUBLE_SIZE];
    struct ration_redis_stats stats;
};

static uint64_t now_of(const struct ration_redis_link *link)
{
    return link->loop.now_ns(link->loop.context);
}

/* Who waits ------------------------------------------------------------------------------------ */

static void tell(struct call *call, enum ration_redis_outcome outcome, const redisReply *reply)
{
    ration_redis_done *done = call->done;

    call->done = NULL;
    if (done != NULL)
        done(call->context, outcome, reply);
}

/* What is sent again to another node has less time left than those that wait there. */
static void list(struct ration_redis_link *link, struct call *call)
{
    struct call *before = link->last;

    while (before != NULL && before->deadline_ns > call->deadline_ns)
        before = before->previous;
    call->previous = before;
    call->next = before != NULL ? before->next : link->first;
    *(before != NULL ? &before->next : &link->first) = call;
    *(call->next != NULL ? &call->next->previous : &link->last) = call;
    call->is_listed = true;
}

static void unlist(struct ration_redis_link *link, struct call *call)
{
    if (!call->is_listed)
        return;
    *(call->previous != NULL ? &call->previous->next : &link->first) = call->next;
    *(call->next != NULL ? &call->next->previous : &link->last) = call->previous;
    call->is_listed = false;
}

static struct call *unlist_first(struct ration_redis_link *link)
{
    struct call *call = link->first;

    unlist(link, call);
    return call;
}

static void tell_change(struct ration_redis_link *link)
{
    if (link->changed != NULL)
        link->changed(link->changed_context);
}

static void note_trouble(struct ration_redis_link *link, const char *trouble)
{
    snprintf(link->trouble, sizeof(link->trouble), "%s", trouble);
}

/* A deadline passed, and there is still somebody whom it owes an answer. */
static bool is_silent(const struct ration_redis_link *link)
{
    return link->state == STATE_UP && link->silent_count > 0 && link->under_way > 0;
}

/* Time ----------------------------------------------------------------------------------------- */

static void on_wake(void *argument);

static void set_timer(struct ration_redis_link *link)
{
    uint64_t moment_ns = NEVER_NS;

    if (link->state == STATE_DOWN)
        moment_ns = link->retry_at_ns;
    else if (link->state == STATE_LOOKING)
        moment_ns = now_of(link) + LOOK_EVERY_NS;
    else if (link->state != STATE_UP)
        moment_ns = link->connect_by_ns;
    else if (is_silent(link))
        moment_ns = link->silent_by_ns;
    if (link->first != NULL && link->first->deadline_ns < moment_ns)
        moment_ns = link->first->deadline_ns;
    if (moment_ns != NEVER_NS)
        link->loop.wake_at(link->loop.context, &link->timer, moment_ns, on_wake, link);
}

/* The state after a connection ended, however it did. */
static void rest(struct ration_redis_link *link)
{
    bool was_well = !link->is_on_trial || link->window > WINDOW_PROBE; /* it has answered */
    bool was_idle = link->state == STATE_UP && link->under_way == 0 && was_well;

    if (link->state == STATE_UP)
        link->stats.losses++;
    link->state = STATE_DOWN;
    link->is_tried = true;
    link->silent_count = 0;
    link->under_way = 0;
    link->retry_at_ns = was_idle ? ration_redis_pace_soon(&link->pace, now_of(link))
                                 : ration_redis_pace_next(&link->pace, now_of(link));
    set_timer(link);
    tell_change(link);
}

/* Ends the connection now. Whoever waits is told. */
static void drop(struct ration_redis_link *link, const char *trouble)
{
    struct redisAsyncContext *redis = link->redis;

    note_trouble(link, trouble);
    link->redis = NULL;
    rest(link); /* whoever is told may ask again, and is refused */
    while (link->first != NULL) {
        struct call *call = unlist_first(link);

        link->stats.lost++;
        tell(call, RATION_REDIS_LOST, NULL);
    }
    if (redis != NULL) {
        redis->data = NULL; /* callbacks that come now find no link, and release the calls */
        redisAsyncFree(redis);
    }
}

/* Answers -------------------------------------------------------------------------------------- */

/* More may be asked at once when all that could be asked were answered in time. */
static void widen(struct ration_redis_link *link)
{
    if (link->window >= WINDOW_MAX || ++link->answered_in_window < link->window)
        return;
    link->window *= 2;
    link->answered_in_window = 0;
    if (link->is_on_trial && link->window >= WINDOW_WELL) {
        link->is_on_trial = false;
        ration_redis_pace_well(&link->pace);
    }
}

static void on_reply(struct redisAsyncContext *redis, void *raw_reply, void *raw_call)
{
    struct ration_redis_link *link = redis->data;
    struct call *call = raw_call;
    const redisReply *reply = raw_reply;

    if (link != NULL && reply != NULL && ration_redis_guard_has_more(redis)) {
        drop(link, "it answers what nobody has asked"); /* those who wait are told, this one too */
    } else if (link != NULL && reply != NULL) {
        link->under_way--;
        if (call->done != NULL) {
            unlist(link, call);
            link->silent_count = 0;
            link->stats.answered++;
            widen(link);
            tell(call, RATION_REDIS_ANSWERED, reply);
        }
    } else if (link != NULL && call->done != NULL) { /* the connection is about to end */
        unlist(link, call);
        link->stats.lost++;
        tell(call, RATION_REDIS_LOST, NULL);
    }
    free(call);
}

/* Beginning ------------------------------------------------------------------------------------ */

static void become_up(struct ration_redis_link *link)
{
    link->state = STATE_UP;
    link->is_tried = true;
    link->is_on_trial = link->stats.connects > 0;
    link->window = link->is_on_trial ? WINDOW_PROBE : WINDOW_MAX;
    link->answered_in_window = 0;
    link->under_way = 0;
    link->stats.connects++;
    link->trouble[0] = '\0';
    set_timer(link);
    tell_change(link);
}

/* The answer to ROLE begins with it. An error says nothing: not everybody may ask. */
static bool is_replica(const redisReply *reply)
{
    return reply->type == REDIS_REPLY_ARRAY && reply->elements > 0 &&
           reply->element[0]->type == REDIS_REPLY_STRING &&
           strcmp(reply->element[0]->str, "master") != 0;
}

static void on_role(struct redisAsyncContext *redis, void *raw_reply, void *unused)
{
    struct ration_redis_link *link = redis->data;
    const redisReply *reply = raw_reply;

    (void)unused;
    if (link == NULL || reply == NULL)
        return;
    if (is_replica(reply)) {
        note_trouble(link, "it is a replica, and takes nothing");
        redisAsyncDisconnect(redis);
    } else if (--link->greetings == 0) {
        become_up(link);
    }
}

static void on_greeting(struct redisAsyncContext *redis, void *raw_reply, void *unused)
{
    struct ration_redis_link *link = redis->data;
    const redisReply *reply = raw_reply;

    (void)unused;
    if (link == NULL || reply == NULL)
        return;
    if (reply->type == REDIS_REPLY_ERROR) {
        char trouble[TROUBLE_SIZE];

        snprintf(trouble, sizeof(trouble), "it answers: %s", reply->str);
        note_trouble(link, trouble);
        redisAsyncDisconnect(redis); /* drop() would free what hiredis works on */
        return;
    }
    if (--link->greetings == 0)
        become_up(link);
}

static void greet(struct ration_redis_link *link)
{
    const struct ration_redis_place *place = &link->place;
    struct redisAsyncContext *redis = link->redis;

    link->state = STATE_GREETING;
    link->greetings = ration_redis_auth_send(redis, place, on_greeting);
    if (place->database != 0)
        link->greetings +=
            redisAsyncCommand(redis, on_greeting, NULL, "SELECT %u", place->database) == REDIS_OK;
    if (place->is_master)
        link->greetings += redisAsyncCommand(redis, on_role, NULL, "ROLE") == REDIS_OK;
    for (unsigned i = 0; i < RATION_REDIS_SCRIPT_COUNT && place->has_scripts; i++) {
        struct ration_redis_script_text text =
            ration_redis_script_text((enum ration_redis_script)i);

        link->greetings += redisAsyncCommand(redis, on_greeting, NULL, "SCRIPT LOAD %b", text.bytes,
                                             text.size) == REDIS_OK;
    }
    if (link->greetings == 0) /* something that is answered */
        link->greetings += redisAsyncCommand(redis, on_greeting, NULL, "PING") == REDIS_OK;
}

static void on_connect(const struct redisAsyncContext *redis, int status)
{
    struct ration_redis_link *link = redis->data;
    int one = 1;

    if (link == NULL)
        return;
    if (status == REDIS_OK) {
        (void)setsockopt(redis->c.fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
        greet(link);
        return;
    }
    note_trouble(link, redis->errstr != NULL ? redis->errstr : "it cannot be reached");
    link->redis = NULL; /* hiredis releases it */
    rest(link);
}

static void on_disconnect(const struct redisAsyncContext *redis, int status)
{
    struct ration_redis_link *link = redis->data;

    if (link == NULL)
        return;
    if (status != REDIS_OK)
        note_trouble(link, redis->errstr != NULL ? redis->errstr : "the connection was lost");
    link->redis = NULL; /* hiredis releases it; callbacks were told */
    rest(link);
}

static void connect_to(struct ration_redis_link *link, const char *address)
{
    const struct ration_redis_place *place = &link->place;
    struct redisAsyncContext *redis = place->unix_path != NULL
                                          ? redisAsyncConnectUnix(place->unix_path)
                                          : redisAsyncConnect(address, (int)place->port);

    if (redis == NULL || redis->err != 0) {
        note_trouble(link, redis != NULL ? redis->errstr : "no memory for a connection");
        if (redis != NULL)
            redisAsyncFree(redis);
        rest(link);
        return;
    }
    ration_redis_guard(redis);
    redis->data = link;
    link->redis = redis;
    link->state = STATE_CONNECTING;
    if (!link->loop.attach(link->loop.context, redis) ||
        redisAsyncSetConnectCallback(redis, on_connect) != REDIS_OK ||
        redisAsyncSetDisconnectCallback(redis, on_disconnect) != REDIS_OK) {
        drop(link, "the loop cannot watch the connection");
        return;
    }
    set_timer(link);
}

/* Whether the host's address is known by now. A lookup that takes longer is used by the next try. */
static void look(struct ration_redis_link *link, uint64_t now_ns)
{
    const char *text = "";
    char address[RATION_REDIS_ADDRESS_SIZE];
    enum ration_redis_looked looked = ration_redis_lookup_look(link->lookup, link->tries, &text);

    if (looked == RATION_REDIS_LOOKING) {
        if (link->connect_by_ns <= now_ns)
            drop(link, "its name is not found in time");
        else
            set_timer(link);
        return;
    }
    snprintf(address, sizeof(address), "%s", text);
    ration_redis_lookup_free(link->lookup);
    link->lookup = NULL;
    if (looked == RATION_REDIS_FOUND)
        connect_to(link, address);
    else
        drop(link, address);
}

static void begin(struct ration_redis_link *link)
{
    const struct ration_redis_place *place = &link->place;

    link->tries++;
    link->connect_by_ns = now_of(link) + link->times.connect_deadline_ns;
    if (place->unix_path != NULL || ration_redis_is_address(place->host)) {
        connect_to(link, place->host);
        return;
    }
    link->state = STATE_LOOKING;
    if (link->lookup == NULL)
        link->lookup = ration_redis_lookup_create(place->host);
    if (link->lookup == NULL)
        drop(link, "there is no thread to look up its name");
    else
        set_timer(link);
}

static void note_late(struct ration_redis_link *link, uint64_t now_ns)
{
    link->window = link->window < WINDOW_LATE ? link->window : WINDOW_LATE;
    link->answered_in_window = 0;
    if (link->silent_count++ == 0)
        link->silent_by_ns = now_ns + (SILENT_MAX - 1) * link->times.deadline_ns;
}

/* Those whose deadline has passed; first it is noted, since who is told may ask again. */
static void tell_late(struct ration_redis_link *link, uint64_t now_ns)
{
    if (link->first != NULL && link->first->deadline_ns <= now_ns)
        note_late(link, now_ns);
    while (link->first != NULL && link->first->deadline_ns <= now_ns) {
        struct call *call = unlist_first(link);

        link->stats.late++;
        tell(call, RATION_REDIS_LATE, NULL);
    }
}

static void on_wake(void *argument)
{
    struct ration_redis_link *link = argument;
    uint64_t now_ns = now_of(link);

    link->timer = NULL;
    tell_late(link, now_ns);
    if ((link->state == STATE_UP && link->silent_count >= (link->is_on_trial ? 1 : SILENT_MAX)) ||
        (is_silent(link) && link->silent_by_ns <= now_ns))
        drop(link, "it does not answer in time");
    else if ((link->state == STATE_CONNECTING || link->state == STATE_GREETING) &&
             link->connect_by_ns <= now_ns)
        drop(link, "it cannot be reached in time");
    else if (link->state == STATE_DOWN && link->retry_at_ns <= now_ns)
        begin(link);
    else if (link->state == STATE_LOOKING)
        look(link, now_ns);
    else
        set_timer(link);
}

ration_status ration_redis_link_create(const struct ration_redis_place *place,
                                       const struct ration_redis_times *times,
                                       const struct ration_redis_loop *loop,
                                       struct ration_redis_link **out_link)
{
    struct ration_redis_link *link = calloc(1, sizeof(*link));

    if (link == NULL)
        return RATION_ENOMEM;
    link->place = *place;
    link->times = *times;
    link->loop = *loop;
    ration_redis_pace_init(&link->pace, times->retry_min_ns, times->retry_max_ns,
                           (uint64_t)(uintptr_t)link ^ now_of(link));
    note_trouble(link, "it is not connected yet");
    *out_link = link;
    begin(link);
    return RATION_OK;
}

void ration_redis_link_free(struct ration_redis_link *link)
{
    if (link == NULL)
        return;
    link->changed = NULL;
    drop(link, "it is released");
    ration_redis_lookup_free(link->lookup);
    if (link->timer != NULL)
        link->loop.forget(link->loop.context, link->timer);
    free(link);
}

/* Sending -------------------------------------------------------------------------------------- */

static bool submit(struct ration_redis_link *link, const struct ration_redis_words *words,
                   bool is_asking, struct call *call)
{
    const char *pointers[RATION_REDIS_WORDS_MAX];
    size_t sizes[RATION_REDIS_WORDS_MAX];

    for (size_t i = 0; i < words->count; i++) {
        pointers[i] = ration_redis_word_at(words, i);
        sizes[i] = ration_redis_word_size(words, i);
    }
    if (is_asking && redisAsyncCommand(link->redis, NULL, NULL, "ASKING") != REDIS_OK)
        return false;
    if (redisAsyncCommandArgv(link->redis, on_reply, call, (int)words->count, pointers, sizes) ==
        REDIS_OK)
        return true;
    if (is_asking) /* it would be taken for that of the next command */
        ration_redis_link_renew(link, "no memory for a command");
    return false;
}

void ration_redis_link_send(struct ration_redis_link *link, const struct ration_redis_words *words,
                            const struct ration_redis_manner *manner, ration_redis_done *done,
                            void *context)
{
    static const struct ration_redis_manner plain = {0};
    uint64_t now_ns = now_of(link), deadline_ns;
    struct call *call = NULL;

    if (manner == NULL)
        manner = &plain;
    deadline_ns = manner->deadline_ns > 0 ? manner->deadline_ns : now_ns + link->times.deadline_ns;
    if (link->state == STATE_UP && link->under_way < link->window && !is_silent(link) &&
        !words->text.is_failed && now_ns < deadline_ns)
        call = malloc(sizeof(*call));
    if (call != NULL) {
        *call = (struct call){.deadline_ns = deadline_ns, .done = done, .context = context};
        if (!submit(link, words, manner->is_asking, call)) {
            free(call);
            call = NULL;
        }
    }
    if (call == NULL) {
        link->stats.refused++;
        done(context, RATION_REDIS_REFUSED, NULL);
        return;
    }
    link->under_way++;
    link->stats.sent++;
    list(link, call);
    if (link->first == call)
        set_timer(link);
}

/* What is told ----------------------------------------------------------------------------------- */

bool ration_redis_link_is_up(const struct ration_redis_link *link)
{
    return link->state == STATE_UP;
}

bool ration_redis_link_is_tried(const struct ration_redis_link *link)
{
    return link->is_tried;
}

bool ration_redis_link_is_trying(const struct ration_redis_link *link)
{
    return link->state == STATE_LOOKING || link->state == STATE_CONNECTING ||
           link->state == STATE_GREETING;
}

const char *ration_redis_link_trouble(const struct ration_redis_link *link)
{
    return link->state == STATE_UP ? "" : link->trouble;
}

void ration_redis_link_renew(struct ration_redis_link *link, const char *trouble)
{
    note_trouble(link, trouble);
    if (link->redis != NULL && link->state == STATE_UP) {
        link->state =
            STATE_GREETING; /* nothing more is sent; what is under way is still answered */
        link->connect_by_ns = now_of(link) + link->times.deadline_ns;
        redisAsyncDisconnect(link->redis);
        set_timer(link);
    }
}

void ration_redis_link_watch(struct ration_redis_link *link, void (*changed)(void *context),
                             void *context)
{
    link->changed = changed;
    link->changed_context = context;
}

void ration_redis_link_count(const struct ration_redis_link *link, struct ration_redis_stats *stats)
{
    stats->sent += link->stats.sent;
    stats->answered += link->stats.answered;
    stats->late += link->stats.late;
    stats->lost += link->stats.lost;
    stats->refused += link->stats.refused;
    stats->connects += link->stats.connects;
    stats->losses += link->stats.losses;
}
