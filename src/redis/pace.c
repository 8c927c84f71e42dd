#include "redis/pace.h"

#include "core/gcra.h"

void ration_redis_pace_init(struct ration_redis_pace *pace, uint64_t rest_min_ns,
                            uint64_t rest_max_ns, uint64_t seed)
{
    struct ration_limit_spec spec = {
        .tokens = 2, .period_ns = rest_max_ns, .burst = RATION_REDIS_TRIES_BURST};

    *pace = (struct ration_redis_pace){
        .rest_min_ns = rest_min_ns,
        .rest_max_ns = rest_max_ns,
        .rest_ns = rest_min_ns,
        .random = seed ^ UINT64_C(0x9e3779b97f4a7c15),
    };
    if (ration_limit_make(&spec, &pace->budget, NULL) != RATION_OK) /* rests of years */
        (void)ration_limit_per_second(1, &pace->budget);
}

/* Between half of it and all of it. */
static uint64_t spread(struct ration_redis_pace *pace, uint64_t ns)
{
    pace->random ^= pace->random << 13;
    pace->random ^= pace->random >> 7;
    pace->random ^= pace->random << 17;
    return ns / 2 + pace->random % (ns / 2 + 1);
}

uint64_t ration_redis_pace_soon(struct ration_redis_pace *pace, uint64_t now_ns)
{
    struct ration_gcra_step step =
        ration_gcra_take(pace->spent, &pace->budget.rate, 1, RATION_WAIT_NS_MAX, now_ns);

    pace->spent = step.next;
    return now_ns + step.wait_ns;
}

uint64_t ration_redis_pace_next(struct ration_redis_pace *pace, uint64_t now_ns)
{
    uint64_t moment_ns = ration_redis_pace_soon(pace, now_ns + spread(pace, pace->rest_ns));

    pace->rest_ns = pace->rest_ns < pace->rest_max_ns / 2 ? 2 * pace->rest_ns : pace->rest_max_ns;
    return moment_ns;
}

void ration_redis_pace_well(struct ration_redis_pace *pace)
{
    pace->rest_ns = pace->rest_min_ns;
}
