/*
 * stats_keys: traffic with numbered keys, counted exactly, and the rules that a list of top keys must obey. A test
 * counts each key here and in the code under test, and gets the number of broken rules. Numbers from STATS_KEYS_COUNT
 * on are for keys that occur only once.
 */
#ifndef RATION_TESTS_STATS_KEYS_H
#define RATION_TESTS_STATS_KEYS_H

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/random.h"
#include "ration/stats.h"
#include "stats/top_keys.h"

#define STATS_KEYS_COUNT 4096u
#define STATS_LIST_MAX   512u

/* Memory of exactly size bytes, so that the address sanitizer checks its end. Free with free(). */
static inline void *stats_block(size_t size)
{
    void *block = NULL;

    if (posix_memalign(&block, 128, size) != 0)
        abort();
    return block;
}

struct stats_exact {
    uint64_t counts[STATS_KEYS_COUNT];
    uint64_t total;
};

/* A key's number is its hash's second word, so that a listed key can be looked up. */
static inline struct ration_top_key_ref stats_key(uint64_t number, char out_name[32])
{
    uint64_t random = number;
    int length = snprintf(out_name, 32, "key-%llu", (unsigned long long)number);

    return (struct ration_top_key_ref){
        .hash = {ration_random_next(&random), number},
        .name = out_name,
        .name_size = (size_t)length,
    };
}

/* Zipf's law: key n occurs 1 / (n + 1) times as often as key 0. */
struct stats_zipf {
    uint64_t ends[STATS_KEYS_COUNT];
};

static inline void stats_zipf_init(struct stats_zipf *zipf)
{
    uint64_t end = 0;

    for (uint32_t i = 0; i < STATS_KEYS_COUNT; i++)
        zipf->ends[i] = end += UINT64_C(1000000000) / (i + 1);
}

static inline uint32_t stats_zipf_next(const struct stats_zipf *zipf, uint64_t *random)
{
    uint64_t random_value = ration_random_up_to(random, zipf->ends[STATS_KEYS_COUNT - 1] - 1);
    uint32_t low = 0;
    uint32_t high = STATS_KEYS_COUNT - 1;

    while (low < high) {
        uint32_t middle = (low + high) / 2;

        if (zipf->ends[middle] <= random_value)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* How often each rule is broken. */
struct stats_errors {
    uint64_t above;    /* true count above count + lost */
    uint64_t below;    /* true count below count - error */
    uint64_t missing;  /* more than 1 / K of the total (and lost), but not listed */
    uint64_t unlisted; /* not listed, with a count above the bound for unlisted keys */
    uint64_t order;    /* not sorted, or listed twice */
    uint64_t sum;      /* total plus lost differ from the true total */
};

static inline uint64_t stats_errors_count(struct stats_errors errors)
{
    return errors.above + errors.below + errors.missing + errors.unlisted + errors.order +
           errors.sum;
}

/* Checks a list that has room for the K = key_max keys, or more. */
static inline struct stats_errors stats_judge(const struct stats_exact *exact, uint32_t key_max,
                                              const struct ration_top_key *keys, uint32_t key_count,
                                              const struct ration_top_keys_stats *stats)
{
    bool *is_listed = calloc(STATS_KEYS_COUNT, sizeof(*is_listed));
    struct stats_errors errors = {.sum = stats->total + stats->lost != exact->total};

    if (is_listed == NULL)
        abort();
    for (uint32_t i = 0; i < key_count; i++) {
        uint64_t number = keys[i].hash[1];
        uint64_t known = number < STATS_KEYS_COUNT ? exact->counts[number] : 1;

        errors.above += known > keys[i].count + stats->lost;
        errors.below += keys[i].count > known + keys[i].error;
        errors.order += i > 0 && keys[i - 1].count < keys[i].count;
        errors.order += number < STATS_KEYS_COUNT && is_listed[number];
        if (number < STATS_KEYS_COUNT)
            is_listed[number] = true;
    }
    for (uint32_t i = 0; i < STATS_KEYS_COUNT; i++) {
        if (is_listed[i])
            continue;
        errors.missing += exact->counts[i] > stats->total / key_max + stats->lost;
        errors.unlisted += exact->counts[i] > stats->unlisted_max + stats->lost;
    }
    free(is_listed);
    return errors;
}

/* A list as it was read. */
struct stats_list {
    struct ration_top_key keys[STATS_LIST_MAX];
    uint32_t key_count;
    struct ration_top_keys_stats stats;
};

/* Empty top keys with valid parameters. Free with free(). */
static inline struct ration_top_keys *stats_top_make(uint32_t key_max, uint32_t shard_count)
{
    struct ration_top_keys_shape shape = {key_max, shard_count};
    size_t size = ration_top_keys_size(shape);
    struct ration_top_keys *top = NULL;

    if (ration_top_keys_init(stats_block(size), size, shape, &top) != RATION_OK)
        abort();
    return top;
}

static inline void stats_top_read(struct ration_top_keys *top, uint32_t keys_max,
                                  struct stats_list *list)
{
    void *scratch = stats_block(ration_top_keys_scratch_size(top->shape));

    memset(list, 0xff, sizeof(*list));
    list->key_count = ration_top_keys_read(top, scratch, list->keys, keys_max, &list->stats);
    free(scratch);
}

/* Adds to the list as the thread of that number, and to the exact count. */
static inline void stats_top_add(struct ration_top_keys *top, struct stats_exact *exact,
                                 uint32_t thread, uint64_t number, uint64_t weight)
{
    char name[32];
    struct ration_top_key_ref key = stats_key(number, name);
    uint32_t own = ration_thread_index();

    ration_thread_index_known = thread + 1;
    ration_top_keys_add(top, &key, weight);
    ration_thread_index_known = own + 1;
    if (number < STATS_KEYS_COUNT)
        exact->counts[number] += weight;
    exact->total += weight;
}

/* How often the list with room for all keys kept breaks a rule. */
static inline uint64_t stats_top_errors(const struct stats_exact *exact,
                                        struct ration_top_keys *top)
{
    static struct stats_list list;
    uint32_t key_max = top->shape.key_max;

    stats_top_read(top, key_max, &list);

    struct stats_errors errors =
        stats_judge(exact, key_max, list.keys, list.key_count, &list.stats);

    return stats_errors_count(errors) + (list.stats.unlisted_max > list.stats.total / key_max);
}

#endif
