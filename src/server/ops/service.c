#include "server/ops/service.h"

#include <stdlib.h>
#include <string.h>

uint64_t ration_service_durations_begin(struct ration_durations *durations)
{
    return ++durations->batch_count % RATION_DURATION_ONE_IN == 0 ? ration_clock_default_now() : 0;
}

static size_t duration_bucket(uint64_t ns)
{
#define BOUND(bound_ns) bound_ns,
    static const uint64_t bounds_ns[] = {RATION_DURATION_BOUNDS_MAP(BOUND)};
#undef BOUND
    size_t bucket = 0;

    _Static_assert(sizeof(bounds_ns) / sizeof(bounds_ns[0]) == RATION_DURATION_COUNT - 1,
                   "one more for what has no bound");
    while (bucket < RATION_DURATION_COUNT - 1 && ns > bounds_ns[bucket])
        bucket++;
    return bucket;
}

static void add_relaxed(uint64_t *word, uint64_t amount)
{
    __atomic_store_n(word, __atomic_load_n(word, __ATOMIC_RELAXED) + amount, __ATOMIC_RELAXED);
}

/* Each decision of a batch counts with the batch's average time. */
void ration_service_durations_end(struct ration_durations *durations, uint64_t began_ns,
                                  size_t decision_count)
{
    uint64_t each_ns;

    if (began_ns == 0 || decision_count == 0)
        return;
    each_ns = (ration_clock_default_now() - began_ns) / decision_count;
    add_relaxed(&durations->counts[duration_bucket(each_ns)], decision_count);
    add_relaxed(&durations->sum_ns, each_ns * decision_count);
}

uint64_t ration_service_total(const struct ration_service *service, enum ration_service_count which)
{
    uint64_t sum = 0;

    for (unsigned i = 0; i < ration_loops_count(service->loops); i++) {
        const struct ration_worker *worker = ration_loop_user(ration_loops_at(service->loops, i));

        if (worker != NULL)
            sum += __atomic_load_n(&worker->counts[which], __ATOMIC_RELAXED);
    }
    return sum;
}

void ration_service_publish_redis(struct ration_worker *worker)
{
    struct ration_redis_stats stats;
    const uint64_t *from = (const uint64_t *)&stats;
    uint64_t *to = (uint64_t *)&worker->redis;

    ration_engine_connection_stats(worker->engine_connection, &stats);
    for (size_t i = 0; i < sizeof(stats) / sizeof(*from); i++)
        __atomic_store_n(&to[i], from[i], __ATOMIC_RELAXED);
    __atomic_store_n(&worker->is_redis_up,
                     ration_engine_connection_is_connected(worker->engine_connection),
                     __ATOMIC_RELAXED);
}

ration_status ration_service_open_loop(struct ration_service *service, struct ration_loop *loop)
{
    struct ration_worker *worker = calloc(1, sizeof(*worker));

    if (worker != NULL) {
        worker->resp = ration_resp_worker_create(service);
        worker->http = ration_http_worker_create(service);
        worker->random = ration_clock_default_now() ^ (uint64_t)(uintptr_t)worker;
    }
    ration_loop_set_user(loop, worker);
    if (worker == NULL || worker->resp == NULL || worker->http == NULL) {
        ration_service_close_loop(loop);
        return RATION_ENOMEM;
    }
    return RATION_OK;
}

void ration_service_close_loop(struct ration_loop *loop)
{
    struct ration_worker *worker = ration_loop_user(loop);

    if (worker == NULL)
        return;
    ration_engine_connection_free(
        worker->engine_connection); /* not NULL only if the loop never ran */
    ration_resp_worker_free(worker->resp);
    ration_http_worker_free(worker->http);
    free(worker);
    ration_loop_set_user(loop, NULL);
}

ration_status ration_service_check_inline(const struct ration_service *service,
                                          const struct ration_limit *limit)
{
    uint64_t max_s = service->settings->inline_fill_max_s;

    return max_s == 0 || ration_limit_fill_ns(limit) / RATION_NS_PER_SECOND < max_s ||
                   ration_limit_fill_ns(limit) == max_s * RATION_NS_PER_SECOND
               ? RATION_OK
               : RATION_ERANGE;
}
