/*
 * plain: one 16-byte slot per key, for one limit.
 *
 * A thread changes a slot's tag and expiry time together, by one 16-byte compare-and-swap. So if a thread reclaims
 * the slot for another key between a charging thread's load and its swap, the swap fails, and no key is charged for
 * another. The flags of a member give the generation of the limit that wrote it, and so whether it must be converted.
 * The flags of a claim are RATION_FLAG_CLAIM, and its expiry time contains a number that is used only once.
 */
#ifndef RATION_TABLE_PLAIN_H
#define RATION_TABLE_PLAIN_H

#include "table/claim.h"

static inline bool ration_plain_is_member(struct ration_pair pair, uint64_t tag)
{
    return ration_slot_tag(pair) == tag && ration_slot_flags(pair) < RATION_FLAG_CLAIM;
}

/*
 * The key's slot, with its value in *out_value, or NULL if the key is absent. (Another thread may create it right
 * afterwards.)
 */
static inline struct ration_pair *ration_plain_find(const struct ration_section *section,
                                                    const struct ration_location *location,
                                                    struct ration_pair *out_value)
{
    for (uint32_t half = 0; half < 2; half++) {
        struct ration_pair *set = section->sets + (uint64_t)location->sets[half] * RATION_SET_SLOTS;

        for (uint32_t i = 0; i < RATION_SET_SLOTS; i++) {
            struct ration_pair *slot = &set[location->start ^ i];
            /* relaxed: only a filter; the load of the whole slot below decides */
            uint64_t word = __atomic_load_n(&slot->words[0], __ATOMIC_RELAXED);

            if (word >> RATION_FRAC_BITS != location->tag)
                continue;
            *out_value = ration_atomic16_load(slot); /* acquire: pairs with the swaps of the slot */
            if (ration_plain_is_member(*out_value, location->tag))
                return slot;
        }
    }
    return NULL;
}

/* For ration_claim_begin(). */
extern const struct ration_head_kind ration_plain_kind;

/* Turns a claim into the member given. False if another thread has completed or aborted it. */
bool ration_plain_complete(const struct ration_claim *claim, struct ration_slot member);

/*
 * Makes the pending swap of each thread that has read the overflow slot fail, without changing the bucket: only the
 * tag changes. False if the slot is no longer value.
 */
bool ration_plain_touch_overflow(struct ration_pair *overflow, struct ration_pair value);

/* The earliest time at which one of the key's 16 slots will be free. */
struct ration_time ration_plain_free_at(const struct ration_section *section,
                                        const struct ration_location *location);

#endif
