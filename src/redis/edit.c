#include "redis/edit.h"

#include <hiredis/hiredis.h>
#include <stdlib.h>

#include "base/time.h"
#include "core/gcra.h"
#include "redis/shape.h"
#include "redis/times.h"

bool ration_redis_edit_fits(const struct ration_limit *limit)
{
    return ration_algorithm_is_gcra(limit) && limit->start == RATION_START_FULL;
}

void ration_redis_edit_write(const struct ration_redis_edit *edit,
                             const struct ration_redis_names *names,
                             struct ration_redis_words *words)
{
    static const char *const whats[] = {"refund", "fill", "block"};
    const struct ration_limit *limit = edit->bucket.limit;

    ration_redis_word_u64(words, 1);
    ration_redis_name_write(names, &edit->bucket.key, limit->name, words);
    ration_redis_word_now(words, edit->has_now, edit->now_ns);
    ration_redis_shape_write(limit, edit->bucket.is_given, &words->text);
    ration_redis_word_end(words);
    ration_redis_word_text(words, whats[edit->kind]);
    ration_redis_word_time(words, limit->rate.capacity);
    if (edit->kind == RATION_REDIS_REFUND) {
        ration_redis_word_time(words, ration_gcra_worth(&limit->rate, edit->tokens));
    } else if (edit->kind == RATION_REDIS_BLOCK) {
        ration_redis_word_moment(words, edit->block_ns);
        ration_redis_word_time(words, ration_time_scale(limit->rate.token, limit->rate.burst - 1));
    }
}

struct call {
    ration_redis_edit_done *done;
    void *context;
};

static void on_done(void *raw_call, enum ration_redis_outcome outcome,
                    const struct redisReply *reply)
{
    struct call call = *(struct call *)raw_call;
    bool is_answered = outcome == RATION_REDIS_ANSWERED;
    bool is_known = is_answered && reply->type == REDIS_REPLY_INTEGER;
    bool is_wrong = is_answered && reply->type == REDIS_REPLY_ERROR;

    free(raw_call);
    call.done(call.context, is_wrong              ? RATION_REDIS_EDITED_WRONG
                            : !is_known           ? RATION_REDIS_EDITED_PERHAPS
                            : reply->integer == 1 ? RATION_REDIS_EDITED
                            : reply->integer == 2 ? RATION_REDIS_EDITED_NOT_SO
                                                  : RATION_REDIS_EDITED_NONE);
}

void ration_redis_edit(struct ration_redis_client *client, const struct ration_redis_edit *edit,
                       uint64_t deadline_ns, ration_redis_edit_done *done, void *context)
{
    struct call *call = malloc(sizeof(*call));
    struct ration_redis_words words;

    if (call == NULL) {
        done(context, RATION_REDIS_EDITED_PERHAPS);
        return;
    }
    *call = (struct call){done, context};
    ration_redis_words_init(&words);
    ration_redis_edit_write(edit, ration_redis_client_names(client), &words);
    ration_redis_client_call(client, RATION_REDIS_EDIT, &words, deadline_ns, on_done, call);
    ration_redis_words_done(&words);
}
