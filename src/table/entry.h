/*
 * entry: a key with several cells that change together.
 *
 *     +---------------------------+--------+--------+--------+
 *     | head: tag | version, ...  | cell 0 | cell 1 | cell 2 |      16 bytes each
 *     +---------------------------+--------+--------+--------+
 *
 * The head's second word is one atomic word:
 *
 *     bits   63 ....... 28 | 27 .. 24 | 23 22 | 21 .. 12 | 11 .. 0
 *             version 36   | mark     | state | seat     | turn of the seat
 *
 * and a cell is a slot (slot.h) whose label is the version that wrote it. An entry stands at
 * version v when its head says v and all of its cells do.
 *
 *     change    the new cells are written into a seat; the head's word is swapped from (v) to
 *               (v + 1, seat): that is the moment of the change. Then each cell is swapped from
 *               its older version to the seat's contents, labelled v + 1.
 *     read      load the head, then the cells. All labelled with its version: that is the state.
 *               One is older: copy it from the seat that the head names, and look again.
 *
 * Every change adds one to the version, whoever's the entry is, so no swap of a thread that
 * slept succeeds. And a cell that is still older proves that its change is not complete, so that
 * the seat still holds it: a copy made by mistake from a seat that has moved on cannot be swapped
 * in.
 *
 * Several entries change together by holding each in turn; see commit.h. A claim (create.h) may be
 * one of them, and becomes a member with the others.
 *
 * Cells with their bit in the shape's moment_mask are moments that keep the entry from being
 * reclaimed; the others are 80 bits of anything. A log's ring is further cells elsewhere, with
 * labels likewise; they are written before the cells, so that cells up to date mean a ring up to
 * date.
 */
#ifndef RATION_TABLE_ENTRY_H
#define RATION_TABLE_ENTRY_H

#include "table/create.h"
#include "table/seat.h"

enum ration_head_state {
    RATION_HEAD_EMPTY = 0,
    RATION_HEAD_CLAIM,
    RATION_HEAD_LIVE,
    RATION_HEAD_HELD /* for a change of several entries: seat and turn say which */
};

struct ration_head {
    uint64_t version;
    uint32_t mark; /* as in slot.h. Of a held head RATION_MARK_CLAIM says that a claim was there */
    enum ration_head_state state;
    uint32_t seat; /* number, 0: none */
    uint32_t turn;
};

/* Every so many versions the labels of a log's ring are renewed. */
#define RATION_RING_REFRESH (UINT64_C(1) << 33)

#define RATION_VERSION_BITS 36
#define RATION_VERSION_MASK ((UINT64_C(1) << RATION_VERSION_BITS) - 1)

static inline uint64_t ration_head_pack(struct ration_head head)
{
    return (head.version & RATION_VERSION_MASK) << 28 | (uint64_t)head.mark << 24 |
           (uint64_t)head.state << 22 | (uint64_t)head.seat << RATION_TURN_BITS | head.turn;
}

static inline struct ration_head ration_head_unpack(uint64_t word)
{
    return (struct ration_head){
        .version = word >> 28,
        .mark = (uint32_t)(word >> 24) & 15,
        .state = (enum ration_head_state)((word >> 22) & 3),
        .seat = (uint32_t)(word >> RATION_TURN_BITS) & 1023,
        .turn = (uint32_t)word & ((1u << RATION_TURN_BITS) - 1),
    };
}

static inline uint32_t ration_head_generation(uint64_t word)
{
    return ration_mark_generation(ration_head_unpack(word).mark);
}

/* An entry as it stood at one version. */
struct ration_entry_view {
    struct ration_pair *head;
    struct ration_pair value; /* of the head; LIVE. For a commit also a claim, without cells */
    struct ration_time cells[RATION_SECTION_CELLS_MAX];
};

/* The state an entry is to have. */
struct ration_entry_next {
    uint32_t mark;
    struct ration_ring_write ring;
    struct ration_time cells[RATION_SECTION_CELLS_MAX];
};

/*
 * Reads the entry at head if it is (still) the tag's, finishing on the way what others began.
 * False if it is not.
 */
bool ration_entry_read(const struct ration_section *section, struct ration_pair *head, uint64_t tag,
                       struct ration_entry_view *out_view);

/* Makes an overflow entry that was never used a full bucket, so that it can be read and changed. */
void ration_entry_open_overflow(struct ration_pair *head);

/* Finds and reads the key's entry. False if the key is absent. */
bool ration_entry_find(const struct ration_section *section, const struct ration_place *place,
                       struct ration_entry_view *out_view);

/* Changes one entry from what was read. False if it has changed since. */
bool ration_entry_change(const struct ration_section *section, const struct ration_entry_view *view,
                         const struct ration_entry_next *next);

/* For ration_create_enter(). */
extern const struct ration_head_kind ration_entry_kind;

/*
 * Turns a claim into a member with the state given. False if another thread has completed or
 * cancelled it.
 */
bool ration_entry_complete(const struct ration_section *section,
                           const struct ration_entrance *claim,
                           const struct ration_entry_next *next);

/* The moment of a ring's cell. Meant only if the entry is found unchanged afterwards. */
struct ration_time ration_entry_ring_at(const struct ration_section *section,
                                        const struct ration_pair *head, uint32_t ring_index);

/* Whether the entry's head is as it was read. */
bool ration_entry_is_unchanged(const struct ration_entry_view *view);

/* The latest of an entry's moments. */
struct ration_time ration_entry_moment(const struct ration_section *section,
                                       const struct ration_time *cells);

/* The earliest moment at which one of the key's 16 places will be free. */
struct ration_time ration_entry_free_at(const struct ration_section *section,
                                        const struct ration_place *place);

/*
 * Copies a seat's part into its entry's cells, as version. For commit.h. Does nothing where
 * that is done.
 */
void ration_entry_copy(const struct ration_section *section, struct ration_pair *head,
                       const struct ration_seat *seat, uint32_t part_index, uint64_t version);

#endif
