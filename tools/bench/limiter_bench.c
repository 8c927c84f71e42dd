/*
 * A limiter's keys. A decision cannot be faster than hashing the key, one access to memory where
 * no cache has it, and one compare-and-swap there: that is the floor, measured in the same
 * moments, over as much memory and with the same keys. With 32 keys at a time the floor fetches
 * ahead, too.
 *
 * Keys are visited in two ways. One by one: a call begins when the one before has ended, as in a
 * program that does something with the answer. Back to back: a loop of nothing but calls, in which
 * a CPU runs ahead and fetches for the next calls already. How far it gets is a matter of how
 * few instructions a call has, and no call has as few as the floor.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/atomic16.h"
#include "base/hash.h"
#include "bench.h"
#include "bench_peers.h"
#include "peers/mutex_visit.h"
#include "ration/clock.h"
#include "ration/limiter.h"
#include "support/threads.h"

#define BATCH          32
#define KEYS_MILLION   1000000
#define LARGE_SLICE_NS 10e6
#define PAIR_SLICE_NS  25e6 /* two threads are started in each */

/* Everything passes: a burst that no benchmark drains. Each call moves now by a token and more. */
#define FULL_TEXT  "1000000/s burst 1000000000"
#define EMPTY_TEXT "1 per 365d burst 1"
#define STEP_NS    100

/* The floor ---------------------------------------------------------------------------------- */

struct floor {
    struct ration_hash_secret secret;
    struct ration_pair *slots;
    uint64_t slot_count;
    const struct peer_key *keys;
    size_t key_count;
    size_t next_index;
};

static struct floor *floor_create(size_t bytes, const struct peer_key *keys, size_t key_count)
{
    struct floor *floor = aligned_alloc(64, (sizeof(*floor) + 63) / 64 * 64);
    const uint8_t seed[RATION_HASH_SEED_SIZE] = {1, 2, 3};

    bench_expect(floor != NULL, "memory for the floor");
    memset(floor, 0, sizeof(*floor));
    ration_hash_secret_init(&floor->secret, seed);
    floor->slot_count = bytes / sizeof(struct ration_pair);
    floor->slots =
        aligned_alloc(4096, floor->slot_count * sizeof(struct ration_pair) / 4096 * 4096 + 4096);
    bench_expect(floor->slots != NULL, "memory for the floor");
    memset(floor->slots, 0, floor->slot_count * sizeof(struct ration_pair));
    floor->keys = keys;
    floor->key_count = key_count;
    return floor;
}

static void floor_free(struct floor *floor)
{
    free(floor->slots);
    free(floor);
}

static const struct peer_key *floor_next(struct floor *floor)
{
    const struct peer_key *key = &floor->keys[floor->next_index];

    floor->next_index = floor->next_index + 1 < floor->key_count ? floor->next_index + 1 : 0;
    return key;
}

static struct ration_pair *floor_slot(const struct floor *floor, const struct peer_key *key)
{
    struct ration_hash hash = ration_hash_key(&floor->secret, key->bytes, sizeof(key->bytes));

    return &floor->slots[((hash.words[1] >> 32) * floor->slot_count) >> 32];
}

static void floor_swap(struct ration_pair *slot)
{
    struct ration_pair seen = ration_atomic16_load(slot);

    while (!ration_atomic16_swap(slot, &seen,
                                 (struct ration_pair){{seen.words[0] + 1, seen.words[1]}})) {
    }
}

/* Everything before it has ended when what follows it begins. */
static inline void end_of_call(void)
{
#if defined(__x86_64__)
    __asm__ volatile("lfence" : : : "memory");
#elif defined(__aarch64__)
    __asm__ volatile("dsb ish\n\tisb" : : : "memory");
#endif
}

static void floor_one_by_one(void *context, uint64_t count)
{
    struct floor *floor = context;

    for (uint64_t i = 0; i < count; i++) {
        floor_swap(floor_slot(floor, floor_next(floor)));
        end_of_call();
    }
}

static void floor_back_to_back(void *context, uint64_t count)
{
    struct floor *floor = context;

    for (uint64_t i = 0; i < count; i++)
        floor_swap(floor_slot(floor, floor_next(floor)));
}

static void floor_batches(void *context, uint64_t count)
{
    struct floor *floor = context;

    for (uint64_t i = 0; i < count; i += BATCH) {
        struct ration_pair *slots[BATCH];

        for (size_t k = 0; k < BATCH; k++) {
            slots[k] = floor_slot(floor, floor_next(floor));
            __builtin_prefetch(slots[k], 1);
        }
        for (size_t k = 0; k < BATCH; k++)
            floor_swap(slots[k]);
    }
}

static void floor_hash(void *context, uint64_t count)
{
    struct floor *floor = context;

    for (uint64_t i = 0; i < count; i++)
        bench_keep(ration_hash_key(&floor->secret, floor->keys[0].bytes, 16).words[0]);
}

static void read_clock(void *context, uint64_t count)
{
    const struct ration_clock *clock = context;

    for (uint64_t i = 0; i < count; i++)
        bench_keep(ration_clock_now(clock));
}

/* The subjects ------------------------------------------------------------------------------- */

struct visit {
    ration_limiter *limiter;
    const struct peer_key *keys;
    size_t key_count;
    size_t next_index;
    uint64_t now_ns;
    bool is_denied;
} __attribute__((aligned(THREADS_LINE_BYTES))); /* two threads have one each */

static ration_limiter *limiter_make(const char *limit_text, size_t rule_count, size_t keys_max,
                                    bool is_huge)
{
    struct ration_rule rules[RATION_RULES_MAX];
    struct ration_error error;
    ration_limiter *limiter;

    memset(rules, 0, sizeof(rules));
    for (size_t i = 0; i < rule_count; i++)
        if (ration_limit_parse(limit_text, &rules[i].limit, &error) != RATION_OK) {
            fprintf(stderr, "bench: %s: %s\n", limit_text, error.message);
            abort();
        }
    if (ration_limiter_create(
            &(struct ration_limiter_options){.struct_size = sizeof(struct ration_limiter_options),
                                             .rules = rules,
                                             .rule_count = rule_count,
                                             .keys_max = keys_max,
                                             .uses_huge_pages = is_huge,
                                             .is_prefaulted = 1},
            &limiter, &error) != RATION_OK) {
        fprintf(stderr, "bench: %s\n", error.message);
        abort();
    }
    return limiter;
}

static struct ration_key visit_next(struct visit *visit)
{
    struct ration_key key = {visit->keys[visit->next_index].bytes, sizeof(struct peer_key)};

    visit->next_index = visit->next_index + 1 < visit->key_count ? visit->next_index + 1 : 0;
    return key;
}

static bool visit_call(struct visit *visit)
{
    struct ration_key key = visit_next(visit);

    visit->now_ns += STEP_NS;
    return ration_limiter_allow_at(visit->limiter, &key, 1, visit->now_ns);
}

static void visit_one_by_one(void *context, uint64_t count)
{
    struct visit *visit = context;
    uint64_t allowed = 0;

    for (uint64_t i = 0; i < count; i++) {
        allowed += visit_call(visit);
        end_of_call();
    }
    bench_expect(allowed == (visit->is_denied ? 0 : count), "all calls have the same answer");
}

static void visit_back_to_back(void *context, uint64_t count)
{
    struct visit *visit = context;
    uint64_t allowed = 0;

    for (uint64_t i = 0; i < count; i++)
        allowed += visit_call(visit);
    bench_expect(allowed == (visit->is_denied ? 0 : count), "all calls have the same answer");
}

static void visit_batches(void *context, uint64_t count)
{
    struct visit *visit = context;

    for (uint64_t i = 0; i < count; i += BATCH) {
        struct ration_key keys[BATCH];
        struct ration_batch_item items[BATCH];

        for (size_t k = 0; k < BATCH; k++) {
            keys[k] = visit_next(visit);
            items[k] = (struct ration_batch_item){.request = &keys[k], .cost_tokens = 1};
        }
        bench_expect(ration_limiter_take_batch(visit->limiter, items, BATCH, visit->now_ns) ==
                         BATCH,
                     "all calls are allowed");
        visit->now_ns += STEP_NS * BATCH;
    }
}

static void visit_by_clock(void *context, uint64_t count)
{
    struct visit *visit = context;
    struct ration_key key = {visit->keys[0].bytes, sizeof(struct peer_key)};

    for (uint64_t i = 0; i < count; i++)
        bench_keep(ration_limiter_allow(visit->limiter, &key));
}

/* Each thread half of the keys. */
struct visit_pair {
    struct visit halves[2];
    uint64_t count;
};

static void visit_half(void *context, unsigned thread_index)
{
    struct visit_pair *pair = context;

    visit_back_to_back(&pair->halves[thread_index], pair->count);
}

static void visit_in_two(void *context, uint64_t count)
{
    struct visit_pair *pair = context;

    pair->count = count / 2;
    threads_run(2, visit_half, pair);
}

static struct visit visit_make(ration_limiter *limiter, const struct peer_key *keys,
                               size_t key_count)
{
    struct visit visit = {.limiter = limiter,
                          .keys = keys,
                          .key_count = key_count,
                          .now_ns = ration_limiter_now(limiter) + RATION_NS_PER_SECOND};

    return visit;
}

/* Meets every key once. A few in a million find no slot, and may be denied by the bucket that they share. */
static void visit_fill(struct visit *visit)
{
    size_t denied_count = 0;

    for (size_t i = 0; i < visit->key_count; i++) {
        struct ration_key key = visit_next(visit);

        denied_count += !ration_limiter_allow_at(visit->limiter, &key, 1, visit->now_ns);
    }
    bench_expect(denied_count <= visit->key_count / 100000, "new keys are allowed");
}

/* The rows ----------------------------------------------------------------------------------- */

static void bench_hot(struct bench *bench, const struct peer_key *keys)
{
    ration_limiter *full = limiter_make(FULL_TEXT, 1, 1000, false);
    ration_limiter *three = limiter_make(FULL_TEXT, 3, 1000, false);
    ration_limiter *empty = limiter_make(EMPTY_TEXT, 1, 1000, false);
    struct visit hot = visit_make(full, keys, 1);
    struct visit hot_three = visit_make(three, keys, 1);
    struct visit denied = visit_make(empty, keys, 1);
    struct ration_clock clock = ration_clock_tsc();
    struct floor *floor = floor_create(64, keys, 1);

    visit_fill(&denied);
    denied.is_denied = true;
    bench_row(bench,
              &(struct bench_subject){.name = "hash of 16 bytes", .work = {floor_hash, floor}});
    bench_row(bench, &(struct bench_subject){.name = "hot key",
                                             .work = {visit_back_to_back, &hot},
                                             .against = "hash + swap",
                                             .terms = {{{floor_back_to_back, floor}, 1.0}},
                                             .ratio_max = 2.0});
    bench_row(bench, &(struct bench_subject){.name = "hot key, tsc clock",
                                             .work = {visit_by_clock, &hot},
                                             .against = "tsc clock",
                                             .terms = {{{read_clock, &clock}, 1.0}},
                                             .ratio_max = 2.0});
    bench_row(bench, &(struct bench_subject){.name = "hot key, tsc clock",
                                             .work = {visit_by_clock, &hot},
                                             .against = "tsc clock + hash + swap",
                                             .terms = {{{read_clock, &clock}, 1.0},
                                                       {{floor_back_to_back, floor}, 1.0}}});
    bench_row(bench, &(struct bench_subject){.name = "hot key, 3 limits",
                                             .work = {visit_back_to_back, &hot_three},
                                             .against = "hot key",
                                             .terms = {{{visit_back_to_back, &hot}, 1.0}},
                                             .ratio_max = 3.5});
    bench_row(bench, &(struct bench_subject){.name = "hot key, denied",
                                             .work = {visit_back_to_back, &denied},
                                             .against = "hot key",
                                             .terms = {{{visit_back_to_back, &hot}, 1.0}},
                                             .ratio_max = 1.0});
    floor_free(floor);
    ration_limiter_free(full);
    ration_limiter_free(three);
    ration_limiter_free(empty);
}

/* Names of rows for so many keys, in static storage as rows want them. */
struct names {
    const char *one;
    const char *back;
    const char *batch;
    const char *three;
    const char *denied;
    const char *two;
};

static void bench_keys(struct bench *bench, const struct peer_key *keys, size_t key_count,
                       const struct names *names)
{
    ration_limiter *full = limiter_make(FULL_TEXT, 1, key_count, true);
    struct visit visit = visit_make(full, keys, key_count);
    struct floor *floor = floor_create(ration_limiter_bytes(full), keys, key_count);
    struct ration_limiter_report report;

    visit_fill(&visit);
    ration_limiter_read_report(full, &report);
    printf("%zu keys: %.2f bytes each, %llu found no place\n", key_count,
           (double)ration_limiter_bytes(full) / (double)key_count,
           (unsigned long long)report.limiter.overflow_shared);
    bench_row(bench, &(struct bench_subject){.name = names->one,
                                             .work = {visit_one_by_one, &visit},
                                             .against = "hash + access + swap",
                                             .terms = {{{floor_one_by_one, floor}, 1.0}},
                                             .ratio_max = 1.3,
                                             .slice_ns = LARGE_SLICE_NS});
    bench_row(bench, &(struct bench_subject){.name = names->back,
                                             .work = {visit_back_to_back, &visit},
                                             .against = "hash + access + swap",
                                             .terms = {{{floor_back_to_back, floor}, 1.0}},
                                             .ratio_max = 1.3,
                                             .slice_ns = LARGE_SLICE_NS});
    bench_row(bench, &(struct bench_subject){.name = names->batch,
                                             .work = {visit_batches, &visit},
                                             .against = "the same, fetched ahead",
                                             .terms = {{{floor_batches, floor}, 1.0}},
                                             .ratio_max = 1.3,
                                             .slice_ns = LARGE_SLICE_NS});
    bench_row(bench, &(struct bench_subject){.name = names->batch,
                                             .work = {visit_batches, &visit},
                                             .against = "one by one",
                                             .terms = {{{visit_one_by_one, &visit}, 1.0}},
                                             .ratio_max = 1 / 2.5,
                                             .slice_ns = LARGE_SLICE_NS});
    bench_row(bench, &(struct bench_subject){.name = names->batch,
                                             .work = {visit_batches, &visit},
                                             .against = "back to back",
                                             .terms = {{{visit_back_to_back, &visit}, 1.0}},
                                             .ratio_max = 1 / 2.5,
                                             .slice_ns = LARGE_SLICE_NS});
    if (names->two != NULL) {
        struct visit_pair pair = {.halves = {visit, visit}};

        pair.halves[0].key_count = key_count / 2;
        pair.halves[0].next_index = 0;
        pair.halves[1].keys = keys + key_count / 2;
        pair.halves[1].key_count = key_count - key_count / 2;
        pair.halves[1].next_index = 0;
        bench_row(bench, &(struct bench_subject){.name = names->two,
                                                 .work = {visit_in_two, &pair},
                                                 .against = "one thread",
                                                 .terms = {{{visit_back_to_back, &visit}, 1.0}},
                                                 .ratio_max = 1 / 1.9,
                                                 .slice_ns = PAIR_SLICE_NS});
    }
    if (names->three != NULL) {
        ration_limiter *three = limiter_make(FULL_TEXT, 3, key_count, true);
        struct visit visit_three = visit_make(three, keys, key_count);

        visit_fill(&visit_three);
        printf("3 limits: %.2f bytes per key\n",
               (double)ration_limiter_bytes(three) / (double)key_count);
        bench_row(bench, &(struct bench_subject){.name = names->three,
                                                 .work = {visit_one_by_one, &visit_three},
                                                 .against = "1 limit",
                                                 .terms = {{{visit_one_by_one, &visit}, 1.0}},
                                                 .ratio_max = 1.6,
                                                 .slice_ns = LARGE_SLICE_NS});
        ration_limiter_free(three);
    }
    if (names->denied != NULL) {
        ration_limiter *empty = limiter_make(EMPTY_TEXT, 1, key_count, true);
        struct visit denied = visit_make(empty, keys, key_count);

        visit_fill(&denied);
        denied.is_denied = true;
        bench_row(bench, &(struct bench_subject){.name = names->denied,
                                                 .work = {visit_one_by_one, &denied},
                                                 .against = "allowed",
                                                 .terms = {{{visit_one_by_one, &visit}, 1.0}},
                                                 .ratio_max = 1.0,
                                                 .slice_ns = LARGE_SLICE_NS});
        ration_limiter_free(empty);
    }
    floor_free(floor);
    ration_limiter_free(full);
}

/* The mutex and table of everyone's first limiter, in the same process and the same moments. */
static void bench_mutex_table(struct bench *bench, const struct peer_key *keys)
{
    ration_limiter *limiter = limiter_make(FULL_TEXT, 1, KEYS_MILLION, true);
    struct visit visit = visit_make(limiter, keys, KEYS_MILLION);
    struct mutex_visit all = {.table = mutex_table_create(&mutex_visit_options),
                              .keys = keys,
                              .key_count = KEYS_MILLION,
                              .step_ns = STEP_NS};
    struct visit_pair pair = {.halves = {visit, visit}};

    if (mutex_table_error() != NULL || all.table == NULL) {
        printf("mutex table: %s\n",
               mutex_table_error() != NULL ? mutex_table_error() : "no memory");
        ration_limiter_free(limiter);
        return;
    }

    struct mutex_visit_pair mutex_pair;

    visit_fill(&visit);
    mutex_visit_fill(&all);
    mutex_pair = mutex_visit_split(&all);
    pair.halves[0].key_count = KEYS_MILLION / 2;
    pair.halves[1].keys = keys + KEYS_MILLION / 2;
    pair.halves[1].key_count = KEYS_MILLION / 2;
    bench_row(bench, &(struct bench_subject){.name = "1 M keys, back to back",
                                             .work = {visit_back_to_back, &visit},
                                             .against = "mutex + table in C",
                                             .terms = {{{mutex_visit_at, &all}, 1.0}},
                                             .ratio_max = 1 / 0.95,
                                             .slice_ns = LARGE_SLICE_NS});
    bench_row(bench, &(struct bench_subject){.name = "1 M keys, by 32",
                                             .work = {visit_batches, &visit},
                                             .against = "mutex + table in C",
                                             .terms = {{{mutex_visit_at, &all}, 1.0}},
                                             .ratio_max = 1 / 2.5,
                                             .slice_ns = LARGE_SLICE_NS});
    bench_row(bench, &(struct bench_subject){.name = "1 M keys, 2 threads",
                                             .work = {visit_in_two, &pair},
                                             .against = "mutex + table, 2 threads",
                                             .terms = {{{mutex_visit_pair_at, &mutex_pair}, 1.0}},
                                             .ratio_max = 1 / 3.0,
                                             .slice_ns = PAIR_SLICE_NS});
    mutex_table_free(all.table);
    ration_limiter_free(limiter);
}

static void bench_large(struct bench *bench, const struct peer_key *keys, size_t key_count)
{
    static char names[3][64]; /* rows borrow them */

    snprintf(names[0], sizeof(names[0]), "%zu M keys, one by one", key_count / KEYS_MILLION);
    snprintf(names[1], sizeof(names[1]), "%zu M keys, back to back", key_count / KEYS_MILLION);
    snprintf(names[2], sizeof(names[2]), "%zu M keys, by 32", key_count / KEYS_MILLION);
    bench_keys(bench, keys, key_count,
               &(struct names){.one = names[0], .back = names[1], .batch = names[2]});
}

/* RATION_BENCH_KEYS says how many keys the largest table has: 10 M, if it is not set. */
void limiter_bench(struct bench *bench)
{
    const char *large = getenv("RATION_BENCH_KEYS");
    size_t large_count = large != NULL ? strtoul(large, NULL, 10) : 10 * KEYS_MILLION;
    struct peer_key *keys =
        peer_keys_create(large_count > KEYS_MILLION ? large_count : KEYS_MILLION);

    bench_expect(keys != NULL, "memory for the keys");
    bench_hot(bench, keys);
    bench_keys(bench, keys, KEYS_MILLION,
               &(struct names){.one = "1 M keys, one by one",
                               .back = "1 M keys, back to back",
                               .batch = "1 M keys, by 32",
                               .three = "1 M keys, 3 limits",
                               .denied = "1 M keys, denied",
                               .two = "1 M keys, 2 threads"});
    bench_mutex_table(bench, keys);
    if (large_count > KEYS_MILLION)
        bench_large(bench, keys, large_count);
    free(keys);
}
