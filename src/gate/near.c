#include "gate/near.h"

#include <stdlib.h>

#include "gate/near_note.h"

#define NEAR_KEYS_MAX 1000000 /* notes; a key without one is asked about */

ration_status ration_near_create(const struct ration_clock *clock, uint32_t threads_max,
                                 struct ration_near **out_near, struct ration_error *error)
{
    struct ration_near *near = calloc(1, sizeof(*near));
    struct ration_rule rule = {0};
    struct ration_limiter_options options = {
        .struct_size = sizeof(options),
        .rules = &rule,
        .rule_count = 1,
        .keys_max = NEAR_KEYS_MAX,
        .clock = clock,
        .threads_max = threads_max,
    };
    ration_status status;

    if (near == NULL)
        return RATION_ENOMEM;
    (void)ration_limit_per_second(1, &rule.limit); /* any: its buckets are not used as such */
    status = ration_limiter_create(&options, &near->limiter, error);
    if (status != RATION_OK) {
        free(near);
        return status;
    }
    *out_near = near;
    return RATION_OK;
}

void ration_near_free(struct ration_near *near)
{
    if (near == NULL)
        return;
    ration_limiter_free(near->limiter);
    free(near);
}

enum ration_near_answer ration_near_take(struct ration_near *near,
                                         const struct ration_near_ask *ask, uint64_t now_ns,
                                         struct ration_near_result *out_result)
{
    uint64_t since_ns = ration_near_since(near, now_ns);

    *out_result = (struct ration_near_result){.lease_tokens = 0};
    if (ask->limit->mode == RATION_POLICY_LEASE)
        return ration_near_lease_take(near, ask, since_ns, out_result);
    if (ask->limit->mode == RATION_POLICY_LOCAL_FIRST)
        return ration_near_own_take(near, ask, since_ns, out_result);
    return RATION_NEAR_LACKS;
}

void ration_near_put_back(struct ration_near *near, const struct ration_near_ask *ask,
                          const struct ration_near_result *result, uint64_t now_ns)
{
    uint64_t since_ns = ration_near_since(near, now_ns);

    if (ask->limit->mode == RATION_POLICY_LEASE)
        ration_near_lease_put_back(near, ask, result, since_ns);
    else if (ask->limit->mode == RATION_POLICY_LOCAL_FIRST)
        ration_near_own_put_back(near, ask, since_ns);
}

void ration_near_learn(struct ration_near *near, const struct ration_near_ask *ask,
                       const struct ration_decision *decision,
                       const struct ration_near_drawn *drawn, uint64_t now_ns)
{
    uint64_t since_ns = ration_near_since(near, now_ns);

    if (decision->verdict == RATION_NEVER)
        return;
    if (ask->limit->mode == RATION_POLICY_LEASE)
        ration_near_lease_learn(near, ask, decision, drawn, since_ns);
    else if (ask->limit->mode == RATION_POLICY_LOCAL_FIRST)
        ration_near_own_learn(near, ask, decision, since_ns);
}

void ration_near_edited(struct ration_near *near, const struct ration_near_ask *ask,
                        enum ration_gate_edit_kind kind, uint64_t now_ns)
{
    uint64_t since_ns = ration_near_since(near, now_ns);

    if (ask->limit->mode == RATION_POLICY_STRICT)
        return;
    ration_near_forget(near, ask, RATION_NEAR_DENIAL, since_ns);
    ration_near_forget(near, ask, RATION_NEAR_BELIEF, since_ns);
    if (ask->limit->mode == RATION_POLICY_LEASE)
        ration_near_lease_edited(near, ask, kind, since_ns);
    else
        ration_near_own_edited(near, ask, kind, since_ns);
}
