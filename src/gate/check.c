/*
 * check: requests matched, keyed and decided.
 *
 * Checks go through in chunks. First the limits, keys and costs of each are found, and its places
 * begin to be fetched from memory; then they are decided in their order. Keys that have to be composed
 * lie in one piece of room on the stack, which ends a chunk when it is used up.
 */
#include "gate/gate.h"
#include "limiter/calls.h"
#include "limiter/quick.h"

#define CHUNK 16

static const struct ration_decision unlimited = {.verdict = RATION_ALLOW, .remaining = UINT64_MAX};
static const struct ration_decision banned = {.verdict = RATION_NEVER,
                                              .retry_after_ns = RATION_FOREVER};

/* A check whose limits are known. */
struct prepared {
    struct ration_policy_match match;
    struct ration_key keys[RATION_POLICY_MATCHES_MAX];
    struct ration_call_ask asks[RATION_POLICY_MATCHES_MAX];
};

struct chunk {
    struct ration_gate *gate;
    const struct ration_gate_plan *plan;
    size_t room_used;
    bool has_several;
    struct prepared prepared[CHUNK];
    char room[RATION_CHECK_KEYS_ROOM];
};

static void refuse(struct chunk *chunk, struct ration_check *check, ration_status status,
                   const char *reason)
{
    check->status = status;
    check->reason = reason;
    check->part_count = 0;
    check->limit = NULL;
    ration_grace_add(&chunk->gate->grace, RATION_GRACE_ERRORS);
}

/* One limit's key and cost. RATION_ENOSPC: the chunk's room is used up. */
static ration_status prepare_limit(struct chunk *chunk, const struct ration_check *check,
                                   struct prepared *prepared, uint32_t part, const char **reason)
{
    const ration_policy *policy = chunk->plan->policy;
    uint32_t limit_index = prepared->match.limits[part];
    char *room = chunk->room + chunk->room_used;
    struct ration_key *key = &prepared->keys[part];
    uint64_t cost_tokens = 0;
    ration_status status =
        ration_policy_key(policy, limit_index, check->attributes, check->attribute_count, room,
                          sizeof(chunk->room) - chunk->room_used, key);

    *reason = status == RATION_ENOSPC
                  ? "the keys that are composed of attributes are too long: at most 16384 bytes "
                    "together"
                  : "an ip is not an address, or the key of a limit is longer than 65535 bytes";
    if (status != RATION_OK)
        return status;
    if (key->bytes == room)
        chunk->room_used += key->size;
    *reason = "a cost is not a whole number of tokens, from 0 to 18446744073709551615";
    status = ration_policy_cost(policy, limit_index, check->attributes, check->attribute_count,
                                check->cost_tokens, &cost_tokens);
    prepared->asks[part] = (struct ration_call_ask){
        .limiter = chunk->gate->stack->limiters[chunk->plan->limiter_indexes[limit_index]],
        .request = key,
        /* a look stays one, whatever a limit would charge */
        .cost_tokens = check->cost_tokens == 0 ? 0 : cost_tokens,
    };
    return status;
}

/* For several checks: one by itself would wait for its memory anyway. */
static void fetch(const struct prepared *prepared)
{
    for (uint32_t i = 0; i < prepared->match.limit_count; i++) {
        const struct ration_limiter *limiter = prepared->asks[i].limiter;
        struct ration_target target = {.section_index = limiter->section_index,
                                       .key = prepared->keys[i]};

        if (limiter->store->calls->fetch != NULL)
            limiter->store->calls->fetch(limiter->store, &target);
    }
}

/*
 * The limits of a check, and what they are asked. RATION_ENOSPC: the chunk is full. What cannot be
 * decided is answered at once.
 */
static ration_status prepare(struct chunk *chunk, struct ration_check *check,
                             struct prepared *prepared)
{
    size_t room_before = chunk->room_used;
    const char *reason =
        "a request has at most 64 attributes, none of them twice, an ip that is an address, and at "
        "most 16 limits that apply";
    ration_status status = ration_policy_match(chunk->plan->policy, check->attributes,
                                               check->attribute_count, &prepared->match);

    for (uint32_t i = 0; status == RATION_OK && i < prepared->match.limit_count; i++)
        status = prepare_limit(chunk, check, prepared, i, &reason);
    if (status == RATION_ENOSPC && room_before > 0) {
        chunk->room_used = room_before;
        return status;
    }
    if (status != RATION_OK) {
        refuse(chunk, check, RATION_EINVAL, reason);
        prepared->match.limit_count = 0;
        return RATION_OK;
    }
    check->status = RATION_OK;
    check->reason = NULL;
    check->policy_verdict = prepared->match.verdict;
    check->part_count = prepared->match.limit_count;
    if (chunk->has_several)
        fetch(prepared);
    return RATION_OK;
}

/* Without a limit to ask. */
static void answer_plainly(struct ration_gate *gate, struct ration_check *check)
{
    bool is_banned = check->policy_verdict == RATION_POLICY_BANNED;

    check->limit = NULL;
    check->decision = is_banned ? banned : unlimited;
    ration_grace_add(&gate->grace, is_banned ? RATION_GRACE_BANNED
                                   : check->policy_verdict == RATION_POLICY_EXEMPT
                                       ? RATION_GRACE_EXEMPT
                                       : RATION_GRACE_UNLIMITED);
}

/* Which of its limits the decision is about; -1: only shadow limits applied. */
static int binding_part(const struct ration_check *check, const struct prepared *prepared)
{
    for (uint32_t i = 0; i < check->part_count; i++)
        if (prepared->asks[i].limiter->section_index == check->decision.limiter_index &&
            check->decision.limit > 0)
            return (int)i;
    return -1;
}

static void tell_parts(const struct chunk *chunk, struct ration_check *check,
                       const struct prepared *prepared, const struct ration_decision *details)
{
    for (uint32_t i = 0; i < check->part_count; i++) {
        check->parts[i] = (struct ration_check_part){
            .limit = ration_policy_limit(chunk->plan->policy, prepared->match.limits[i]),
            .cost_tokens = prepared->asks[i].cost_tokens,
            .decision = details[i],
        };
        check->parts[i].decision.limit_index = prepared->match.limits[i];
        check->parts[i].decision.limiter_index = 0;
    }
}

/* Which limit decided, and what each said. */
static void tell_check(const struct chunk *chunk, struct ration_check *check,
                       const struct prepared *prepared, const struct ration_decision *details)
{
    int binding = binding_part(check, prepared);

    if (check->parts != NULL)
        tell_parts(chunk, check, prepared, details);
    check->limit = NULL;
    check->decision.limiter_index = 0;
    check->decision.limit_index = 0;
    if (binding >= 0) {
        check->decision.limit_index = prepared->match.limits[binding];
        check->limit = ration_policy_limit(chunk->plan->policy, prepared->match.limits[binding]);
    }
}

/* A single limit by the short way. False: it takes a whole op. */
static bool decide_quickly(const struct prepared *prepared, uint64_t now_ns,
                           struct ration_decision *out_decision)
{
    struct ration_batch_item item = {
        .request = &prepared->keys[0],
        .cost_tokens = prepared->asks[0].cost_tokens,
        .decision = out_decision,
    };
    size_t allowed_count = 0;

    return ration_quick_tell_chunk(prepared->asks[0].limiter, &item, 1, now_ns, &allowed_count) ==
           1;
}

/* Those of a check's limits whose key is held, for how long. False: none is. */
static bool find_holds(const struct chunk *chunk, const struct prepared *prepared, uint64_t now_ns,
                       uint64_t *out_holds_ns)
{
    const struct ration_gate_plan *plan = chunk->plan;
    bool is_held = false;

    for (uint32_t i = 0; i < prepared->match.limit_count; i++) {
        uint32_t limit_index = prepared->match.limits[i];
        bool is_shadow = ration_policy_limit(plan->policy, limit_index)->is_shadow != 0;

        /* of whatever kind: it may have been a window when its key was blocked */
        out_holds_ns[i] = is_shadow
                              ? 0
                              : ration_gate_held_ns(chunk->gate, &plan->hold_secrets[limit_index],
                                                    &prepared->keys[i], now_ns);
        is_held |= out_holds_ns[i] > 0;
    }
    return is_held;
}

static void decide(struct chunk *chunk, struct ration_check *check, struct prepared *prepared,
                   uint64_t now_ns)
{
    struct ration_decision details[RATION_POLICY_MATCHES_MAX];
    uint64_t holds_ns[RATION_POLICY_MATCHES_MAX];
    bool is_held;
    struct ration_call call;
    ration_status status;

    if (check->status != RATION_OK)
        return;
    if (check->part_count == 0) {
        answer_plainly(chunk->gate, check);
        return;
    }
    is_held =
        ration_gate_has_holds(chunk->gate, now_ns) && find_holds(chunk, prepared, now_ns, holds_ns);
    if (check->part_count == 1 && !check->is_peek && !is_held &&
        decide_quickly(prepared, now_ns, details)) {
        check->decision = details[0];
        tell_check(chunk, check, prepared, details);
        return;
    }
    call.op = (struct ration_op){.kind = check->is_peek ? RATION_OP_LOOK : RATION_OP_TAKE,
                                 .now_ns = now_ns,
                                 .holds_ns = is_held ? holds_ns : NULL};
    status = ration_call_take(&call, prepared->asks, check->part_count, &check->decision, details);
    if (status != RATION_OK) {
        refuse(chunk, check, status, ration_status_text(status));
        return;
    }
    tell_check(chunk, check, prepared, details);
}

void ration_gate_check(ration_gate *gate, struct ration_check *checks, size_t check_count,
                       uint64_t now_ns)
{
    struct chunk chunk;

    chunk.gate = gate;
    chunk.has_several = check_count > 1;
    for (size_t done = 0; done < check_count;) {
        uint32_t phase = ration_grace_enter(&gate->grace);
        size_t count = 0;

        chunk.plan = ration_gate_plan(gate);
        chunk.room_used = 0;
        while (count < CHUNK && done + count < check_count &&
               prepare(&chunk, &checks[done + count], &chunk.prepared[count]) == RATION_OK)
            count++;
        for (size_t i = 0; i < count; i++)
            decide(&chunk, &checks[done + i], &chunk.prepared[i], now_ns);
        done += count;
        ration_grace_leave(&gate->grace, phase);
    }
}
