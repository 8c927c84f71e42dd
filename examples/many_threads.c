/*
 * Many threads take from one bucket as fast as they can. In any time t they get at most burst + rate * t tokens
 * together, whatever the scheduler does. Contention never denies a request, so they get nearly all of them.
 */
#include <inttypes.h>
#include <pthread.h>
#include <ration/ration.h>
#include <stdio.h>

#define THREADS_COUNT 8
#define RUN_NS        (200 * RATION_NS_PER_MS)

static struct ration_bucket bucket; /* all-zero bytes are a full bucket */
static struct ration_limit limit;
static uint64_t end_ns;

struct worker {
    pthread_t thread;
    uint64_t request_count;
    uint64_t allowed_count;
};

static void *work(void *context)
{
    struct worker *worker = context;

    for (uint64_t now_ns = ration_clock_default_now(); now_ns < end_ns;
         now_ns = ration_clock_default_now()) {
        worker->request_count++;
        worker->allowed_count += ration_bucket_allow_at(&bucket, &limit, 1, now_ns);
    }
    return NULL;
}

int main(void)
{
    static struct worker workers[THREADS_COUNT];
    uint64_t request_count = 0;
    uint64_t allowed_count = 0;

    if (ration_limit_parse("100k/s burst 500", &limit, NULL) != RATION_OK)
        return 1;

    uint64_t start_ns = ration_clock_default_now();

    end_ns = start_ns + RUN_NS;
    for (int index = 0; index < THREADS_COUNT; index++) {
        if (pthread_create(&workers[index].thread, NULL, work, &workers[index]) != 0)
            return 1;
    }
    for (int index = 0; index < THREADS_COUNT; index++) {
        pthread_join(workers[index].thread, NULL);
        request_count += workers[index].request_count;
        allowed_count += workers[index].allowed_count;
    }

    /* No request was made at end_ns or later, so the bound is that of RUN_NS. */
    uint64_t bound_count = limit.burst + limit.tokens * RUN_NS / limit.period_ns;

    printf("%d threads made %" PRIu64 " requests in %" PRIu64 " ms\n", THREADS_COUNT, request_count,
           (uint64_t)(RUN_NS / RATION_NS_PER_MS));
    printf("allowed   %8" PRIu64 "\n", allowed_count);
    printf("at most   %8" PRIu64 " = burst %" PRIu64 " + %" PRIu64 " per second\n", bound_count,
           limit.burst, limit.tokens);
    printf("%s\n", allowed_count <= bound_count ? "within the bound" : "ABOVE THE BOUND");
    return allowed_count <= bound_count ? 0 : 1;
}
