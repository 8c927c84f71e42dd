/*
 * slot: 16 bytes that change together: which key has them, and when they expire.
 *
 *     bits   63 ................ 20 | 19 ....... 0
 *     word 0         tag 44         |  fraction 20      of the expiry time, in 2^-20 ns
 *
 *     bits   63 .......................... 4 | 3 .. 0
 *     word 1   ns of the expiry time 60      | flags 4
 *
 * From its expiry time on a slot carries no information: for a token bucket this is its theoretical arrival time (tat),
 * for a window its end. So a single comparison with now says whether a slot may be reclaimed, for every algorithm and
 * without knowing the limit. Expiry times count from the table's epoch and reach 36 years.
 *
 * The tag is the key's tag in a plain slot (plain.h), and the version in a cell of an entry (entry.h). All-zero bytes
 * are an empty slot.
 *
 * The flags of a key are the generation of the limit that wrote it, 0 to 6, and a bit that says whether the key is
 * established: it was charged again after the charge that created it. The flags of a claim are RATION_FLAG_CLAIM.
 * Entries have the same four bits in their heads.
 */
#ifndef RATION_TABLE_SLOT_H
#define RATION_TABLE_SLOT_H

#include <stdbool.h>
#include <stdint.h>

#include "base/atomic16.h"
#include "base/time.h"

#define RATION_TAG_BITS   44
#define RATION_FLAGS_BITS 4

#define RATION_GENERATION_COUNT 7
#define RATION_GENERATION_MASK  7u
#define RATION_FLAG_ESTABLISHED 8u
#define RATION_FLAG_CLAIM       15u

/*
 * How long an established key keeps its slot after its bucket is full, although other keys need slots. So a flood of
 * new keys takes only slots of keys that were charged once, or not for this long.
 *
 * But an attacker can establish keys, too. So of the slots that a new key may take, full established keys keep at
 * most half: where they occupy more, the one that has been full for the longest time loses its slot.
 */
#define RATION_ESTABLISHED_NS        (UINT64_C(60) * 1000000000)
#define RATION_ESTABLISHED_SLOTS_MAX 8u

#define RATION_FRAC_MASK  (RATION_FRAC_COUNT - 1)
#define RATION_FLAGS_MASK ((UINT64_C(1) << RATION_FLAGS_BITS) - 1)

/* How long a slot may be remembered beyond the time at which its bucket is full. */
#define RATION_REMEMBERED_NS_MAX (UINT64_C(365) * 24 * 3600 * 1000000000)

/* The latest expiry time that a slot can hold, and the latest now that a table accepts. */
#define RATION_EXPIRES_AT_NS_MAX ((UINT64_C(1) << 60) - 1)
#define RATION_TABLE_NOW_NS_MAX \
    (RATION_EXPIRES_AT_NS_MAX - RATION_SPAN_NS - RATION_REMEMBERED_NS_MAX)

struct ration_slot {
    uint64_t tag;
    uint32_t flags;
    struct ration_time expires_at;
};

static inline uint64_t ration_slot_tag(struct ration_pair pair)
{
    return pair.words[0] >> RATION_FRAC_BITS;
}

static inline uint32_t ration_slot_flags(struct ration_pair pair)
{
    return (uint32_t)(pair.words[1] & RATION_FLAGS_MASK);
}

static inline uint32_t ration_slot_flags_generation(uint32_t flags)
{
    return flags & RATION_GENERATION_MASK;
}

static inline uint32_t ration_slot_generation(struct ration_pair pair)
{
    return ration_slot_flags_generation((uint32_t)pair.words[1]);
}

static inline struct ration_time ration_slot_expires_at(struct ration_pair pair)
{
    return (struct ration_time){pair.words[1] >> RATION_FLAGS_BITS,
                                pair.words[0] & RATION_FRAC_MASK};
}

static inline struct ration_slot ration_slot_unpack(struct ration_pair pair)
{
    return (struct ration_slot){ration_slot_tag(pair), ration_slot_flags(pair),
                                ration_slot_expires_at(pair)};
}

/*
 * A time that is too late becomes the latest one that fits, with a fraction of zero: in an interval bucket the
 * fraction is a number of tokens, and a time that is cut must not add tokens.
 */
static inline struct ration_pair ration_slot_pack(struct ration_slot slot)
{
    if (__builtin_expect(slot.expires_at.ns > RATION_EXPIRES_AT_NS_MAX, 0))
        slot.expires_at = (struct ration_time){RATION_EXPIRES_AT_NS_MAX, 0};
    return (struct ration_pair){{slot.tag << RATION_FRAC_BITS | slot.expires_at.frac,
                                 slot.expires_at.ns << RATION_FLAGS_BITS | slot.flags}};
}

static inline bool ration_slot_same(struct ration_pair a, struct ration_pair b)
{
    return a.words[0] == b.words[0] && a.words[1] == b.words[1];
}

static inline bool ration_slot_is_empty(struct ration_pair pair)
{
    return (pair.words[0] | pair.words[1]) == 0;
}

/*
 * When a slot may be given to another key: when its key's state carries no information any more (R7) and, if the key
 * is established, RATION_ESTABLISHED_NS after that.
 */
static inline struct ration_time ration_slot_free_at(struct ration_time expires_at, uint32_t flags)
{
    if (flags & RATION_FLAG_ESTABLISHED && flags != RATION_FLAG_CLAIM && expires_at.ns > 0)
        expires_at.ns += RATION_ESTABLISHED_NS;
    return expires_at;
}

#endif
