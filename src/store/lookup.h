/*
 * lookup: reads the buckets of an op from the table, as states that can be evaluated.
 *
 * An absent key is read as one that is created now: it starts from the reclaim watermark of its sets, with the tokens
 * in use in the overflow bucket if it may have a share in them.
 */
#ifndef RATION_STORE_LOOKUP_H
#define RATION_STORE_LOOKUP_H

#include "limiter/evaluation.h"
#include "store/memory.h"

/* A part's bucket: where it was found, and its state. */
struct ration_lookup {
    const struct ration_section *section;
    struct ration_location location;
    struct ration_pair *overflow; /* the key's overflow bucket */
    bool is_present;
    bool is_claimed;               /* absent, with the claim in slot */
    bool is_full;                  /* no slot is free: the rest is about the overflow bucket */
    bool is_before_watermark;      /* absent, and the reclaim watermark is later than now */
    bool is_charged;               /* the evaluation changes it */
    bool needs_no_slot;            /* no slot is free, and the result needs none */
    struct ration_claim slot;      /* plain: the slot's value. claimed: the claim */
    struct ration_entry_view view; /* entries: the entry's value */
    struct ration_time cells[RATION_SECTION_CELLS_MAX];
    struct ration_bucket_state buckets[RATION_RULES_MAX]; /* under the current config */
    /* if is_full: the states that the key would have in a slot of its own */
    struct ration_bucket_state fresh_buckets[RATION_RULES_MAX];
    /* written under limits that this op does not know yet, or knows no longer */
    bool is_stale;
    bool is_expired;       /* no longer remembered, although no other key has taken the slot */
    bool has_ring_write;   /* the ring must be written before any other change of the bucket */
    uint64_t watermark_ns; /* reclaim watermark of the location, if the overflow bucket was read */
    struct ration_section_returns returns; /* RESERVE: the counters as read before the bucket */
};

struct ration_memory_run {
    const struct ration_memory *memory;
    struct ration_op *op;
    uint64_t since_ns; /* now, since the epoch */
    uint64_t now_ns;   /* the same time on the caller's clock */
    struct ration_lookup lookup[RATION_DESCRIPTOR_ENTRIES_MAX];
    struct ration_evaluation evaluation;
};

static inline bool ration_lookup_is_plain(const struct ration_lookup *lookup)
{
    return ration_section_is_plain(lookup->section);
}

static inline const struct ration_head_kind *ration_lookup_kind(const struct ration_lookup *lookup)
{
    return ration_lookup_is_plain(lookup) ? &ration_plain_kind : &ration_entry_kind;
}

/* Whether the claim in slot is still in the table. */
static inline bool ration_lookup_claim_is_current(const struct ration_lookup *lookup)
{
    return ration_slot_same(ration_atomic16_load(lookup->slot.head), lookup->slot.value);
}

/* Reads a part's bucket. Results of an earlier read stay valid: a claim that still exists, and is_full. */
void ration_lookup_read(const struct ration_memory_run *run, uint32_t part_index,
                        struct ration_lookup *lookup);

/*
 * Reads the bucket at head, whichever key has it. *out_generation is the generation that wrote it. The states of an
 * idle bucket are not read. part has a config but no limits: the limits of the config apply.
 */
enum ration_lookup_slot { RATION_LOOKUP_EMPTY, RATION_LOOKUP_IDLE, RATION_LOOKUP_IN_USE };
enum ration_lookup_slot ration_lookup_read_at(const struct ration_memory_run *run,
                                              const struct ration_key_part *part,
                                              struct ration_pair *head,
                                              struct ration_lookup *lookup,
                                              uint32_t *out_generation);

/*
 * ration_lookup_claim() claims a slot for an absent key; ration_lookup_has_room() says whether there is one. Both
 * first try slots that are free. Then, if no limit starts full, they try slots of keys that hold no less than a new
 * key.
 */
enum ration_claim_result ration_lookup_claim(const struct ration_memory_run *run,
                                             const struct ration_key_part *part,
                                             struct ration_lookup *lookup);
bool ration_lookup_has_room(const struct ration_memory_run *run, const struct ration_key_part *part,
                            const struct ration_lookup *lookup);

/* Changes the bucket that was read. False if another thread has changed it since. */
bool ration_lookup_change(const struct ration_lookup *lookup, const struct ration_entry_next *next);

/* Converts the part's states into cells. */
void ration_lookup_next(const struct ration_memory_run *run, const struct ration_key_part *part,
                        const struct ration_lookup *lookup, struct ration_entry_next *out_next);

/* Sets the tokens that were returned to the item's bucket since the reservation that is settled was made. */
void ration_memory_run_since_reserved(const struct ration_lookup *lookup,
                                      struct ration_limit_eval *item);

/* Counts the tokens that the op is about to return. Called before they are published, and again if that fails. */
void ration_memory_run_count_returned(const struct ration_memory_run *run);

#endif
