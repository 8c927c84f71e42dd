/*
 * call_take: the calls of a limiter that decide on or change one key.
 */
#include "limiter/call.h"
#include "limiter/fast.h"

static bool allow_by_op(struct ration_limiter *limiter, const void *request, uint64_t cost_tokens,
                        uint64_t now_ns)
{
    struct ration_call call;

    call.op = (struct ration_op){.kind = RATION_OP_TAKE, .now_ns = now_ns};
    return ration_call_run(&call,
                           &(struct ration_call_request){limiter, request, cost_tokens, NULL},
                           1) == RATION_OK &&
           call.op.decision.verdict == RATION_ALLOW;
}

bool ration_limiter_allow_any(struct ration_limiter *limiter, const void *request,
                              uint64_t cost_tokens, uint64_t now_ns)
{
    uint64_t began_ns = ration_limiter_counts_begin(&limiter->counts);
    int verdict = ration_fast_take(limiter, request, cost_tokens, now_ns);
    bool allowed = verdict == RATION_ALLOW;

    if (verdict == RATION_FAST_MISS)
        allowed = allow_by_op(limiter, request, cost_tokens, now_ns);
    ration_limiter_counts_end(&limiter->counts, began_ns);
    return allowed;
}

bool ration_limiter_allow_at(ration_limiter *limiter, const void *request, uint64_t cost_tokens,
                             uint64_t now_ns)
{
    return limiter->allow(limiter, request, cost_tokens, now_ns);
}

bool ration_limiter_allow(ration_limiter *limiter, const void *request)
{
    return limiter->allow_now(limiter, request);
}

/* The decision reported for a rule that does not apply. */
static const struct ration_decision no_limit = {.remaining = UINT64_MAX};

static void copy_details(const struct ration_call *call, struct ration_decision *details)
{
    for (uint32_t p = 0; p < call->op.part_count; p++)
        for (uint32_t i = 0; i < call->parts[p].rule_count; i++)
            *details++ = call->parts[p].limits[i] != NULL ? call->parts[p].decisions[i] : no_limit;
}

ration_status ration_call_take(struct ration_call *call, const struct ration_call_request *requests,
                               size_t request_count, struct ration_decision *out_decision,
                               struct ration_decision *details)
{
    ration_status status;

    call->op.has_decision = out_decision != NULL;
    call->op.has_details = details != NULL;
    status = ration_call_run(call, requests, request_count);
    if (status != RATION_OK)
        return status;
    if (out_decision != NULL)
        *out_decision = call->op.decision;
    if (details != NULL)
        copy_details(call, details);
    return RATION_OK;
}

/* Runs a whole op, whose stack frame is large: not inlined, so that the fast path does not pay for it. */
static __attribute__((noinline)) ration_status take_by_op(struct ration_limiter *limiter,
                                                          const void *request, uint64_t cost_tokens,
                                                          uint64_t now_ns,
                                                          struct ration_decision *out_decision,
                                                          struct ration_decision *details)
{
    struct ration_call_request request_of_call = {limiter, request, cost_tokens, NULL};
    struct ration_call call;

    call.op = (struct ration_op){.kind = RATION_OP_TAKE, .now_ns = now_ns};
    return ration_call_take(&call, &request_of_call, 1, out_decision, details);
}

ration_status ration_limiter_take(ration_limiter *limiter, const void *request,
                                  uint64_t cost_tokens, uint64_t now_ns,
                                  struct ration_decision *out_decision,
                                  struct ration_decision *details)
{
    uint64_t began_ns = ration_limiter_counts_begin(&limiter->counts);
    ration_status status = RATION_OK;

    if (out_decision == NULL || details != NULL ||
        !ration_fast_decide(limiter, request, cost_tokens, now_ns, out_decision))
        status = take_by_op(limiter, request, cost_tokens, now_ns, out_decision, details);
    ration_limiter_counts_end(&limiter->counts, began_ns);
    return status;
}

ration_status ration_limiter_peek(ration_limiter *limiter, const void *request,
                                  uint64_t cost_tokens, uint64_t now_ns,
                                  struct ration_decision *out_decision,
                                  struct ration_decision *details)
{
    struct ration_call call;

    call.op = (struct ration_op){.kind = RATION_OP_PEEK, .now_ns = now_ns};
    return ration_call_take(&call,
                            &(struct ration_call_request){limiter, request, cost_tokens, NULL}, 1,
                            out_decision, details);
}

ration_status ration_limiter_take_up_to(ration_limiter *limiter, const void *request,
                                        uint64_t cost_tokens_max, uint64_t now_ns,
                                        uint64_t *out_granted, struct ration_decision *out_decision)
{
    struct ration_call call;
    ration_status status;

    call.op = (struct ration_op){.kind = RATION_OP_UP_TO, .now_ns = now_ns};
    status = ration_call_take(
        &call, &(struct ration_call_request){limiter, request, cost_tokens_max, NULL}, 1,
        out_decision, NULL);
    if (status == RATION_OK)
        *out_granted =
            call.op.granted_tokens < cost_tokens_max ? call.op.granted_tokens : cost_tokens_max;
    return status;
}

static ration_status run_op(struct ration_call *call, ration_limiter *limiter, const void *request,
                            struct ration_op op, uint64_t tokens)
{
    call->op = op;
    return ration_call_run(call, &(struct ration_call_request){limiter, request, tokens, NULL}, 1);
}

ration_status ration_limiter_refund(ration_limiter *limiter, const void *request, uint64_t tokens,
                                    uint64_t now_ns)
{
    return ration_limiter_refund_as(limiter, request, NULL, tokens, now_ns);
}

ration_status ration_limiter_refund_as(ration_limiter *limiter, const void *request,
                                       const struct ration_limit *limit, uint64_t tokens,
                                       uint64_t now_ns)
{
    struct ration_call_request request_of_call = {limiter, request, tokens, limit};
    struct ration_call call;

    call.op = (struct ration_op){.kind = RATION_OP_REFUND, .now_ns = now_ns};
    return ration_call_run(&call, &request_of_call, 1);
}

ration_status ration_limiter_charge(ration_limiter *limiter, const void *request, uint64_t tokens,
                                    uint64_t now_ns)
{
    struct ration_call call;
    ration_status status =
        run_op(&call, limiter, request,
               (struct ration_op){.kind = RATION_OP_CHARGE, .now_ns = now_ns}, tokens);

    if (status == RATION_OK && call.parts[0].has_overflowed &&
        limiter->overflow == RATION_OVERFLOW_DENY)
        return RATION_ENOMEM;
    return status;
}

ration_status ration_limiter_reset(ration_limiter *limiter, const void *request, uint64_t now_ns)
{
    struct ration_call call;

    return run_op(&call, limiter, request,
                  (struct ration_op){.kind = RATION_OP_RESET, .now_ns = now_ns}, 0);
}

/* Whether blocking a key under this rule denies every request: each limit that the rule chooses from can block. */
static bool can_block_rule(const struct ration_key_part *part, uint32_t rule_index)
{
    const struct ration_config *config = part->to.config;
    uint32_t first = ration_config_first_choice(config, rule_index);
    uint64_t count = RATION_CONFIG_READ(config->rules[rule_index].choice_count);

    for (uint32_t k = 0; k < count && first + k < part->rule_count; k++)
        if (!ration_bucket_state_can_block(&part->own_limits[first + k]))
            return false;
    return ration_bucket_state_can_block(part->limits[rule_index]);
}

static bool can_block(const struct ration_key_part *part)
{
    for (uint32_t i = 0; i < part->rule_count; i++)
        if (part->limits[i] != NULL && !ration_op_part_is_shadow(part, i) &&
            can_block_rule(part, i))
            return true;
    return false;
}

ration_status ration_limiter_block_until(ration_limiter *limiter, const void *request,
                                         uint64_t until_ns, uint64_t now_ns)
{
    struct ration_op peek = {.kind = RATION_OP_PEEK, .now_ns = now_ns};
    struct ration_op block = {.kind = RATION_OP_BLOCK, .now_ns = now_ns, .until_ns = until_ns};
    uint64_t epoch_ns = limiter->store->epoch_ns;
    struct ration_call call;
    ration_status status;

    /* a now before the table's epoch counts as the epoch */
    if (!ration_limiter_block_fits(until_ns, now_ns < epoch_ns ? epoch_ns : now_ns))
        return RATION_ERANGE;
    status = run_op(&call, limiter, request, peek, 0); /* finds the limits that apply */
    if (status == RATION_OK && !call.parts[0].has_overflowed && !can_block(&call.parts[0]))
        return RATION_EUNSUPPORTED;
    if (status == RATION_OK)
        status = run_op(&call, limiter, request, block, 0);
    if (status == RATION_OK && call.parts[0].has_overflowed)
        return RATION_ENOMEM;
    return status;
}
