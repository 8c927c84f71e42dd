/*
 * gcra: a token bucket stored as one point in time (generic cell rate algorithm).
 *
 * A limit of 5 per second makes one token worth 200 ms. The state is the theoretical arrival time
 * (tat): the time at which the bucket will be full again. At now = 1000 ms, tat = 1600 ms means
 * that three of five tokens are in use.
 *
 *     tat <= now                                     the bucket is full and may be evicted
 *     max(tat, now) + cost * token <= now + capacity the cost may be taken now
 *
 * There is no refill step: time itself advances towards tat. So a clock that stops or runs
 * backwards cannot create tokens, and all-zero bytes are a full bucket.
 *
 * These functions run inside the compare-and-swap loop of every decision, so they are inline. Only
 * ration_gcra_remaining() divides. Every now is at most RATION_NOW_MAX_NS.
 */
#ifndef RATION_CORE_GCRA_H
#define RATION_CORE_GCRA_H

#include <stdbool.h>
#include <stdint.h>

#include "base/time.h"
#include "base/wide.h"
#include "ration/decision.h"
#include "ration/limit.h"

/*
 * No reservation waits longer than 2 years, so that no state lies RATION_SPAN_NS ahead of its now.
 */
#define RATION_WAIT_NS_MAX (2 * RATION_NS_PER_YEAR)
_Static_assert(RATION_FILL_NS_MAX + RATION_WAIT_NS_MAX < RATION_SPAN_NS, "a state fits its span");
_Static_assert(RATION_FILL_NS_MAX + RATION_BLOCK_NS_MAX < RATION_SPAN_NS, "so does a blocked one");

/* The outcome of a take: the verdict, the wait, and the state to publish. */
struct ration_gcra_step {
    enum ration_verdict verdict;
    uint64_t wait_ns; /* ALLOW: 0 up to the accepted wait; DENY: at least 1; NEVER: FOREVER */
    struct ration_time next; /* equals the given state unless the verdict is ALLOW */
};

/*@
  predicate sound(struct ration_rate rate) =
    proper(rate.token) && proper(rate.capacity) &&
    units(rate.token) >= in_units(1) &&
    1 <= rate.burst <= rate.span_tokens &&
    units(rate.capacity) == rate.burst * units(rate.token) <= in_units(RATION_FILL_NS_MAX) &&
    rate.span_tokens * units(rate.token) <= span;

  predicate kept(struct ration_time tat) =
    proper(tat) && units(tat) <= in_units(RATION_NOW_MAX_NS) + span;

  // where a take at now starts, and where it must end to go at once
  logic integer start(struct ration_time tat, integer now) = \max(units(tat), in_units(now));
  logic integer room(struct ration_rate rate, integer now) = in_units(now) + units(rate.capacity);

  logic integer worth(struct ration_rate rate, integer tokens) =
    \min(tokens, rate.span_tokens) * units(rate.token);

  lemma product_grows: \forall integer a, b, t; 0 <= t && a <= b ==> a * t <= b * t;
  lemma quotient: \forall integer a, b; 0 <= a && 0 < b ==> a / b * b <= a < (a / b + 1) * b;
  lemma quotient_most: \forall integer a, b, n; 0 <= a <= n * b && 0 < b ==> a / b <= n;
*/

/*
 * Decides cost_tokens at now for a caller that would wait up to max_wait_ns (0: it must proceed
 * now). The returned wait is exact: at now + wait_ns the same cost is allowed, one nanosecond
 * earlier it is not.
 */
/*@ requires \valid_read(rate) && sound(*rate);
    requires kept(tat);
    requires now_ns <= RATION_NOW_MAX_NS;
    assigns \nothing;
    behavior peek:
      assumes cost_tokens == 0;
      ensures \result.verdict == RATION_ALLOW && \result.next == tat && \result.wait_ns == 0;
    behavior never:
      assumes cost_tokens > rate->burst;
      ensures \result.verdict == RATION_NEVER && \result.next == tat;
      ensures \result.wait_ns == RATION_FOREVER;
    behavior decide:
      assumes 0 < cost_tokens <= rate->burst;
      ensures \result.verdict == RATION_ALLOW || \result.verdict == RATION_DENY;
      ensures \result.verdict == RATION_ALLOW <==>
        \result.wait_ns <= \min(max_wait_ns, RATION_WAIT_NS_MAX);
      ensures \result.verdict == RATION_ALLOW ==> kept(\result.next) &&
        units(\result.next) ==
          start(tat, now_ns + \result.wait_ns) + cost_tokens * units(rate->token);
      ensures \result.verdict == RATION_DENY ==> \result.next == tat;
      // exact: fits at now + wait_ns, and not one nanosecond earlier
      ensures start(tat, now_ns) + cost_tokens * units(rate->token)
        <= room(*rate, now_ns + \result.wait_ns);
      ensures \result.wait_ns > 0 ==>
        start(tat, now_ns) + cost_tokens * units(rate->token)
        > room(*rate, now_ns + \result.wait_ns - 1);
    complete behaviors;
    disjoint behaviors;
*/
static inline struct ration_gcra_step ration_gcra_take(struct ration_time tat,
                                                       const struct ration_rate *rate,
                                                       uint64_t cost_tokens, uint64_t max_wait_ns,
                                                       uint64_t now_ns)
{
    struct ration_gcra_step step = {RATION_ALLOW, 0, tat};
    struct ration_time now = ration_time_from_ns(now_ns);

    if (cost_tokens == 0)
        return step;
    if (cost_tokens > rate->burst) {
        step.verdict = RATION_NEVER;
        step.wait_ns = RATION_FOREVER;
        return step;
    }

    struct ration_time cost = ration_time_scale(rate->token, cost_tokens);
    //@ assert cost_tokens * units(rate->token) <= rate->burst * units(rate->token);
    struct ration_time next = ration_time_add(ration_time_max(tat, now), cost);
    struct ration_time room = ration_time_add(now, rate->capacity);

    if (ration_time_less(room, next)) {
        step.wait_ns = ration_time_ceil_ns(ration_time_sub(next, room));
        if (step.wait_ns > max_wait_ns || step.wait_ns > RATION_WAIT_NS_MAX) {
            step.verdict = RATION_DENY;
            return step;
        }
        /*
         * Ready times are whole nanoseconds. Tokens refilled in the rest of that nanosecond do not
         * count.
         */
        struct ration_time turn = ration_time_from_ns(now_ns + step.wait_ns);

        next = ration_time_add(ration_time_max(tat, turn), cost);
        //@ assert units(next) <= room(*rate, now_ns + step.wait_ns);
    }
    step.next = next;
    return step;
}

/* Returns the whole tokens available now. The only division of a decision. */
/*@ requires \valid_read(rate) && sound(*rate);
    requires kept(tat);
    requires now_ns <= RATION_NOW_MAX_NS;
    assigns \nothing;
    ensures \result <= rate->burst;
    ensures \result > 0 ==>
      start(tat, now_ns) + \result * units(rate->token) <= room(*rate, now_ns);
    ensures \result < rate->burst ==>
      start(tat, now_ns) + (\result + 1) * units(rate->token) > room(*rate, now_ns);
*/
static inline uint64_t ration_gcra_remaining(struct ration_time tat, const struct ration_rate *rate,
                                             uint64_t now_ns)
{
    struct ration_time now = ration_time_from_ns(now_ns);
    struct ration_time used = ration_time_sub(ration_time_max(tat, now), now);
    struct ration_time left = ration_time_sub_or_zero(rate->capacity, used);
    uint64_t tokens =
        ration_wide_divide(ration_wide_from_time(left), ration_wide_from_time(rate->token));

    /*@ assert units(left) == \max(room(*rate, now_ns) - start(tat, now_ns), 0); */
    /*@ assert units(left) / units(rate->token) <= rate->burst; */
    /*@ assert tokens == units(left) / units(rate->token); */
    return tokens;
}

/* Returns how long until the bucket is full, rounded up. */
/*@ requires kept(tat);
    requires now_ns <= RATION_NOW_MAX_NS;
    assigns \nothing;
    ensures units(tat) <= in_units(now_ns + \result);
    ensures \result > 0 ==> units(tat) > in_units(now_ns + \result - 1);
*/
static inline uint64_t ration_gcra_full_after_ns(struct ration_time tat, uint64_t now_ns)
{
    struct ration_time now = ration_time_from_ns(now_ns);

    return ration_time_ceil_ns(ration_time_sub_or_zero(tat, now));
}

/* Returns the time worth tokens, limited to span_tokens. */
/*@ requires \valid_read(rate) && sound(*rate);
    assigns \nothing;
    ensures proper(\result);
    ensures units(\result) == worth(*rate, tokens);
    ensures units(\result) <= span;
*/
static inline struct ration_time ration_gcra_worth(const struct ration_rate *rate, uint64_t tokens)
{
    uint64_t count = tokens < rate->span_tokens ? tokens : rate->span_tokens;

    /*@ assert count == \min(tokens, rate->span_tokens) <= rate->span_tokens; */
    return ration_time_scale(rate->token, count);
}

/*
 * Returns tokens to the bucket. A tat that falls behind now is clamped at its next use, so a bucket
 * never has more than its burst.
 */
/*@ requires \valid_read(rate) && sound(*rate);
    requires kept(tat);
    assigns \nothing;
    ensures kept(\result);
    ensures units(\result) == \max(units(tat) - worth(*rate, tokens), 0);
*/
static inline struct ration_time ration_gcra_refund(struct ration_time tat,
                                                    const struct ration_rate *rate, uint64_t tokens)
{
    return ration_time_sub_or_zero(tat, ration_gcra_worth(rate, tokens));
}

/* Takes tokens even if fewer are left. The debt stops growing RATION_SPAN_NS ahead of now. */
/*@ requires \valid_read(rate) && sound(*rate);
    requires kept(tat);
    requires now_ns <= RATION_NOW_MAX_NS;
    assigns \nothing;
    ensures kept(\result);
    ensures units(\result) == \min(start(tat, now_ns) + worth(*rate, tokens),
                                  \max(units(tat), in_units(now_ns) + span));
*/
static inline struct ration_time ration_gcra_charge(struct ration_time tat,
                                                    const struct ration_rate *rate, uint64_t tokens,
                                                    uint64_t now_ns)
{
    struct ration_time now = ration_time_from_ns(now_ns);
    struct ration_time base = ration_time_max(tat, now);
    struct ration_time most =
        ration_time_max(base, ration_time_add(now, ration_time_from_ns(RATION_SPAN_NS)));
    struct ration_time next = ration_time_add(base, ration_gcra_worth(rate, tokens));

    return ration_time_less(most, next) ? most : next;
}

/* Denies everything before until_ns; one token is available at until_ns. */
/*@ requires \valid_read(rate) && sound(*rate);
    requires kept(tat);
    requires until_ns <= RATION_NOW_MAX_NS;
    assigns \nothing;
    ensures kept(\result);
    ensures units(\result) == \max(units(tat), room(*rate, until_ns) - units(rate->token));
*/
static inline struct ration_time ration_gcra_block(struct ration_time tat,
                                                   const struct ration_rate *rate,
                                                   uint64_t until_ns)
{
    struct ration_time rest = ration_time_scale(rate->token, rate->burst - 1);

    /*@ assert units(rest) == units(rate->capacity) - units(rate->token); */
    return ration_time_max(tat, ration_time_add(ration_time_from_ns(until_ns), rest));
}

/* Returns a bucket with tokens (at most its burst) available at now. */
/*@ requires \valid_read(rate) && sound(*rate);
    requires now_ns <= RATION_NOW_MAX_NS;
    assigns \nothing;
    ensures kept(\result);
    ensures units(\result) ==
      in_units(now_ns) + (rate->burst - \min(tokens, rate->burst)) * units(rate->token);
*/
static inline struct ration_time ration_gcra_set(const struct ration_rate *rate, uint64_t tokens,
                                                 uint64_t now_ns)
{
    uint64_t out_tokens = tokens < rate->burst ? rate->burst - tokens : 0;

    /*@ assert out_tokens == rate->burst - \min(tokens, rate->burst); */
    return ration_time_add(ration_time_from_ns(now_ns), ration_time_scale(rate->token, out_tokens));
}

/*
 * A reservation that ends: the tokens it charged, and how many of them were not used.
 *
 * Its tokens cover the time from mark - cost to mark. They are refilled in that order, so at now at
 * most mark - now of them is outstanding: the others have been refilled and may have been taken by
 * other callers since. Tokens returned to the bucket after the reservation was made, by a settle or
 * a refund, may have moved it forward in that order; they count as refilled, too. Whatever was
 * returned, nothing of the reservation is refilled before its ready time (turn_ns), so at least
 * turn + cost - now is outstanding.
 */
struct ration_gcra_release {
    struct ration_time mark; /* the bucket after the reservation */
    uint64_t cost_tokens;
    uint64_t unused_tokens;   /* at most cost_tokens */
    uint64_t turn_ns;         /* the time it was charged for: its ready time */
    uint64_t returned_tokens; /* upper bound of tokens returned to the bucket since */
};

/*@
  // what is outstanding of a reservation at now
  logic integer by_mark(struct ration_rate rate, struct ration_gcra_release r, integer now) =
    \max(units(r.mark) - in_units(now) - worth(rate, r.returned_tokens), 0);
  logic integer by_turn(struct ration_rate rate, struct ration_gcra_release r, integer now) =
    \max(in_units(r.turn_ns) + worth(rate, r.cost_tokens) - in_units(now), 0);
  logic integer outstanding(struct ration_rate rate, struct ration_gcra_release r, integer now) =
    \max(by_mark(rate, r, now), by_turn(rate, r, now));
*/

/*
 * Returns the time still outstanding of a reservation whose ready time has come, at most its cost.
 */
/*@ requires \valid_read(rate) && sound(*rate);
    requires \valid_read(release) && kept(release->mark);
    requires release->turn_ns <= now_ns <= RATION_NOW_MAX_NS;
    assigns \nothing;
    ensures proper(\result);
    ensures units(\result) == outstanding(*rate, *release, now_ns);
*/
static inline struct ration_time ration_gcra_outstanding(const struct ration_rate *rate,
                                                         const struct ration_gcra_release *release,
                                                         uint64_t now_ns)
{
    struct ration_time now = ration_time_from_ns(now_ns);
    struct ration_time by_mark =
        ration_time_sub_or_zero(ration_time_sub_or_zero(release->mark, now),
                                ration_gcra_worth(rate, release->returned_tokens));
    struct ration_time by_turn =
        ration_time_sub_or_zero(ration_gcra_worth(rate, release->cost_tokens),
                                ration_time_from_ns(now_ns - release->turn_ns));

    return ration_time_max(by_mark, by_turn);
}

/* Returns whether tat lies after now + capacity: a reservation waits for its ready time. */
/*@ requires \valid_read(rate) && sound(*rate);
    requires kept(tat);
    requires now_ns <= RATION_NOW_MAX_NS;
    assigns \nothing;
    ensures \result <==> units(tat) > room(*rate, now_ns);
*/
static inline bool ration_gcra_is_waited(struct ration_time tat, const struct ration_rate *rate,
                                         uint64_t now_ns)
{
    return ration_time_less(ration_time_add(ration_time_from_ns(now_ns), rate->capacity), tat);
}

/*
 * Returns the bucket after a reservation ended: unused tokens are returned as far as they are still
 * outstanding. Ruled out: returning all of them. 1000/min, 800 reserved at 0 s, 1000 taken by other
 * callers at 50 s, when the 800 have been refilled. Returning 700 then would let 1700 be used at
 * one instant.
 *
 * Nothing is returned before the ready time (but see ration_state_release_is_undone()), or while other
 * reservations wait, which is when tat lies after now + capacity. Their ready times were promised;
 * if tat moved back, new callers would be promised the same times again. Ruled out: returning a
 * part. With 1 per 10 ns and burst 5, everything at 100 ns, let A take 5, B wait for 4 until 140
 * and C wait for 1 until 150. If B returned the 3 that C was not promised, and then A the 3 that
 * seem to be left, a new caller could take 5 at 150, together with C.
 */
/*@ requires \valid_read(rate) && sound(*rate);
    requires kept(tat);
    requires \valid_read(release) && kept(release->mark);
    requires now_ns <= RATION_NOW_MAX_NS;
    assigns \nothing;
    ensures kept(\result);
    behavior early:
      assumes now_ns < release->turn_ns;
      ensures \result == tat;
    behavior others_wait:
      assumes release->turn_ns <= now_ns && units(tat) > room(*rate, now_ns);
      ensures \result == tat;
    behavior free:
      assumes release->turn_ns <= now_ns && units(tat) <= room(*rate, now_ns);
      ensures units(\result) == \max(units(tat) - \min(worth(*rate, release->unused_tokens),
                                         outstanding(*rate, *release, now_ns)), 0);
    complete behaviors;
    disjoint behaviors;
*/
static inline struct ration_time ration_gcra_release(struct ration_time tat,
                                                     const struct ration_rate *rate,
                                                     const struct ration_gcra_release *release,
                                                     uint64_t now_ns)
{
    if (now_ns < release->turn_ns || ration_gcra_is_waited(tat, rate, now_ns))
        return tat;

    struct ration_time unused = ration_gcra_worth(rate, release->unused_tokens);
    struct ration_time outstanding = ration_gcra_outstanding(rate, release, now_ns);

    return ration_time_sub_or_zero(tat,
                                   ration_time_less(outstanding, unused) ? outstanding : unused);
}

/* Returns the tokens, rounded up, by which a bucket is fuller after a change than before. */
/*@ requires \valid_read(rate) && sound(*rate);
    requires kept(before) && kept(after);
    requires now_ns <= RATION_NOW_MAX_NS;
    assigns \nothing;
    behavior none:
      assumes start(after, now_ns) >= start(before, now_ns);
      ensures \result == 0;
    behavior some:
      assumes start(after, now_ns) < start(before, now_ns);
      ensures start(before, now_ns) - start(after, now_ns) <= \result * units(rate->token);
*/
static inline uint64_t ration_gcra_returned(struct ration_time before, struct ration_time after,
                                            const struct ration_rate *rate, uint64_t now_ns)
{
    struct ration_time now = ration_time_from_ns(now_ns);
    struct ration_time gained =
        ration_time_sub_or_zero(ration_time_max(before, now), ration_time_max(after, now));

    uint64_t whole;

    /*@ assert units(gained) == \max(start(before, now_ns) - start(after, now_ns), 0); */
    if (gained.ns == 0 && gained.frac == 0) {
        /*@ assert start(before, now_ns) - start(after, now_ns) <= 0; */
        return 0;
    }
    whole = ration_wide_divide(ration_wide_from_time(gained), ration_wide_from_time(rate->token));
    /*@ assert units(gained) <= 0xFFFFFFFFFFFFFFFE * units(rate->token); */
    /*@ assert units(gained) / units(rate->token) <= 0xFFFFFFFFFFFFFFFE; */
    /*@ assert whole == units(gained) / units(rate->token); */
    /*@ assert units(gained) < (units(gained) / units(rate->token) + 1) * units(rate->token); */
    /*@ assert start(before, now_ns) - start(after, now_ns) <= (whole + 1) * units(rate->token); */
    return whole + 1;
}

#endif
