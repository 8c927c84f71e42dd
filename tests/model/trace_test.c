/*
 * Random traces against the model (R1, R2, R4, R5, R6, R7).
 *
 *     trace_test KIND [SEED [DECISIONS]]       many traces; a seed of 0 is taken from the clock
 *     trace_test KIND SEED step                one trace, every step printed
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "trace.h"

#ifdef RATION_TESTS_SHORT
#define DECISIONS_DIVISOR 100
#else
#define DECISIONS_DIVISOR 1
#endif

static const uint64_t default_decisions[TRACE_KIND_COUNT] = {
    [TRACE_TOKEN] = 70000000, [TRACE_INTERVAL] = 30000000, [TRACE_RESERVE] = 25000000,
    [TRACE_QUEUE] = 25000000, [TRACE_FIXED] = 20000000,    [TRACE_SLIDING] = 25000000,
    [TRACE_LOG] = 10000000,
};

static int run_many(enum trace_kind kind, uint64_t seed, uint64_t decisions)
{
    struct trace_random seeds = {seed};
    struct trace_count count = {0};

    printf("%s: seed %" PRIu64 "\n", trace_kind_name(kind), seed);
    while (count.decisions < decisions) {
        struct trace_options options = {
            .kind = kind, .seed = trace_random_next(&seeds), .checks = TRACE_CHECK_ALL};

        if (trace_run(&options, &count) != 0) {
            printf("replay with: trace_test %s %" PRIu64 " step\n", trace_kind_name(kind),
                   options.seed);
            return 1;
        }
    }
    printf("traces: %" PRIu64 ", denials retried: %" PRIu64 " (%" PRIu64
           " beyond the clock's end), full buckets forgotten: %" PRIu64 "\n",
           count.traces, count.denials - count.retries_skipped, count.retries_skipped,
           count.forgotten);
    printf("decisions: %" PRIu64 "\n", count.decisions);
    return 0;
}

static int run_one(enum trace_kind kind, uint64_t seed)
{
    struct trace_count count = {0};
    struct trace_options options = {
        .kind = kind, .seed = seed, .checks = TRACE_CHECK_ALL, .is_verbose = true};

    return trace_run(&options, &count) != 0;
}

static int usage(void)
{
    fprintf(stderr, "usage: trace_test KIND [SEED [DECISIONS | step]]\n");
    return 2;
}

int main(int argc, char **argv)
{
    enum trace_kind kind = TRACE_TOKEN;
    uint64_t seed = argc > 2 ? strtoull(argv[2], NULL, 0) : 0;
    struct timespec now;

    if (argc < 2 || argc > 4)
        return usage();
    while (kind < TRACE_KIND_COUNT && strcmp(argv[1], trace_kind_name(kind)) != 0)
        kind++;
    if (kind == TRACE_KIND_COUNT)
        return usage();
    if (argc == 4 && strcmp(argv[3], "step") == 0)
        return run_one(kind, seed);

    clock_gettime(CLOCK_REALTIME, &now);
    if (seed == 0)
        seed = (uint64_t)now.tv_sec * 1000000007 + (uint64_t)now.tv_nsec;
    return run_many(kind, seed,
                    argc == 4 ? strtoull(argv[3], NULL, 0)
                              : default_decisions[kind] / DECISIONS_DIVISOR);
}
