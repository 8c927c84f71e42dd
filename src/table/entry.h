/*
 * entry: the slot of a key with several cells that change together.
 *
 *     +---------------------------+--------+--------+--------+
 *     | head: tag | version, ...  | cell 0 | cell 1 | cell 2 |      16 bytes each
 *     +---------------------------+--------+--------+--------+
 *
 * The head's second word is one atomic word:
 *
 *     bits   63 ....... 28 | 27 .. 24 | 23 22 | 21 .. 12     | 11 .. 0
 *             version 36   | flags    | state | descriptor   | sequence of the descriptor
 *
 * and a cell has the layout of slot.h, with the version that wrote it as its tag. An entry is at version v when its
 * head and all of its cells have version v.
 *
 *     change    The changing thread writes the new cells into a descriptor and swaps the head's word from (v) to
 *               (v + 1, descriptor): with this swap the change takes effect. Then it swaps each cell from its older
 *               version to the descriptor's contents with version v + 1.
 *     read      The reader loads the head, then the cells. If all cells have the head's version, they are the state.
 *               If a cell is older, the reader copies it from the descriptor that the head names, and reads again.
 *
 * Every change adds one to the version, also when the entry passes to another key, so a late swap by a thread that was
 * suspended fails. A cell that is still older proves that its change is not complete, so that the descriptor
 * still has the contents of that change: a thread that copied by mistake from a descriptor with a later sequence
 * cannot swap the copy in.
 *
 * A commit changes several entries together, by preparing each of them in order; see commit.h. A claim (claim.h) may
 * be one of them, and becomes a member together with the others.
 *
 * Cells whose bit is set in the shape's expiry_mask are expiry times: the entry cannot be reclaimed before the latest
 * of them. The others are 80 bits of any content. A log's ring consists of further cells elsewhere, which have
 * versions too. A thread writes the ring before the cells, so that cells up to date mean a ring up to date.
 */
#ifndef RATION_TABLE_ENTRY_H
#define RATION_TABLE_ENTRY_H

#include "table/claim.h"
#include "table/descriptor.h"

enum ration_head_state {
    RATION_HEAD_EMPTY = 0,
    RATION_HEAD_CLAIM,
    RATION_HEAD_LIVE,
    RATION_HEAD_PREPARED /* for a change of several entries, which descriptor and sequence identify */
};

struct ration_head {
    uint64_t version;
    /* as in slot.h. In a PREPARED head RATION_FLAG_CLAIM means that it was a claim */
    uint32_t flags;
    enum ration_head_state state;
    uint32_t descriptor; /* its number; 0: none */
    uint32_t sequence;
};

/* After this many versions a writer gives all cells of a log's ring its own version. */
#define RATION_RING_REFRESH (UINT64_C(1) << 33)

#define RATION_VERSION_BITS 36
#define RATION_VERSION_MASK ((UINT64_C(1) << RATION_VERSION_BITS) - 1)

static inline uint64_t ration_entry_head_pack(struct ration_head head)
{
    return (head.version & RATION_VERSION_MASK) << 28 | (uint64_t)head.flags << 24 |
           (uint64_t)head.state << 22 | (uint64_t)head.descriptor << RATION_SEQUENCE_BITS |
           head.sequence;
}

static inline struct ration_head ration_entry_head_unpack(uint64_t word)
{
    return (struct ration_head){
        .version = word >> 28,
        .flags = (uint32_t)(word >> 24) & 15,
        .state = (enum ration_head_state)((word >> 22) & 3),
        .descriptor = (uint32_t)(word >> RATION_SEQUENCE_BITS) & 1023,
        .sequence = (uint32_t)word & ((1u << RATION_SEQUENCE_BITS) - 1),
    };
}

static inline uint32_t ration_entry_head_generation(uint64_t word)
{
    return ration_slot_flags_generation(ration_entry_head_unpack(word).flags);
}

/* An entry as it was at one version. */
struct ration_entry_view {
    struct ration_pair *head;
    struct ration_pair value; /* of the head: LIVE. In a commit also a claim, without cells */
    struct ration_time cells[RATION_SECTION_CELLS_MAX];
};

/* The state that a change gives an entry. */
struct ration_entry_next {
    uint32_t flags;
    struct ration_ring_write ring;
    struct ration_time cells[RATION_SECTION_CELLS_MAX];
};

/*
 * Reads the entry at head if the tag (still) has it. On the way the reader finishes changes that other threads began.
 * False if the tag does not have it.
 */
bool ration_entry_read(const struct ration_section *section, struct ration_pair *head, uint64_t tag,
                       struct ration_entry_view *out_view);

/* Turns an overflow entry that was never used into a full bucket, so that it can be read and changed. */
void ration_entry_open_overflow(struct ration_pair *head);

/* Finds and reads the key's entry. False if the key is absent. */
bool ration_entry_find(const struct ration_section *section, const struct ration_location *location,
                       struct ration_entry_view *out_view);

/* Changes one entry from what was read. False if it has changed since. */
bool ration_entry_change(const struct ration_section *section, const struct ration_entry_view *view,
                         const struct ration_entry_next *next);

/* For ration_claim_begin(). */
extern const struct ration_head_kind ration_entry_kind;

/* Whether a claim is the first one in its slot: no thread has written to the cells and the ring there. */
bool ration_entry_is_first_claim(struct ration_pair claim);

/* Turns a claim into a member with the state next. False if another thread has completed or aborted it. */
bool ration_entry_complete(const struct ration_section *section, const struct ration_claim *claim,
                           const struct ration_entry_next *next);

/* The time in a cell of the ring. Valid only if ration_entry_is_unchanged() returns true afterwards. */
struct ration_time ration_entry_ring_at(const struct ration_section *section,
                                        const struct ration_pair *head, uint32_t ring_index);

/* Whether the entry's head is as it was read. */
bool ration_entry_is_unchanged(const struct ration_entry_view *view);

/* The latest of an entry's expiry times. */
struct ration_time ration_entry_expires_at(const struct ration_section *section,
                                           const struct ration_time *cells);

/* The earliest time at which one of the key's 16 slots will be free. */
struct ration_time ration_entry_free_at(const struct ration_section *section,
                                        const struct ration_location *location);

/* Copies a descriptor's part into its entry's cells, as version. Skips cells that are copied already. For commit.h. */
void ration_entry_copy(const struct ration_section *section, struct ration_pair *head,
                       const struct ration_descriptor *descriptor, uint32_t part_index,
                       uint64_t version);

#endif
