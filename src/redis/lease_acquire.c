#include "redis/lease_acquire.h"

#include <hiredis/hiredis.h>
#include <stdlib.h>
#include <string.h>

#include "base/time.h"
#include "redis/argv.h"
#include "redis/convert.h"
#include "redis/limit_tag.h"

#define ANSWER_COUNT 6
#define CONVERTS_MAX 3 /* as in client.c */

struct acquire {
    struct ration_redis_client *client;
    struct ration_redis_argv argv;      /* everything after EVALSHA and the SHA-1 */
    struct ration_redis_argv converted; /* the stored text and the converted text; or nothing */
    unsigned convert_count;
    uint64_t deadline_ns; /* of all calls together */
    struct ration_limit limit;
    uint64_t changed_ago_ns;
    uint64_t cost_tokens;
    uint64_t want_tokens;
    ration_redis_lease_acquired *acquired;
    void *context;
};

void ration_redis_lease_write(const struct ration_redis_lease *lease,
                              const struct ration_redis_names *names,
                              struct ration_redis_argv *argv)
{
    const struct ration_rate *rate = &lease->limit->rate;
    uint64_t back = lease->back_tokens < rate->burst ? lease->back_tokens : rate->burst;

    ration_redis_argv_add_u64(argv, 1);
    ration_redis_name_write(names, &lease->key, lease->limit->name, argv);
    ration_redis_argv_add_now(argv, lease->has_now, lease->now_ns);
    ration_redis_limit_tag_write(lease->limit, false, &argv->text);
    ration_redis_argv_end(argv);
    ration_redis_argv_add_text(argv, "");
    ration_redis_argv_add_text(argv, "");
    ration_redis_argv_add_u64(argv, lease->back_number);
    ration_redis_argv_add_time(argv, rate->capacity);
    ration_redis_argv_add_time(argv, ration_time_from_ns(lease->length_ns));
    ration_redis_argv_add_time(argv, ration_time_scale(rate->token, back));
    ration_redis_argv_add_time(argv, ration_time_from_ns(lease->back_age_ns));
    ration_redis_argv_add_time(argv, ration_time_scale(rate->token, lease->cost_tokens < rate->burst
                                                                        ? lease->cost_tokens
                                                                        : rate->burst));
    for (uint64_t tokens = lease->want_tokens < rate->burst ? lease->want_tokens : rate->burst;
         tokens > 0; tokens /= 2) {
        ration_redis_argv_add_u64(argv, tokens);
        ration_redis_argv_add_time(argv, ration_time_scale(rate->token, tokens));
    }
}

static bool is_number(const redisReply *reply)
{
    return reply->type == REDIS_REPLY_INTEGER && reply->integer >= 0;
}

/* False: it is not a valid reply of the script. */
static bool read_answer(const struct acquire *acquire, const redisReply *reply,
                        struct ration_redis_take_result *result,
                        struct ration_redis_grant *out_grant)
{
    struct ration_redis_take_request request = {
        .part_count = 1,
        .parts = {{.limit = &acquire->limit, .cost_tokens = acquire->cost_tokens}}};
    struct ration_redis_answer answer = {.text_count = 1};

    if (reply->type != REDIS_REPLY_ARRAY || reply->elements != ANSWER_COUNT ||
        !is_number(reply->element[0]) || !is_number(reply->element[1]) ||
        !is_number(reply->element[2]) || !is_number(reply->element[4]) ||
        !is_number(reply->element[5]) || reply->element[5]->integer >= RATION_REDIS_LEASE_NUMBERS)
        return false;
    answer.now_s = (uint64_t)reply->element[0]->integer;
    answer.now_ns = (uint64_t)reply->element[1]->integer;
    answer.is_taken = reply->element[2]->integer == 1;
    answer.is_of_others = reply->element[2]->integer == 2;
    if (reply->element[3]->type == REDIS_REPLY_STRING)
        answer.texts[0] =
            (struct ration_redis_text){reply->element[3]->str, (size_t)reply->element[3]->len};
    *out_grant = (struct ration_redis_grant){(uint64_t)reply->element[4]->integer,
                                             (uint32_t)reply->element[5]->integer};
    if (out_grant->tokens > acquire->want_tokens)
        return false;
    return ration_redis_take_result_read(&request, &answer, result) == RATION_OK;
}

/*
 * If the script did nothing because the bucket is of another limit, converts its text for the next call.
 * False: that is not the case, or it cannot be converted.
 */
static bool convert_bucket(struct acquire *acquire, const redisReply *reply)
{
    struct ration_redis_part part = {.limit = &acquire->limit,
                                     .changed_ago_ns = acquire->changed_ago_ns};
    struct ration_redis_text text;

    if (reply->type != REDIS_REPLY_ARRAY || reply->elements != ANSWER_COUNT ||
        !is_number(reply->element[0]) || !is_number(reply->element[1]) ||
        !is_number(reply->element[2]) || reply->element[2]->integer != 2 ||
        reply->element[3]->type != REDIS_REPLY_STRING || acquire->convert_count == CONVERTS_MAX)
        return false;
    acquire->convert_count++;
    text = (struct ration_redis_text){reply->element[3]->str, (size_t)reply->element[3]->len};
    ration_redis_argv_reset(&acquire->converted);
    ration_redis_argv_add(&acquire->converted, text.bytes, text.size);
    return ration_redis_convert(&text, &part,
                                (uint64_t)reply->element[0]->integer * RATION_NS_PER_SECOND +
                                    (uint64_t)reply->element[1]->integer,
                                &acquire->converted) &&
           !acquire->converted.text.is_failed;
}

static void send_acquire(struct acquire *acquire);

static void on_done(void *context, enum ration_redis_outcome outcome,
                    const struct redisReply *reply)
{
    struct acquire *acquire = context;
    struct ration_redis_take_result result;
    struct ration_redis_grant grant = {0, 0};
    bool is_known;

    if (outcome == RATION_REDIS_ANSWERED && convert_bucket(acquire, reply)) {
        send_acquire(acquire);
        return;
    }
    is_known = outcome == RATION_REDIS_ANSWERED && read_answer(acquire, reply, &result, &grant);

    if (!is_known)
        grant.tokens = 0;
    acquire->acquired(acquire->context, is_known ? &result : NULL, grant);
    ration_redis_argv_done(&acquire->argv);
    ration_redis_argv_done(&acquire->converted);
    free(acquire);
}

static void send_acquire(struct acquire *acquire)
{
    struct ration_redis_argv argv;

    ration_redis_argv_init(&argv);
    for (size_t i = 0; i < acquire->argv.count; i++) {
        bool is_converted = acquire->convert_count > 0 && i - RATION_REDIS_LEASE_STORED < 2;
        const struct ration_redis_argv *from = is_converted ? &acquire->converted : &acquire->argv;
        size_t index = is_converted ? i - RATION_REDIS_LEASE_STORED : i;

        ration_redis_argv_add(&argv, ration_redis_argv_at(from, index),
                              ration_redis_argv_size(from, index));
    }
    argv.text.is_failed |= acquire->argv.text.is_failed;
    ration_redis_client_call(acquire->client, RATION_REDIS_LEASE, &argv, acquire->deadline_ns,
                             on_done, acquire);
    ration_redis_argv_done(&argv);
}

void ration_redis_lease_acquire(struct ration_redis_client *client,
                                const struct ration_redis_lease *lease,
                                ration_redis_lease_acquired *acquired, void *context)
{
    struct acquire *acquire = malloc(sizeof(*acquire));

    if (acquire == NULL) {
        acquired(context, NULL, (struct ration_redis_grant){0, 0});
        return;
    }
    acquire->client = client;
    acquire->deadline_ns =
        lease->deadline_ns > 0 ? lease->deadline_ns : ration_redis_client_deadline(client);
    acquire->convert_count = 0;
    acquire->limit = *lease->limit;
    acquire->changed_ago_ns = lease->changed_ago_ns;
    acquire->cost_tokens = lease->cost_tokens;
    acquire->want_tokens = lease->want_tokens;
    acquire->acquired = acquired;
    acquire->context = context;
    ration_redis_argv_init(&acquire->argv);
    ration_redis_argv_init(&acquire->converted);
    ration_redis_lease_write(lease, ration_redis_client_names(client), &acquire->argv);
    send_acquire(acquire);
}
