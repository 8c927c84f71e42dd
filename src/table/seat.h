/*
 * seat: where a change of entries is written down before it is made, so that anyone can finish it.
 *
 * An entry's head can be swapped in one step, its cells cannot. So who changes an entry takes a
 * seat, writes the new cells there, and names the seat in the head: that swap is the change. The
 * cells follow, copied from the seat by whoever needs them first.
 *
 * A seat is taken for one call and given back at its end. Its contents stand still from the swap
 * that names it until every cell is copied, and its owner does not leave earlier; nobody needs
 * them later. (A reader who finds a cell not yet copied, by its stamp, thereby knows that what it
 * reads in the seat is meant; see entry.h.)
 *
 * A process that dies in its seat keeps it. Others finish what it began when they meet it. The
 * seat is lost until somebody finds no free one, and sees that the owner is gone.
 */
#ifndef RATION_TABLE_SEAT_H
#define RATION_TABLE_SEAT_H

#include "table/section.h"

#define RATION_SEATS_MAX        512 /* a power of two; a head has 10 bits for the seat's number */
#define RATION_SEAT_ENTRIES_MAX 16
#define RATION_SEAT_CELLS_MAX   32

/* Bits of a seat's turn that a head carries. */
#define RATION_TURN_BITS 12

/* What has become of a change of several entries. Together with the turn in one word. */
enum ration_seat_state {
    RATION_SEAT_IDLE = 0,
    RATION_SEAT_OPEN,      /* entries are being held for it */
    RATION_SEAT_COMMITTED, /* all were held: it has happened */
    RATION_SEAT_ABORTED    /* one of them had changed: it has not */
};

/*
 * What is written into a log's ring: from first on, older_count cells take the older moment, and the
 * next count the newer one. The ring goes around at modulus.
 */
struct ration_ring_write {
    uint32_t modulus; /* 0: nothing is written */
    uint32_t first_index;
    uint32_t older_count;
    uint32_t count;
    uint64_t older_ns;
    uint64_t moment_ns;
};

/* One entry's part in a change. All words are read and written as atomics. */
struct ration_seat_entry {
    uint64_t section_index;
    uint64_t head_offset;   /* in the block */
    uint64_t expected_word; /* the head's second word before */
    uint64_t mark;          /* after */
    uint64_t cells_first;   /* of the seat's cells */
    uint64_t ring_modulus;
    uint64_t ring_first_index;
    uint64_t ring_counts; /* older_count in the upper half, count in the lower */
    uint64_t ring_older_ns;
    uint64_t ring_ns;
    uint64_t unused[6];
};

struct ration_seat {
    uint64_t owner; /* 0: free; else the process */
    uint64_t turn;  /* turn number * 4 + enum ration_seat_state */
    uint64_t entry_count;
    uint64_t unused[5];
    struct ration_seat_entry entries[RATION_SEAT_ENTRIES_MAX];
    struct ration_pair cells[RATION_SEAT_CELLS_MAX]; /* moments, labels 0 */
} __attribute__((aligned(64)));

static inline uint64_t ration_seat_get(const uint64_t *word)
{
    return __atomic_load_n(word, __ATOMIC_RELAXED);
}

static inline void ration_seat_put(uint64_t *word, uint64_t value)
{
    __atomic_store_n(word, value, __ATOMIC_RELAXED);
}

/* Takes a seat. Its turn is a new one, and its state RATION_SEAT_IDLE. */
struct ration_seat *ration_seat_take(const struct ration_section *section);

/* Gives it back. */
void ration_seat_leave(struct ration_seat *seat);

/* The seat's number in a head; 0 is none. */
static inline uint32_t ration_seat_number(const struct ration_section *section,
                                          const struct ration_seat *seat)
{
    return (uint32_t)(seat - section->seats) + 1;
}

/* The low bits of the seat's turn, as a head carries them. */
static inline uint32_t ration_seat_turn(const struct ration_seat *seat)
{
    return (uint32_t)(ration_seat_get(&seat->turn) / 4) & ((1u << RATION_TURN_BITS) - 1);
}

#endif
