#include "redis/client.h"

#include <hiredis/hiredis.h>
#include <stdlib.h>
#include <string.h>

#include "base/refuse.h"
#include "redis/convert.h"
#include "redis/route.h"
#include "redis/scripts.h"

#define ANSWER_BEFORE 3 /* now, in two parts, and whether it was taken */
#define CONVERTS_MAX  3 /* of one ask, where other nodes have other limits and convert, too */

/* One ask under way. Kept for the next when it is over. */
struct take {
    struct take *next; /* of those that are free */
    struct ration_redis_client *client;
    struct ration_redis_ask ask;
    struct ration_redis_errand errand;
    bool is_repeated; /* with the script's text, since its name was not known */
    unsigned convert_count;
    ration_redis_decided *decided;
    void *context;
};

struct ration_redis_client {
    const struct ration_redis_options *options;
    struct ration_redis_loop loop;
    struct ration_redis_names names;
    struct ration_redis_route *route;
    struct take *spare;
};

/* A call of another script, or a command, of somebody else's. */
struct parcel {
    struct ration_redis_route *route;
    struct ration_redis_errand errand;
    enum ration_redis_script
        script; /* RATION_REDIS_SCRIPT_COUNT: none, or repeated with its text */
    ration_redis_done *done;
    void *context;
};

static void finish(struct take *take, const struct ration_redis_told *told,
                   enum ration_redis_undecided why)
{
    struct ration_redis_client *client = take->client;

    take->decided(take->context, told, why);
    take->next = client->spare;
    client->spare = take;
}

static bool begins(const redisReply *reply, const char *word)
{
    return reply->type == REDIS_REPLY_ERROR && strncmp(reply->str, word, strlen(word)) == 0;
}

static bool is_of_replica(const redisReply *reply)
{
    return begins(reply, "READONLY") || begins(reply, "MASTERDOWN");
}

/* False: it is no answer of the script. */
static bool read_answer(const redisReply *reply, struct ration_redis_answer *answer)
{
    size_t count = reply->elements - ANSWER_BEFORE;

    if (reply->type != REDIS_REPLY_ARRAY || reply->elements < ANSWER_BEFORE ||
        count > RATION_REDIS_PARTS_MAX)
        return false;
    for (size_t i = 0; i < ANSWER_BEFORE; i++)
        if (reply->element[i]->type != REDIS_REPLY_INTEGER || reply->element[i]->integer < 0)
            return false;
    answer->now_s = (uint64_t)reply->element[0]->integer;
    answer->now_ns = (uint64_t)reply->element[1]->integer;
    answer->is_taken = reply->element[2]->integer == 1;
    answer->is_of_others = reply->element[2]->integer == 2;
    answer->text_count = (uint32_t)count;
    for (size_t i = 0; i < count; i++) {
        const redisReply *text = reply->element[i + ANSWER_BEFORE];

        answer->texts[i] = (struct ration_redis_text){NULL, 0};
        if (text->type == REDIS_REPLY_STRING)
            answer->texts[i] = (struct ration_redis_text){text->str, (size_t)text->len};
        else if (text->type != REDIS_REPLY_NIL)
            return false;
    }
    return true;
}

static void on_answer_of_script(struct take *take, const redisReply *reply)
{
    struct ration_redis_answer answer;
    struct ration_redis_told told;

    if (!read_answer(reply, &answer)) {
        finish(take, NULL, RATION_REDIS_UNKNOWN);
    } else if (answer.is_of_others && take->convert_count < CONVERTS_MAX &&
               ration_redis_convert_all(&take->ask, &answer, &take->errand.words)) {
        take->convert_count++;
        ration_redis_route_send(take->client->route, &take->errand);
    } else if (answer.is_of_others) {
        finish(take, NULL, RATION_REDIS_NOT_DONE);
    } else if (ration_redis_ask_read(&take->ask, &answer, &told) != RATION_OK) {
        finish(take, NULL, RATION_REDIS_UNKNOWN);
    } else {
        if (take->convert_count > 0)
            ration_redis_convert_undo(&take->errand.words, &told);
        finish(take, &told, RATION_REDIS_NOT_DONE);
    }
}

static void on_answer(struct take *take, const redisReply *reply)
{
    struct ration_redis_client *client = take->client;

    if (begins(reply, "NOSCRIPT") && !take->is_repeated) { /* so nothing was done */
        take->is_repeated = true;
        ration_redis_words_repeat(&take->errand.words, RATION_REDIS_TAKE);
        ration_redis_route_send(client->route, &take->errand);
        return;
    }
    if (is_of_replica(reply))
        ration_redis_route_leave(client->route);
    if (reply->type == REDIS_REPLY_ERROR) { /* a script that fails has written nothing yet */
        finish(take, NULL, RATION_REDIS_NOT_DONE);
    } else {
        on_answer_of_script(take, reply);
    }
}

static void on_done(void *context, enum ration_redis_outcome outcome,
                    const struct redisReply *reply)
{
    struct take *take = context;

    if (outcome == RATION_REDIS_ANSWERED)
        on_answer(take, reply);
    else
        finish(take, NULL,
               outcome == RATION_REDIS_REFUSED ? RATION_REDIS_NOT_DONE : RATION_REDIS_UNKNOWN);
}

static void send_take(struct take *take)
{
    struct ration_redis_client *client = take->client;
    struct ration_redis_words *words = &take->errand.words;

    ration_redis_words_reset(words);
    ration_redis_word_script(words, RATION_REDIS_TAKE);
    ration_redis_ask_write(&take->ask, &client->names, words);
    ration_redis_route_send(client->route, &take->errand);
}

static struct take *get_take(struct ration_redis_client *client)
{
    struct take *take = client->spare;

    if (take != NULL) {
        client->spare = take->next;
        return take;
    }
    take = malloc(sizeof(*take));
    if (take != NULL) {
        take->client = client;
        ration_redis_words_init(&take->errand.words);
        take->errand.done = on_done;
        take->errand.context = take;
    }
    return take;
}

void ration_redis_client_take(struct ration_redis_client *client,
                              const struct ration_redis_ask *ask, ration_redis_decided *decided,
                              void *context)
{
    struct take *take = get_take(client);

    if (take == NULL) {
        decided(context, NULL, RATION_REDIS_NOT_DONE);
        return;
    }
    take->ask = *ask;
    take->errand.deadline_ns = ask->deadline_ns;
    take->is_repeated = false;
    take->convert_count = 0;
    take->decided = decided;
    take->context = context;
    send_take(take);
}

uint64_t ration_redis_client_deadline(const struct ration_redis_client *client)
{
    return ration_redis_route_now(client->route) + client->options->times.deadline_ns;
}

static void on_parcel_done(void *context, enum ration_redis_outcome outcome,
                           const struct redisReply *reply)
{
    struct parcel *parcel = context;

    if (outcome == RATION_REDIS_ANSWERED && begins(reply, "NOSCRIPT") &&
        parcel->script != RATION_REDIS_SCRIPT_COUNT) {
        ration_redis_words_repeat(&parcel->errand.words, parcel->script);
        parcel->script = RATION_REDIS_SCRIPT_COUNT;
        ration_redis_route_send(parcel->route, &parcel->errand);
        return;
    }
    if (outcome == RATION_REDIS_ANSWERED && is_of_replica(reply))
        ration_redis_route_leave(parcel->route);
    parcel->done(parcel->context, outcome, reply);
    ration_redis_words_done(&parcel->errand.words);
    free(parcel);
}

/* behind: the words behind those that say what is done. */
static void send_parcel(struct ration_redis_client *client, struct parcel *parcel,
                        const struct ration_redis_words *behind)
{
    struct ration_redis_words *words = &parcel->errand.words;

    for (size_t i = 0; i < behind->count; i++)
        ration_redis_word(words, ration_redis_word_at(behind, i),
                          ration_redis_word_size(behind, i));
    words->text.is_failed |= behind->text.is_failed;
    ration_redis_route_send(client->route, &parcel->errand);
}

static struct parcel *make_parcel(struct ration_redis_client *client, uint64_t deadline_ns,
                                  ration_redis_done *done, void *context)
{
    struct parcel *parcel = calloc(1, sizeof(*parcel));

    if (parcel == NULL)
        return NULL;
    *parcel = (struct parcel){.route = client->route,
                              .script = RATION_REDIS_SCRIPT_COUNT,
                              .done = done,
                              .context = context};
    parcel->errand.deadline_ns = deadline_ns;
    parcel->errand.done = on_parcel_done;
    parcel->errand.context = parcel;
    ration_redis_words_init(&parcel->errand.words);
    return parcel;
}

void ration_redis_client_call(struct ration_redis_client *client, enum ration_redis_script script,
                              const struct ration_redis_words *words, uint64_t deadline_ns,
                              ration_redis_done *done, void *context)
{
    struct parcel *parcel = make_parcel(client, deadline_ns, done, context);

    if (parcel == NULL) {
        done(context, RATION_REDIS_REFUSED, NULL);
        return;
    }
    parcel->script = script;
    ration_redis_word_script(&parcel->errand.words, script);
    send_parcel(client, parcel, words);
}

void ration_redis_client_send(struct ration_redis_client *client,
                              const struct ration_redis_words *words, uint64_t deadline_ns,
                              ration_redis_done *done, void *context)
{
    struct parcel *parcel = make_parcel(client, deadline_ns, done, context);

    if (parcel != NULL)
        send_parcel(client, parcel, words);
    else
        done(context, RATION_REDIS_REFUSED, NULL);
}

static uint64_t or_default(uint64_t given, uint64_t preset)
{
    return given > 0 ? given : preset;
}

ration_status ration_redis_options_read(const struct ration_redis *redis,
                                        struct ration_redis_options *out_options,
                                        struct ration_error *error)
{
    const char *prefix = redis->prefix != NULL ? redis->prefix : "ration";
    struct ration_redis_options options = {
        .times = {.deadline_ns = or_default(redis->deadline_ns, RATION_REDIS_DEADLINE_NS),
                  .connect_deadline_ns =
                      or_default(redis->connect_deadline_ns, RATION_REDIS_CONNECT_DEADLINE_NS),
                  .retry_min_ns = or_default(redis->retry_min_ns, RATION_REDIS_RETRY_MIN_NS),
                  .retry_max_ns = or_default(redis->retry_max_ns, RATION_REDIS_RETRY_MAX_NS)},
        .node_count = redis->node_count > 0 ? redis->node_count : 1,
    };

    if (strlen(prefix) > RATION_REDIS_PREFIX_MAX || strpbrk(prefix, "{}") != NULL)
        return ration_refuse(error, RATION_EINVAL,
                             "a prefix of names in Redis has at most 63 bytes, and no braces");
    strcpy(options.prefix, prefix);
    if (redis->key_secret != NULL && redis->key_secret[0] != '\0') {
        options.has_key_secret = true;
        ration_hash_blake2b(NULL, 0, redis->key_secret, strlen(redis->key_secret),
                            options.key_secret);
    }
    if (redis->url == NULL)
        return ration_refuse(error, RATION_EINVAL, "where is Redis? url is NULL");
    if (ration_redis_url_parse(redis->url, &options.url, error) != RATION_OK)
        return RATION_EINVAL;
    *out_options = options;
    explicit_bzero(&options.url, sizeof(options.url)); /* passwords */
    return RATION_OK;
}

ration_status ration_redis_client_create(const struct ration_redis_options *options,
                                         const struct ration_redis_loop *loop,
                                         struct ration_redis_client **out_client)
{
    struct ration_redis_client *client = calloc(1, sizeof(*client));
    struct ration_redis_route_options route;

    if (client == NULL)
        return RATION_ENOMEM;
    client->options = options;
    client->loop = *loop;
    client->names.prefix = options->prefix;
    if (options->has_key_secret)
        client->names.secret = options->key_secret;
    if (options->is_one_slot)
        client->names.tag = options->prefix[0] != '\0' ? options->prefix : "ration";
    route = (struct ration_redis_route_options){
        .url = &options->url,
        .times = &options->times,
        .loop = &client->loop,
    };
    if (ration_redis_route_create(&route, &client->route) != RATION_OK) {
        free(client);
        return RATION_ENOMEM;
    }
    *out_client = client;
    return RATION_OK;
}

void ration_redis_client_free(struct ration_redis_client *client)
{
    if (client == NULL)
        return;
    ration_redis_route_free(client->route);
    while (client->spare != NULL) {
        struct take *take = client->spare;

        client->spare = take->next;
        ration_redis_words_done(&take->errand.words);
        free(take);
    }
    free(client);
}

const struct ration_redis_names *ration_redis_client_names(const struct ration_redis_client *client)
{
    return &client->names;
}

bool ration_redis_client_is_up(const struct ration_redis_client *client)
{
    return ration_redis_route_is_up(client->route);
}

bool ration_redis_client_is_trying(const struct ration_redis_client *client)
{
    return client->route->kind->is_trying(client->route);
}

bool ration_redis_client_is_tried(const struct ration_redis_client *client)
{
    return ration_redis_route_is_tried(client->route);
}

const char *ration_redis_client_trouble(const struct ration_redis_client *client)
{
    return ration_redis_route_trouble(client->route);
}

void ration_redis_client_stats(const struct ration_redis_client *client,
                               struct ration_redis_stats *out_stats)
{
    ration_redis_route_stats(client->route, out_stats);
}
