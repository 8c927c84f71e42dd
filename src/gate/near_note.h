/*
 * near_note: what the parts of near share.
 *
 *     near.c          each call, by the limit's mode
 *     near_lease.c    pockets: tokens that were drawn, and how many to draw next
 *     near_own.c      buckets of the node's own
 *     near_note.c     notes: 16 bytes of a key that change together, found, made and changed
 *
 * Times here are since the epoch of the notes' table.
 */
#ifndef RATION_GATE_NEAR_NOTE_H
#define RATION_GATE_NEAR_NOTE_H

#include "gate/near.h"
#include "limiter/limiter.h"

#define RATION_NEAR_TRIES_MAX   16 /* of changing a note that others change, too */
#define RATION_NEAR_DENIED_MARK 1  /* of a note; 0: none */

struct ration_near {
    ration_limiter *limiter; /* for its table only */
};

/* What a note is about. */
enum ration_near_aspect {
    RATION_NEAR_MAIN,   /* the pocket, or the bucket of the node's own */
    RATION_NEAR_DENIAL, /* until when Redis has denied, and how much */
    RATION_NEAR_BELIEF, /* until when that is believed */
    RATION_NEAR_PAUSE,  /* until when no lease is asked for, since there was little */
    RATION_NEAR_DRAWING /* until when somebody waits for a lease that others need not ask for */
};

struct ration_near_note {
    struct ration_place place;
    struct ration_pair *slot; /* NULL: there is none */
    struct ration_pair value;
    uint64_t until_ns;
    uint64_t count;
    uint32_t mark;
};

uint64_t ration_near_since(const struct ration_near *near, uint64_t now_ns);

void ration_near_find(const struct ration_near *near, const struct ration_near_ask *ask,
                      enum ration_near_aspect aspect, struct ration_near_note *note);

/* Writes a note if it is as it was found; makes one if there was none and there is a place. */
bool ration_near_change(struct ration_near *near, struct ration_near_note *note, uint64_t until_ns,
                        uint64_t count, uint32_t mark, uint64_t since_ns);

void ration_near_believe(struct ration_near *near, const struct ration_near_ask *ask,
                         uint64_t since_ns);
bool ration_near_is_believed(const struct ration_near *near, const struct ration_near_ask *ask,
                             uint64_t since_ns);
void ration_near_forget(struct ration_near *near, const struct ration_near_ask *ask,
                        enum ration_near_aspect aspect, uint64_t since_ns);

/* Allowed, with so many tokens left. */
struct ration_decision ration_near_decision(const struct ration_near_ask *ask, uint64_t remaining);

/* Denied until the note's moment. */
enum ration_near_answer ration_near_deny(const struct ration_near_ask *ask,
                                         const struct ration_near_note *note, uint64_t since_ns,
                                         struct ration_near_result *result);

static inline uint64_t ration_near_larger(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

/* Each mode's part of a call of near.h. */
enum ration_near_answer ration_near_lease_take(struct ration_near *near,
                                               const struct ration_near_ask *ask, uint64_t since_ns,
                                               struct ration_near_result *result);
void ration_near_lease_put_back(struct ration_near *near, const struct ration_near_ask *ask,
                                const struct ration_near_result *result, uint64_t since_ns);
void ration_near_lease_learn(struct ration_near *near, const struct ration_near_ask *ask,
                             const struct ration_decision *decision,
                             const struct ration_near_drawn *drawn, uint64_t since_ns);
void ration_near_lease_edited(struct ration_near *near, const struct ration_near_ask *ask,
                              enum ration_gate_edit_kind kind, uint64_t since_ns);

enum ration_near_answer ration_near_own_take(struct ration_near *near,
                                             const struct ration_near_ask *ask, uint64_t since_ns,
                                             struct ration_near_result *result);
void ration_near_own_put_back(struct ration_near *near, const struct ration_near_ask *ask,
                              uint64_t since_ns);
void ration_near_own_learn(struct ration_near *near, const struct ration_near_ask *ask,
                           const struct ration_decision *decision, uint64_t since_ns);
void ration_near_own_edited(struct ration_near *near, const struct ration_near_ask *ask,
                            enum ration_gate_edit_kind kind, uint64_t since_ns);

#endif
