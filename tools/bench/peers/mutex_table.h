/*
 * mutex_table: the table that a good C programmer would write in an afternoon, to compare with.
 *
 * One mutex, open addressing with linear probing, a power of two of slots at most half of them
 * used, and GCRA in whole nanoseconds:
 *
 *     slot   | hash of the key, 8 bytes | full again at, 8 bytes |     four to a cache line
 *
 * A key is its 64-bit hash (XXH3 under a seed), so a decision touches one line. It does what makes
 * such a table fast: hash, clock and prefetch come before the lock, memory is of huge pages, and
 * nothing is ever resized. It does not do what ration does: no key is forgotten, a token must be a
 * whole number of nanoseconds, and the thread that holds the lock stops all others.
 *
 * The hash is xxhash.h, which may be missing where this is built: mutex_table_error().
 */
#ifndef RATION_BENCH_PEERS_MUTEX_TABLE_H
#define RATION_BENCH_PEERS_MUTEX_TABLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct mutex_table;

struct mutex_table_options {
    size_t keys_max;   /* one more is a bug, and stops the program */
    uint64_t token_ns; /* time that one token takes to come back */
    uint64_t burst_tokens;
};

/* NULL, or why there is no mutex table in this build. Static storage. */
const char *mutex_table_error(void);

/*
 * Creates a table with all of its memory touched. Owned by the caller: release it with
 * mutex_table_free(). options is borrowed for the call. NULL if there is no memory, or a error.
 */
struct mutex_table *mutex_table_create(const struct mutex_table_options *options);

void mutex_table_free(struct mutex_table *table);

/* Takes one token of key at now_ns, if there is one. Any number of threads may call it. */
bool mutex_table_allow_at(struct mutex_table *table, const void *key, size_t key_bytes,
                          uint64_t now_ns);

/* The same, now, by CLOCK_MONOTONIC. */
bool mutex_table_allow(struct mutex_table *table, const void *key, size_t key_bytes);

/* What the table takes in memory for each of keys_max keys. */
double mutex_table_bytes_per_key(const struct mutex_table *table);

#endif
