/*
 * stack: decides several limiters together.
 */
#include "limiter/call.h"

/* Builds the same request to all limiters. Returns how many; 0 if the stack has more than a call can use. */
static size_t requests_to_all(ration_stack *stack, const void *request, uint64_t cost_tokens,
                              struct ration_call_request *out_requests)
{
    uint32_t count = ration_limiter_stack_count(stack);

    if (count > RATION_CALL_KEYS_MAX)
        return 0;
    for (uint32_t i = 0; i < count; i++)
        out_requests[i] =
            (struct ration_call_request){stack->limiters[i], request, cost_tokens, NULL};
    return count;
}

size_t ration_stack_limiter_count(const ration_stack *stack)
{
    return ration_limiter_stack_count(stack);
}

ration_limiter *ration_stack_limiter(ration_stack *stack, size_t limiter_index)
{
    return limiter_index < ration_limiter_stack_count(stack) ? stack->limiters[limiter_index]
                                                             : NULL;
}

uint64_t ration_stack_now(const ration_stack *stack)
{
    return ration_clock_now(&stack->clock);
}

static ration_status run_on_all(ration_stack *stack, const void *request, enum ration_op_kind kind,
                                uint64_t cost_tokens, uint64_t now_ns,
                                struct ration_decision *out_decision,
                                struct ration_decision *details)
{
    struct ration_call_request requests[RATION_CALL_KEYS_MAX];
    size_t request_count = requests_to_all(stack, request, cost_tokens, requests);
    struct ration_call call;

    if (request_count == 0)
        return RATION_EINVAL;
    call.op = (struct ration_op){.kind = kind, .now_ns = now_ns};
    return ration_call_take(&call, requests, request_count, out_decision, details);
}

ration_status ration_stack_take(ration_stack *stack, const void *request, uint64_t cost_tokens,
                                uint64_t now_ns, struct ration_decision *out_decision,
                                struct ration_decision *details)
{
    return run_on_all(stack, request, RATION_OP_TAKE, cost_tokens, now_ns, out_decision, details);
}

ration_status ration_stack_peek(ration_stack *stack, const void *request, uint64_t cost_tokens,
                                uint64_t now_ns, struct ration_decision *out_decision,
                                struct ration_decision *details)
{
    return run_on_all(stack, request, RATION_OP_PEEK, cost_tokens, now_ns, out_decision, details);
}

bool ration_stack_allow_at(ration_stack *stack, const void *request, uint64_t cost_tokens,
                           uint64_t now_ns)
{
    struct ration_call_request requests[RATION_CALL_KEYS_MAX];
    size_t request_count = requests_to_all(stack, request, cost_tokens, requests);
    struct ration_call call;

    call.op = (struct ration_op){.kind = RATION_OP_TAKE, .now_ns = now_ns};
    return request_count > 0 && ration_call_run(&call, requests, request_count) == RATION_OK &&
           call.op.decision.verdict == RATION_ALLOW;
}

bool ration_stack_allow(ration_stack *stack, const void *request)
{
    return ration_stack_allow_at(stack, request, 1, ration_clock_now(&stack->clock));
}

ration_status ration_stack_take_all(ration_stack *stack,
                                    const struct ration_stack_request *requests,
                                    size_t request_count, uint64_t now_ns,
                                    struct ration_decision *out_decision)
{
    struct ration_call_request parts[RATION_STACK_REQUESTS_MAX];
    struct ration_call call;

    if (request_count == 0 || request_count > RATION_STACK_REQUESTS_MAX)
        return RATION_EINVAL;
    for (size_t i = 0; i < request_count; i++) {
        if (requests[i].limiter_index >= ration_limiter_stack_count(stack))
            return RATION_EINVAL;
        parts[i] = (struct ration_call_request){stack->limiters[requests[i].limiter_index],
                                                requests[i].request, requests[i].cost_tokens, NULL};
    }
    call.op = (struct ration_op){.kind = RATION_OP_TAKE, .now_ns = now_ns};
    return ration_call_take(&call, parts, request_count, out_decision, NULL);
}

ration_status ration_stack_reserve(ration_stack *stack, const void *request, uint64_t cost_tokens,
                                   uint64_t max_wait_ns, uint64_t now_ns,
                                   struct ration_decision *out_decision,
                                   struct ration_reservation *out_reservation)
{
    struct ration_call_request requests[RATION_CALL_KEYS_MAX];
    size_t request_count = requests_to_all(stack, request, cost_tokens, requests);

    if (request_count == 0)
        return RATION_EINVAL;
    return ration_call_reserve(requests, request_count, max_wait_ns, now_ns, out_decision,
                               out_reservation);
}

ration_status ration_stack_settle(ration_stack *stack, struct ration_reservation *reservation,
                                  uint64_t used_tokens, uint64_t now_ns)
{
    return ration_call_settle(stack->limiters, ration_limiter_stack_count(stack), reservation,
                              used_tokens, now_ns);
}

ration_status ration_stack_cancel(ration_stack *stack, struct ration_reservation *reservation,
                                  uint64_t now_ns)
{
    return ration_stack_settle(stack, reservation, 0, now_ns);
}
