/*
 * One bucket. An allowed call cannot be faster than the one compare-and-swap that publishes it,
 * nor a denied one faster than the arithmetic that denies it, so these are the references.
 */
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/atomic16.h"
#include "bench.h"
#include "core/gcra.h"
#include "ration/bucket.h"
#include "ration/clock.h"
#include "support/threads.h"

/* A call is to cost at most this many bare swaps. */
#define SWAPS_MAX 1.8

/* Where now starts in every slice. It advances by less than a token: the bucket is in use. */
#define START_NS UINT64_C(1000000000000)
#define STEP_NS  3

/* References ----------------------------------------------------------------------------- */

static void bare_load(void *context, uint64_t count)
{
    const struct ration_pair *pair = context;

    for (uint64_t i = 0; i < count; i++) {
        struct ration_pair seen = ration_atomic16_load(pair);

        bench_keep(seen.words[0] + seen.words[1]);
    }
}

static void bare_swap(void *context, uint64_t count)
{
    struct ration_pair *pair = context;

    for (uint64_t i = 0; i < count; i++) {
        struct ration_pair seen = ration_atomic16_load(pair);
        struct ration_pair next;

        do
            next = (struct ration_pair){{seen.words[0] + 1, seen.words[1]}};
        while (!ration_atomic16_swap(pair, &seen, next));
    }
}

static void bare_swap_of_8_bytes(void *context, uint64_t count)
{
    uint64_t *word = context;

    for (uint64_t i = 0; i < count; i++) {
        uint64_t seen = __atomic_load_n(word, __ATOMIC_ACQUIRE);

        while (!__atomic_compare_exchange_n(word, &seen, seen + 1, false, __ATOMIC_SEQ_CST,
                                            __ATOMIC_SEQ_CST)) {
        }
    }
}

static struct ration_pair bare_pair;

static const struct bench_term one_swap = {{bare_swap, &bare_pair}, 1.0};
static const struct bench_term swaps_max = {{bare_swap, &bare_pair}, SWAPS_MAX};

/* The subjects' context ------------------------------------------------------------------ */

/* A limit beside its bucket would be fetched again after every write of another thread. */
struct scene {
    _Alignas(THREADS_LINE_BYTES) struct ration_bucket bucket;
    _Alignas(THREADS_LINE_BYTES) struct ration_limit limit;
    struct ration_clock clock;
};

static struct scene scene_make(const char *limit_text)
{
    struct scene scene = {.clock = ration_clock_monotonic()};
    struct ration_error error;

    if (ration_limit_parse(limit_text, &scene.limit, &error) == RATION_OK)
        return scene;
    fprintf(stderr, "bench: %s: %s\n", limit_text, error.message);
    abort();
}

/* A bucket that a benchmark cannot drain, with a token of 3 1/3 ns. */
static struct scene scene_full(void)
{
    return scene_make("3 per 10ns burst 1000000000000000");
}

/* One token, none left, and none to come in the reported time. */
static struct scene scene_empty(void)
{
    struct scene scene = scene_make("3/h burst 1");

    ration_bucket_set(&scene.bucket, &scene.limit, 0, START_NS);
    return scene;
}

/* Calls with now given ------------------------------------------------------------------- */

static void allow_at(void *context, uint64_t count)
{
    struct scene *scene = context;
    uint64_t now_ns = START_NS;
    uint64_t allowed = 0;

    for (uint64_t i = 0; i < count; i++, now_ns += STEP_NS)
        allowed += ration_bucket_allow_at(&scene->bucket, &scene->limit, 1, now_ns);
    bench_expect(allowed == count, "allow_at allows every time");
}

static void deny_at(void *context, uint64_t count)
{
    struct scene *scene = context;
    uint64_t allowed = 0;

    for (uint64_t i = 0; i < count; i++)
        allowed += ration_bucket_allow_at(&scene->bucket, &scene->limit, 1, START_NS);
    bench_expect(allowed == 0, "allow_at denies every time");
}

static void take_allow(void *context, uint64_t count)
{
    struct scene *scene = context;
    uint64_t now_ns = START_NS;
    uint64_t allowed = 0;

    for (uint64_t i = 0; i < count; i++, now_ns += STEP_NS)
        allowed +=
            ration_bucket_take(&scene->bucket, &scene->limit, 1, now_ns).verdict == RATION_ALLOW;
    bench_expect(allowed == count, "take allows every time");
}

static void take_deny(void *context, uint64_t count)
{
    struct scene *scene = context;
    uint64_t denied = 0;

    for (uint64_t i = 0; i < count; i++)
        denied +=
            ration_bucket_take(&scene->bucket, &scene->limit, 1, START_NS).verdict == RATION_DENY;
    bench_expect(denied == count, "take denies every time");
}

/* The step on memory that nobody shares. */
static bool step_only(struct ration_bucket *bucket, const struct ration_limit *limit,
                      uint64_t cost_tokens, uint64_t now_ns)
{
    struct ration_time tat = {bucket->words[0], bucket->words[1]};

    return ration_gcra_take(tat, &limit->rate, cost_tokens, 0, now_ns).verdict == RATION_ALLOW;
}

static void step_deny(void *context, uint64_t count)
{
    struct scene *scene = context;
    allow_function *step = step_only;
    uint64_t allowed = 0;

    /* A call that the compiler cannot see through, as the bucket's is. */
    __asm__ volatile("" : "+r"(step));
    for (uint64_t i = 0; i < count; i++)
        allowed += step(&scene->bucket, &scene->limit, 1, START_NS);
    bench_expect(allowed == 0, "the step denies every time");
}

/* One row of a subject against one reference; ratio_max 0 for information. */
static void compare_work(struct bench *bench, const char *name, struct bench_work work,
                         const char *against, struct bench_work reference, double ratio_max)
{
    bench_row(bench, &(struct bench_subject){
                         .name = name,
                         .work = work,
                         .against = against,
                         .terms = {{reference, 1.0}},
                         .ratio_max = ratio_max,
                     });
}

static void bench_given_now(struct bench *bench)
{
    struct scene full = scene_full();
    struct scene empty = scene_empty();
    struct bench_work swap = one_swap.work;
    struct bench_work allow = {allow_at, &full};
    struct bench_work deny = {deny_at, &empty};
    struct bench_work step = {step_deny, &empty};
    struct bench_work load = {bare_load, &empty.bucket};

    compare_work(bench, "allow_at, allows", allow, "bare swap", swap, SWAPS_MAX);
    compare_work(bench, "allow_at, denies", deny, "allow_at, allows", allow, 1.0);
    compare_work(bench, "allow_at, denies", deny, "step alone, denies", step, 2.0);
    compare_work(bench, "allow_at, denies", deny, "bare load", load, 0);
    compare_work(bench, "take, allows", (struct bench_work){take_allow, &full}, "bare swap", swap,
                 0);
    compare_work(bench, "take, denies", (struct bench_work){take_deny, &empty}, "bare swap", swap,
                 0);
}

/* With a clock --------------------------------------------------------------------------- */

static void clock_alone(void *context, uint64_t count)
{
    struct scene *scene = context;

    for (uint64_t i = 0; i < count; i++)
        bench_keep(ration_clock_now(&scene->clock));
}

static void clock_and_allow(void *context, uint64_t count)
{
    struct scene *scene = context;
    uint64_t allowed = 0;

    for (uint64_t i = 0; i < count; i++)
        allowed += ration_bucket_allow_at(&scene->bucket, &scene->limit, 1,
                                          ration_clock_now(&scene->clock));
    bench_expect(allowed == count, "allow_at with a clock allows every time");
}

static void now_alone(void *context, uint64_t count)
{
    (void)context;
    for (uint64_t i = 0; i < count; i++)
        bench_keep(ration_clock_default_now());
}

static void allow_by_default(void *context, uint64_t count)
{
    struct scene *scene = context;
    uint64_t allowed = 0;

    for (uint64_t i = 0; i < count; i++)
        allowed += ration_bucket_allow(&scene->bucket, &scene->limit);
    bench_expect(allowed == count, "allow allows every time");
}

static void bench_clock(struct bench *bench, struct ration_clock clock, const char *name,
                        const char *against)
{
    struct scene scene = scene_full();

    scene.clock = clock;
    bench_row(bench, &(struct bench_subject){
                         .name = name,
                         .work = {clock_and_allow, &scene},
                         .against = against,
                         .terms = {{{clock_alone, &scene}, 1.0}, swaps_max},
                         .ratio_max = 1.0,
                     });
}

static void bench_with_clocks(struct bench *bench)
{
    struct scene scene = scene_full();

    if (ration_clock_tsc_error() != NULL)
        printf("(no tsc: %s)\n", ration_clock_tsc_error());
    bench_clock(bench, ration_clock_tsc(), "tsc, then allow_at", "tsc + 1.8 swaps");
    bench_clock(bench, ration_clock_monotonic(), "monotonic, then allow_at",
                "monotonic + 1.8 swaps");
    bench_clock(bench, ration_clock_boottime(), "boottime, then allow_at", "boottime + 1.8 swaps");
    bench_clock(bench, ration_clock_coarse(), "coarse, then allow_at", "coarse + 1.8 swaps");
    bench_row(bench, &(struct bench_subject){
                         .name = "allow, by the default clock",
                         .work = {allow_by_default, &scene},
                         .against = "ration_clock_default_now + 1.8 swaps",
                         .terms = {{{now_alone, NULL}, 1.0}, swaps_max},
                         .ratio_max = 1.0,
                     });
}

/* Two threads ---------------------------------------------------------------------------- */

/* Long against the start of two threads, which is measured with it. */
#define COUPLE_SLICE_NS 10e6

struct couple {
    struct bench_work work;
    struct spin_barrier barrier;
    uint64_t count;
};

static void work_half(void *context, unsigned thread_index)
{
    struct couple *couple = context;

    (void)thread_index;
    spin_barrier_wait(&couple->barrier);
    couple->work.function(couple->work.context, couple->count / 2);
}

/* Shares count between two threads on two CPUs: the reported time is that per call of either. */
static void work_in_two(void *context, uint64_t count)
{
    struct couple *couple = context;

    spin_barrier_init(&couple->barrier, 2);
    couple->count = count;
    threads_run(2, work_half, couple);
}

static void bench_two_threads(struct bench *bench)
{
    struct scene full = scene_full();
    _Alignas(THREADS_LINE_BYTES) struct ration_pair pair = {{0, 0}};
    struct couple swaps = {.work = {bare_swap, &pair}};
    struct couple allows = {.work = {allow_at, &full}};
    struct bench_term reference = {{work_in_two, &swaps}, 1.0};

    if (threads_cpu_count() < 2)
        printf("(one CPU: the two threads below take turns)\n");
    bench_row(bench, &(struct bench_subject){
                         .name = "bare swap, 2 threads",
                         .work = {work_in_two, &swaps},
                         .against = "bare swap",
                         .terms = {one_swap},
                         .slice_ns = COUPLE_SLICE_NS,
                     });
    bench_row(bench, &(struct bench_subject){
                         .name = "allow_at, 2 threads",
                         .work = {work_in_two, &allows},
                         .against = "bare swap, 2 threads",
                         .terms = {reference},
                         .ratio_max = SWAPS_MAX,
                         .slice_ns = COUPLE_SLICE_NS,
                     });
}

/* The other algorithms ------------------------------------------------------------------- */

static void bench_algorithms(struct bench *bench)
{
    static const struct {
        const char *name;
        const char *limit_text;
    } rows[] = {
        {"allow_at, interval refill", "1000000000 per 1s burst 1000000000000000 refill interval"},
        {"allow_at, fixed window", "100000000000000 per 52w fixed_window"},
        {"allow_at, sliding window", "4000000000 per 52w sliding_window"},
        {"allow_at, leaky queue", "3 per 10ns burst 1000000000000000 leaky_queue"},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct scene scene = scene_make(rows[i].limit_text);
        struct bench_work work = {allow_at, &scene};

        compare_work(bench, rows[i].name, work, "bare swap", one_swap.work, 0);
    }
}

void bucket_bench(struct bench *bench)
{
    static struct ration_pair pair;
    static uint64_t word;

    bench_row(bench,
              &(struct bench_subject){.name = "bare load, 16 bytes", .work = {bare_load, &pair}});
    bench_row(bench, &(struct bench_subject){.name = "bare swap, 16 bytes",
                                             .work = {bare_swap, &bare_pair}});
    bench_row(bench, &(struct bench_subject){.name = "bare swap, 8 bytes",
                                             .work = {bare_swap_of_8_bytes, &word}});
    bench_given_now(bench);
    bench_with_clocks(bench);
    bench_two_threads(bench);
    bench_algorithms(bench);
}
