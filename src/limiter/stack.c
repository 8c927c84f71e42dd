/*
 * stack: several limiters decided together.
 */
#include "limiter/calls.h"

/* The same request asked of all limiters; 0 if they are more than a call can ask. */
static size_t ask_all(ration_stack *stack, const void *request, uint64_t cost_tokens,
                      struct ration_call_ask *out_asks)
{
    uint32_t count = ration_stack_count(stack);

    if (count > RATION_CALL_KEYS_MAX)
        return 0;
    for (uint32_t i = 0; i < count; i++)
        out_asks[i] = (struct ration_call_ask){stack->limiters[i], request, cost_tokens, NULL};
    return count;
}

size_t ration_stack_limiter_count(const ration_stack *stack)
{
    return ration_stack_count(stack);
}

ration_limiter *ration_stack_limiter(ration_stack *stack, size_t limiter_index)
{
    return limiter_index < ration_stack_count(stack) ? stack->limiters[limiter_index] : NULL;
}

uint64_t ration_stack_now(const ration_stack *stack)
{
    return ration_clock_now(&stack->clock);
}

static ration_status decide(ration_stack *stack, const void *request, enum ration_op_kind kind,
                            uint64_t cost_tokens, uint64_t now_ns,
                            struct ration_decision *out_decision, struct ration_decision *details)
{
    struct ration_call_ask asks[RATION_CALL_KEYS_MAX];
    size_t ask_count = ask_all(stack, request, cost_tokens, asks);
    struct ration_call call;

    if (ask_count == 0)
        return RATION_EINVAL;
    call.op = (struct ration_op){.kind = kind, .now_ns = now_ns};
    return ration_call_take(&call, asks, ask_count, out_decision, details);
}

ration_status ration_stack_take(ration_stack *stack, const void *request, uint64_t cost_tokens,
                                uint64_t now_ns, struct ration_decision *out_decision,
                                struct ration_decision *details)
{
    return decide(stack, request, RATION_OP_TAKE, cost_tokens, now_ns, out_decision, details);
}

ration_status ration_stack_look(ration_stack *stack, const void *request, uint64_t cost_tokens,
                                uint64_t now_ns, struct ration_decision *out_decision,
                                struct ration_decision *details)
{
    return decide(stack, request, RATION_OP_LOOK, cost_tokens, now_ns, out_decision, details);
}

bool ration_stack_allow_at(ration_stack *stack, const void *request, uint64_t cost_tokens,
                           uint64_t now_ns)
{
    struct ration_call_ask asks[RATION_CALL_KEYS_MAX];
    size_t ask_count = ask_all(stack, request, cost_tokens, asks);
    struct ration_call call;

    call.op = (struct ration_op){.kind = RATION_OP_TAKE, .now_ns = now_ns};
    return ask_count > 0 && ration_call_run(&call, asks, ask_count) == RATION_OK &&
           call.op.decision.verdict == RATION_ALLOW;
}

bool ration_stack_allow(ration_stack *stack, const void *request)
{
    return ration_stack_allow_at(stack, request, 1, ration_clock_now(&stack->clock));
}

ration_status ration_stack_take_all(ration_stack *stack, const struct ration_ask *asks,
                                    size_t ask_count, uint64_t now_ns,
                                    struct ration_decision *out_decision)
{
    struct ration_call_ask inner[RATION_ASKS_MAX];
    struct ration_call call;

    if (ask_count == 0 || ask_count > RATION_ASKS_MAX)
        return RATION_EINVAL;
    for (size_t i = 0; i < ask_count; i++) {
        if (asks[i].limiter_index >= ration_stack_count(stack))
            return RATION_EINVAL;
        inner[i] = (struct ration_call_ask){stack->limiters[asks[i].limiter_index], asks[i].request,
                                            asks[i].cost_tokens, NULL};
    }
    call.op = (struct ration_op){.kind = RATION_OP_TAKE, .now_ns = now_ns};
    return ration_call_take(&call, inner, ask_count, out_decision, NULL);
}

ration_status ration_stack_reserve(ration_stack *stack, const void *request, uint64_t cost_tokens,
                                   uint64_t max_wait_ns, uint64_t now_ns,
                                   struct ration_decision *out_decision,
                                   struct ration_ticket *out_ticket)
{
    struct ration_call_ask asks[RATION_CALL_KEYS_MAX];
    size_t ask_count = ask_all(stack, request, cost_tokens, asks);

    if (ask_count == 0)
        return RATION_EINVAL;
    return ration_call_reserve(asks, ask_count, max_wait_ns, now_ns, out_decision, out_ticket);
}

ration_status ration_stack_settle(ration_stack *stack, struct ration_ticket *ticket,
                                  uint64_t used_tokens, uint64_t now_ns)
{
    return ration_call_settle(stack->limiters, ration_stack_count(stack), ticket, used_tokens,
                              now_ns);
}

ration_status ration_stack_cancel(ration_stack *stack, struct ration_ticket *ticket,
                                  uint64_t now_ns)
{
    return ration_stack_settle(stack, ticket, 0, now_ns);
}
