/* Reads top keys: each sketch is copied under its lock, then the copies are added up. */
#include "stats/top_keys.h"

#include <sched.h>
#include <string.h>
#include <time.h>

/*
 * An add takes 100 ns, unless the kernel preempts the thread during it: then it may continue only
 * some milliseconds later. A thread that holds the lock for 20 ms is assumed never to release it.
 */
#define YIELDS_MAX 100u
#define SLEEPS_MAX 200u
#define SLEEP_NS   100000L

/* The copies, and the sorted list computed from them. */
struct merge {
    unsigned char *copies;
    size_t copy_bytes;
    uint32_t copy_count;
    struct ration_top_key *keys;
    uint32_t key_count;
    uint32_t keys_max;
    uint64_t cut_max; /* the highest count that did not fit into the list */
};

/* Rounded up, so that each copy is aligned. */
static size_t copy_bytes(struct ration_top_keys_shape shape)
{
    return (ration_space_saving_size(shape.key_max) + sizeof(uint64_t) - 1) &
           ~(sizeof(uint64_t) - 1);
}

size_t ration_top_keys_scratch_size(struct ration_top_keys_shape shape)
{
    return shape.shard_count * copy_bytes(shape);
}

static struct ration_space_saving *copy_at(const struct merge *merge, uint32_t index)
{
    return (struct ration_space_saving *)(void *)(merge->copies + index * merge->copy_bytes);
}

/* Copying ------------------------------------------------------------------------------- */

static bool lock_with_retries(struct ration_top_keys_shard *shard)
{
    const struct timespec pause = {0, SLEEP_NS};

    for (uint32_t i = 0; i < YIELDS_MAX + SLEEPS_MAX; i++) {
        if (ration_top_keys_enter(shard))
            return true;
        if (i < YIELDS_MAX)
            sched_yield();
        else
            nanosleep(&pause, NULL);
    }
    return false;
}

static void copy_shard(struct ration_top_keys_shard *shard, uint32_t key_max,
                       struct ration_space_saving *copy, struct ration_top_keys_stats *stats)
{
    if (lock_with_retries(shard)) {
        memcpy(copy, &shard->sketch, ration_space_saving_size(key_max));
        stats->total = ration_space_saving_add_or_max(stats->total, shard->total);
        ration_top_keys_leave(shard);
        return;
    }
    ration_space_saving_init(copy, key_max);
    stats->lost = ration_space_saving_add_or_max(stats->lost,
                                                 __atomic_load_n(&shard->total, __ATOMIC_RELAXED));
}

/* Adding up ----------------------------------------------------------------------------- */

/* Returns whether an earlier copy has the key: then it is in the list already. */
static bool is_in_earlier_copy(const struct merge *merge, uint32_t copy_index,
                               const uint64_t hash[2])
{
    for (uint32_t i = 0; i < copy_index; i++) {
        const struct ration_space_saving *copy = copy_at(merge, i);

        if (ration_space_saving_find(copy, hash) < copy->key_count)
            return true;
    }
    return false;
}

/* A key's count and error over all copies. */
static struct ration_top_key sum_key(const struct merge *merge,
                                     const struct ration_space_saving_entry *entry)
{
    struct ration_top_key key = {.hash = {entry->hash[0], entry->hash[1]},
                                 .name_size = entry->name_size};
    size_t stored_size = entry->name_size < sizeof(key.name) ? entry->name_size : sizeof(key.name);

    memcpy(key.name, entry->name, stored_size);
    for (uint32_t i = 0; i < merge->copy_count; i++) {
        const struct ration_space_saving *copy = copy_at(merge, i);
        uint32_t index = ration_space_saving_find(copy, entry->hash);
        bool is_tracked = index < copy->key_count;
        uint64_t count = is_tracked ? ration_space_saving_count(copy, index) : copy->floor;
        uint64_t error = is_tracked ? ration_space_saving_entry(copy, index)->error : copy->floor;

        key.count = ration_space_saving_add_or_max(key.count, count);
        key.error = ration_space_saving_add_or_max(key.error, error);
    }
    return key;
}

/* Higher count first, then smaller error, then any fixed order. */
static bool key_precedes(const struct ration_top_key *a, const struct ration_top_key *b)
{
    if (a->count != b->count)
        return a->count > b->count;
    if (a->error != b->error)
        return a->error < b->error;
    if (a->hash[0] != b->hash[0])
        return a->hash[0] < b->hash[0];
    return a->hash[1] < b->hash[1];
}

/* Returns the position of a key in the list. */
static uint32_t position_of(const struct merge *merge, const struct ration_top_key *key)
{
    uint32_t low = 0;
    uint32_t high = merge->key_count;

    while (low < high) {
        uint32_t middle = low + (high - low) / 2;

        if (key_precedes(&merge->keys[middle], key))
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static void raise_cut_max(struct merge *merge, uint64_t count)
{
    if (merge->cut_max < count)
        merge->cut_max = count;
}

static void insert_key(struct merge *merge, const struct ration_top_key *key)
{
    uint32_t position = position_of(merge, key);

    if (position == merge->keys_max) {
        raise_cut_max(merge, key->count);
        return;
    }
    if (merge->key_count == merge->keys_max)
        raise_cut_max(merge, merge->keys[--merge->key_count].count);
    memmove(&merge->keys[position + 1], &merge->keys[position],
            (merge->key_count - position) * sizeof(*key));
    merge->keys[position] = *key;
    merge->key_count++;
}

static void insert_copy_keys(struct merge *merge, uint32_t copy_index)
{
    const struct ration_space_saving *copy = copy_at(merge, copy_index);

    for (uint32_t i = 0; i < copy->key_count; i++) {
        const struct ration_space_saving_entry *entry = ration_space_saving_entry(copy, i);

        if (is_in_earlier_copy(merge, copy_index, entry->hash))
            continue;

        struct ration_top_key key = sum_key(merge, entry);

        insert_key(merge, &key);
    }
}

uint32_t ration_top_keys_read(struct ration_top_keys *top, void *scratch,
                              struct ration_top_key *out_keys, uint32_t keys_max,
                              struct ration_top_keys_stats *out_stats)
{
    struct ration_top_keys_stats stats = {0, 0, 0};
    struct merge merge = {
        .copies = scratch,
        .copy_bytes = copy_bytes(top->shape),
        .copy_count = top->shape.shard_count,
        .keys = out_keys,
        .keys_max = keys_max,
    };
    uint64_t absent_max = 0;

    for (uint32_t i = 0; i < merge.copy_count; i++) {
        struct ration_space_saving *copy = copy_at(&merge, i);

        copy_shard(ration_top_keys_shard(top, i), top->shape.key_max, copy, &stats);
        absent_max = ration_space_saving_add_or_max(absent_max, copy->floor);
    }
    /* after the copies: weight lost before one of them is in it or in this count */
    for (uint32_t i = 0; i < merge.copy_count; i++)
        stats.lost = ration_space_saving_add_or_max(
            stats.lost, __atomic_load_n(&ration_top_keys_shard(top, i)->lost, __ATOMIC_RELAXED));
    for (uint32_t i = 0; i < merge.copy_count; i++)
        insert_copy_keys(&merge, i);

    stats.unlisted_max = merge.cut_max > absent_max ? merge.cut_max : absent_max;
    *out_stats = stats;
    return merge.key_count;
}
