#include "peers/mutex_table.h"

#if defined(__has_include)
#if __has_include(<xxhash.h>)
#define HAS_XXHASH
#endif
#endif

#ifndef HAS_XXHASH

const char *mutex_table_error(void)
{
    return "xxhash.h not found: make bench-peers installs it";
}

struct mutex_table *mutex_table_create(const struct mutex_table_options *options)
{
    (void)options;
    return NULL;
}

void mutex_table_free(struct mutex_table *table)
{
    (void)table;
}

bool mutex_table_allow_at(struct mutex_table *table, const void *key, size_t key_bytes,
                          uint64_t now_ns)
{
    (void)table;
    (void)key;
    (void)key_bytes;
    (void)now_ns;
    return false;
}

bool mutex_table_allow(struct mutex_table *table, const void *key, size_t key_bytes)
{
    return mutex_table_allow_at(table, key, key_bytes, 0);
}

double mutex_table_bytes_per_key(const struct mutex_table *table)
{
    (void)table;
    return 0;
}

#else

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <time.h>

#define HUGE_PAGE_BYTES ((size_t)2 << 20)
#define LINE_BYTES      64

struct slot {
    uint64_t hash; /* 0: never used */
    uint64_t full_at_ns;
};

/* The lock has a line of its own: what all read is not fetched again after each lock. */
struct mutex_table {
    struct slot *slots;
    size_t mask; /* slots, less one */
    size_t keys_max;
    size_t memory_bytes;
    uint64_t token_ns;
    uint64_t burst_ns;
    uint64_t seed;
    _Alignas(LINE_BYTES) pthread_mutex_t mutex;
    size_t key_count;
};

const char *mutex_table_error(void)
{
    return NULL;
}

/* As little as can be and at most half used. */
static size_t slot_count(size_t keys_max)
{
    size_t count = 1;

    while (count < 2 * keys_max)
        count *= 2;
    return count;
}

static struct slot *slots_create(size_t memory_bytes)
{
    struct slot *slots = aligned_alloc(HUGE_PAGE_BYTES, memory_bytes);

    if (slots == NULL)
        return NULL;
    madvise(slots, memory_bytes, MADV_HUGEPAGE); /* if it may */
    memset(slots, 0, memory_bytes);
    return slots;
}

struct mutex_table *mutex_table_create(const struct mutex_table_options *options)
{
    size_t count = slot_count(options->keys_max);
    size_t pages = (count * sizeof(struct slot) + HUGE_PAGE_BYTES - 1) / HUGE_PAGE_BYTES;
    struct mutex_table *table = aligned_alloc(LINE_BYTES, sizeof(*table));

    if (table == NULL)
        return NULL;
    *table = (struct mutex_table){
        .slots = slots_create(pages * HUGE_PAGE_BYTES),
        .mask = count - 1,
        .keys_max = options->keys_max,
        .memory_bytes = pages * HUGE_PAGE_BYTES,
        .token_ns = options->token_ns,
        .burst_ns = options->burst_tokens * options->token_ns,
    };
    if (table->slots == NULL ||
        getrandom(&table->seed, sizeof(table->seed), 0) != (ssize_t)sizeof(table->seed)) {
        free(table->slots);
        free(table);
        return NULL;
    }
    pthread_mutex_init(&table->mutex, NULL);
    return table;
}

void mutex_table_free(struct mutex_table *table)
{
    if (table == NULL)
        return;
    pthread_mutex_destroy(&table->mutex);
    free(table->slots);
    free(table);
}

/* The key's slot, or a new one: a slot with full_at_ns 0 is full. Under the lock. */
static struct slot *find_slot(struct mutex_table *table, uint64_t hash)
{
    size_t index = hash & table->mask;

    /* ends: half of the slots or more are free */
    while (table->slots[index].hash != hash) {
        if (table->slots[index].hash == 0) {
            if (table->key_count == table->keys_max) {
                fprintf(stderr, "mutex_table: more keys than keys_max\n");
                abort();
            }
            table->key_count++;
            table->slots[index].hash = hash;
            break;
        }
        index = (index + 1) & table->mask;
    }
    return &table->slots[index];
}

/* GCRA: what is owed after this token must fit the burst. */
static bool take_token(struct slot *slot, const struct mutex_table *table, uint64_t now_ns)
{
    uint64_t from_ns = slot->full_at_ns > now_ns ? slot->full_at_ns : now_ns;
    uint64_t next_ns = from_ns + table->token_ns;

    if (next_ns > now_ns + table->burst_ns)
        return false;
    slot->full_at_ns = next_ns;
    return true;
}

/* The key's hash, with its slot on the way to the cache. */
static uint64_t hash_key(const struct mutex_table *table, const void *key, size_t key_bytes)
{
    uint64_t hash = XXH3_64bits_withSeed(key, key_bytes, table->seed);

    hash += hash == 0; /* 0 is a free slot */
    __builtin_prefetch(&table->slots[hash & table->mask], 1);
    return hash;
}

static bool decide_locked(struct mutex_table *table, uint64_t hash, uint64_t now_ns)
{
    pthread_mutex_lock(&table->mutex);

    bool is_allowed = take_token(find_slot(table, hash), table, now_ns);

    pthread_mutex_unlock(&table->mutex);
    return is_allowed;
}

bool mutex_table_allow_at(struct mutex_table *table, const void *key, size_t key_bytes,
                          uint64_t now_ns)
{
    return decide_locked(table, hash_key(table, key, key_bytes), now_ns);
}

bool mutex_table_allow(struct mutex_table *table, const void *key, size_t key_bytes)
{
    uint64_t hash = hash_key(table, key, key_bytes);
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now); /* while the slot is fetched */
    return decide_locked(table, hash,
                         (uint64_t)now.tv_sec * UINT64_C(1000000000) + (uint64_t)now.tv_nsec);
}

double mutex_table_bytes_per_key(const struct mutex_table *table)
{
    return (double)table->memory_bytes / (double)table->keys_max;
}

#endif
