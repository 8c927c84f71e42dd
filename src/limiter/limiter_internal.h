/*
 * limiter: the limiter and stack objects behind ration/limiter.h.
 */
#ifndef RATION_LIMITER_LIMITER_INTERNAL_H
#define RATION_LIMITER_LIMITER_INTERNAL_H

#include <pthread.h>

#include "limiter/config.h"
#include "limiter/limiter_counts.h"
#include "limiter/store.h"
#include "ration/stack.h"

struct ration_limiter {
    struct ration_store *store;
    uint32_t section_index;
    const struct ration_section *fast_section; /* see fast.h. NULL: no fast path */
    bool (*allow)(struct ration_limiter *limiter, const void *request, uint64_t cost_tokens,
                  uint64_t now_ns); /* the fastest function that fits: see fast_simd.h */
    bool (*allow_now)(struct ration_limiter *limiter, const void *request);
    ration_key_func *key_func;
    void *key_context;
    enum ration_overflow overflow;
    struct ration_clock clock;
    struct ration_limiter_counts counts;
    struct ration_config_table configs;
    pthread_mutex_t change_lock; /* deciding threads do not take it: see ration_limiter_lock() */
    uint64_t lock_process;       /* that initialised change_lock; UINT64_MAX: one is doing so */
    ration_stack *stack;         /* the stack that the limiter belongs to, or NULL */
    char name[RATION_LIMITER_NAME_MAX + 1];
};

struct ration_stack {
    struct ration_store *store;
    struct ration_clock clock;
    uint32_t limiter_count; /* only grows */
    uint32_t limiter_max;
    bool calls_name_limiters;         /* calls name the limiters they use, instead of using all */
    struct ration_limiter **limiters; /* a limiter stays at its address until it is replaced */
    /*
     * Memory of all limiters together. It is summed here because an unused limiter may be replaced and freed
     * while another thread reads the size.
     */
    size_t limiter_bytes;
};

static inline uint32_t ration_limiter_stack_count(const struct ration_stack *stack)
{
    /* acquire: pairs with the release in place_limiter() (limiter_create.c); that many limiters are complete */
    return __atomic_load_n(&stack->limiter_count, __ATOMIC_ACQUIRE);
}

/*
 * Initialises a limiter over a section of a store, which is borrowed. On success the limiter owns configs.
 * Returns RATION_ENOMEM, RATION_EINVAL. Release: ration_limiter_done().
 */
ration_status ration_limiter_init(struct ration_limiter *limiter,
                                  const struct ration_limiter_options *options,
                                  struct ration_config_table *configs, struct ration_store *store,
                                  uint32_t section_index, struct ration_clock clock);
void ration_limiter_done(struct ration_limiter *limiter);

/* Whether a block lasts at most RATION_BLOCK_NS_MAX: one bound for every backend and protocol. */
static inline bool ration_limiter_block_fits(uint64_t until_ns, uint64_t now_ns)
{
    return until_ns <= now_ns || until_ns - now_ns <= RATION_BLOCK_NS_MAX;
}

/* ration_limiter_allow_at() for every limiter: tries the portable fast path, then runs a whole op. */
bool ration_limiter_allow_any(struct ration_limiter *limiter, const void *request,
                              uint64_t cost_tokens, uint64_t now_ns);

/* While the lock is held, no thread changes the limiter's limits. */
void ration_limiter_lock(struct ration_limiter *limiter);
void ration_limiter_unlock(struct ration_limiter *limiter);

/*
 * Resets all buckets of a limiter that has these rules, without converting them one by one: a bucket starts
 * over when a call next reads it, and its slot is free at once. Other threads may decide meanwhile.
 */
void ration_limiter_clear(struct ration_limiter *limiter, const struct ration_rule *rules,
                          size_t rule_count);

/* Computes the key of a request. Returns the key_func's status, or RATION_EINVAL for a key that is too long. */
ration_status ration_limiter_key(const struct ration_limiter *limiter, const void *request,
                                 char *room, struct ration_key *out_key);

/*
 * Begins a limiter's part of an op: the key, the current config, and the limit and cost of each rule. The key
 * points into the request or into room. The caller has set out_part->own_limits to memory for RATION_RULES_MAX
 * limits. Returns RATION_EINVAL, RATION_EUNSUPPORTED.
 */
ration_status ration_limiter_open_part(const struct ration_limiter *limiter, const void *request,
                                       char *room, uint64_t cost_tokens,
                                       struct ration_key_part *out_part);

#endif
