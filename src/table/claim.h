/*
 * claim: how a new key gets exactly one slot.
 *
 * Each slot begins with a head of 16 bytes (in a plain section the head is the whole slot). The head says
 * which key has the slot. Threads change it by compare-and-swap only.
 *
 *     empty     no key has the slot
 *     claim     of a tag: a thread is creating the key with this tag
 *     member    of a tag: the key with this tag has the slot
 *
 *     from                                    to                       changed by
 *     empty, lapsed claim or idle member      claim                    the creating thread
 *     claim                                   member                   the creating thread, or a helper
 *     claim                                   empty                    the creating thread if it does not complete
 *                                                                      it, or a thread that finds that the tag has
 *                                                                      a member or a second claim
 *     member                                  member of the same tag   a thread that changes the bucket
 *     member                                  empty                    the thread that changes the limits, for keys
 *                                                                      of an old generation
 *
 * A member is idle if ration_claim_may_reclaim() says so.
 *
 * Two threads that create the same key may claim different slots, because which slots are idle depends on each
 * thread's now. So a claim is only the first step. In the second step the creating thread scans all 16 slots of
 * the key again:
 *
 *     a member of the tag     the key exists already: the thread aborts the claim
 *     another claim           the claim at the lower address wins: the thread aborts the other one
 *     neither                 the claim may become the member
 *
 * When two threads claim, the thread of the later claim scans after both claims are in the table, so it finds the
 * earlier one. Both claims cannot become members.
 *
 * A helper (any thread that meets the claim) may do the second step for the creating thread, so no thread waits
 * for a creating thread that stops forever after its claim. A claim that no thread meets again lapses after about
 * one to two RATION_CLAIM_NS, and its slot is free.
 *
 * A head never has the bytes of an earlier claim again (each kind of head says how), so a late compare-and-swap by
 * a thread that was suspended fails.
 */
#ifndef RATION_TABLE_CLAIM_H
#define RATION_TABLE_CLAIM_H

#include "table/section.h"

/* After how long a claim lapses (of an entry up to twice as long): 1.07 s. */
#define RATION_CLAIM_NS (UINT64_C(1) << 30)

/*
 * How many times a creating thread that finds no slot scans again while claims of other threads occupy some of them.
 * Several threads that create one key make several claims, of which all but one are aborted.
 */
#define RATION_CLAIM_SCANS_MAX 100

enum ration_claim_role {
    RATION_CLAIM_ROLE_EMPTY,
    RATION_CLAIM_ROLE_CLAIM,
    RATION_CLAIM_ROLE_MEMBER
};

/* A head and the value that was read there: a claim or a member. */
struct ration_claim {
    struct ration_pair *head;
    struct ration_pair value;
    /* of a claim that this call made: it replaced a member, so another key lost the slot */
    bool is_reclaimed;
};

/*
 * What a creating thread may claim for a key: slots that are free at now_ns, and in addition
 *
 *     reset_mask    slots of members of these generations: their buckets start over, whatever they hold
 *     is_scarce     slots of members whose buckets hold no less than that of a new key. Such a key loses
 *                   the difference, so this is only for limits that do not start full, when no other slot is left
 *
 * Both apply only while *current is config and the number there is config_number. Otherwise a thread that was
 * suspended while the limits changed would mistake keys of a later generation for those of an earlier one. The
 * creating thread checks this after it has read a slot and before it claims it.
 */
struct ration_claim_request {
    uint64_t now_ns;
    uint32_t reset_mask;
    uint32_t generation; /* of bounds */
    bool is_scarce;
    bool is_crowded; /* full established keys occupy too many slots: see table/slot.h */
    /* how long a key is remembered after its bucket is full; contained in expiry times */
    uint64_t stale_after_ns;
    /* expiry times of a key that is created now */
    struct ration_time bounds[RATION_SECTION_CELLS_MAX];
    const void *const *current;
    const uint64_t *config;
    uint64_t config_number;
};

/*
 * Whether the request may claim the slot of a member with these flags and cells, of which those in expiry_mask are
 * expiry times. *out_expires_at is the expiry time that is lost with the member; zero if its generation is reset.
 */
bool ration_claim_may_reclaim(const struct ration_claim_request *request,
                              const struct ration_time *cells, uint32_t expiry_mask, uint32_t flags,
                              struct ration_time *out_expires_at);

/* When a new key can get one of the slots that were added. Starts as zero bytes. */
struct ration_claim_free_times {
    struct ration_time earliest;
    /* when the buckets of established keys are full, in ascending order */
    struct ration_time established[RATION_KEY_SLOTS];
    uint32_t count;
    uint32_t established_count;
};

void ration_claim_free_times_add(struct ration_claim_free_times *times,
                                 struct ration_time expires_at, uint32_t flags);
struct ration_time ration_claim_free_times_first(const struct ration_claim_free_times *times);

/* What differs between the heads of plain slots and of entries. */
struct ration_head_kind {
    enum ration_claim_role (*role)(struct ration_pair value);

    /*
     * Whether the request may claim the slot. *out_expires_at is then the latest expiry time that is lost with
     * it; zero if none is.
     */
    bool (*is_free)(const struct ration_section *section, struct ration_pair *head,
                    struct ration_pair value, const struct ration_claim_request *request,
                    struct ration_time *out_expires_at);

    /* A claim of the location's tag, to replace the value victim. */
    struct ration_pair (*claim)(const struct ration_section *section,
                                const struct ration_location *location, struct ration_pair victim,
                                uint64_t now_ns);

    /* The empty head that replaces a claim that is aborted. */
    struct ration_pair (*make_empty)(struct ration_pair claim);
};

enum ration_claim_result {
    RATION_CLAIM_BEGUN, /* the key was absent: the caller completes the claim, or aborts it */
    RATION_CLAIM_FOUND, /* another thread has created the key */
    RATION_CLAIM_FULL   /* no slot of the key is free */
};

/*
 * Claims a slot for a key that was not found. With BEGUN the table has no other claim or member of the tag, and none
 * can become a member as long as this claim exists. The claim may be another thread's. The caller then completes
 * it with its own charge: a member without a charge would be idle, and could be reclaimed before any thread
 * has charged it. *out_claim is written unless FULL.
 */
enum ration_claim_result ration_claim_begin(const struct ration_head_kind *kind,
                                            const struct ration_section *section,
                                            const struct ration_location *location,
                                            const struct ration_claim_request *request,
                                            struct ration_claim *out_claim);

/* Whether the table has a claim or a member of the tag. */
bool ration_claim_exists(const struct ration_head_kind *kind, const struct ration_section *section,
                         const struct ration_location *location);

/* Whether an absent key would get a slot now. */
bool ration_claim_has_room(const struct ration_head_kind *kind,
                           const struct ration_section *section,
                           const struct ration_location *location,
                           const struct ration_claim_request *request);

/* Aborts a claim. False if another thread has completed or aborted it. */
bool ration_claim_abort(const struct ration_head_kind *kind, const struct ration_claim *claim);

#endif
