/*
 * ration beside other people's limiters (bench_peers.h), each with its own clock, on the same keys and
 * under the same limit: a hot key, a million keys one by one, and a million by 32.
 *
 * A peer runs in a process of its own, so a ratio here is of two times some seconds apart.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench.h"
#include "bench_peers.h"
#include "ration/limiter.h"

#define BATCH 32

/* How much of a peer's time a call may take. */
#define HOT_MAX     (1 / 3.0)
#define MILLION_MAX (1 / 4.0)
#define BATCH_MAX   (1 / 12.0)

struct visit {
    ration_limiter *limiter;
    const struct peer_key *keys;
    size_t key_count;
    size_t next_index;
};

static struct ration_key next_key(struct visit *visit)
{
    struct ration_key key = {visit->keys[visit->next_index].bytes, sizeof(struct peer_key)};

    visit->next_index = visit->next_index + 1 < visit->key_count ? visit->next_index + 1 : 0;
    return key;
}

static void one_by_one(void *context, uint64_t count)
{
    struct visit *visit = context;

    for (uint64_t i = 0; i < count; i++) {
        struct ration_key key = next_key(visit);

        bench_keep(ration_limiter_allow(visit->limiter, &key));
    }
}

static void by_batches(void *context, uint64_t count)
{
    struct visit *visit = context;

    for (uint64_t i = 0; i < count; i += BATCH) {
        struct ration_key keys[BATCH];
        struct ration_batch_item items[BATCH];

        for (size_t k = 0; k < BATCH; k++) {
            keys[k] = next_key(visit);
            items[k] = (struct ration_batch_item){.request = &keys[k], .cost_tokens = 1};
        }
        bench_keep(ration_limiter_take_batch(visit->limiter, items, BATCH,
                                             ration_limiter_now(visit->limiter)));
    }
}

static struct visit visit_make(const struct peer_key *keys, size_t key_count)
{
    struct ration_rule rule;
    struct visit visit = {.keys = keys, .key_count = key_count};

    memset(&rule, 0, sizeof(rule));
    bench_expect(ration_limit_parse(PEER_LIMIT_TEXT, &rule.limit, NULL) == RATION_OK, "the limit");
    bench_expect(
        ration_limiter_create(
            &(struct ration_limiter_options){.struct_size = sizeof(struct ration_limiter_options),
                                             .rules = &rule,
                                             .rule_count = 1,
                                             .keys_max = key_count < 1000 ? 1000 : key_count,
                                             .uses_huge_pages = 1,
                                             .is_prefaulted = 1},
            &visit.limiter, NULL) == RATION_OK,
        "memory for the keys");
    one_by_one(&visit, key_count);
    return visit;
}

static void compare_peer(struct bench *bench, const struct peer_result *peer, double hot_ns,
                         double million_ns, double batch_ns)
{
    if (peer->hot_ns > 0 && hot_ns > 0)
        bench_row_given(bench, "one hot key, by its clock", hot_ns, peer->name, peer->hot_ns,
                        HOT_MAX);
    if (peer->million_ns > 0 && million_ns > 0) {
        bench_row_given(bench, "1 M keys, by its clock", million_ns, peer->name, peer->million_ns,
                        MILLION_MAX);
        bench_row_given(bench, "1 M keys by 32, by its clock", batch_ns, peer->name,
                        peer->million_ns, BATCH_MAX);
    }
}

void peers_bench(struct bench *bench)
{
    static struct peer_result results[PEERS_MAX]; /* rows borrow the names */
    struct peer_key *keys = peer_keys_create(PEER_KEYS_COUNT);

    bench_expect(keys != NULL, "memory for the keys");

    struct visit hot = visit_make(keys, 1);
    struct visit million = visit_make(keys, PEER_KEYS_COUNT);
    double hot_ns = bench_row(bench, &(struct bench_subject){.name = "one hot key, by its clock",
                                                             .work = {one_by_one, &hot}});
    double million_ns = bench_row(bench, &(struct bench_subject){.name = "1 M keys, by its clock",
                                                                 .work = {one_by_one, &million},
                                                                 .slice_ns = 10e6});
    double batch_ns =
        bench_row(bench, &(struct bench_subject){.name = "1 M keys by 32, by its clock",
                                                 .work = {by_batches, &million},
                                                 .slice_ns = 10e6});

    ration_limiter_free(hot.limiter);
    ration_limiter_free(million.limiter);
    free(keys);

    size_t count = peers_run(results, PEERS_MAX);

    printf("\n");
    peers_print(results, count);
    printf("\n");
    for (size_t i = 0; i < count; i++)
        compare_peer(bench, &results[i], hot_ns, million_ns, batch_ns);
}
