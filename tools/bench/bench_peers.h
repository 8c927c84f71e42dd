/*
 * peers: other people's limiters, run for comparison, and the keys that all of them visit.
 *
 * Each peer is a program of its own (tools/bench/peers; tools/bench/peers.sh builds them), which prints
 * a line per case:
 *
 *     peer=go-juju-mutex case=million ns_per_op=578.3 ops=1700000 admitted=1.000000 keys=1000000
 *
 * Nothing here takes turns with ration in short slices, as rows do: of a ratio to a peer the
 * first digit counts. The one that does take turns is the mutex table (peers/mutex_visit.h).
 *
 *     struct peer_result results[PEERS_MAX];
 *     size_t count = peers_run(results, PEERS_MAX);
 */
#ifndef RATION_BENCH_BENCH_PEERS_H
#define RATION_BENCH_BENCH_PEERS_H

#include <stdbool.h>
#include <stddef.h>

#define PEERS_MAX 16

/* The same in every peer. */
#define PEER_KEYS_COUNT       1000000
#define PEER_LIMIT_TEXT       "10/s burst 10"
#define PEER_LIMIT_PER_SECOND 10
#define PEER_LIMIT_BURST      10

/* Figures are 0 where there are none: the peer is absent, or has no threads. */
struct peer_result {
    char name[32];                 /* "Go x/time/rate, Mutex" */
    double hot_ns;                 /* a call, all of one key: nearly all denied */
    double million_ns;             /* a call, keys at random: nearly all admitted */
    double million_two_threads_ns; /* the same on two threads, time by calls of both */
    double hot_admitted;           /* fraction of the calls, as is the next */
    double million_admitted;
    double bytes_per_key; /* of memory, the key included */
    double million_keys;  /* PEER_KEYS_COUNT, or fewer where that would take too long */
    double run_seconds;
    bool present;
    char note[128]; /* present: what to know about the figures; absent: why, and what to do */
};

/*
 * Runs every peer, one after the other, 8 s or so and at most 15 s each, and fills results with up
 * to max of them, absent ones included. Returns how many. They are looked for in build/peers, or
 * where the environment's RATION_PEERS_DIR says.
 */
size_t peers_run(struct peer_result *results, size_t max);

/* Prints a line of results per peer, absent ones with the reason. */
void peers_print(const struct peer_result *results, size_t count);

struct peer_key {
    unsigned char bytes[16];
};

/*
 * The first count of the keys that every peer visits, in random order, the same in each run.
 * Owned by the caller: free(). NULL if there is no memory.
 */
struct peer_key *peer_keys_create(size_t count);

#endif
