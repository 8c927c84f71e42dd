#include "redis/backoff.h"

#include "core/gcra.h"

void ration_redis_backoff_init(struct ration_redis_backoff *backoff, uint64_t delay_min_ns,
                               uint64_t delay_max_ns, uint64_t seed)
{
    struct ration_limit_spec spec = {
        .tokens = 2, .period_ns = delay_max_ns, .burst = RATION_REDIS_TRIES_BURST};

    *backoff = (struct ration_redis_backoff){
        .delay_min_ns = delay_min_ns,
        .delay_max_ns = delay_max_ns,
        .delay_ns = delay_min_ns,
        .random = seed ^ UINT64_C(0x9e3779b97f4a7c15),
    };
    if (ration_limit_make(&spec, &backoff->budget, NULL) != RATION_OK) /* delays of years */
        (void)ration_limit_per_second(1, &backoff->budget);
}

/* Returns a random time between half of ns and all of it. */
static uint64_t randomize_delay(struct ration_redis_backoff *backoff, uint64_t ns)
{
    backoff->random ^= backoff->random << 13;
    backoff->random ^= backoff->random >> 7;
    backoff->random ^= backoff->random << 17;
    return ns / 2 + backoff->random % (ns / 2 + 1);
}

uint64_t ration_redis_backoff_retry_soon(struct ration_redis_backoff *backoff, uint64_t now_ns)
{
    struct ration_gcra_step step =
        ration_gcra_take(backoff->budget_tat, &backoff->budget.rate, 1, RATION_WAIT_NS_MAX, now_ns);

    backoff->budget_tat = step.next;
    return now_ns + step.wait_ns;
}

uint64_t ration_redis_backoff_next(struct ration_redis_backoff *backoff, uint64_t now_ns)
{
    uint64_t retry_at_ns = ration_redis_backoff_retry_soon(
        backoff, now_ns + randomize_delay(backoff, backoff->delay_ns));

    backoff->delay_ns = backoff->delay_ns < backoff->delay_max_ns / 2 ? 2 * backoff->delay_ns
                                                                      : backoff->delay_max_ns;
    return retry_at_ns;
}

void ration_redis_backoff_reset(struct ration_redis_backoff *backoff)
{
    backoff->delay_ns = backoff->delay_min_ns;
}
