/*
 * check: requests matched, keyed and decided.
 *
 * Checks go through in chunks. First the limits, keys and costs of each are found, and its places
 * begin to be fetched from memory; then they are decided in their order. Keys that have to be composed
 * lie in one piece of room on the stack, which ends a chunk when it is used up.
 */
#include "gate/remote.h"
#include "limiter/calls.h"
#include "limiter/quick.h"
#include "policy/match.h"

#define CHUNK 16

static const struct ration_decision unlimited = {.verdict = RATION_ALLOW, .remaining = UINT64_MAX};
/* Of a client that is banned, and of a check that fails: a caller that ignores the status must not let it pass. */
static const struct ration_decision never = {.verdict = RATION_NEVER,
                                             .retry_after_ns = RATION_FOREVER};

struct chunk {
    struct ration_gate_desk desk;
    struct ration_gate_prepared prepared[CHUNK];
    char room[RATION_CHECK_KEYS_ROOM];
};

void ration_gate_refuse(struct ration_gate *gate, struct ration_check *check, ration_status status,
                        const char *reason)
{
    check->status = status;
    check->reason = reason;
    check->part_count = 0;
    check->limit = NULL;
    check->decision = never;
    ration_grace_add(&gate->grace, RATION_GRACE_ERRORS);
}

ration_status ration_gate_match(const struct ration_gate *gate, const ration_policy *policy,
                                const struct ration_attribute *attributes, size_t attribute_count,
                                struct ration_policy_match *out_match, uint64_t *out_steps,
                                const char **out_reason)
{
    ration_status status;

    *out_reason = "the value of an attribute is longer than attribute-bytes-max (8192 bytes "
                  "unless it was set)";
    for (size_t i = 0; i < attribute_count; i++)
        if (attributes[i].value.size > gate->attribute_bytes_max) {
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

/* One limit's key and cost. RATION_ENOSPC: the chunk's room is used up. */
static ration_status prepare_limit(struct ration_gate_desk *desk, const struct ration_check *check,
                                   struct ration_gate_prepared *prepared, uint32_t part,
                                   const char **reason)
{
    const ration_policy *policy = desk->plan->policy;
    uint32_t limit_index = prepared->match.limits[part];
    char *room = desk->room + desk->room_used;
    struct ration_key *key = &prepared->keys[part];
    uint64_t cost_tokens = 0;
    ration_status status =
        ration_policy_key(policy, limit_index, check->attributes, check->attribute_count, room,
                          desk->room_size - desk->room_used, key);

    *reason = status == RATION_ENOSPC
                  ? "the keys that are composed of attributes are too long: at most 16384 bytes "
                    "together"
                  : "an ip is not an address, or the key of a limit is longer than 65535 bytes";
    if (status != RATION_OK)
        return status;
    if (key->bytes == room)
        desk->room_used += key->size;
    *reason = "a cost is not a whole number of tokens, from 0 to 18446744073709551615";
    status = ration_policy_cost(policy, limit_index, check->attributes, check->attribute_count,
                                check->cost_tokens, &cost_tokens);
    prepared->asks[part] = (struct ration_call_ask){
        .limiter = desk->gate->stack->limiters[desk->plan->limiter_indexes[limit_index]],
        .request = key,
        /* a look stays one, whatever a limit would charge */
        .cost_tokens = check->cost_tokens == 0 ? 0 : cost_tokens,
    };
    return status;
}

/* For several checks: one by itself would wait for its memory anyway. */
static void fetch(const struct ration_gate_prepared *prepared)
{
    for (uint32_t i = 0; i < prepared->match.limit_count; i++) {
        const struct ration_limiter *limiter = prepared->asks[i].limiter;
        struct ration_target target = {.section_index = limiter->section_index,
                                       .key = prepared->keys[i]};

        if (limiter->store->calls->fetch != NULL)
            limiter->store->calls->fetch(limiter->store, &target);
    }
}

ration_status ration_gate_prepare(struct ration_gate_desk *desk, struct ration_check *check,
                                  struct ration_gate_prepared *prepared)
{
    size_t room_before = desk->room_used;
    const char *reason;
    ration_status status =
        ration_gate_match(desk->gate, desk->plan->policy, check->attributes, check->attribute_count,
                          &prepared->match, &check->match_steps, &reason);

    for (uint32_t i = 0; status == RATION_OK && i < prepared->match.limit_count; i++)
        status = prepare_limit(desk, check, prepared, i, &reason);
    if (status == RATION_ENOSPC && room_before > 0) {
        desk->room_used = room_before;
        return status;
    }
    if (status != RATION_OK) {
        ration_gate_refuse(desk->gate, check, RATION_EINVAL, reason);
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

void ration_gate_answer_plainly(struct ration_gate *gate, struct ration_check *check)
{
    bool is_banned = check->policy_verdict == RATION_POLICY_BANNED;

    check->limit = NULL;
    check->decision = is_banned ? never : unlimited;
    ration_grace_add(&gate->grace, is_banned ? RATION_GRACE_BANNED
                                   : check->policy_verdict == RATION_POLICY_EXEMPT
                                       ? RATION_GRACE_EXEMPT
                                       : RATION_GRACE_UNLIMITED);
}

/* Which of its limits the decision is about; -1: only shadow limits applied. */
static int binding_part(const struct ration_check *check,
                        const struct ration_gate_prepared *prepared)
{
    for (uint32_t i = 0; i < check->part_count; i++)
        if (prepared->asks[i].limiter->section_index == check->decision.limiter_index &&
            check->decision.limit > 0)
            return (int)i;
    return -1;
}

static void tell_parts(const struct ration_gate_plan *plan, struct ration_check *check,
                       const struct ration_gate_prepared *prepared,
                       const struct ration_decision *details)
{
    for (uint32_t i = 0; i < check->part_count; i++) {
        check->parts[i] = (struct ration_check_part){
            .limit = ration_policy_limit_at(plan->policy, prepared->match.limits[i]),
            .cost_tokens = prepared->asks[i].cost_tokens,
            .decision = details[i],
        };
        check->parts[i].decision.limit_index = prepared->match.limits[i];
        check->parts[i].decision.limiter_index = 0;
    }
}

void ration_gate_tell(const struct ration_gate_plan *plan, struct ration_check *check,
                      const struct ration_gate_prepared *prepared,
                      const struct ration_decision *details, int binding)
{
    if (check->parts != NULL)
        tell_parts(plan, check, prepared, details);
    check->limit = NULL;
    check->decision.limiter_index = 0;
    check->decision.limit_index = 0;
    if (binding >= 0) {
        check->decision.limit_index = prepared->match.limits[binding];
        check->limit = ration_policy_limit_at(plan->policy, prepared->match.limits[binding]);
    }
}

/* Those of a check's limits whose key is held, for how long. False: none is. */
static bool find_holds(struct ration_gate *gate, const struct ration_gate_plan *plan,
                       const struct ration_gate_prepared *prepared, uint64_t now_ns,
                       uint64_t *out_holds_ns)
{
    bool is_held = false;

    for (uint32_t i = 0; i < prepared->match.limit_count; i++) {
        uint32_t limit_index = prepared->match.limits[i];
        bool is_shadow = ration_policy_limit_at(plan->policy, limit_index)->is_shadow != 0;

        /* of whatever kind: it may have been a window when its key was blocked */
        out_holds_ns[i] = is_shadow ? 0
                                    : ration_gate_held_ns(gate, &plan->hold_secrets[limit_index],
                                                          &prepared->keys[i], now_ns);
        is_held |= out_holds_ns[i] > 0;
    }
    return is_held;
}

/* By a whole op, whose stack frame is large: not inlined, so that the short way does not pay for it. */
static __attribute__((noinline)) void decide_whole(struct ration_gate *gate,
                                                   const struct ration_gate_plan *plan,
                                                   struct ration_check *check,
                                                   const struct ration_gate_prepared *prepared,
                                                   const uint64_t *holds_ns, uint64_t now_ns)
{
    struct ration_decision details[RATION_POLICY_MATCHES_MAX];
    struct ration_call call;
    ration_status status;

    call.op = (struct ration_op){.kind = check->is_peek ? RATION_OP_LOOK : RATION_OP_TAKE,
                                 .now_ns = now_ns,
                                 .holds_ns = holds_ns};
    status = ration_call_take(&call, prepared->asks, check->part_count, &check->decision, details);
    if (status == RATION_OK)
        ration_gate_tell(plan, check, prepared, details, binding_part(check, prepared));
    else
        ration_gate_refuse(gate, check, status, ration_status_text(status));
}

void ration_gate_decide(struct ration_gate *gate, const struct ration_gate_plan *plan,
                        struct ration_check *check, const struct ration_gate_prepared *prepared,
                        uint64_t now_ns)
{
    uint64_t holds_ns[RATION_POLICY_MATCHES_MAX];
    bool is_held;

    if (check->status != RATION_OK)
        return;
    if (check->part_count == 0) {
        ration_gate_answer_plainly(gate, check);
        return;
    }
    is_held =
        ration_gate_has_holds(gate, now_ns) && find_holds(gate, plan, prepared, now_ns, holds_ns);
    if (check->part_count == 1 && !check->is_peek && !is_held &&
        ration_quick_tell(prepared->asks[0].limiter, &prepared->keys[0],
                          prepared->asks[0].cost_tokens, now_ns, &check->decision)) {
        struct ration_decision detail = check->decision;

        ration_gate_tell(plan, check, prepared, &detail, binding_part(check, prepared));
        return;
    }
    decide_whole(gate, plan, check, prepared, is_held ? holds_ns : NULL, now_ns);
}

size_t ration_gate_check_some(const struct ration_visit *guard, struct ration_check *checks,
                              size_t check_count, uint64_t match_steps_max, uint64_t now_ns)
{
    struct ration_gate *gate = guard->gate;
    size_t done = 0;
    uint64_t steps = 0;
    struct chunk chunk;

    if (gate->remote != NULL) {
        ration_gate_check_remote(guard, checks, check_count, now_ns);
        return check_count;
    }
    chunk.desk = (struct ration_gate_desk){
        .gate = gate, .plan = guard->plan, .room = chunk.room, .room_size = sizeof(chunk.room)};
    do {
        size_t count = 0;

        chunk.desk.room_used = 0;
        while (count < CHUNK && done + count < check_count &&
               (steps < match_steps_max || done + count == 0) &&
               ration_gate_prepare(&chunk.desk, &checks[done + count], &chunk.prepared[count]) ==
                   RATION_OK) {
            if (check_count > 1)
                fetch(&chunk.prepared[count]);
            steps += checks[done + count].match_steps;
            count++;
        }
        for (size_t i = 0; i < count; i++)
            ration_gate_decide(gate, chunk.desk.plan, &checks[done + i], &chunk.prepared[i],
                               now_ns);
        done += count;
    } while (done < check_count && steps < match_steps_max);
    return done;
}

void ration_gate_check_guarded(const struct ration_visit *guard, struct ration_check *checks,
                               size_t check_count, uint64_t now_ns)
{
    (void)ration_gate_check_some(guard, checks, check_count, UINT64_MAX, now_ns);
}

void ration_gate_check(ration_gate *gate, struct ration_check *checks, size_t check_count,
                       uint64_t now_ns)
{
    struct ration_visit guard;

    ration_gate_enter(gate, &guard);
    ration_gate_check_guarded(&guard, checks, check_count, now_ns);
    ration_gate_leave(&guard);
}
