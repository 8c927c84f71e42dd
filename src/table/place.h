/*
 * place: where a key may stand.
 *
 * A section is an array of sets of 8 places. A key's hash names two of the sets, the place in
 * each where looking starts, and a tag of 44 bits. A key is in one of these 16 places or absent,
 * so it meets another's tag with a probability below 16 * 2^-44 = 0.91e-12 (R10).
 *
 *     hash word 0    tag 44 | 17 unused | start 3
 *     hash word 1    second set 32 | first set 32
 *
 * A key goes into its first set unless 6 of the 8 places there are in use; then into the one with
 * fewer in use. At 4.75 keys per set fewer than one key in 10^6 finds both sets full, and 92 of
 * 100 are found in the first one they look at.
 */
#ifndef RATION_TABLE_PLACE_H
#define RATION_TABLE_PLACE_H

#include <stdint.h>

#include "base/hash.h"
#include "table/slot.h"

#define RATION_SET_PLACES         8
#define RATION_SET_CROWDED_PLACES 6
#define RATION_KEY_PLACES         (2 * RATION_SET_PLACES)

/*
 * The label of a section's overflow entry, which is found without a look. (That of an overflow slot
 * is a number: see ration_plain_touch_overflow().)
 */
#define RATION_OVERFLOW_LABEL ((UINT64_C(1) << RATION_LABEL_BITS) - 1)

struct ration_place {
    uint64_t tag; /* never 0 */
    uint32_t sets[2];
    uint32_t start; /* of the look through a set */
};

static inline struct ration_place ration_place_of(struct ration_hash hash, uint32_t set_count)
{
    struct ration_place place;
    uint64_t tag = hash.words[0] >> RATION_FRAC_BITS;

    place.tag = tag + (tag == 0);
    place.start = (uint32_t)hash.words[0] % RATION_SET_PLACES;
    place.sets[0] = (uint32_t)(((hash.words[1] & UINT32_MAX) * set_count) >> 32);
    place.sets[1] = (uint32_t)(((hash.words[1] >> 32) * set_count) >> 32);
    if (__builtin_expect(place.sets[1] == place.sets[0], 0))
        place.sets[1] = place.sets[0] + 1 < set_count ? place.sets[0] + 1 : 0;
    return place;
}

/*
 * The index in a section of the key's i-th place, 0 to 15, in the order of looking. The first four
 * are those of one half of the set: of plain slots, one cache line.
 */
static inline uint64_t ration_place_index(const struct ration_place *place, uint32_t i)
{
    uint32_t set = place->sets[i / RATION_SET_PLACES];

    return (uint64_t)set * RATION_SET_PLACES + (place->start ^ (i % RATION_SET_PLACES));
}

#endif
