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

/* NULL: no memory; swapped() was called. */
static struct swap *create_swap(ration_redis_swapped *swapped, void *context)
{
    struct swap *swap = malloc(sizeof(*swap));

    if (swap == NULL)
        swapped(context, 0, false);
    else
        *swap = (struct swap){swapped, context};
    return swap;
}

void ration_redis_swap(struct ration_redis_client *client, const struct ration_redis_bucket *bucket,
                       const struct ration_redis_take_result *result,
                       const struct ration_redis_next *next, uint64_t deadline_ns,
                       ration_redis_swapped *swapped, void *context)
{
    struct swap *swap = create_swap(swapped, context);
    bool is_blocked = next->blocked_ns > result->now_ns;
    struct ration_bucket_state next_state = next->any;
    uint64_t full_after_ns;
    struct ration_redis_annotations annotations = {.is_given = bucket->is_given,
                                                   .blocked_ns = is_blocked ? next->blocked_ns : 0};
    struct ration_redis_argv argv;

    if (swap == NULL)
        return;
    ration_redis_lease_carry(&result->texts[0], &result->befores[0], result->now_ns, &next_state,
                             &annotations);
    full_after_ns = ration_bucket_state_full_after_ns(&next_state, result->now_ns);
    ration_redis_argv_init(&argv);
    ration_redis_argv_add_u64(&argv, 1);
    ration_redis_name_write(ration_redis_client_names(client), &bucket->key, bucket->limit->name,
                            &argv);
    ration_redis_argv_add(&argv, result->texts[0].bytes != NULL ? result->texts[0].bytes : "",
                          result->texts[0].size);
    if (is_blocked && full_after_ns < next->blocked_ns - result->now_ns)
        full_after_ns = next->blocked_ns - result->now_ns;
    if (full_after_ns > 0 || next->keep_ms > 0)
        ration_redis_state_write(&next_state, &annotations, &argv);
    else
        ration_redis_argv_add_text(&argv, "");
    ration_redis_argv_add_u64(&argv, full_after_ns / RATION_NS_PER_MS + 1 + next->keep_ms);
    ration_redis_client_call(client, RATION_REDIS_SWAP, &argv, deadline_ns, on_done, swap);
    ration_redis_argv_done(&argv);
}

void ration_redis_remove(struct ration_redis_client *client,
                         const struct ration_redis_bucket *bucket, uint64_t deadline_ns,
                         ration_redis_swapped *swapped, void *context)
{
    struct swap *swap = create_swap(swapped, context);
    struct ration_redis_argv argv;

    if (swap == NULL)
        return;
    ration_redis_argv_init(&argv);
    ration_redis_argv_add_text(&argv, "DEL");
    ration_redis_name_write(ration_redis_client_names(client), &bucket->key, bucket->limit->name,
                            &argv);
    ration_redis_client_send(client, &argv, deadline_ns, on_done, swap);
    ration_redis_argv_done(&argv);
}
