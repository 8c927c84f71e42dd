/*
 * short: the calls that need no op: token buckets, and nothing wanted but the verdict.
 */
#ifndef RATION_LIMITER_SHORT_H
#define RATION_LIMITER_SHORT_H

#include "limiter/limiter.h"

/* Whether a limiter's calls can go the short way under this config. */
static inline bool ration_short_is_open(const struct ration_limiter *limiter,
                                        const struct ration_config *config)
{
    return config->is_simple && limiter->keyer == NULL &&
           limiter->store->calls->take_simple != NULL;
}

/* The target of a request whose key is the request itself. Returns RATION_EINVAL. */
static inline ration_status ration_short_aim(const struct ration_limiter *limiter,
                                             const struct ration_config *config,
                                             const void *request, struct ration_target *out_target)
{
    const struct ration_key *key = request;

    if (key == NULL || key->size > RATION_KEY_SIZE_MAX || (key->bytes == NULL && key->size > 0))
        return RATION_EINVAL;
    out_target->key = *key;
    out_target->config = config;
    out_target->config_number = __atomic_load_n(&config->number, __ATOMIC_ACQUIRE);
    out_target->section_index = limiter->section_index;
    out_target->is_located = 0;
    return RATION_OK;
}

/* Decides and counts. RATION_TAKE_LONG: it takes a whole op. */
static inline int ration_short_take(struct ration_limiter *limiter,
                                    const struct ration_target *target, uint64_t cost_tokens,
                                    uint64_t now_ns)
{
    uint32_t denied_mask = 0;
    int verdict = limiter->store->calls->take_simple(limiter->store, target, cost_tokens, now_ns,
                                                     &denied_mask);

    if (verdict == RATION_ALLOW) {
        for (uint32_t i = 0; i < target->config->rule_count; i++)
            ration_counters_add_allowed(limiter->tally.counters, i, cost_tokens);
        if (__builtin_expect(limiter->tally.top_cost != NULL, 0))
            ration_tally_cost_of_key(&limiter->tally, target->key, cost_tokens);
    } else if (verdict != RATION_TAKE_LONG) {
        ration_tally_denied_short(&limiter->tally, target, denied_mask,
                                  (enum ration_verdict)verdict);
    }
    return verdict;
}

#endif
