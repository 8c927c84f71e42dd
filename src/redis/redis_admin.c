#include "redis/redis_admin.h"

#include <hiredis/hiredis.h>
#include <stdlib.h>

#include "base/time.h"
#include "core/gcra.h"
#include "redis/argv.h"
#include "redis/limit_tag.h"

bool ration_redis_admin_is_supported(const struct ration_limit *limit)
{
    return ration_algorithm_is_gcra(limit) && limit->start == RATION_START_FULL;
}

void ration_redis_admin_write(const struct ration_redis_admin *op,
                              const struct ration_redis_names *names,
                              struct ration_redis_argv *argv)
{
    static const char *const kind_names[] = {"refund", "fill", "block"};
    const struct ration_limit *limit = op->bucket.limit;

    ration_redis_argv_add_u64(argv, 1);
    ration_redis_name_write(names, &op->bucket.key, limit->name, argv);
    ration_redis_argv_add_now(argv, op->has_now, op->now_ns);
    ration_redis_limit_tag_write(limit, op->bucket.is_given, &argv->text);
    ration_redis_argv_end(argv);
    ration_redis_argv_add_text(argv, kind_names[op->kind]);
    ration_redis_argv_add_time(argv, limit->rate.capacity);
    if (op->kind == RATION_REDIS_REFUND) {
        ration_redis_argv_add_time(argv, ration_gcra_worth(&limit->rate, op->tokens));
    } else if (op->kind == RATION_REDIS_BLOCK) {
        ration_redis_argv_add_ns(argv, op->block_ns);
        ration_redis_argv_add_time(argv,
                                   ration_time_scale(limit->rate.token, limit->rate.burst - 1));
    }
}

struct call {
    ration_redis_admin_done *done;
    void *context;
};

static void on_admin_done(void *raw_call, enum ration_redis_outcome outcome,
                          const struct redisReply *reply)
{
    struct call call = *(struct call *)raw_call;
    bool is_answered = outcome == RATION_REDIS_ANSWERED;
    bool is_valid = is_answered && reply->type == REDIS_REPLY_INTEGER;
    bool is_error = is_answered && reply->type == REDIS_REPLY_ERROR;

    free(raw_call);
    call.done(call.context, is_error              ? RATION_REDIS_ADMIN_ERROR
                            : !is_valid           ? RATION_REDIS_ADMIN_UNKNOWN
                            : reply->integer == 1 ? RATION_REDIS_ADMIN_DONE
                            : reply->integer == 2 ? RATION_REDIS_ADMIN_SCHEMA_MISMATCH
                                                  : RATION_REDIS_ADMIN_NO_BUCKET);
}

void ration_redis_admin(struct ration_redis_client *client, const struct ration_redis_admin *op,
                        uint64_t deadline_ns, ration_redis_admin_done *done, void *context)
{
    struct call *call = malloc(sizeof(*call));
    struct ration_redis_argv argv;

    if (call == NULL) {
        done(context, RATION_REDIS_ADMIN_UNKNOWN);
        return;
    }
    *call = (struct call){done, context};
    ration_redis_argv_init(&argv);
    ration_redis_admin_write(op, ration_redis_client_names(client), &argv);
    ration_redis_client_call(client, RATION_REDIS_ADMIN, &argv, deadline_ns, on_admin_done, call);
    ration_redis_argv_done(&argv);
}

struct swap {
    ration_redis_swapped *swapped;
    void *context;
};

static void on_swapped(void *context, enum ration_redis_outcome outcome,
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
    ration_redis_client_call(client, RATION_REDIS_SWAP, &argv, deadline_ns, on_swapped, swap);
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
    ration_redis_client_send(client, &argv, deadline_ns, on_swapped, swap);
    ration_redis_argv_done(&argv);
}
