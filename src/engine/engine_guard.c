/*
 * engine_guard: reads an engine while another thread may replace its policy.
 */
#include "engine/remote.h"

void ration_engine_lock(ration_engine *engine, struct ration_engine_guard *out_guard)
{
    out_guard->engine = engine;
    out_guard->phase = ration_epoch_enter(&engine->epoch);
    out_guard->plan = ration_engine_plan(engine);
}

void ration_engine_guard_plan(ration_engine *engine, const struct ration_engine_guard *guard,
                              struct ration_engine_guard *out_guard)
{
    if (guard == NULL) {
        ration_engine_lock(engine, out_guard);
        return;
    }
    *out_guard = *guard;
    ration_epoch_enter_again(&engine->epoch, guard->phase);
}

void ration_engine_unlock(struct ration_engine_guard *guard)
{
    ration_epoch_leave(&guard->engine->epoch, guard->phase);
    guard->engine = NULL;
    guard->plan = NULL;
}

uint64_t ration_engine_now(const ration_engine *engine)
{
    return ration_clock_now(&engine->clock);
}

ration_limiter *ration_engine_inline_limiter(ration_engine *engine)
{
    return engine->inline_limit;
}

const ration_policy *ration_engine_policy(const struct ration_engine_guard *guard)
{
    return guard->plan->policy;
}

uint64_t ration_engine_generation(const struct ration_engine_guard *guard)
{
    return guard->plan->generation;
}

ration_limiter *ration_engine_limiter(const struct ration_engine_guard *guard, size_t limit_index)
{
    return limit_index < ration_policy_limit_count(guard->plan->policy)
               ? ration_stack_limiter(guard->engine->stack,
                                      guard->plan->limiter_indexes[limit_index])
               : NULL;
}

void ration_engine_read_stats(const ration_engine *engine, struct ration_engine_stats *out_stats)
{
    *out_stats = (struct ration_engine_stats){
        .exempt = ration_epoch_read(&engine->epoch, RATION_EPOCH_EXEMPT),
        .banned = ration_epoch_read(&engine->epoch, RATION_EPOCH_BANNED),
        .unlimited = ration_epoch_read(&engine->epoch, RATION_EPOCH_UNLIMITED),
        .errors = ration_epoch_read(&engine->epoch, RATION_EPOCH_ERRORS),
        .reloads = __atomic_load_n(&engine->reload_count, __ATOMIC_RELAXED),
        .decided_locally = ration_epoch_read(&engine->epoch, RATION_EPOCH_LOCAL),
        .degraded = ration_epoch_read(&engine->epoch, RATION_EPOCH_DEGRADED),
    };
}

size_t ration_engine_bytes(const ration_engine *engine)
{
    return sizeof(*engine) + ration_stack_bytes(engine->stack) +
           ration_limiter_bytes(engine->inline_limit) + ration_limiter_bytes(engine->blocks);
}
