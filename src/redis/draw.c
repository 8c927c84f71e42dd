#include "redis/draw.h"

#include <hiredis/hiredis.h>
#include <stdlib.h>
#include <string.h>

#include "redis/convert.h"

#define ANSWER_COUNT 6
#define CONVERTS_MAX 3 /* as in client.c */

struct draw {
    struct ration_redis_client *client;
    struct ration_redis_words words;     /* behind the script */
    struct ration_redis_words converted; /* a text, and what stands for it; or nothing */
    unsigned convert_count;
    uint64_t deadline_ns; /* of all calls together */
    struct ration_limit limit;
    uint64_t changed_ago_ns;
    uint64_t cost_tokens;
    uint64_t want_tokens;
    ration_redis_drawn *drawn;
    void *context;
};

static bool is_number(const redisReply *reply)
{
    return reply->type == REDIS_REPLY_INTEGER && reply->integer >= 0;
}

/* False: it is no answer of the script. */
static bool read_answer(const struct draw *draw, const redisReply *reply,
                        struct ration_redis_told *told, struct ration_redis_portion *out_portion)
{
    struct ration_redis_ask ask = {
        .part_count = 1, .parts = {{.limit = &draw->limit, .cost_tokens = draw->cost_tokens}}};
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
    *out_portion = (struct ration_redis_portion){(uint64_t)reply->element[4]->integer,
                                                 (uint32_t)reply->element[5]->integer};
    if (out_portion->tokens > draw->want_tokens)
        return false;
    return ration_redis_ask_read(&ask, &answer, told) == RATION_OK;
}

/* Nothing was done, since the bucket is of another limit: what is to stand for it. False: it is none. */
static bool convert(struct draw *draw, const redisReply *reply)
{
    struct ration_redis_part part = {.limit = &draw->limit, .changed_ago_ns = draw->changed_ago_ns};
    struct ration_redis_text text;

    if (reply->type != REDIS_REPLY_ARRAY || reply->elements != ANSWER_COUNT ||
        !is_number(reply->element[0]) || !is_number(reply->element[1]) ||
        !is_number(reply->element[2]) || reply->element[2]->integer != 2 ||
        reply->element[3]->type != REDIS_REPLY_STRING || draw->convert_count == CONVERTS_MAX)
        return false;
    draw->convert_count++;
    text = (struct ration_redis_text){reply->element[3]->str, (size_t)reply->element[3]->len};
    ration_redis_words_reset(&draw->converted);
    ration_redis_word(&draw->converted, text.bytes, text.size);
    return ration_redis_convert(&text, &part,
                                (uint64_t)reply->element[0]->integer * RATION_NS_PER_SECOND +
                                    (uint64_t)reply->element[1]->integer,
                                &draw->converted) &&
           !draw->converted.text.is_failed;
}

static void send_draw(struct draw *draw);

static void on_done(void *context, enum ration_redis_outcome outcome,
                    const struct redisReply *reply)
{
    struct draw *draw = context;
    struct ration_redis_told told;
    struct ration_redis_portion portion = {0, 0};
    bool is_known;

    if (outcome == RATION_REDIS_ANSWERED && convert(draw, reply)) {
        send_draw(draw);
        return;
    }
    is_known = outcome == RATION_REDIS_ANSWERED && read_answer(draw, reply, &told, &portion);

    if (!is_known)
        portion.tokens = 0;
    draw->drawn(draw->context, is_known ? &told : NULL, portion);
    ration_redis_words_done(&draw->words);
    ration_redis_words_done(&draw->converted);
    free(draw);
}

static void send_draw(struct draw *draw)
{
    struct ration_redis_words words;

    ration_redis_words_init(&words);
    for (size_t i = 0; i < draw->words.count; i++) {
        bool is_converted = draw->convert_count > 0 && i - RATION_REDIS_LEASE_STORED < 2;
        const struct ration_redis_words *from = is_converted ? &draw->converted : &draw->words;
        size_t at = is_converted ? i - RATION_REDIS_LEASE_STORED : i;

        ration_redis_word(&words, ration_redis_word_at(from, at), ration_redis_word_size(from, at));
    }
    words.text.is_failed |= draw->words.text.is_failed;
    ration_redis_client_call(draw->client, RATION_REDIS_LEASE, &words, draw->deadline_ns, on_done,
                             draw);
    ration_redis_words_done(&words);
}

void ration_redis_draw(struct ration_redis_client *client, const struct ration_redis_lease *lease,
                       ration_redis_drawn *drawn, void *context)
{
    struct draw *draw = malloc(sizeof(*draw));

    if (draw == NULL) {
        drawn(context, NULL, (struct ration_redis_portion){0, 0});
        return;
    }
    draw->client = client;
    draw->deadline_ns =
        lease->deadline_ns > 0 ? lease->deadline_ns : ration_redis_client_deadline(client);
    draw->convert_count = 0;
    draw->limit = *lease->limit;
    draw->changed_ago_ns = lease->changed_ago_ns;
    draw->cost_tokens = lease->cost_tokens;
    draw->want_tokens = lease->want_tokens;
    draw->drawn = drawn;
    draw->context = context;
    ration_redis_words_init(&draw->words);
    ration_redis_words_init(&draw->converted);
    ration_redis_lease_write(lease, ration_redis_client_names(client), &draw->words);
    send_draw(draw);
}
