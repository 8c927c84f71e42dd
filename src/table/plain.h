/*
 * plain: one slot per key, for one limit.
 *
 * A slot's tag and moment change together, by one 16-byte compare-and-swap. So a slot that was
 * reclaimed and given to another key between a look and a swap fails the swap: nobody is charged
 * for another. The mark of a member says which generation of the limit wrote it, and thereby when
 * to convert it; that of a claim is RATION_MARK_CLAIM, and its moment has a number in it that is
 * used once.
 */
#ifndef RATION_TABLE_PLAIN_H
#define RATION_TABLE_PLAIN_H

#include "table/create.h"

static inline bool ration_plain_is_member(struct ration_pair pair, uint64_t tag)
{
    return ration_pair_label(pair) == tag && ration_pair_mark(pair) < RATION_MARK_CLAIM;
}

/*
 * The key's slot, with its value in *out_value, or NULL if the key is absent. (It may be created
 * a moment later.)
 */
static inline struct ration_pair *ration_plain_find(const struct ration_section *section,
                                                    const struct ration_place *place,
                                                    struct ration_pair *out_value)
{
    for (uint32_t half = 0; half < 2; half++) {
        struct ration_pair *set = section->sets + (uint64_t)place->sets[half] * RATION_SET_PLACES;

        for (uint32_t i = 0; i < RATION_SET_PLACES; i++) {
            struct ration_pair *slot = &set[place->start ^ i];
            /* relaxed: the load of the whole slot below is what counts */
            uint64_t word = __atomic_load_n(&slot->words[0], __ATOMIC_RELAXED);

            if (word >> RATION_FRAC_BITS != place->tag)
                continue;
            *out_value = ration_atomic16_load(slot); /* acquire: pairs with the swaps */
            if (ration_plain_is_member(*out_value, place->tag))
                return slot;
        }
    }
    return NULL;
}

/* For ration_create_enter(). */
extern const struct ration_head_kind ration_plain_kind;

/* Turns a claim into the member given. False if another thread has completed or cancelled it. */
bool ration_plain_complete(const struct ration_entrance *claim, struct ration_slot member);

/*
 * Makes a charge of the overflow slot fail that was judged by what is there, without a change of
 * what is there. False if it has changed.
 */
bool ration_plain_touch_overflow(struct ration_pair *overflow, struct ration_pair value);

/* The earliest moment at which one of the key's 16 places will be free. */
struct ration_time ration_plain_free_at(const struct ration_section *section,
                                        const struct ration_place *place);

#endif
