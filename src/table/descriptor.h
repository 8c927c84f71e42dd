/*
 * descriptor: a record of a change of entries, written before the change is made, so that any thread can finish it.
 *
 * A thread can swap an entry's head in one step, but not its cells. So the changing thread takes a descriptor, writes
 * the new cells into it, and swaps the head to a word that names the descriptor: with that swap the change takes
 * effect. The first thread that needs the cells, the changing thread or a reader, copies them from the descriptor.
 *
 * A thread takes a descriptor for one call and gives it back at the end of the call. The descriptor's contents do not
 * change from the swap that names it until every cell is copied: its owner does not give it back earlier, and no
 * thread needs the contents afterwards. (A reader that finds, by the version, a cell that is not yet copied thereby
 * knows that the contents it has read belong to this change; see entry.h.)
 *
 * If a process dies, the descriptors its threads had taken stay taken. Helpers finish the changes when they meet
 * them. A thread that finds no free descriptor, and sees that the owner of one is dead, takes that one over.
 */
#ifndef RATION_TABLE_DESCRIPTOR_H
#define RATION_TABLE_DESCRIPTOR_H

#include "table/section.h"

/* A power of two; a head has 10 bits for the descriptor's number. */
#define RATION_DESCRIPTORS_MAX        512
#define RATION_DESCRIPTOR_ENTRIES_MAX 16
#define RATION_DESCRIPTOR_CELLS_MAX   32

/* Bits of a descriptor's sequence that a head has room for. */
#define RATION_SEQUENCE_BITS 12

/* The state of a change of several entries. One word holds it together with the sequence. */
enum ration_descriptor_state {
    RATION_DESCRIPTOR_IDLE = 0,
    RATION_DESCRIPTOR_OPEN,      /* threads are preparing its entries */
    RATION_DESCRIPTOR_COMMITTED, /* all entries were prepared: the change has taken effect */
    RATION_DESCRIPTOR_ABORTED    /* an entry had changed: the change has no effect */
};

/*
 * A write into a log's ring: beginning at first_index, older_count cells take older_ns and the next count cells
 * take newer_ns. The index wraps around at modulus.
 */
struct ration_ring_write {
    uint32_t modulus; /* 0: no write */
    uint32_t first_index;
    uint32_t older_count;
    uint32_t count;
    uint64_t older_ns;
    uint64_t newer_ns;
};

/* One entry's part of a change. Threads read and write all words as atomics. */
struct ration_descriptor_entry {
    uint64_t section_index;
    uint64_t head_offset;   /* from the start of the block */
    uint64_t expected_word; /* the head's second word before the change */
    uint64_t flags;         /* after the change */
    uint64_t cells_first;   /* index in the descriptor's cells */
    uint64_t ring_modulus;
    uint64_t ring_first_index;
    uint64_t ring_counts; /* upper 32 bits: older_count; lower 32 bits: count */
    uint64_t ring_older_ns;
    uint64_t ring_newer_ns;
    uint64_t unused[6];
};

struct ration_descriptor {
    uint64_t owner;    /* 0: free; else the id of the process that has taken it */
    uint64_t sequence; /* sequence number * 4 + enum ration_descriptor_state */
    uint64_t entry_count;
    uint64_t unused[5];
    struct ration_descriptor_entry entries[RATION_DESCRIPTOR_ENTRIES_MAX];
    struct ration_pair cells[RATION_DESCRIPTOR_CELLS_MAX]; /* times, with tag 0 */
} __attribute__((aligned(64)));

static inline uint64_t ration_descriptor_get(const uint64_t *word)
{
    return __atomic_load_n(word, __ATOMIC_RELAXED);
}

static inline void ration_descriptor_put(uint64_t *word, uint64_t value)
{
    __atomic_store_n(word, value, __ATOMIC_RELAXED);
}

/* Takes a descriptor, with a new sequence number and in state RATION_DESCRIPTOR_IDLE. Waits while all are taken. */
struct ration_descriptor *ration_descriptor_take(const struct ration_section *section);

/* Gives the descriptor back. */
void ration_descriptor_leave(struct ration_descriptor *descriptor);

/* The descriptor's number in a head; 0 means none. */
static inline uint32_t ration_descriptor_number(const struct ration_section *section,
                                                const struct ration_descriptor *descriptor)
{
    return (uint32_t)(descriptor - section->descriptors) + 1;
}

/* The low bits of the descriptor's sequence, as a head contains them. */
static inline uint32_t ration_descriptor_sequence(const struct ration_descriptor *descriptor)
{
    return (uint32_t)(ration_descriptor_get(&descriptor->sequence) / 4) &
           ((1u << RATION_SEQUENCE_BITS) - 1);
}

#endif
