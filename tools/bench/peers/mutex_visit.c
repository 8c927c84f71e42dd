#include "peers/mutex_visit.h"

#include "support/threads.h"

const struct mutex_table_options mutex_visit_options = {
    .keys_max = PEER_KEYS_COUNT,
    .token_ns = UINT64_C(1000000000) / PEER_LIMIT_PER_SECOND,
    .burst_tokens = PEER_LIMIT_BURST,
};

static void fill_table(void *context, unsigned thread_index)
{
    struct mutex_visit *visit = context;

    (void)thread_index;
    for (size_t i = 0; i < visit->key_count; i++)
        mutex_table_allow_at(visit->table, visit->keys[i].bytes, sizeof(struct peer_key),
                             visit->now_ns);
}

/*
 * On a thread of its own: in a process that never had a second thread glibc locks without an
 * atomic instruction, and a table with a lock is not for those.
 */
void mutex_visit_fill(struct mutex_visit *visit)
{
    threads_run(1, fill_table, visit);
}

static const struct peer_key *next_key(struct mutex_visit *visit)
{
    const struct peer_key *key = &visit->keys[visit->next_index++];

    if (visit->next_index == visit->key_count)
        visit->next_index = 0;
    return key;
}

void mutex_visit_at(void *context, uint64_t count)
{
    struct mutex_visit *visit = context;
    uint64_t admitted = 0;

    for (uint64_t i = 0; i < count; i++, visit->now_ns += visit->step_ns)
        admitted += mutex_table_allow_at(visit->table, next_key(visit)->bytes,
                                         sizeof(struct peer_key), visit->now_ns);
    visit->call_count += count;
    visit->admitted_count += admitted;
}

void mutex_visit_now(void *context, uint64_t count)
{
    struct mutex_visit *visit = context;
    uint64_t admitted = 0;

    for (uint64_t i = 0; i < count; i++)
        admitted +=
            mutex_table_allow(visit->table, next_key(visit)->bytes, sizeof(struct peer_key));
    visit->call_count += count;
    visit->admitted_count += admitted;
}

/* Two threads ---------------------------------------------------------------------------- */

struct mutex_visit_pair mutex_visit_split(const struct mutex_visit *visit)
{
    struct mutex_visit_pair pair = {.first = *visit, .second = *visit};
    size_t half = visit->key_count / 2;

    pair.first.key_count = half;
    pair.second.keys += half;
    pair.second.key_count -= half;
    pair.first.next_index = 0;
    pair.second.next_index = 0;
    return pair;
}

struct couple {
    struct mutex_visit_pair *pair;
    void (*function)(void *context, uint64_t count);
    struct spin_barrier barrier;
    uint64_t count;
};

static void visit_half(void *context, unsigned thread_index)
{
    struct couple *couple = context;

    spin_barrier_wait(&couple->barrier);
    couple->function(thread_index == 0 ? &couple->pair->first : &couple->pair->second,
                     couple->count / 2);
}

static void visit_in_two(struct couple *couple)
{
    spin_barrier_init(&couple->barrier, 2);
    threads_run(2, visit_half, couple);
}

void mutex_visit_pair_at(void *pair, uint64_t count)
{
    visit_in_two(&(struct couple){.pair = pair, .function = mutex_visit_at, .count = count});
}

void mutex_visit_pair_now(void *pair, uint64_t count)
{
    visit_in_two(&(struct couple){.pair = pair, .function = mutex_visit_now, .count = count});
}
