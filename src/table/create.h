/*
 * create: how a key gets its place, once.
 *
 * Each place begins with a head of 16 bytes (a plain slot is nothing but its head) which says
 * whose the place is, and is changed by compare-and-swap only.
 *
 *     empty     nobody's
 *     claim     of a tag: somebody is creating this key
 *     member    of a tag: the key's
 *
 *     from                     to                         by
 *     empty, or idle member    claim                      who creates a key
 *     claim                    member                     its creator, or any who meets it
 *     claim                    empty                      who finds that it was one too many
 *     member                   member of the same tag     a decision
 *
 * Two threads that create the same key may claim different places, since what is idle depends on
 * their now. So a claim is only the first half. Who claims then looks through all 16 places of
 * the key once more. A member of the tag: the key is there, the claim is withdrawn. Another claim
 * of the tag: the one with the lower address wins, the other is cancelled. Nothing found: the
 * claim becomes the member. Of two claims the later one's look comes after both stand, so it
 * meets the earlier; both cannot become members.
 *
 * Anyone may do the second half for anyone, so a thread that stops forever after its claim keeps
 * nobody waiting. A claim that nobody meets again lapses after a second, and its place is free.
 *
 * No head that was ever a claim has those bytes again (each kind says how), so a late swap by a
 * thread that slept fails.
 */
#ifndef RATION_TABLE_CREATE_H
#define RATION_TABLE_CREATE_H

#include "table/section.h"

/* How long a claim keeps its place. */
#define RATION_CLAIM_NS (UINT64_C(1) << 30)

/*
 * How often who finds no place looks again where others' claims are among what takes them. Several
 * threads that create one key make several claims, of which one stays.
 */
#define RATION_LOOKS_MAX 100

enum ration_role { RATION_ROLE_EMPTY, RATION_ROLE_CLAIM, RATION_ROLE_MEMBER };

/* A head and what was read there: a claim or a member. */
struct ration_entrance {
    struct ration_pair *head;
    struct ration_pair value;
    bool is_reclaimed; /* of a claim that was just made: another key had the place */
};

/*
 * The key that a place is looked for, and which places it may take: those that are free at now, and
 *
 *     reset_mask    those of these generations: their buckets start over whatever they hold
 *     is_scarce     those of keys that hold no less than a new key starts with. They lose what they have
 *                   more, so this is for limits that do not start full, when no other place is left
 *
 * Both are meant only as long as *current is config, and the number there is config_number: a thread that
 * slept while limits changed would take keys of a later generation for those of an earlier one. That is
 * checked after a place was read, and before it is taken.
 */
struct ration_newcomer {
    uint64_t now_ns;
    uint32_t reset_mask;
    uint32_t generation; /* of the bounds */
    bool is_scarce;
    bool is_crowded;  /* established keys that are full keep too many places: see table/slot.h */
    uint64_t kept_ns; /* how long after it is full a key is remembered: a part of its moments */
    struct ration_time bounds[RATION_SECTION_CELLS_MAX]; /* moments of a key that is new now */
    const void *const *current;
    const uint64_t *config;
    uint64_t config_number;
};

/*
 * Whether the newcomer may take the place of a member with these cells, of which those in moment_mask are
 * moments, and this mark. *out_moment is then what is lost with it.
 */
bool ration_newcomer_may_take(const struct ration_newcomer *newcomer,
                              const struct ration_time *cells, uint32_t moment_mask, uint32_t mark,
                              struct ration_time *out_moment);

/* When a new key may have one of its places, of those that are added; zero at first. */
struct ration_free_times {
    struct ration_time earliest;
    struct ration_time established[RATION_KEY_PLACES]; /* when such keys are full, in order */
    uint32_t count;
    uint32_t established_count;
};

void ration_free_times_add(struct ration_free_times *times, struct ration_time moment,
                           uint32_t mark);
struct ration_time ration_free_times_first(const struct ration_free_times *times);

/* What plain slots and entries do differently. */
struct ration_head_kind {
    enum ration_role (*role)(struct ration_pair value);

    /*
     * Whether the place may be given to the newcomer. *out_moment is then the latest moment that is lost
     * with it; zero if nothing is.
     */
    bool (*is_free)(const struct ration_section *section, struct ration_pair *head,
                    struct ration_pair value, const struct ration_newcomer *newcomer,
                    struct ration_time *out_moment);

    /* A claim of the tag, to stand where victim does. */
    struct ration_pair (*claim)(const struct ration_section *section,
                                const struct ration_place *place, struct ration_pair victim,
                                uint64_t now_ns);

    /* What a claim becomes when it is withdrawn or cancelled. */
    struct ration_pair (*withdrawn)(struct ration_pair claim);
};

enum ration_enter {
    RATION_ENTER_CLAIMED, /* the key was absent: make its claim a member, or withdraw it */
    RATION_ENTER_FOUND,   /* somebody else has created it */
    RATION_ENTER_FULL     /* all its places are in debt */
};

/*
 * Claims a place for a key that was not found. With CLAIMED no other claim or member of the tag
 * stands, and as long as this one does none becomes a member. It may be another thread's claim,
 * which the caller completes with its own charge: completed as new, it would be idle, and could be
 * reclaimed before anyone got on. *out_entrance is written unless FULL.
 */
enum ration_enter ration_create_enter(const struct ration_head_kind *kind,
                                      const struct ration_section *section,
                                      const struct ration_place *place,
                                      const struct ration_newcomer *newcomer,
                                      struct ration_entrance *out_entrance);

/* Whether a claim or a member of the tag stands. */
bool ration_create_is_begun(const struct ration_head_kind *kind,
                            const struct ration_section *section, const struct ration_place *place);

/* Whether an absent key would find a place now. */
bool ration_create_has_room(const struct ration_head_kind *kind,
                            const struct ration_section *section, const struct ration_place *place,
                            const struct ration_newcomer *newcomer);

/* Gives a claim up. False if another thread has completed or cancelled it. */
bool ration_create_withdraw(const struct ration_head_kind *kind,
                            const struct ration_entrance *claim);

#endif
