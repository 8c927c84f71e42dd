/*
 * Random traces of limiters and stacks (R1, R2, R4, R6, R7).
 *
 *     limiter_trace_test MODE [SEED [DECISIONS]]   many traces; a seed of 0 is taken from the clock
 *     limiter_trace_test MODE SEED step            one trace, every step printed
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "limiter_trace.h"
#include "trace.h"

#ifdef RATION_TESTS_SHORT
#define DECISIONS 30000
#else
#define DECISIONS 300000
#endif

static int run_many(enum limiter_mode mode, uint64_t seed, uint64_t decisions)
{
    struct trace_random seeds = {seed};
    struct limiter_trace_count count = {0};

    printf("%s: seed %" PRIu64 "\n", limiter_mode_name(mode), seed);
    while (count.decisions < decisions) {
        struct limiter_trace_options options = {
            .mode = mode, .seed = trace_random_next(&seeds), .checks = LIMITER_CHECK_ALL};

        if (limiter_trace_run(&options, &count) != 0) {
            printf("replay with: limiter_trace_test %s %" PRIu64 " step\n", limiter_mode_name(mode),
                   options.seed);
            return 1;
        }
    }
    printf("traces: %" PRIu64 ", waits tried: %" PRIu64 ", places reclaimed: %" PRIu64
           ", reloads: %" PRIu64 ", changes: %" PRIu64 "\n",
           count.traces, count.denials, count.reclaimed, count.reloads, count.changes);
    printf("no place: %" PRIu64 " shared, %" PRIu64 " denied, %" PRIu64
           " allowed without a limit\n",
           count.overflow_shared, count.overflow_deny, count.overflow_allow);
    printf("decisions: %" PRIu64 "\n", count.decisions);
    return 0;
}

static int run_one(enum limiter_mode mode, uint64_t seed)
{
    struct limiter_trace_count count = {0};
    struct limiter_trace_options options = {
        .mode = mode, .seed = seed, .checks = LIMITER_CHECK_ALL, .is_verbose = true};

    uint64_t step = limiter_trace_run(&options, &count);

    printf("no place: %" PRIu64 " shared, %" PRIu64 " denied, %" PRIu64
           " allowed without a limit\n",
           count.overflow_shared, count.overflow_deny, count.overflow_allow);
    return step != 0;
}

static int usage(void)
{
    fprintf(stderr, "usage: limiter_trace_test MODE [SEED [DECISIONS | step]]\n");
    return 2;
}

int main(int argc, char **argv)
{
    enum limiter_mode mode = LIMITER_EXACT;
    uint64_t seed = argc > 2 ? strtoull(argv[2], NULL, 0) : 0;
    struct timespec now;

    if (argc < 2 || argc > 4)
        return usage();
    while (mode < LIMITER_MODE_COUNT && strcmp(argv[1], limiter_mode_name(mode)) != 0)
        mode++;
    if (mode == LIMITER_MODE_COUNT)
        return usage();
    if (argc == 4 && strcmp(argv[3], "step") == 0)
        return run_one(mode, seed);

    clock_gettime(CLOCK_REALTIME, &now);
    if (seed == 0)
        seed = (uint64_t)now.tv_sec * 1000000007 + (uint64_t)now.tv_nsec;
    return run_many(mode, seed, argc == 4 ? strtoull(argv[3], NULL, 0) : DECISIONS);
}
