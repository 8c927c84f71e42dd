/*
 * returns: what was returned to a bucket of 16 bytes, counted in bits that its state leaves free.
 *
 * A reservation gives back what is still outstanding of it. Two things must be known for that: how many
 * tokens were returned since it was made, which may have moved it forward (core/gcra.h); and whether
 * some of them were its own, returned by a refund or by a call that replaced the state (init, set,
 * block, change). These are called edits here.
 *
 *     token bucket, queue    word 1   tokens returned, 40 bits | edits, 4 bits | fraction of the tat, 20
 *     interval refill        word 1   tokens returned, 40 bits | edits, 4 bits | spare tokens, 20
 *     windows                word 0   their end; the low bits that are 0 in each multiple of the period
 *                                     count edits: 9 bits for a period of 1 s, none for an odd one
 *
 * The tokens are counted modulo 2^40. The edits stop at the most that their bits hold; from then on
 * everything returned may have been a reservation's own, and a window gives nothing back. So do an
 * interval bucket of more than 2^20 tokens a time and a window of an odd period, which count nothing.
 * Less may come back then, never more.
 */
#ifndef RATION_BUCKET_RETURNS_H
#define RATION_BUCKET_RETURNS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/u64.h"
#include "core/algorithm.h"

#define RATION_FRAC_BITS        20
#define RATION_EDIT_BITS        4
#define RATION_EDITS_MAX        ((UINT64_C(1) << RATION_EDIT_BITS) - 1)
#define RATION_COUNT_TOKENS_MAX ((UINT64_C(1) << 40) - 1)
/* The most that is counted at once: it takes more than 2^38 of these to count round to 0. */
#define RATION_COUNT_STEP_MAX (RATION_COUNT_TOKENS_MAX / 2)

_Static_assert(UINT64_C(1) << RATION_FRAC_BITS == RATION_FRAC_COUNT, "the rest of a word counts");

/* The bits of a bucket that are no part of the state. At most one of the words has any. */
struct ration_spare {
    uint64_t words[2];
};

/* In tokens, since a reservation was made, at most. */
struct ration_returns {
    uint64_t returned_tokens;
    uint64_t refunded_tokens; /* of those: which may have been the reservation's own */
};

static inline struct ration_spare ration_spare_of_gcra(void)
{
    return (struct ration_spare){{0, ~(uint64_t)(RATION_FRAC_COUNT - 1)}};
}

static inline struct ration_spare ration_spare_of(const struct ration_limit *limit)
{
    if (ration_algorithm_is_gcra(limit))
        return ration_spare_of_gcra();
    if (limit->algorithm == RATION_FIXED_WINDOW || limit->algorithm == RATION_SLIDING_WINDOW)
        return (struct ration_spare){{(limit->period_ns & -limit->period_ns) - 1, 0}};
    if (limit->algorithm == RATION_LEAKY_QUEUE || limit->tokens <= RATION_FRAC_COUNT)
        return ration_spare_of_gcra();
    return (struct ration_spare){{0, 0}};
}

static inline union ration_state ration_without_count(union ration_state raw,
                                                      struct ration_spare spare)
{
    raw.words[0] &= ~spare.words[0];
    raw.words[1] &= ~spare.words[1];
    return raw;
}

static inline union ration_state ration_with_count(union ration_state next, union ration_state raw,
                                                   struct ration_spare spare)
{
    next.words[0] |= raw.words[0] & spare.words[0];
    next.words[1] |= raw.words[1] & spare.words[1];
    return next;
}

static inline uint64_t ration_count_of(union ration_state raw, struct ration_spare spare)
{
    return (raw.words[0] & spare.words[0]) | (raw.words[1] & spare.words[1]) >> RATION_FRAC_BITS;
}

/* The bucket with tokens counted that another reservation returned. */
static inline union ration_state ration_count_returned(union ration_state raw,
                                                       struct ration_spare spare, uint64_t tokens)
{
    uint64_t step = ration_u64_min(tokens, RATION_COUNT_STEP_MAX);

    if (spare.words[1] != 0) /* what is counted too far falls off the end of the word */
        raw.words[1] += step << (RATION_FRAC_BITS + RATION_EDIT_BITS);
    return raw;
}

/* The bucket with an edit counted, and its tokens, of which there is at least one. */
static inline union ration_state ration_count_refunded(union ration_state raw,
                                                       struct ration_spare spare, uint64_t tokens)
{
    uint64_t count = ration_count_of(raw, spare);

    if (count < spare.words[0])
        raw.words[0]++;
    if (spare.words[1] != 0 && (count & RATION_EDITS_MAX) < RATION_EDITS_MAX)
        raw.words[1] += RATION_FRAC_COUNT;
    return ration_count_returned(raw, spare, tokens);
}

/* What was returned since the count was then. */
static inline struct ration_returns ration_returns_since(const struct ration_limit *limit,
                                                         uint64_t then, union ration_state raw)
{
    struct ration_spare spare = ration_spare_of(limit);
    uint64_t now = ration_count_of(raw, spare);
    uint64_t tokens =
        ((now >> RATION_EDIT_BITS) - (then >> RATION_EDIT_BITS)) & RATION_COUNT_TOKENS_MAX;
    uint64_t edits = now & RATION_EDITS_MAX;

    if (spare.words[1] == 0)
        tokens = then == now && now < spare.words[0] ? 0 : UINT64_MAX;
    else if (tokens > 0 && limit->burst > RATION_COUNT_STEP_MAX)
        tokens = UINT64_MAX; /* more than is counted at once may have been returned */
    if (spare.words[1] != 0 && edits == (then & RATION_EDITS_MAX) && edits < RATION_EDITS_MAX)
        return (struct ration_returns){tokens, 0};
    return (struct ration_returns){tokens, tokens};
}

#endif
