#include "redis/draw.h"

#include <hiredis/hiredis.h>
#include <stdlib.h>

#define ANSWER_COUNT 5

struct draw {
    struct ration_limit limit;
    uint64_t cost_tokens;
    ration_redis_drawn *drawn;
    void *context;
};

static bool is_number(const redisReply *reply)
{
    return reply->type == REDIS_REPLY_INTEGER && reply->integer >= 0;
}

/* False: it is no answer of the script. */
static bool read_answer(const struct draw *draw, const redisReply *reply,
                        struct ration_redis_told *told, uint64_t *out_drawn)
{
    struct ration_redis_ask ask = {
        .part_count = 1, .parts = {{.limit = &draw->limit, .cost_tokens = draw->cost_tokens}}};
    struct ration_redis_answer answer = {.text_count = 1};

    if (reply->type != REDIS_REPLY_ARRAY || reply->elements != ANSWER_COUNT ||
        !is_number(reply->element[0]) || !is_number(reply->element[1]) ||
        !is_number(reply->element[2]) || !is_number(reply->element[4]))
        return false;
    answer.now_s = (uint64_t)reply->element[0]->integer;
    answer.now_ns = (uint64_t)reply->element[1]->integer;
    answer.is_taken = reply->element[2]->integer == 1;
    if (reply->element[3]->type == REDIS_REPLY_STRING)
        answer.texts[0] =
            (struct ration_redis_text){reply->element[3]->str, (size_t)reply->element[3]->len};
    *out_drawn = (uint64_t)reply->element[4]->integer;
    return ration_redis_ask_read(&ask, &answer, told) == RATION_OK;
}

static void on_done(void *context, enum ration_redis_outcome outcome,
                    const struct redisReply *reply)
{
    struct draw *draw = context;
    struct ration_redis_told told;
    uint64_t drawn = 0;
    bool is_known = outcome == RATION_REDIS_ANSWERED && read_answer(draw, reply, &told, &drawn);

    draw->drawn(draw->context, is_known ? &told : NULL, is_known ? drawn : 0);
    free(draw);
}

void ration_redis_draw(struct ration_redis_client *client, const struct ration_redis_lease *lease,
                       ration_redis_drawn *drawn, void *context)
{
    struct draw *draw = malloc(sizeof(*draw));
    struct ration_redis_words words;

    if (draw == NULL) {
        drawn(context, NULL, 0);
        return;
    }
    *draw = (struct draw){*lease->limit, lease->cost_tokens, drawn, context};
    ration_redis_words_init(&words);
    ration_redis_word_text(&words, "EVAL");
    ration_redis_word(&words, ration_redis_lease_script,
                      (size_t)(ration_redis_lease_script_end - ration_redis_lease_script));
    ration_redis_lease_write(lease, ration_redis_client_names(client), &words);
    ration_redis_client_send(client, &words, on_done, draw);
    ration_redis_words_done(&words);
}
