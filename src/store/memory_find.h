/*
 * memory_find: the buckets that an op is about, read from the table as states that can be judged.
 *
 * A key that is absent is read as one that was just created: from the moment up to which something
 * was reclaimed from its sets, with the debt of the overflow bucket if it may have had a share in it.
 */
#ifndef RATION_STORE_MEMORY_FIND_H
#define RATION_STORE_MEMORY_FIND_H

#include "limiter/judge.h"
#include "store/memory.h"

/* Where a part's bucket was found, and what it holds. */
struct ration_found {
    const struct ration_section *section;
    struct ration_place place;
    struct ration_pair *overflow; /* the key's overflow bucket */
    bool is_there;
    bool is_claimed;               /* absent, with the claim that slot holds */
    bool is_full;                  /* no place for it: what follows is about the overflow bucket */
    bool is_behind;                /* absent, and what was reclaimed here lies after now */
    bool is_charged;               /* what was judged changes it */
    bool is_unborn;                /* no place, and none needed for the answer */
    struct ration_entrance slot;   /* plain: what is there. claimed: the claim */
    struct ration_entry_view view; /* entries: what is there */
    struct ration_time cells[RATION_SECTION_CELLS_MAX];
    struct ration_any anys[RATION_RULES_MAX];     /* under the current config */
    struct ration_any newborns[RATION_RULES_MAX]; /* if it is_full: in a place of its own */
    bool is_ahead;       /* written under limits that this op does not know yet, or not any more */
    bool is_reborn;      /* forgotten while its place was still its own: likewise */
    bool has_ring_write; /* that must be published before anything else happens to the ring */
    uint64_t origin_ns;  /* of the place, if the overflow bucket was read */
    struct ration_section_returns returns; /* RESERVE: as counted before the bucket was read */
};

struct ration_run {
    const struct ration_memory *memory;
    struct ration_op *op;
    uint64_t since_ns; /* now, from the epoch */
    uint64_t now_ns;   /* the same of the caller's clock */
    struct ration_found found[RATION_SEAT_ENTRIES_MAX];
    struct ration_case c;
};

static inline bool ration_found_is_plain(const struct ration_found *found)
{
    return ration_section_is_plain(found->section);
}

static inline const struct ration_head_kind *ration_found_kind(const struct ration_found *found)
{
    return ration_found_is_plain(found) ? &ration_plain_kind : &ration_entry_kind;
}

/* Whether the claim in slot still stands. */
static inline bool ration_found_claim_stands(const struct ration_found *found)
{
    return ration_pair_same(ration_atomic16_load(found->slot.head), found->slot.value);
}

/* Reads a part's bucket. What was found before is kept: a claim that stands, and that there is no place. */
void ration_found_read(const struct ration_run *run, uint32_t part_index,
                       struct ration_found *found);

/*
 * Reads whatever key's bucket stands at head, whose generation is *out_generation; of one that is idle
 * only where it stands. part has a config and no limits: those of the config count.
 */
enum ration_found_at { RATION_FOUND_NONE, RATION_FOUND_IDLE, RATION_FOUND_IN_USE };
enum ration_found_at ration_found_read_at(const struct ration_run *run,
                                          const struct ration_op_part *part,
                                          struct ration_pair *head, struct ration_found *found,
                                          uint32_t *out_generation);

/*
 * Claims a place for an absent key, and whether there is one: first among those that are free, then, where
 * limits do not start full, among those of keys that hold no less than a new one.
 */
enum ration_enter ration_found_enter(const struct ration_run *run,
                                     const struct ration_op_part *part, struct ration_found *found);
bool ration_found_has_room(const struct ration_run *run, const struct ration_op_part *part,
                           const struct ration_found *found);

/* Changes the bucket that was found. False if it has changed since. */
bool ration_found_change(const struct ration_found *found, const struct ration_entry_next *next);

/* The cells that the part's states stand for. */
void ration_found_next(const struct ration_run *run, const struct ration_op_part *part,
                       const struct ration_found *found, struct ration_entry_next *out_next);

/* What was returned to the bucket of an item since the reservation that is settled. */
void ration_run_since_reserved(const struct ration_found *found, struct ration_item *item);

/* Counts what the op is about to return. Called before it is published, and again if that fails. */
void ration_run_count_returned(const struct ration_run *run);

#endif
