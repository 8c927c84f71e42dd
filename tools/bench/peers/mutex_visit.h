/*
 * mutex_visit: the mutex table as subjects of bench_row(), to take turns with ration's.
 *
 *     struct peer_key *keys = peer_keys_create(PEER_KEYS_COUNT);
 *     struct mutex_table *table = mutex_table_create(&mutex_visit_options);
 *     struct mutex_visit all = {.table = table, .keys = keys, .key_count = PEER_KEYS_COUNT};
 *     struct mutex_visit hot = {.table = other, .keys = keys, .key_count = 1};
 *
 *     .terms = {{{mutex_visit_at, &all}, 1.0}}
 *
 * A visit continues where the last one stopped, round and round. Call mutex_visit_fill() first, or
 * the first lap measures insertions. A table has one time: either given or by the clock.
 */
#ifndef RATION_BENCH_PEERS_MUTEX_VISIT_H
#define RATION_BENCH_PEERS_MUTEX_VISIT_H

#include "bench_peers.h"
#include "peers/mutex_table.h"

/* The limit of every peer, 10 per second and burst 10, over PEER_KEYS_COUNT keys. */
extern const struct mutex_table_options mutex_visit_options;

struct mutex_visit {
    struct mutex_table *table;   /* borrowed */
    const struct peer_key *keys; /* borrowed; 1 key: the hot one */
    size_t key_count;
    uint64_t now_ns;  /* for mutex_visit_at(), which adds step_ns at each call */
    uint64_t step_ns; /* 100: a lap of a million keys lasts one token, and all are admitted */

    size_t next_index;
    uint64_t call_count; /* since it was made, as is admitted_count */
    uint64_t admitted_count;
};

/* Two threads, each with keys of its own. */
struct mutex_visit_pair {
    _Alignas(64) struct mutex_visit first;
    _Alignas(64) struct mutex_visit second;
};

/* Meets every key once, at now_ns (0 if the clock is to be used). */
void mutex_visit_fill(struct mutex_visit *visit);

/* Two visits of one table: of the first half of the keys, and of the others. */
struct mutex_visit_pair mutex_visit_split(const struct mutex_visit *visit);

/* bench_functions of a struct mutex_visit: with now given, and reading CLOCK_MONOTONIC. */
void mutex_visit_at(void *context, uint64_t count);
void mutex_visit_now(void *context, uint64_t count);

/*
 * bench_functions of a struct mutex_visit_pair: share count between two threads. The reported time is
 * that per call of either; threads are started too, so slices should take 10 ms or more.
 */
void mutex_visit_pair_at(void *pair, uint64_t count);
void mutex_visit_pair_now(void *pair, uint64_t count);

#endif
