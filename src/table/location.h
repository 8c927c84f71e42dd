/*
 * location: the slots in which a key may be.
 *
 * A section is an array of sets of 8 slots. (A slot is 16 bytes in a plain section, an entry in others.) A key's hash
 * gives two of the sets, the slot in each where a lookup starts, and a tag of 44 bits. A key is in one of these 16
 * slots or absent, so it meets another key with the same tag with a probability below 16 * 2^-44 = 0.91e-12 (R10).
 *
 *     hash word 0    tag 44 | 17 unused | start 3
 *     hash word 1    second set 32 | first set 32
 *
 * The creating thread puts a key into its first set unless 6 of the 8 slots there are in use; then into the set with
 * fewer slots in use. At 4.75 keys per set fewer than one key in 10^6 finds both sets full, and a lookup finds 92 of
 * 100 keys in the first set.
 */
#ifndef RATION_TABLE_LOCATION_H
#define RATION_TABLE_LOCATION_H

#include <stdint.h>

#include "base/hash.h"
#include "table/slot.h"

#define RATION_SET_SLOTS         8
#define RATION_SET_CROWDED_SLOTS 6
#define RATION_KEY_SLOTS         (2 * RATION_SET_SLOTS)

/*
 * The tag of a section's overflow entry, which is found without a lookup. (In a plain section the tag of an overflow
 * slot is a counter: see ration_plain_touch_overflow().)
 */
#define RATION_OVERFLOW_TAG ((UINT64_C(1) << RATION_TAG_BITS) - 1)

struct ration_location {
    uint64_t tag; /* never 0 */
    uint32_t sets[2];
    uint32_t start; /* index in a set where a lookup starts */
};

static inline struct ration_location ration_location_of(struct ration_hash hash, uint32_t set_count)
{
    struct ration_location location;
    uint64_t tag = hash.words[0] >> RATION_FRAC_BITS;

    location.tag = tag + (tag == 0);
    location.start = (uint32_t)hash.words[0] % RATION_SET_SLOTS;
    location.sets[0] = (uint32_t)(((hash.words[1] & UINT32_MAX) * set_count) >> 32);
    location.sets[1] = (uint32_t)(((hash.words[1] >> 32) * set_count) >> 32);
    if (__builtin_expect(location.sets[1] == location.sets[0], 0))
        location.sets[1] = location.sets[0] + 1 < set_count ? location.sets[0] + 1 : 0;
    return location;
}

/*
 * The index in a section of the key's i-th slot, 0 to 15, in the order of a lookup. The first four are one half of a
 * set: in a plain section one cache line.
 */
static inline uint64_t ration_location_index(const struct ration_location *location, uint32_t i)
{
    uint32_t set = location->sets[i / RATION_SET_SLOTS];

    return (uint64_t)set * RATION_SET_SLOTS + (location->start ^ (i % RATION_SET_SLOTS));
}

#endif
