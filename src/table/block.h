/*
 * block: how a table lies in one piece of memory.
 *
 *     +--------+----------+-------+------------------------------------------+---- ...   +-------+
 *     | header | sections | seats | section 0: sets, notes, overflow, rings  | section 1 | spare |
 *     +--------+----------+-------+------------------------------------------+---- ...   +-------+
 *
 * Everything is found by offsets from the start, so the block may be mapped at different
 * addresses by different processes. All of its memory is there from the beginning; a section that is
 * added later takes from what was left spare, or the place of one that nobody uses any more. None is
 * ever moved.
 *
 * A section holds the keys of one limiter, all of one shape:
 *
 *     plain        one slot per key: one limit, one compare-and-swap (plain.h)
 *     entries      a head and some cells per key: several limits, states that need more than a
 *                  slot, or limits that are decided together with those of other keys (entry.h)
 *
 * Zero bytes are an empty section, so memory fresh from the system is touched only when used.
 */
#ifndef RATION_TABLE_BLOCK_H
#define RATION_TABLE_BLOCK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/hash.h"
#include "ration/status.h"
#include "table/place.h"

#define RATION_BLOCK_MAGIC        UINT64_C(0x656c626174746172) /* "rattable" */
#define RATION_BLOCK_VERSION      3
#define RATION_BLOCK_ALIGNMENT    128
#define RATION_BLOCK_SECTIONS_MAX 16384
#define RATION_SECTION_CELLS_MAX  15
#define RATION_SECTION_KEYS_MAX   UINT32_MAX
#define RATION_NONCE_STRIPES      16
#define RATION_RETURNED_COUNTERS  256

/* How crowded a section is when it holds keys_max keys: 4.75 of the 8 places of a set. */
#define RATION_SET_KEYS_X100 475

/*
 * Keys that find no place share one overflow bucket. Where requests bring their own limits there is one
 * for each class of fill times, a quarter of an octave wide: a limit that fills in a day leaves no debt
 * for one that fills in a minute. The last class has the fill times from 2^59 ns on.
 */
#define RATION_OVERFLOW_CLASSES 240

/* What one section is to hold. */
struct ration_section_shape {
    uint64_t keys_max;
    uint32_t cell_count;  /* 0: plain */
    uint32_t moment_mask; /* bit i: cell i is a moment, and keeps its entry while it is to come */
    uint32_t ring_cells;  /* further cells of each entry, for a log; 0: none */
    uint32_t set_count;   /* 0: as many as keys_max needs */
    uint32_t is_mixed;    /* requests bring their own limits */
    uint32_t unused;
};

/*
 * What a set remembers beside its places. reclaimed_ns is the latest moment that was ever
 * reclaimed here: a key that is absent starts from it, so that a now that runs back finds no more
 * than if nothing had been reclaimed. overflow_ns: until when a key of this set may have debt in
 * the overflow bucket.
 */
struct ration_set_note {
    uint64_t reclaimed_ns;
    uint64_t overflow_ns;
};

struct ration_section_header {
    struct ration_section_shape shape;
    uint32_t set_count;
    uint32_t entry_slots; /* slots from one entry to the next: 1 if plain, else a power of two */
    uint32_t overflow_count;
    uint32_t unused;
    uint64_t end_offset;   /* of what it has; it begins with its sets */
    uint64_t limit_offset; /* of what it may have when it is replaced */
    uint64_t sets_offset;
    uint64_t notes_offset;
    uint64_t overflow_offset;
    uint64_t rings_offset;
};

struct ration_nonce {
    uint64_t next;
    uint64_t unused[7]; /* a cache line each */
};

struct ration_block {
    uint64_t magic;
    uint32_t version;
    uint32_t clock_kind;
    uint64_t size_bytes; /* with what is spare */
    uint64_t end_offset; /* of the last section */
    uint64_t epoch_ns;
    uint32_t section_count; /* grows, one writer at a time */
    uint32_t section_max;
    uint32_t seat_count;
    uint32_t is_growing; /* sections may be added and replaced */
    uint32_t is_shared;  /* whether other processes may have it mapped */
    uint64_t sections_offset;
    uint64_t seats_offset;
    uint8_t seed[RATION_HASH_SEED_SIZE]; /* that the secret was made of: a dump needs it */
    struct ration_hash_secret secret;
    struct ration_nonce nonces[RATION_NONCE_STRIPES] __attribute__((aligned(64)));
    uint64_t returned_start; /* of these counters: another number in each block */
    uint64_t returned_tokens[RATION_RETURNED_COUNTERS]; /* by the tag of a key; see section.h */
    uint64_t refunded_tokens[RATION_RETURNED_COUNTERS]; /* likewise */
};

struct ration_block_plan {
    const struct ration_section_shape *shapes; /* borrowed for the call */
    size_t shape_count;
    size_t section_max;  /* with those that may be added; 0: none may */
    size_t spare_bytes;  /* for them */
    uint32_t seat_count; /* for entries: how many may change some at one time; a power of two */
    uint32_t clock_kind;
    uint64_t epoch_ns;
    bool is_shared;
    bool is_prefaulted;                  /* what is not spare is touched now */
    uint8_t seed[RATION_HASH_SEED_SIZE]; /* of the hash's secret */
    enum ration_hash_kind hash;          /* 0: the best that this machine has */
};

/* Bytes that the plan needs; 0 if it asks for what no block can hold. */
size_t ration_block_size(const struct ration_block_plan *plan);

/* How many keys of this shape fit into so many bytes of a block that holds nothing else. */
uint64_t ration_block_keys_in(struct ration_section_shape shape, uint32_t seat_count,
                              size_t size_bytes);

/* Makes a block of zeroed memory, aligned to RATION_BLOCK_ALIGNMENT and as large as the plan needs. */
void ration_block_init(struct ration_block *block, const struct ration_block_plan *plan);

/*
 * Adds a section. One caller at a time; others may use the block meanwhile, and may use the section
 * once they know of it. False if there is no room, or no seats that it would need.
 */
bool ration_block_add(struct ration_block *block, const struct ration_section_shape *shape);

/*
 * Whether a section of this shape fits where another one is; and puts it there, once nobody uses that one
 * and its memory is zeroed from sets_offset to end_offset. One caller at a time.
 */
bool ration_block_can_replace(const struct ration_block *block, uint32_t section_index,
                              const struct ration_section_shape *shape);
/* Whether both would have been given memory of the same size: that does not depend on what was there before. */
bool ration_block_is_same_size(const struct ration_block *block, uint32_t section_index,
                               const struct ration_section_shape *shape);
void ration_block_replace(struct ration_block *block, uint32_t section_index,
                          const struct ration_section_shape *shape);

/* Takes back the section that was added last, and that nobody has heard of. */
void ration_block_drop(struct ration_block *block);

static inline struct ration_section_header *ration_block_sections(const struct ration_block *block)
{
    return (struct ration_section_header *)(void *)((char *)(uintptr_t)block +
                                                    block->sections_offset);
}

static inline uint32_t ration_block_section_count(const struct ration_block *block)
{
    /* acquire: pairs with the release in ration_block_add() */
    return __atomic_load_n(&block->section_count, __ATOMIC_ACQUIRE);
}

/*
 * Whether memory holds a block that this program can use: RATION_OK, or RATION_EINVAL with
 * *out_reason (static storage) saying what is wrong with it.
 */
ration_status ration_block_check(const struct ration_block *block, size_t size_bytes,
                                 const char **out_reason);

/* Now as a table counts it: since the epoch, and within what its slots can hold. */
static inline uint64_t ration_block_now(uint64_t epoch_ns, uint64_t now_ns)
{
    uint64_t since = now_ns > epoch_ns ? now_ns - epoch_ns : 0;

    return since < RATION_TABLE_NOW_NS_MAX ? since : RATION_TABLE_NOW_NS_MAX;
}

#endif
