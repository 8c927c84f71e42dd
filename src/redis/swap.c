#include "redis/swap.h"

#include <hiredis/hiredis.h>
#include <stdlib.h>

struct swap {
    ration_redis_swapped *swapped;
    void *context;
};

static void on_done(void *context, enum ration_redis_outcome outcome,
                    const struct redisReply *reply)
{
    struct swap *swap = context;
    bool is_known = outcome == RATION_REDIS_ANSWERED && reply->type == REDIS_REPLY_INTEGER;

    swap->swapped(swap->context, is_known ? (uint64_t)reply->integer : 0, is_known);
    free(swap);
}

/* NULL: no memory, and whoever wants to know was told. */
static struct swap *make_swap(ration_redis_swapped *swapped, void *context)
{
    struct swap *swap = malloc(sizeof(*swap));

    if (swap == NULL)
        swapped(context, 0, false);
    else
        *swap = (struct swap){swapped, context};
    return swap;
}

void ration_redis_swap(struct ration_redis_client *client, const struct ration_redis_bucket *bucket,
                       const struct ration_redis_told *told, const struct ration_redis_next *next,
                       uint64_t deadline_ns, ration_redis_swapped *swapped, void *context)
{
    struct swap *swap = make_swap(swapped, context);
    bool is_held = next->hold_ns > told->now_ns;
    struct ration_any any = next->any;
    uint64_t full_ns;
    struct ration_redis_beside beside = {.is_given = bucket->is_given,
                                         .hold_ns = is_held ? next->hold_ns : 0};
    struct ration_redis_words words;

    if (swap == NULL)
        return;
    ration_redis_lease_carry(&told->texts[0], &told->befores[0], told->now_ns, &any, &beside);
    full_ns = ration_any_full_after_ns(&any, told->now_ns);
    ration_redis_words_init(&words);
    ration_redis_word_u64(&words, 1);
    ration_redis_name_write(ration_redis_client_names(client), &bucket->key, bucket->limit->name,
                            &words);
    ration_redis_word(&words, told->texts[0].bytes != NULL ? told->texts[0].bytes : "",
                      told->texts[0].size);
    if (is_held && full_ns < next->hold_ns - told->now_ns)
        full_ns = next->hold_ns - told->now_ns;
    if (full_ns > 0 || next->keep_ms > 0)
        ration_redis_state_write(&any, &beside, &words);
    else
        ration_redis_word_text(&words, "");
    ration_redis_word_u64(&words, full_ns / RATION_NS_PER_MS + 1 + next->keep_ms);
    ration_redis_client_call(client, RATION_REDIS_SWAP, &words, deadline_ns, on_done, swap);
    ration_redis_words_done(&words);
}

void ration_redis_remove(struct ration_redis_client *client,
                         const struct ration_redis_bucket *bucket, uint64_t deadline_ns,
                         ration_redis_swapped *swapped, void *context)
{
    struct swap *swap = make_swap(swapped, context);
    struct ration_redis_words words;

    if (swap == NULL)
        return;
    ration_redis_words_init(&words);
    ration_redis_word_text(&words, "DEL");
    ration_redis_name_write(ration_redis_client_names(client), &bucket->key, bucket->limit->name,
                            &words);
    ration_redis_client_send(client, &words, deadline_ns, on_done, swap);
    ration_redis_words_done(&words);
}
