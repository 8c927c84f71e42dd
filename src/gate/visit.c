/*
 * visit: looking at a gate while its policy may be replaced.
 */
#include "gate/remote.h"

void ration_gate_enter(ration_gate *gate, struct ration_visit *out_visit)
{
    out_visit->gate = gate;
    out_visit->phase = ration_grace_enter(&gate->grace);
    out_visit->plan = ration_gate_plan(gate);
}

void ration_gate_hold_plan(ration_gate *gate, const struct ration_visit *guard,
                           struct ration_visit *out_visit)
{
    if (guard == NULL) {
        ration_gate_enter(gate, out_visit);
        return;
    }
    *out_visit = *guard;
    ration_grace_enter_again(&gate->grace, guard->phase);
}

void ration_gate_leave(struct ration_visit *visit)
{
    ration_grace_leave(&visit->gate->grace, visit->phase);
    visit->gate = NULL;
    visit->plan = NULL;
}

uint64_t ration_gate_now(const ration_gate *gate)
{
    return ration_clock_now(&gate->clock);
}

ration_limiter *ration_gate_throttle(ration_gate *gate)
{
    return gate->throttle;
}

const ration_policy *ration_gate_policy(const struct ration_visit *visit)
{
    return visit->plan->policy;
}

uint64_t ration_gate_generation(const struct ration_visit *visit)
{
    return visit->plan->generation;
}

ration_limiter *ration_gate_limiter(const struct ration_visit *visit, size_t limit_index)
{
    return limit_index < ration_policy_limit_count(visit->plan->policy)
               ? ration_stack_limiter(visit->gate->stack, visit->plan->limiter_indexes[limit_index])
               : NULL;
}

void ration_gate_read_stats(const ration_gate *gate, struct ration_gate_stats *out_stats)
{
    *out_stats = (struct ration_gate_stats){
        .exempt = ration_grace_read(&gate->grace, RATION_GRACE_EXEMPT),
        .banned = ration_grace_read(&gate->grace, RATION_GRACE_BANNED),
        .unlimited = ration_grace_read(&gate->grace, RATION_GRACE_UNLIMITED),
        .errors = ration_grace_read(&gate->grace, RATION_GRACE_ERRORS),
        .reloads = __atomic_load_n(&gate->reload_count, __ATOMIC_RELAXED),
        .near = ration_grace_read(&gate->grace, RATION_GRACE_NEAR),
        .degraded = ration_grace_read(&gate->grace, RATION_GRACE_DEGRADED),
    };
}

size_t ration_gate_bytes(const ration_gate *gate)
{
    return sizeof(*gate) + ration_stack_bytes(gate->stack) + ration_limiter_bytes(gate->throttle) +
           ration_limiter_bytes(gate->holds);
}
