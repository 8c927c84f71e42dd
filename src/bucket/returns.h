/*
 * returns: counts tokens returned to a 16-byte bucket, in bits that its state does not use.
 *
 * A reservation returns the tokens of it that are still outstanding. To compute them it must know
 * how many tokens were returned since it was made, which may have moved it forward (core/gcra.h),
 * and whether some of them were its own, returned by a refund or by a call that replaced the state
 * (init, set, block, change). Such calls are named updates here.
 *
 *     token bucket, queue    word 1   tokens returned, 40 bits | updates, 4 bits | fraction of the tat, 20
 *     interval refill        word 1   tokens returned, 40 bits | updates, 4 bits | spare tokens, 20
 *     windows                word 0   their end; the low bits that are 0 in each multiple of the period
 *                                     count updates: 9 bits for a period of 1 s, none for an odd one
 *
 * Tokens are counted modulo 2^40. The count of updates stops at its maximum; from then on any
 * returned token may have been a reservation's own, and a window returns nothing. The same holds
 * for an interval bucket of more than 2^20 tokens per period and for a window of an odd period,
 * which count nothing. A reservation may then return fewer tokens, never more.
 */
#ifndef RATION_BUCKET_RETURNS_H
#define RATION_BUCKET_RETURNS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/time.h"
#include "base/u64.h"
#include "core/algorithm.h"

#define RATION_UPDATE_BITS      4
#define RATION_UPDATES_MAX      ((UINT64_C(1) << RATION_UPDATE_BITS) - 1)
#define RATION_COUNT_TOKENS_MAX ((UINT64_C(1) << 40) - 1)
/* The most that is counted at once: it takes more than 2^38 of these to wrap the count to 0. */
#define RATION_COUNT_STEP_MAX (RATION_COUNT_TOKENS_MAX / 2)

/* The bits of a bucket that are not part of the state. At most one of the words has any. */
struct ration_spare {
    uint64_t words[2];
};

/* Upper bounds of the tokens returned to a bucket since a reservation was made. */
struct ration_returns {
    uint64_t returned_tokens;
    uint64_t refunded_tokens; /* the part that may have been the reservation's own */
};

/* The count in word 1, or no count. */
static inline struct ration_spare ration_returns_spare_of_count(bool has_count)
{
    return (struct ration_spare){{0, has_count ? ~(uint64_t)(RATION_FRAC_COUNT - 1) : 0}};
}

static inline struct ration_spare ration_returns_spare_of_window(const struct ration_limit *limit)
{
    return (struct ration_spare){{(limit->period_ns & -limit->period_ns) - 1, 0}};
}

/* Whether word 1 has a count, for a limit that is not a window. */
static inline bool ration_returns_has_spare_count(const struct ration_limit *limit)
{
    return limit->refill == RATION_REFILL_CONTINUOUS || limit->tokens <= RATION_FRAC_COUNT;
}

static inline struct ration_spare ration_returns_spare_of(const struct ration_limit *limit)
{
    if (ration_algorithm_is_window(limit))
        return ration_returns_spare_of_window(limit);
    return ration_returns_spare_of_count(ration_returns_has_spare_count(limit));
}

static inline union ration_state ration_returns_without_count(union ration_state raw,
                                                              struct ration_spare spare)
{
    raw.words[0] &= ~spare.words[0];
    raw.words[1] &= ~spare.words[1];
    return raw;
}

static inline union ration_state ration_returns_with_count(union ration_state next,
                                                           union ration_state raw,
                                                           struct ration_spare spare)
{
    uint64_t counted = (raw.words[0] & spare.words[0]) | (raw.words[1] & spare.words[1]);

    /*
     * Almost no bucket has a count. The asm keeps this a branch, which the compiler would otherwise
     * replace: the processor predicts it, and the swap does not wait for the two words to be
     * joined.
     */
    if (__builtin_expect(counted != 0, 0)) {
        __asm__ volatile("" : "+r"(next.words[0]), "+r"(next.words[1]));
        next.words[0] |= raw.words[0] & spare.words[0];
        next.words[1] |= raw.words[1] & spare.words[1];
    }
    return next;
}

static inline uint64_t ration_returns_count(union ration_state raw, struct ration_spare spare)
{
    return (raw.words[0] & spare.words[0]) | (raw.words[1] & spare.words[1]) >> RATION_FRAC_BITS;
}

/* The bucket with tokens counted that another reservation returned. */
static inline union ration_state ration_returns_add_returned(union ration_state raw,
                                                             struct ration_spare spare,
                                                             uint64_t tokens)
{
    uint64_t step = ration_u64_min(tokens, RATION_COUNT_STEP_MAX);

    if (spare.words[1] != 0) /* an overflow of the count leaves the word at its high end */
        raw.words[1] += step << (RATION_FRAC_BITS + RATION_UPDATE_BITS);
    return raw;
}

/* The bucket with an update counted, and its tokens (at least one). */
static inline union ration_state ration_returns_add_refunded(union ration_state raw,
                                                             struct ration_spare spare,
                                                             uint64_t tokens)
{
    uint64_t count = ration_returns_count(raw, spare);

    if (count < spare.words[0])
        raw.words[0]++;
    if (spare.words[1] != 0 && (count & RATION_UPDATES_MAX) < RATION_UPDATES_MAX)
        raw.words[1] += RATION_FRAC_COUNT;
    return ration_returns_add_returned(raw, spare, tokens);
}

/* Tokens returned since the count had the value then. */
static inline struct ration_returns ration_returns_since(const struct ration_limit *limit,
                                                         uint64_t then, union ration_state raw)
{
    struct ration_spare spare = ration_returns_spare_of(limit);
    uint64_t now = ration_returns_count(raw, spare);
    uint64_t tokens =
        ((now >> RATION_UPDATE_BITS) - (then >> RATION_UPDATE_BITS)) & RATION_COUNT_TOKENS_MAX;
    uint64_t updates = now & RATION_UPDATES_MAX;

    if (spare.words[1] == 0)
        tokens = then == now && now < spare.words[0] ? 0 : UINT64_MAX;
    else if (tokens > 0 && limit->burst > RATION_COUNT_STEP_MAX)
        tokens = UINT64_MAX; /* more than RATION_COUNT_STEP_MAX may have been returned at once */
    if (spare.words[1] != 0 && updates == (then & RATION_UPDATES_MAX) &&
        updates < RATION_UPDATES_MAX)
        return (struct ration_returns){tokens, 0};
    return (struct ration_returns){tokens, tokens};
}

#endif
