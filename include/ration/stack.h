/*
 * stack: several limiters decided together, all or nothing.
 *
 * The stack allows a request only if each of its limiters allows it. If one denies, no tokens are taken from any.
 *
 *     struct ration_rule rules[2] = {0};
 *     ration_limit_parse("10/s burst 20", &rules[0].limit, NULL);       // per user
 *     ration_limit_parse("1000/s", &rules[1].limit, NULL);              // of all users together
 *
 *     struct ration_limiter_options limiters[2] = {
 *         {.struct_size = sizeof(limiters[0]), .rules = &rules[0], .rule_count = 1, .keys_max = 100000,
 *          .key_func = user_of_request},
 *         {.struct_size = sizeof(limiters[0]), .rules = &rules[1], .rule_count = 1, .keys_max = 1,
 *          .key_func = one_key_for_all}};
 *
 *     ration_stack *stack;
 *     ration_stack_create(&(struct ration_stack_options){
 *         .struct_size = sizeof(struct ration_stack_options), .limiters = limiters, .limiter_count = 2}, &stack, NULL);
 *     if (!ration_stack_allow(stack, &request))
 *         answer_429();                               // a denied user takes nothing from the 1000/s
 *
 * The limiters share one block of memory. Any thread may call any function except ration_stack_free().
 */
#ifndef RATION_STACK_H
#define RATION_STACK_H

#include "ration/dump.h"
#include "ration/limiter.h"

RATION_C_BEGIN

struct ration_stack_options {
    size_t struct_size;                            /* = sizeof(struct ration_stack_options) */
    const struct ration_limiter_options *limiters; /* their clocks and memory options are ignored */
    size_t limiter_count;                          /* 1 to RATION_STACK_MAX */
    /*
     * The maximum including limiters added by ration_stack_add(). 0: none can be added; then the
     * stack's limiters have at most RATION_CALL_RULES_MAX rules together, and none of them is a
     * queue. Otherwise a queue is allowed, but only in a call of its own.
     */
    size_t limiters_max;
    size_t spare_bytes; /* memory reserved for added limiters, in bytes; touched only when they
                            are added */
    const struct ration_clock *clock; /* copied; NULL: the default clock */
    uint32_t is_prefaulted;
    uint32_t uses_huge_pages;
    uint32_t is_shared_by_forks;
    uint32_t threads_max;
    uint32_t trusts_keys;
};

/*
 * As ration_limiter_create(), for several limiters in one block of memory. Release with
 * ration_stack_free().
 */
RATION_API ration_status ration_stack_create(const struct ration_stack_options *options,
                                             ration_stack **out_stack, struct ration_error *error);

/* Releases a stack and its limiters, which no thread uses any more; NULL is allowed. */
RATION_API void ration_stack_free(ration_stack *stack);

/*
 * Adds a limiter to a stack that has fewer than limiters_max, while other threads decide, and
 * stores its index in *out_index. Only one thread may add or replace at a time. The limiter stays
 * until the stack is released or it is replaced. Returns as ration_limiter_create(); RATION_ENOMEM
 * also if spare_bytes are used up.
 */
RATION_API ration_status ration_stack_add(ration_stack *stack,
                                          const struct ration_limiter_options *options,
                                          size_t *out_index, struct ration_error *error);

/*
 * Replaces a limiter that no thread uses any more by another one, in the same memory, while other
 * threads use other limiters. It replaces the first of limiter_indexes whose memory has the
 * (rounded) size that the new limiter needs or, with takes_larger, whose memory is large enough.
 * The old limiter's keys, their state and its statistics are lost. *out_index receives the index.
 * Only one thread may add or replace at a time. Returns as ration_stack_add(); RATION_EUNSUPPORTED,
 * with nothing changed, if none of them is suitable. After any other failure all limiters still
 * exist, but one may have lost its keys.
 */
RATION_API ration_status ration_stack_replace(ration_stack *stack, const size_t *limiter_indexes,
                                              size_t index_count, bool takes_larger,
                                              const struct ration_limiter_options *options,
                                              size_t *out_index, struct ration_error *error);

/* Returns the number of limiters, including added ones. */
RATION_API size_t ration_stack_limiter_count(const ration_stack *stack);

/*
 * Returns one limiter of the stack, for calls about it alone. Borrowed: it lives as long as the
 * stack.
 */
RATION_API ration_limiter *ration_stack_limiter(ration_stack *stack, size_t limiter_index);

/* Returns the stack's memory in bytes, everything included except unused spare_bytes. */
RATION_API size_t ration_stack_bytes(const ration_stack *stack);

/*
 * As the calls for one limiter; the decision's limiter_index names the limiter that decided.
 * details is an array with one element per rule of all limiters, in the order of the limiters.
 * Returns RATION_EINVAL for a stack of more than RATION_CALL_KEYS_MAX limiters: use
 * ration_stack_take_all() with some of them.
 *
 * ration_stack_reserve() never waits: whatever max_wait_ns is, it allows immediately or denies. A
 * bucket charged for a future time would be closed to all other callers until then, including
 * callers that share only one of the limiters. The reservation exists to be settled with the tokens
 * really used.
 */
RATION_API bool ration_stack_allow(ration_stack *stack, const void *request);
RATION_API bool ration_stack_allow_at(ration_stack *stack, const void *request,
                                      uint64_t cost_tokens, uint64_t now_ns);
RATION_API ration_status ration_stack_take(ration_stack *stack, const void *request,
                                           uint64_t cost_tokens, uint64_t now_ns,
                                           struct ration_decision *out_decision,
                                           struct ration_decision *details);
RATION_API ration_status ration_stack_peek(ration_stack *stack, const void *request,
                                           uint64_t cost_tokens, uint64_t now_ns,
                                           struct ration_decision *out_decision,
                                           struct ration_decision *details);
RATION_API ration_status ration_stack_reserve(ration_stack *stack, const void *request,
                                              uint64_t cost_tokens, uint64_t max_wait_ns,
                                              uint64_t now_ns, struct ration_decision *out_decision,
                                              struct ration_reservation *out_reservation);
RATION_API ration_status ration_stack_settle(ration_stack *stack,
                                             struct ration_reservation *reservation,
                                             uint64_t used_tokens, uint64_t now_ns);
RATION_API ration_status ration_stack_cancel(ration_stack *stack,
                                             struct ration_reservation *reservation,
                                             uint64_t now_ns);

/* Returns the current time of the stack's clock, in nanoseconds. */
RATION_API uint64_t ration_stack_now(const ration_stack *stack);

/* One request of ration_stack_take_all(). */
#define RATION_STACK_REQUESTS_MAX 32

struct ration_stack_request {
    size_t limiter_index; /* index in the stack */
    const void *request;
    uint64_t cost_tokens;
};

/*
 * Takes the tokens of all requests, for any keys and limiters of the stack, or none. Two requests
 * for the same key of the same limiter are charged their sum. At most RATION_CALL_KEYS_MAX
 * different keys, with RATION_CALL_RULES_MAX rules together (six keys of a limiter with three rules
 * are too many). Returns as ration_stack_take(), and RATION_EINVAL for more.
 */
RATION_API ration_status ration_stack_take_all(ration_stack *stack,
                                               const struct ration_stack_request *requests,
                                               size_t request_count, uint64_t now_ns,
                                               struct ration_decision *out_decision);

/* As ration_limiter_dump() and ration_limiter_load(), for all limiters of a stack. */
RATION_API ration_status ration_stack_dump(ration_stack *stack, uint64_t now_ns,
                                           ration_writer *write, void *context);
RATION_API ration_status ration_stack_load(const struct ration_stack_options *options,
                                           ration_reader *read, void *context,
                                           ration_stack **out_stack, struct ration_error *error);

RATION_C_END

#endif
