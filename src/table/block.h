/*
 * block: the layout of a table in one piece of memory.
 *
 *     +--------+----------+-------------+------------------------------------------+---- ...   +-------+
 *     | header | sections | descriptors | section 0: sets, metas, overflow, rings  | section 1 | spare |
 *     +--------+----------+-------------+------------------------------------------+---- ...   +-------+
 *
 * All positions are offsets from the start, so different processes may map the block at different addresses. The
 * block has all of its memory from the beginning. A section that is added later takes spare memory, or the memory of
 * a section that no thread uses any more. No section is ever moved.
 *
 * A section holds the keys of one limiter, all of one shape:
 *
 *     plain        one slot of 16 bytes per key: one limit, one compare-and-swap (plain.h)
 *     entries      a head and some cells per key: for several limits, for states that need more than 16 bytes,
 *                  or for limits that are decided together with those of other keys (entry.h)
 *
 * Zero bytes are an empty section, so fresh memory from the system is touched only when it is used.
 */
#ifndef RATION_TABLE_BLOCK_H
#define RATION_TABLE_BLOCK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/hash.h"
#include "ration/status.h"
#include "table/location.h"

#define RATION_BLOCK_MAGIC        UINT64_C(0x656c626174746172) /* "rattable" */
#define RATION_BLOCK_VERSION      3
#define RATION_BLOCK_ALIGNMENT    128
#define RATION_BLOCK_SECTIONS_MAX 16384
#define RATION_SECTION_CELLS_MAX  15
#define RATION_SECTION_KEYS_MAX   UINT32_MAX
#define RATION_NONCE_STRIPES      16
#define RATION_RETURNED_COUNTERS  256

/* How full a section is when it holds keys_max keys: 4.75 of the 8 slots of a set. */
#define RATION_SET_KEYS_X100 475

/*
 * Keys that get no slot share one overflow bucket. In a section for inline limits there is one for each class of fill
 * times, a quarter of an octave wide: so a limit that fills in a day does not use up tokens of one that fills
 * in a minute. The last class has all fill times of 2^59 ns and more.
 */
#define RATION_OVERFLOW_CLASSES 240

/* What one section holds. */
struct ration_section_shape {
    uint64_t keys_max;
    uint32_t cell_count; /* 0: plain */
    /* bit i: cell i is an expiry time; the entry is not reclaimed before it */
    uint32_t expiry_mask;
    uint32_t ring_cells; /* further cells of each entry, for a log; 0: none */
    uint32_t set_count;  /* 0: computed from keys_max */
    uint32_t is_mixed;   /* the section is for inline limits */
    uint32_t unused;
};

/*
 * Watermarks of a set. reclaimed_ns is the latest expiry time that was ever reclaimed from the set: an absent key
 * starts from it, so that a caller whose now runs backwards finds no more tokens than if nothing had been reclaimed.
 * overflow_ns: the time until which a key of this set may have tokens in use in the overflow bucket.
 */
struct ration_set_meta {
    uint64_t reclaimed_ns;
    uint64_t overflow_ns;
};

struct ration_section_header {
    struct ration_section_shape shape;
    uint32_t set_count;
    /* 16-byte units from one entry to the next: 1 if plain, else a power of two */
    uint32_t entry_slots;
    uint32_t overflow_count;
    uint32_t unused;
    uint64_t end_offset;   /* end of its memory, which begins with its sets */
    uint64_t limit_offset; /* end of the memory that a replacement may use */
    uint64_t sets_offset;
    uint64_t metas_offset;
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
    uint64_t size_bytes; /* including spare memory */
    uint64_t end_offset; /* end of the last section */
    uint64_t epoch_ns;
    uint32_t section_count; /* grows; one writer at a time */
    uint32_t section_max;
    uint32_t descriptor_count;
    uint32_t is_growing; /* sections may be added and replaced */
    uint32_t is_shared;  /* other processes may have mapped it */
    uint64_t sections_offset;
    uint64_t descriptors_offset;
    uint8_t seed[RATION_HASH_SEED_SIZE]; /* the secret was made from it; a dump needs it */
    struct ration_hash_secret secret;
    struct ration_nonce nonces[RATION_NONCE_STRIPES] __attribute__((aligned(64)));
    uint64_t returned_start; /* added to these counters: a random number per block */
    uint64_t returned_tokens[RATION_RETURNED_COUNTERS]; /* indexed by a key's tag; see section.h */
    uint64_t refunded_tokens[RATION_RETURNED_COUNTERS]; /* likewise */
};

struct ration_block_plan {
    const struct ration_section_shape *shapes; /* borrowed for the call */
    size_t shape_count;
    size_t section_max; /* including sections that may be added; 0: none may */
    size_t spare_bytes; /* for sections that are added */
    /* for entries: how many threads can change entries at once; a power of two */
    uint32_t descriptor_count;
    uint32_t clock_kind;
    uint64_t epoch_ns;
    bool is_shared;
    bool is_prefaulted;                  /* touch all memory that is not spare at creation */
    uint8_t seed[RATION_HASH_SEED_SIZE]; /* of the hash secret */
    enum ration_hash_kind hash;          /* 0: the best kind that this machine supports */
};

/* Bytes that the plan needs; 0 if no block can hold it. */
size_t ration_block_size(const struct ration_block_plan *plan);

/* How many keys of this shape fit into a block of size_bytes that holds nothing else. */
uint64_t ration_block_keys_in(struct ration_section_shape shape, uint32_t descriptor_count,
                              size_t size_bytes);

/* Makes a block out of zeroed memory, aligned to RATION_BLOCK_ALIGNMENT and as large as the plan needs. */
void ration_block_init(struct ration_block *block, const struct ration_block_plan *plan);

/*
 * Adds a section. One caller at a time; other threads may use the block meanwhile, and the new section once they
 * know of it. False if there is no room, or the section needs descriptors and the block has none.
 */
bool ration_block_add(struct ration_block *block, const struct ration_section_shape *shape);

/*
 * ration_block_can_replace(): whether a section of this shape fits into the memory of another one.
 * ration_block_replace() puts it there; before, all threads have stopped using the old section, and the caller has
 * zeroed its memory from sets_offset to end_offset. One caller at a time.
 */
bool ration_block_can_replace(const struct ration_block *block, uint32_t section_index,
                              const struct ration_section_shape *shape);
/* Whether both shapes get memory of the same rounded size. This does not depend on what the memory held before. */
bool ration_block_is_same_size(const struct ration_block *block, uint32_t section_index,
                               const struct ration_section_shape *shape);
void ration_block_replace(struct ration_block *block, uint32_t section_index,
                          const struct ration_section_shape *shape);

/* Removes the section that was added last, of which no other thread knows yet. */
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

/* now_ns as time since the epoch, limited to what slots can hold. */
static inline uint64_t ration_block_now(uint64_t epoch_ns, uint64_t now_ns)
{
    uint64_t since = now_ns > epoch_ns ? now_ns - epoch_ns : 0;

    return since < RATION_TABLE_NOW_NS_MAX ? since : RATION_TABLE_NOW_NS_MAX;
}

#endif
