#include "redis/client.h"

#include <hiredis/hiredis.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "redis/convert.h"
#include "redis/router.h"
#include "redis/scripts.h"

#define ANSWER_HEADER_COUNT 3 /* now (seconds and nanoseconds), and whether the cost was taken */
/* per take: nodes with other limits may convert the same bucket at the same time */
#define CONVERTS_MAX 3

/* A take in flight. It is reused when it is done. */
struct take {
    struct take *next; /* in the list of spare takes */
    struct ration_redis_client *client;
    struct ration_redis_take_request take_request;
    struct ration_redis_request request;
    bool is_repeated; /* sent again with the script's text, because Redis did not know its SHA-1 */
    unsigned convert_count;
    ration_redis_decided *decided;
    void *context;
};

struct ration_redis_client {
    const struct ration_redis_options *options;
    struct ration_redis_loop loop;
    struct ration_redis_names names;
    struct ration_redis_router *router;
    struct take *spare_takes;
};

/* A call of another script, or a plain command, for another module. */
struct script_call {
    struct ration_redis_router *router;
    struct ration_redis_request request;
    /* RATION_REDIS_SCRIPT_COUNT: none, or sent again with its text */
    enum ration_redis_script script;
    ration_redis_done *done;
    void *context;
};

static void finish_take(struct take *take, const struct ration_redis_take_result *result,
                        enum ration_redis_undecided why)
{
    struct ration_redis_client *client = take->client;

    take->decided(take->context, result, why);
    take->next = client->spare_takes;
    client->spare_takes = take;
}

static bool is_error_starting_with(const redisReply *reply, const char *prefix)
{
    return reply->type == REDIS_REPLY_ERROR && strncmp(reply->str, prefix, strlen(prefix)) == 0;
}

static bool is_from_replica(const redisReply *reply)
{
    return is_error_starting_with(reply, "READONLY") || is_error_starting_with(reply, "MASTERDOWN");
}

/* False: it is not a reply of the script. */
static bool read_answer(const redisReply *reply, struct ration_redis_answer *answer)
{
    size_t count = reply->elements - ANSWER_HEADER_COUNT;

    if (reply->type != REDIS_REPLY_ARRAY || reply->elements < ANSWER_HEADER_COUNT ||
        count > RATION_REDIS_PARTS_MAX)
        return false;
    for (size_t i = 0; i < ANSWER_HEADER_COUNT; i++)
        if (reply->element[i]->type != REDIS_REPLY_INTEGER || reply->element[i]->integer < 0)
            return false;
    answer->now_s = (uint64_t)reply->element[0]->integer;
    answer->now_ns = (uint64_t)reply->element[1]->integer;
    answer->is_taken = reply->element[2]->integer == 1;
    answer->is_of_others = reply->element[2]->integer == 2;
    answer->text_count = (uint32_t)count;
    for (size_t i = 0; i < count; i++) {
        const redisReply *text = reply->element[i + ANSWER_HEADER_COUNT];

        answer->texts[i] = (struct ration_redis_text){NULL, 0};
        if (text->type == REDIS_REPLY_STRING)
            answer->texts[i] = (struct ration_redis_text){text->str, (size_t)text->len};
        else if (text->type != REDIS_REPLY_NIL)
            return false;
    }
    return true;
}

static void on_script_answer(struct take *take, const redisReply *reply)
{
    struct ration_redis_answer answer;
    struct ration_redis_take_result result;

    if (!read_answer(reply, &answer)) {
        finish_take(take, NULL, RATION_REDIS_UNKNOWN);
    } else if (answer.is_of_others && take->convert_count < CONVERTS_MAX &&
               ration_redis_convert_all(&take->take_request, &answer, &take->request.argv)) {
        take->convert_count++;
        ration_redis_router_send(take->client->router, &take->request);
    } else if (answer.is_of_others) {
        finish_take(take, NULL, RATION_REDIS_NOT_DONE);
    } else if (ration_redis_take_result_read(&take->take_request, &answer, &result) != RATION_OK) {
        finish_take(take, NULL, RATION_REDIS_UNKNOWN);
    } else {
        if (take->convert_count > 0)
            ration_redis_convert_undo(&take->request.argv, &result);
        finish_take(take, &result, RATION_REDIS_NOT_DONE);
    }
}

static void on_answer(struct take *take, const redisReply *reply)
{
    struct ration_redis_client *client = take->client;

    if (is_error_starting_with(reply, "NOSCRIPT") && !take->is_repeated) {
        /* Redis did not run the script, so nothing was charged. */
        take->is_repeated = true;
        ration_redis_argv_repeat(&take->request.argv, RATION_REDIS_TAKE);
        ration_redis_router_send(client->router, &take->request);
        return;
    }
    if (is_from_replica(reply))
        ration_redis_router_leave(client->router);
    if (reply->type == REDIS_REPLY_ERROR) { /* a script that fails has written nothing yet */
        finish_take(take, NULL, RATION_REDIS_NOT_DONE);
    } else {
        on_script_answer(take, reply);
    }
}

static void on_done(void *context, enum ration_redis_outcome outcome,
                    const struct redisReply *reply)
{
    struct take *take = context;

    if (outcome == RATION_REDIS_ANSWERED)
        on_answer(take, reply);
    else
        finish_take(take, NULL,
                    outcome == RATION_REDIS_REFUSED ? RATION_REDIS_NOT_DONE : RATION_REDIS_UNKNOWN);
}

static void send_take(struct take *take)
{
    struct ration_redis_client *client = take->client;
    struct ration_redis_argv *argv = &take->request.argv;

    ration_redis_argv_reset(argv);
    ration_redis_argv_add_script(argv, RATION_REDIS_TAKE);
    ration_redis_take_request_write(&take->take_request, &client->names, argv);
    ration_redis_router_send(client->router, &take->request);
}

static struct take *get_take(struct ration_redis_client *client)
{
    struct take *take = client->spare_takes;

    if (take != NULL) {
        client->spare_takes = take->next;
        return take;
    }
    take = malloc(sizeof(*take));
    if (take != NULL) {
        take->client = client;
        ration_redis_argv_init(&take->request.argv);
        take->request.done = on_done;
        take->request.context = take;
    }
    return take;
}

void ration_redis_client_take(struct ration_redis_client *client,
                              const struct ration_redis_take_request *request,
                              ration_redis_decided *decided, void *context)
{
    struct take *take = get_take(client);

    if (take == NULL) {
        decided(context, NULL, RATION_REDIS_NOT_DONE);
        return;
    }
    take->take_request = *request;
    take->request.deadline_ns = request->deadline_ns;
    take->is_repeated = false;
    take->convert_count = 0;
    take->decided = decided;
    take->context = context;
    send_take(take);
}

uint64_t ration_redis_client_deadline(const struct ration_redis_client *client)
{
    return ration_redis_router_now(client->router) + client->options->times.timeout_ns;
}

static void on_script_call_done(void *context, enum ration_redis_outcome outcome,
                                const struct redisReply *reply)
{
    struct script_call *script_call = context;

    if (outcome == RATION_REDIS_ANSWERED && is_error_starting_with(reply, "NOSCRIPT") &&
        script_call->script != RATION_REDIS_SCRIPT_COUNT) {
        ration_redis_argv_repeat(&script_call->request.argv, script_call->script);
        script_call->script = RATION_REDIS_SCRIPT_COUNT;
        ration_redis_router_send(script_call->router, &script_call->request);
        return;
    }
    if (outcome == RATION_REDIS_ANSWERED && is_from_replica(reply))
        ration_redis_router_leave(script_call->router);
    script_call->done(script_call->context, outcome, reply);
    ration_redis_argv_done(&script_call->request.argv);
    free(script_call);
}

/* arguments: what follows EVALSHA and the SHA-1; without a script, the whole command. */
static void send_script_call(struct ration_redis_client *client, struct script_call *script_call,
                             const struct ration_redis_argv *arguments)
{
    struct ration_redis_argv *argv = &script_call->request.argv;

    for (size_t i = 0; i < arguments->count; i++)
        ration_redis_argv_add(argv, ration_redis_argv_at(arguments, i),
                              ration_redis_argv_size(arguments, i));
    argv->text.is_failed |= arguments->text.is_failed;
    ration_redis_router_send(client->router, &script_call->request);
}

static struct script_call *make_script_call(struct ration_redis_client *client,
                                            uint64_t deadline_ns, ration_redis_done *done,
                                            void *context)
{
    struct script_call *script_call = calloc(1, sizeof(*script_call));

    if (script_call == NULL)
        return NULL;
    *script_call = (struct script_call){.router = client->router,
                                        .script = RATION_REDIS_SCRIPT_COUNT,
                                        .done = done,
                                        .context = context};
    script_call->request.deadline_ns = deadline_ns;
    script_call->request.done = on_script_call_done;
    script_call->request.context = script_call;
    ration_redis_argv_init(&script_call->request.argv);
    return script_call;
}

void ration_redis_client_call(struct ration_redis_client *client, enum ration_redis_script script,
                              const struct ration_redis_argv *argv, uint64_t deadline_ns,
                              ration_redis_done *done, void *context)
{
    struct script_call *script_call = make_script_call(client, deadline_ns, done, context);

    if (script_call == NULL) {
        done(context, RATION_REDIS_REFUSED, NULL);
        return;
    }
    script_call->script = script;
    ration_redis_argv_add_script(&script_call->request.argv, script);
    send_script_call(client, script_call, argv);
}

void ration_redis_client_send(struct ration_redis_client *client,
                              const struct ration_redis_argv *argv, uint64_t deadline_ns,
                              ration_redis_done *done, void *context)
{
    struct script_call *script_call = make_script_call(client, deadline_ns, done, context);

    if (script_call != NULL)
        send_script_call(client, script_call, argv);
    else
        done(context, RATION_REDIS_REFUSED, NULL);
}

static uint64_t or_default(uint64_t given, uint64_t default_value)
{
    return given > 0 ? given : default_value;
}

ration_status ration_redis_options_read(const struct ration_redis *redis,
                                        struct ration_redis_options *out_options,
                                        struct ration_error *error)
{
    const char *prefix = redis->prefix != NULL ? redis->prefix : "ration";
    struct ration_redis_options options = {
        .times = {.timeout_ns = or_default(redis->timeout_ns, RATION_REDIS_TIMEOUT_NS),
                  .connect_timeout_ns =
                      or_default(redis->connect_timeout_ns, RATION_REDIS_CONNECT_TIMEOUT_NS),
                  .retry_min_ns = or_default(redis->retry_min_ns, RATION_REDIS_RETRY_MIN_NS),
                  .retry_max_ns = or_default(redis->retry_max_ns, RATION_REDIS_RETRY_MAX_NS)},
        .node_count = redis->node_count > 0 ? redis->node_count : 1,
    };

    if (strlen(prefix) > RATION_REDIS_PREFIX_MAX || strpbrk(prefix, "{}") != NULL)
        return ration_error_set(
            error, RATION_EINVAL,
            "the prefix of keys in Redis must have at most 63 bytes and no braces");
    strcpy(options.prefix, prefix);
    if (redis->key_secret != NULL && redis->key_secret[0] != '\0') {
        options.has_key_secret = true;
        ration_hash_blake2b(NULL, 0, redis->key_secret, strlen(redis->key_secret),
                            options.key_secret);
    }
    if (redis->url == NULL)
        return ration_error_set(error, RATION_EINVAL, "the URL of Redis is missing: url is NULL");
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
    struct ration_redis_router_options router;

    if (client == NULL)
        return RATION_ENOMEM;
    client->options = options;
    client->loop = *loop;
    client->names.prefix = options->prefix;
    if (options->has_key_secret)
        client->names.secret = options->key_secret;
    if (options->is_one_slot)
        client->names.tag = options->prefix[0] != '\0' ? options->prefix : "ration";
    router = (struct ration_redis_router_options){
        .url = &options->url,
        .times = &options->times,
        .loop = &client->loop,
    };
    if (ration_redis_router_create(&router, &client->router) != RATION_OK) {
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
    ration_redis_router_free(client->router);
    while (client->spare_takes != NULL) {
        struct take *take = client->spare_takes;

        client->spare_takes = take->next;
        ration_redis_argv_done(&take->request.argv);
        free(take);
    }
    free(client);
}

const struct ration_redis_names *ration_redis_client_names(const struct ration_redis_client *client)
{
    return &client->names;
}

bool ration_redis_client_is_connected(const struct ration_redis_client *client)
{
    return ration_redis_router_is_connected(client->router);
}

bool ration_redis_client_is_trying(const struct ration_redis_client *client)
{
    return client->router->kind->is_trying(client->router);
}

bool ration_redis_client_has_connected(const struct ration_redis_client *client)
{
    return ration_redis_router_has_connected(client->router);
}

const char *ration_redis_client_last_error(const struct ration_redis_client *client)
{
    return ration_redis_router_last_error(client->router);
}

void ration_redis_client_stats(const struct ration_redis_client *client,
                               struct ration_redis_stats *out_stats)
{
    ration_redis_router_stats(client->router, out_stats);
}
