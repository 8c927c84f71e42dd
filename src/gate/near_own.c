/*
 * near_own: a bucket of the node's own, in front of the one in Redis.
 */
#include "base/time.h"
#include "gate/near_note.h"

#define TOLD_MAX RATION_FRAC_MASK /* tokens that Redis is yet to be told of */

/* A token's time in the node's own bucket, in whole nanoseconds, rounded up. */
static uint64_t own_token_ns(const struct ration_near_ask *ask)
{
    return ration_time_ceil_ns(ration_time_scale(ask->limit->limit.rate.token, ask->node_count));
}

/* Whole tokens that the bucket has, if it is full at a moment. */
static uint64_t own_remaining(const struct ration_near_ask *ask, uint64_t full_ns,
                              uint64_t since_ns)
{
    uint64_t token_ns = own_token_ns(ask);
    uint64_t out = full_ns > since_ns ? (full_ns - since_ns + token_ns - 1) / token_ns : 0;

    return out < ask->limit->limit.burst ? ask->limit->limit.burst - out : 0;
}

static uint64_t threshold_of(const struct ration_near_ask *ask)
{
    return (ask->limit->limit.burst * ask->limit->threshold_percent + 99) / 100;
}

/* Whether Redis has denied as much until a moment that is to come. */
static bool is_denied(const struct ration_near *near, const struct ration_near_ask *ask,
                      uint64_t since_ns, struct ration_near_note *note)
{
    ration_near_find(near, ask, RATION_NEAR_DENIAL, note);
    return note->slot != NULL && note->until_ns > since_ns && ask->cost_tokens >= note->count;
}

enum ration_near_answer ration_near_own_take(struct ration_near *near,
                                             const struct ration_near_ask *ask, uint64_t since_ns,
                                             struct ration_near_result *result)
{
    uint64_t burst = ask->limit->limit.burst;
    struct ration_near_note note;

    if (ask->cost_tokens > burst)
        return RATION_NEAR_LACKS;
    if (is_denied(near, ask, since_ns, &note)) {
        if (!ration_near_is_believed(near, ask, since_ns))
            return RATION_NEAR_LACKS;
        note.until_ns += ration_time_ceil_ns(/* what is asked for more comes later */
                                             ration_time_scale(ask->limit->limit.rate.token,
                                                               ask->cost_tokens - note.count));
        return ration_near_deny(ask, &note, since_ns, result);
    }

    for (int i = 0; i < RATION_NEAR_TRIES_MAX; i++) {
        uint64_t remaining;

        ration_near_find(near, ask, RATION_NEAR_MAIN, &note);
        remaining = own_remaining(ask, note.until_ns, since_ns);
        if (remaining < ask->cost_tokens || remaining - ask->cost_tokens < threshold_of(ask) ||
            note.count + ask->cost_tokens > TOLD_MAX)
            return RATION_NEAR_LACKS;
        if (ration_near_change(near, &note,
                               ration_near_larger(note.until_ns, since_ns) +
                                   ask->cost_tokens * own_token_ns(ask),
                               note.count + ask->cost_tokens, 0, since_ns)) {
            result->decision = ration_near_decision(ask, remaining - ask->cost_tokens);
            return RATION_NEAR_TAKEN;
        }
    }
    return RATION_NEAR_LACKS;
}

uint64_t ration_near_collect(struct ration_near *near, const struct ration_near_ask *ask,
                             uint64_t now_ns)
{
    uint64_t since_ns = ration_near_since(near, now_ns);
    struct ration_near_note note;

    if (ask->limit->mode != RATION_POLICY_LOCAL_FIRST)
        return 0;
    for (int i = 0; i < RATION_NEAR_TRIES_MAX; i++) {
        ration_near_find(near, ask, RATION_NEAR_MAIN, &note);
        if (note.slot == NULL || note.count == 0)
            return 0;
        if (ration_near_change(near, &note, note.until_ns, 0, 0, since_ns))
            return note.count;
    }
    return 0;
}

void ration_near_owe(struct ration_near *near, const struct ration_near_ask *ask, uint64_t tokens,
                     uint64_t now_ns)
{
    uint64_t since_ns = ration_near_since(near, now_ns);
    struct ration_near_note note;

    for (int i = 0; i < RATION_NEAR_TRIES_MAX && tokens > 0; i++) {
        ration_near_find(near, ask, RATION_NEAR_MAIN, &note);
        if (ration_near_change(near, &note, ration_near_larger(note.until_ns, since_ns + 1),
                               note.count + tokens, 0, since_ns))
            return;
    }
}

/* The own bucket has no more than the one in Redis, and no more than it had: meanwhile others took from it. */
void ration_near_own_learn(struct ration_near *near, const struct ration_near_ask *ask,
                           const struct ration_decision *decision, uint64_t since_ns)
{
    uint64_t out =
        decision->limit > decision->remaining ? decision->limit - decision->remaining : 0;
    uint64_t full_ns = since_ns + out * own_token_ns(ask);
    struct ration_near_note note;

    if (decision->verdict == RATION_DENY) {
        ration_near_believe(near, ask, since_ns);
        ration_near_find(near, ask, RATION_NEAR_DENIAL, &note);
        (void)ration_near_change(near, &note, since_ns + decision->retry_after_ns, ask->cost_tokens,
                                 0, since_ns);
    }
    for (int i = 0; i < RATION_NEAR_TRIES_MAX; i++) {
        ration_near_find(near, ask, RATION_NEAR_MAIN, &note);
        if (note.until_ns >= full_ns ||
            ration_near_change(near, &note, full_ns, note.count, 0, since_ns))
            return;
    }
}

void ration_near_own_put_back(struct ration_near *near, const struct ration_near_ask *ask,
                              uint64_t since_ns)
{
    uint64_t worth_ns = ask->cost_tokens * own_token_ns(ask);
    struct ration_near_note note;

    for (int i = 0; i < RATION_NEAR_TRIES_MAX; i++) {
        ration_near_find(near, ask, RATION_NEAR_MAIN, &note);
        if (note.slot == NULL || note.count == 0)
            return; /* Redis was told: then it stays spent */
        if (ration_near_change(near, &note, note.until_ns > worth_ns ? note.until_ns - worth_ns : 0,
                               note.count -
                                   (note.count < ask->cost_tokens ? note.count : ask->cost_tokens),
                               0, since_ns))
            return;
    }
}

/* Full after a reset; after a block it is empty, so that Redis is asked. */
void ration_near_own_edited(struct ration_near *near, const struct ration_near_ask *ask,
                            enum ration_gate_edit_kind kind, uint64_t since_ns)
{
    struct ration_near_note note;

    ration_near_find(near, ask, RATION_NEAR_MAIN, &note);
    if (kind == RATION_EDIT_RESET)
        (void)ration_near_change(near, &note, since_ns, 0, 0, since_ns);
    else if (kind == RATION_EDIT_BLOCK)
        (void)ration_near_change(near, &note,
                                 since_ns + ask->limit->limit.burst * own_token_ns(ask), note.count,
                                 0, since_ns);
}
