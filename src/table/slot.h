/*
 * slot: 16 bytes that change together: whose they are, and until when they matter.
 *
 *     bits   63 ................ 20 | 19 ....... 0
 *     word 0        label 44        |  fraction 20      of the moment, in 2^-20 ns
 *
 *     bits   63 .......................... 4 | 3 .. 0
 *     word 1   nanoseconds of the moment 60  | mark 4
 *
 * The moment is that from which the slot carries no information: of a token bucket its tat, of a
 * window its end. So whether a slot may be reclaimed is one comparison with now, for every
 * algorithm and without knowing the limit. Moments count from the table's epoch: 36 years.
 *
 * The label is the key's tag in a slot that stands alone (plain.h), and the version in a cell of
 * an entry (entry.h). All-zero bytes are an empty slot.
 *
 * The mark of a key is the generation of the limit that wrote it, 0 to 6, and a bit that says whether
 * the key is established: it was charged again after the charge that created it. The mark of a claim
 * is RATION_MARK_CLAIM. Entries have the same four bits in their heads.
 */
#ifndef RATION_TABLE_SLOT_H
#define RATION_TABLE_SLOT_H

#include <stdbool.h>
#include <stdint.h>

#include "base/atomic16.h"
#include "base/time.h"

#define RATION_LABEL_BITS 44
#define RATION_MARK_BITS  4
#define RATION_FRAC_BITS  20

#define RATION_GENERATION_COUNT 7
#define RATION_GENERATION_MASK  7u
#define RATION_MARK_ESTABLISHED 8u
#define RATION_MARK_CLAIM       15u

/*
 * How long an established key keeps its place after its bucket is full, whichever other key needs one.
 * A flood of new keys takes only places of keys that were charged once, or not for so long.
 *
 * But an attacker can establish keys, too. So of the places that a new key may take, keys that are full keep
 * at most half by this: where more are kept, the one that is full for longest gives its place.
 */
#define RATION_ESTABLISHED_NS         (UINT64_C(60) * 1000000000)
#define RATION_ESTABLISHED_PLACES_MAX 8u

#define RATION_FRAC_MASK (RATION_FRAC_COUNT - 1)
#define RATION_MARK_MASK ((UINT64_C(1) << RATION_MARK_BITS) - 1)

/* How long a slot may be kept beyond the moment of its state. */
#define RATION_KEPT_NS_MAX (UINT64_C(365) * 24 * 3600 * 1000000000)

/* The latest moment that a slot can hold, and the latest now that a table knows. */
#define RATION_MOMENT_NS_MAX    ((UINT64_C(1) << 60) - 1)
#define RATION_TABLE_NOW_NS_MAX (RATION_MOMENT_NS_MAX - RATION_SPAN_NS - RATION_KEPT_NS_MAX)

struct ration_slot {
    uint64_t label;
    uint32_t mark;
    struct ration_time moment;
};

static inline uint64_t ration_pair_label(struct ration_pair pair)
{
    return pair.words[0] >> RATION_FRAC_BITS;
}

static inline uint32_t ration_pair_mark(struct ration_pair pair)
{
    return (uint32_t)(pair.words[1] & RATION_MARK_MASK);
}

static inline uint32_t ration_mark_generation(uint32_t mark)
{
    return mark & RATION_GENERATION_MASK;
}

static inline uint32_t ration_pair_generation(struct ration_pair pair)
{
    return ration_mark_generation((uint32_t)pair.words[1]);
}

static inline struct ration_time ration_pair_moment(struct ration_pair pair)
{
    return (struct ration_time){pair.words[1] >> RATION_MARK_BITS,
                                pair.words[0] & RATION_FRAC_MASK};
}

static inline struct ration_slot ration_slot_unpack(struct ration_pair pair)
{
    return (struct ration_slot){ration_pair_label(pair), ration_pair_mark(pair),
                                ration_pair_moment(pair)};
}

/*
 * A moment past what fits is the last one that does, with a fraction of zero: that of an interval bucket is a count of
 * tokens, and tokens must not come of a moment that is cut.
 */
static inline struct ration_pair ration_slot_pack(struct ration_slot slot)
{
    if (__builtin_expect(slot.moment.ns > RATION_MOMENT_NS_MAX, 0))
        slot.moment = (struct ration_time){RATION_MOMENT_NS_MAX, 0};
    return (struct ration_pair){{slot.label << RATION_FRAC_BITS | slot.moment.frac,
                                 slot.moment.ns << RATION_MARK_BITS | slot.mark}};
}

static inline bool ration_pair_same(struct ration_pair a, struct ration_pair b)
{
    return a.words[0] == b.words[0] && a.words[1] == b.words[1];
}

static inline bool ration_pair_is_empty(struct ration_pair pair)
{
    return (pair.words[0] | pair.words[1]) == 0;
}

/* When a place may be given to another key: the moment after which its key's state carries no
   information (R7) and, if the key is established, some time after that. */
static inline struct ration_time ration_free_at(struct ration_time moment, uint32_t mark)
{
    if (mark & RATION_MARK_ESTABLISHED && mark != RATION_MARK_CLAIM && moment.ns > 0)
        moment.ns += RATION_ESTABLISHED_NS;
    return moment;
}

#endif
