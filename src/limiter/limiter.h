/*
 * limiter: the object behind ration/limiter.h.
 */
#ifndef RATION_LIMITER_LIMITER_H
#define RATION_LIMITER_LIMITER_H

#include <pthread.h>

#include "limiter/config.h"
#include "limiter/store.h"
#include "limiter/tally.h"

struct ration_limiter {
    struct ration_store *store;
    uint32_t section_index;
    const struct ration_section *quick_section; /* see quick.h. NULL: no short way */
    bool (*allow)(struct ration_limiter *limiter, const void *request, uint64_t cost_tokens,
                  uint64_t now_ns); /* the shortest that fits: see quick_line.h */
    bool (*allow_now)(struct ration_limiter *limiter, const void *request);
    ration_keyer *keyer;
    void *keyer_context;
    enum ration_overflow overflow;
    struct ration_clock clock;
    struct ration_tally tally;
    struct ration_configs configs;
    pthread_mutex_t change_lock; /* deciders do not take it: see ration_limiter_lock() */
    uint64_t lock_process;       /* whose it is */
    ration_stack *stack;         /* that it belongs to, or NULL */
    char name[RATION_LIMITER_NAME_MAX + 1];
};

struct ration_stack {
    struct ration_store *store;
    struct ration_clock clock;
    uint32_t limiter_count; /* grows */
    uint32_t limiter_max;
    bool asks_some;                   /* calls name the limiters; not all at once */
    struct ration_limiter **limiters; /* each stays where it is */
    size_t limiter_bytes;             /* of all of them together: a limiter that nobody uses may be
                                         replaced, and freed, while another thread asks */
};

static inline uint32_t ration_stack_count(const struct ration_stack *stack)
{
    /* acquire: pairs with the release in ration_stack_add(); so many are whole */
    return __atomic_load_n(&stack->limiter_count, __ATOMIC_ACQUIRE);
}

/*
 * Makes a limiter over a section of a store, which is borrowed. configs are taken over.
 * Returns RATION_ENOMEM, RATION_EINVAL. Release: ration_limiter_done().
 */
ration_status ration_limiter_init(struct ration_limiter *limiter,
                                  const struct ration_limiter_options *options,
                                  struct ration_configs *configs, struct ration_store *store,
                                  uint32_t section_index, struct ration_clock clock);
void ration_limiter_done(struct ration_limiter *limiter);

/* Whether a block is no longer than RATION_BLOCK_NS_MAX: the one bound, for every backend and protocol. */
static inline bool ration_limiter_block_fits(uint64_t until_ns, uint64_t now_ns)
{
    return until_ns <= now_ns || until_ns - now_ns <= RATION_BLOCK_NS_MAX;
}

/* ration_limiter_allow_at(), by whatever way. */
bool ration_limiter_allow_any(struct ration_limiter *limiter, const void *request,
                              uint64_t cost_tokens, uint64_t now_ns);

/* Keeps limits as they are, until it is unlocked. */
void ration_limiter_lock(struct ration_limiter *limiter);
void ration_limiter_unlock(struct ration_limiter *limiter);

/*
 * Resets all buckets of a limiter whose rules are these, without converting them one by one: each starts over
 * when it is met, and its place is free at once. Others may decide meanwhile.
 */
void ration_limiter_clear(struct ration_limiter *limiter, const struct ration_rule *rules,
                          size_t rule_count);

/* Finds the key of a request. Returns what the keyer does, RATION_EINVAL for one too long. */
ration_status ration_limiter_key(const struct ration_limiter *limiter, const void *request,
                                 char *room, struct ration_key *out_key);

/*
 * Begins a limiter's part in an op: the key, the current config, and the limit and cost of each
 * rule. key points into the request or room; the part's own_limits has room. Returns RATION_EINVAL,
 * RATION_EUNFIT.
 */
ration_status ration_limiter_open_part(const struct ration_limiter *limiter, const void *request,
                                       char *room, uint64_t cost_tokens,
                                       struct ration_op_part *out_part);

/* The rules that apply, of the current config, to a part whose key is known. */
ration_status ration_limiter_choose(const struct ration_limiter *limiter, const void *request,
                                    uint64_t cost_tokens, struct ration_op_part *part);

#endif
