/*
 * engine_check: matches requests, builds their keys and decides them.
 *
 * Checks are processed in chunks. The engine first finds the limits, keys and costs of each check of a chunk and
 * prefetches its slots; then it decides the checks in order. Composed keys are stored in one buffer on the stack; a
 * chunk ends when the buffer is full.
 */
#include "engine/remote.h"
#include "limiter/call.h"
#include "limiter/fast.h"
#include "policy/match.h"

#define CHUNK_CHECKS_MAX 16

static const struct ration_decision unlimited = {.verdict = RATION_ALLOW, .remaining = UINT64_MAX};
/* For banned clients and for failed checks: a caller that ignores the status must not let the request pass. */
static const struct ration_decision never = {.verdict = RATION_NEVER,
                                             .retry_after_ns = RATION_FOREVER};

struct chunk {
    struct ration_engine_key_scratch scratch;
    struct ration_engine_prepared prepared[CHUNK_CHECKS_MAX];
    char room[RATION_CHECK_KEYS_ROOM];
};

void ration_engine_fail_check(struct ration_engine *engine, struct ration_check *check,
                              ration_status status, const char *reason)
{
    check->status = status;
    check->reason = reason;
    check->part_count = 0;
    check->limit = NULL;
    check->decision = never;
    ration_epoch_add(&engine->epoch, RATION_EPOCH_ERRORS);
}

ration_status ration_engine_match(const struct ration_engine *engine, const ration_policy *policy,
                                  const struct ration_attribute *attributes, size_t attribute_count,
                                  struct ration_policy_match *out_match, uint64_t *out_steps,
                                  const char **out_reason)
{
    ration_status status;

    *out_reason = "the value of an attribute is longer than max-attribute-size (8192 bytes "
                  "unless it was set)";
    for (size_t i = 0; i < attribute_count; i++)
        if (attributes[i].value.size > engine->attribute_bytes_max) {
            *out_steps = 0;
            return RATION_EINVAL;
        }
    status = ration_match_find(policy, attributes, attribute_count, out_match, out_steps);
    *out_reason =
        status == RATION_ENOSPC
            ? "the values of this request are too long for the number of globs in the policy: send "
              "shorter values"
            : "a request has at most 64 attributes, none of them twice, an ip that is an address, "
              "and at most 16 limits that apply";
    return status == RATION_OK ? RATION_OK : RATION_EINVAL;
}

/* Finds the key and cost of one limit. Returns RATION_ENOSPC if the scratch room is full. */
static ration_status prepare_limit(struct ration_engine_key_scratch *scratch,
                                   const struct ration_check *check,
                                   struct ration_engine_prepared *prepared, uint32_t part,
                                   const char **reason)
{
    const ration_policy *policy = scratch->plan->policy;
    uint32_t limit_index = prepared->match.limits[part];
    char *room = scratch->room + scratch->room_used;
    struct ration_key *key = &prepared->keys[part];
    uint64_t cost_tokens = 0;
    ration_status status =
        ration_policy_key(policy, limit_index, check->attributes, check->attribute_count, room,
                          scratch->room_size - scratch->room_used, key);

    *reason = status == RATION_ENOSPC
                  ? "the keys composed of attributes are too long: at most 16384 bytes "
                    "together"
                  : "an ip is not an address, or the key of a limit is longer than 65535 bytes";
    if (status != RATION_OK)
        return status;
    if (key->bytes == room)
        scratch->room_used += key->size;
    *reason = "a cost is not a whole number of tokens, from 0 to 18446744073709551615";
    status = ration_policy_cost(policy, limit_index, check->attributes, check->attribute_count,
                                check->cost_tokens, &cost_tokens);
    prepared->limiter_calls[part] = (struct ration_call_request){
        .limiter = scratch->engine->stack->limiters[scratch->plan->limiter_indexes[limit_index]],
        .request = key,
        /* a cost of 0 takes nothing, whatever cost the limit sets */
        .cost_tokens = check->cost_tokens == 0 ? 0 : cost_tokens,
    };
    return status;
}

/* Useful for several checks only: a single check would wait for its memory anyway. */
static void prefetch_slots(const struct ration_engine_prepared *prepared)
{
    for (uint32_t i = 0; i < prepared->match.limit_count; i++) {
        const struct ration_limiter *limiter = prepared->limiter_calls[i].limiter;
        struct ration_target target = {.section_index = limiter->section_index,
                                       .key = prepared->keys[i]};

        if (limiter->store->calls->fetch != NULL)
            limiter->store->calls->fetch(limiter->store, &target);
    }
}

ration_status ration_engine_prepare(struct ration_engine_key_scratch *scratch,
                                    struct ration_check *check,
                                    struct ration_engine_prepared *prepared)
{
    size_t room_before = scratch->room_used;
    const char *reason;
    ration_status status =
        ration_engine_match(scratch->engine, scratch->plan->policy, check->attributes,
                            check->attribute_count, &prepared->match, &check->match_steps, &reason);

    for (uint32_t i = 0; status == RATION_OK && i < prepared->match.limit_count; i++)
        status = prepare_limit(scratch, check, prepared, i, &reason);
    if (status == RATION_ENOSPC && room_before > 0) {
        scratch->room_used = room_before;
        return status;
    }
    if (status != RATION_OK) {
        ration_engine_fail_check(scratch->engine, check, RATION_EINVAL, reason);
        prepared->match.limit_count = 0;
        return RATION_OK;
    }
    check->status = RATION_OK;
    check->reason = NULL;
    check->policy_verdict = prepared->match.verdict;
    check->part_count = prepared->match.limit_count;
    check->is_degraded = 0;
    return RATION_OK;
}

void ration_engine_answer_without_limits(struct ration_engine *engine, struct ration_check *check)
{
    bool is_banned = check->policy_verdict == RATION_POLICY_BANNED;

    check->limit = NULL;
    check->decision = is_banned ? never : unlimited;
    ration_epoch_add(&engine->epoch, is_banned ? RATION_EPOCH_BANNED
                                     : check->policy_verdict == RATION_POLICY_EXEMPT
                                         ? RATION_EPOCH_EXEMPT
                                         : RATION_EPOCH_UNLIMITED);
}

/* Index of the part whose limit decided; -1: only shadow limits applied. */
static int binding_part(const struct ration_check *check,
                        const struct ration_engine_prepared *prepared)
{
    for (uint32_t i = 0; i < check->part_count; i++)
        if (prepared->limiter_calls[i].limiter->section_index == check->decision.limiter_index &&
            check->decision.limit > 0)
            return (int)i;
    return -1;
}

static void write_parts(const struct ration_engine_plan *plan, struct ration_check *check,
                        const struct ration_engine_prepared *prepared,
                        const struct ration_decision *details)
{
    for (uint32_t i = 0; i < check->part_count; i++) {
        check->parts[i] = (struct ration_check_part){
            .limit = ration_policy_limit_at(plan->policy, prepared->match.limits[i]),
            .cost_tokens = prepared->limiter_calls[i].cost_tokens,
            .decision = details[i],
        };
        check->parts[i].decision.limit_index = prepared->match.limits[i];
        check->parts[i].decision.limiter_index = 0;
    }
}

void ration_engine_write_result(const struct ration_engine_plan *plan, struct ration_check *check,
                                const struct ration_engine_prepared *prepared,
                                const struct ration_decision *details, int binding)
{
    if (check->parts != NULL)
        write_parts(plan, check, prepared, details);
    check->limit = NULL;
    check->decision.limiter_index = 0;
    check->decision.limit_index = 0;
    if (binding >= 0) {
        check->decision.limit_index = prepared->match.limits[binding];
        check->limit = ration_policy_limit_at(plan->policy, prepared->match.limits[binding]);
    }
}

/* Writes for each limit how long its key is blocked; 0: it is not. False: no key is blocked. */
static bool find_blocks(struct ration_engine *engine, const struct ration_engine_plan *plan,
                        const struct ration_engine_prepared *prepared, uint64_t now_ns,
                        uint64_t *out_blocks_ns)
{
    bool is_blocked = false;

    for (uint32_t i = 0; i < prepared->match.limit_count; i++) {
        uint32_t limit_index = prepared->match.limits[i];
        bool is_shadow = ration_policy_limit_at(plan->policy, limit_index)->is_shadow != 0;

        /* for every algorithm: the limit may have been a window when its key was blocked */
        out_blocks_ns[i] = is_shadow
                               ? 0
                               : ration_engine_blocked_ns(engine, &plan->block_secrets[limit_index],
                                                          &prepared->keys[i], now_ns);
        is_blocked |= out_blocks_ns[i] > 0;
    }
    return is_blocked;
}

/* Decides with a struct ration_call, which is large: not inlined, so that the fast path has a small stack frame. */
static __attribute__((noinline)) void decide_full(struct ration_engine *engine,
                                                  const struct ration_engine_plan *plan,
                                                  struct ration_check *check,
                                                  const struct ration_engine_prepared *prepared,
                                                  const uint64_t *blocks_ns, uint64_t now_ns)
{
    struct ration_decision details[RATION_POLICY_MATCHES_MAX];
    struct ration_call call;
    ration_status status;

    call.op = (struct ration_op){.kind = check->is_peek ? RATION_OP_PEEK : RATION_OP_TAKE,
                                 .now_ns = now_ns,
                                 .blocks_ns = blocks_ns};
    status = ration_call_take(&call, prepared->limiter_calls, check->part_count, &check->decision,
                              details);
    if (status == RATION_OK)
        ration_engine_write_result(plan, check, prepared, details, binding_part(check, prepared));
    else
        ration_engine_fail_check(engine, check, status, ration_status_text(status));
}

void ration_engine_decide(struct ration_engine *engine, const struct ration_engine_plan *plan,
                          struct ration_check *check, const struct ration_engine_prepared *prepared,
                          uint64_t now_ns)
{
    uint64_t blocks_ns[RATION_POLICY_MATCHES_MAX];
    bool is_blocked;

    if (check->status != RATION_OK)
        return;
    if (check->part_count == 0) {
        ration_engine_answer_without_limits(engine, check);
        return;
    }
    is_blocked = ration_engine_has_blocks(engine, now_ns) &&
                 find_blocks(engine, plan, prepared, now_ns, blocks_ns);
    if (check->part_count == 1 && !check->is_peek && !is_blocked &&
        ration_fast_decide(prepared->limiter_calls[0].limiter, &prepared->keys[0],
                           prepared->limiter_calls[0].cost_tokens, now_ns, &check->decision)) {
        struct ration_decision detail = check->decision;

        ration_engine_write_result(plan, check, prepared, &detail, binding_part(check, prepared));
        return;
    }
    decide_full(engine, plan, check, prepared, is_blocked ? blocks_ns : NULL, now_ns);
}

size_t ration_engine_check_some(const struct ration_engine_guard *guard,
                                struct ration_check *checks, size_t check_count,
                                uint64_t match_steps_max, uint64_t now_ns)
{
    struct ration_engine *engine = guard->engine;
    size_t done = 0;
    uint64_t steps = 0;
    struct chunk chunk;

    if (engine->remote != NULL) {
        ration_engine_check_remote(guard, checks, check_count, now_ns);
        return check_count;
    }
    chunk.scratch = (struct ration_engine_key_scratch){
        .engine = engine, .plan = guard->plan, .room = chunk.room, .room_size = sizeof(chunk.room)};
    do {
        size_t count = 0;

        chunk.scratch.room_used = 0;
        while (count < CHUNK_CHECKS_MAX && done + count < check_count &&
               (steps < match_steps_max || done + count == 0) &&
               ration_engine_prepare(&chunk.scratch, &checks[done + count],
                                     &chunk.prepared[count]) == RATION_OK) {
            if (check_count > 1)
                prefetch_slots(&chunk.prepared[count]);
            steps += checks[done + count].match_steps;
            count++;
        }
        for (size_t i = 0; i < count; i++)
            ration_engine_decide(engine, chunk.scratch.plan, &checks[done + i], &chunk.prepared[i],
                                 now_ns);
        done += count;
    } while (done < check_count && steps < match_steps_max);
    return done;
}

void ration_engine_check_guarded(const struct ration_engine_guard *guard,
                                 struct ration_check *checks, size_t check_count, uint64_t now_ns)
{
    (void)ration_engine_check_some(guard, checks, check_count, UINT64_MAX, now_ns);
}

void ration_engine_check(ration_engine *engine, struct ration_check *checks, size_t check_count,
                         uint64_t now_ns)
{
    struct ration_engine_guard guard;

    ration_engine_lock(engine, &guard);
    ration_engine_check_guarded(&guard, checks, check_count, now_ns);
    ration_engine_unlock(&guard);
}
