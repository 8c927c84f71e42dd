/*
 * take: the calls of a limiter that decide.
 */
#include "limiter/calls.h"
#include "limiter/quick.h"

static bool take_long(struct ration_limiter *limiter, const void *request, uint64_t cost_tokens,
                      uint64_t now_ns)
{
    struct ration_call call;

    call.op = (struct ration_op){.kind = RATION_OP_TAKE, .now_ns = now_ns};
    return ration_call_run(&call, &(struct ration_call_ask){limiter, request, cost_tokens, NULL},
                           1) == RATION_OK &&
           call.op.decision.verdict == RATION_ALLOW;
}

bool ration_limiter_allow_any(struct ration_limiter *limiter, const void *request,
                              uint64_t cost_tokens, uint64_t now_ns)
{
    uint64_t began_ns = ration_tally_begin(&limiter->tally);
    int verdict = ration_quick_take(limiter, request, cost_tokens, now_ns);
    bool allowed = verdict == RATION_ALLOW;

    if (verdict == RATION_QUICK_NOT)
        allowed = take_long(limiter, request, cost_tokens, now_ns);
    ration_tally_end(&limiter->tally, began_ns);
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

/* What is told of a rule that does not apply. */
static const struct ration_decision no_limit = {.remaining = UINT64_MAX};

static void copy_details(const struct ration_call *call, struct ration_decision *details)
{
    for (uint32_t p = 0; p < call->op.part_count; p++)
        for (uint32_t i = 0; i < call->parts[p].rule_count; i++)
            *details++ = call->parts[p].limits[i] != NULL ? call->parts[p].decisions[i] : no_limit;
}

ration_status ration_call_take(struct ration_call *call, const struct ration_call_ask *asks,
                               size_t ask_count, struct ration_decision *out_decision,
                               struct ration_decision *details)
{
    ration_status status;

    call->op.has_decision = out_decision != NULL;
    call->op.has_details = details != NULL;
    status = ration_call_run(call, asks, ask_count);
    if (status != RATION_OK)
        return status;
    if (out_decision != NULL)
        *out_decision = call->op.decision;
    if (details != NULL)
        copy_details(call, details);
    return RATION_OK;
}

/* By a whole op, whose stack frame is large: not inlined, so that the short way does not pay for it. */
static __attribute__((noinline)) ration_status take_whole(struct ration_limiter *limiter,
                                                          const void *request, uint64_t cost_tokens,
                                                          uint64_t now_ns,
                                                          struct ration_decision *out_decision,
                                                          struct ration_decision *details)
{
    struct ration_call_ask ask = {limiter, request, cost_tokens, NULL};
    struct ration_call call;

    call.op = (struct ration_op){.kind = RATION_OP_TAKE, .now_ns = now_ns};
    return ration_call_take(&call, &ask, 1, out_decision, details);
}

ration_status ration_limiter_take(ration_limiter *limiter, const void *request,
                                  uint64_t cost_tokens, uint64_t now_ns,
                                  struct ration_decision *out_decision,
                                  struct ration_decision *details)
{
    uint64_t began_ns = ration_tally_begin(&limiter->tally);
    ration_status status = RATION_OK;

    if (out_decision == NULL || details != NULL ||
        !ration_quick_tell(limiter, request, cost_tokens, now_ns, out_decision))
        status = take_whole(limiter, request, cost_tokens, now_ns, out_decision, details);
    ration_tally_end(&limiter->tally, began_ns);
    return status;
}

ration_status ration_limiter_look(ration_limiter *limiter, const void *request,
                                  uint64_t cost_tokens, uint64_t now_ns,
                                  struct ration_decision *out_decision,
                                  struct ration_decision *details)
{
    struct ration_call call;

    call.op = (struct ration_op){.kind = RATION_OP_LOOK, .now_ns = now_ns};
    return ration_call_take(&call, &(struct ration_call_ask){limiter, request, cost_tokens, NULL},
                            1, out_decision, details);
}

ration_status ration_limiter_take_up_to(ration_limiter *limiter, const void *request,
                                        uint64_t cost_tokens_max, uint64_t now_ns,
                                        uint64_t *out_granted, struct ration_decision *out_decision)
{
    struct ration_call call;
    ration_status status;

    call.op = (struct ration_op){.kind = RATION_OP_UP_TO, .now_ns = now_ns};
    status =
        ration_call_take(&call, &(struct ration_call_ask){limiter, request, cost_tokens_max, NULL},
                         1, out_decision, NULL);
    if (status == RATION_OK)
        *out_granted =
            call.op.granted_tokens < cost_tokens_max ? call.op.granted_tokens : cost_tokens_max;
    return status;
}

static ration_status edit(struct ration_call *call, ration_limiter *limiter, const void *request,
                          struct ration_op op, uint64_t tokens)
{
    call->op = op;
    return ration_call_run(call, &(struct ration_call_ask){limiter, request, tokens, NULL}, 1);
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
    struct ration_call_ask ask = {limiter, request, tokens, limit};
    struct ration_call call;

    call.op = (struct ration_op){.kind = RATION_OP_REFUND, .now_ns = now_ns};
    return ration_call_run(&call, &ask, 1);
}

ration_status ration_limiter_force(ration_limiter *limiter, const void *request, uint64_t tokens,
                                   uint64_t now_ns)
{
    struct ration_call call;
    ration_status status =
        edit(&call, limiter, request, (struct ration_op){.kind = RATION_OP_FORCE, .now_ns = now_ns},
             tokens);

    if (status == RATION_OK && call.parts[0].has_overflowed &&
        limiter->overflow == RATION_OVERFLOW_DENY)
        return RATION_ENOMEM;
    return status;
}

ration_status ration_limiter_reset(ration_limiter *limiter, const void *request, uint64_t now_ns)
{
    struct ration_call call;

    return edit(&call, limiter, request,
                (struct ration_op){.kind = RATION_OP_RESET, .now_ns = now_ns}, 0);
}

/* Whether a block of this rule is one of every request: under each limit that it chooses from. */
static bool can_block_rule(const struct ration_op_part *part, uint32_t rule_index)
{
    const struct ration_config *config = part->to.config;
    uint32_t first = ration_config_first_choice(config, rule_index);
    uint64_t count = RATION_CONFIG_READ(config->rules[rule_index].choice_count);

    for (uint32_t k = 0; k < count && first + k < part->rule_count; k++)
        if (!ration_any_can_block(&part->own_limits[first + k]))
            return false;
    return ration_any_can_block(part->limits[rule_index]);
}

static bool can_block(const struct ration_op_part *part)
{
    for (uint32_t i = 0; i < part->rule_count; i++)
        if (part->limits[i] != NULL && !ration_part_is_shadow(part, i) && can_block_rule(part, i))
            return true;
    return false;
}

ration_status ration_limiter_block_until(ration_limiter *limiter, const void *request,
                                         uint64_t until_ns, uint64_t now_ns)
{
    struct ration_op look = {.kind = RATION_OP_LOOK, .now_ns = now_ns};
    struct ration_op block = {.kind = RATION_OP_BLOCK, .now_ns = now_ns, .until_ns = until_ns};
    uint64_t epoch_ns = limiter->store->epoch_ns;
    struct ration_call call;
    ration_status status;

    /* a now before the table's epoch counts as the epoch */
    if (!ration_limiter_block_fits(until_ns, now_ns < epoch_ns ? epoch_ns : now_ns))
        return RATION_ERANGE;
    status = edit(&call, limiter, request, look, 0); /* which limits apply */
    if (status == RATION_OK && !call.parts[0].has_overflowed && !can_block(&call.parts[0]))
        return RATION_EUNFIT;
    if (status == RATION_OK)
        status = edit(&call, limiter, request, block, 0);
    if (status == RATION_OK && call.parts[0].has_overflowed)
        return RATION_ENOMEM;
    return status;
}
