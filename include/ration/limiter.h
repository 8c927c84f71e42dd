/*
 * limiter: a bucket per key, for any number of keys in fixed memory.
 *
 *     ration_limiter *limiter;
 *     ration_limiter_create_simple("10/s burst 20", 100000, &limiter, NULL);
 *
 *     if (!ration_limiter_allow(limiter, &RATION_KEY("198.51.100.7")))
 *         answer_429();
 *
 * Several limits, key functions and other options:
 *
 *     struct ration_rule rules[2] = {0};
 *     ration_limit_parse("10/s burst 20", &rules[0].limit, NULL);
 *     ration_limit_parse("1000/d", &rules[1].limit, NULL);
 *
 *     ration_limiter_create(&(struct ration_limiter_options){
 *         .struct_size = sizeof(struct ration_limiter_options),
 *         .rules = rules, .rule_count = 2, .keys_max = 100000}, &limiter, NULL);
 *
 * A limiter finds a key in the caller's request, and holds that key to one or more limits: all of
 * them pass, or nothing is taken from any. A stack does the same with several limiters and keys.
 *
 * Any number of threads may call at once. A decision takes no lock, allocates nothing and makes
 * no system call; a denial writes nothing. All memory is taken when the limiter is created. Keys
 * are kept as hashes under a secret of the limiter's own; two keys share a bucket with a
 * probability below 1e-12. Only buckets that are full are forgotten, when their place is needed,
 * and nobody can tell that they were. A key that finds no place among 16 that are all in debt
 * follows the overflow rule.
 *
 * now_ns is a number of the limiter's clock (ration_limiter_now()), read by the caller once and
 * used for all it decides together. It may be stale, repeated, zero or maximal; 17 years after the
 * limiter was made time stands still for it. (A time of day is no number of the default clock, and lies
 * beyond that: give the limiter the clock you read.)
 */
#ifndef RATION_LIMITER_H
#define RATION_LIMITER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "ration/bucket.h"
#include "ration/clock.h"
#include "ration/decision.h"
#include "ration/export.h"
#include "ration/limit.h"
#include "ration/stats.h"
#include "ration/status.h"

RATION_C_BEGIN

typedef struct ration_limiter ration_limiter;
typedef struct ration_stack ration_stack;

#define RATION_LIMITER_NAME_MAX 63
#define RATION_KEY_SIZE_MAX     65535
#define RATION_RULES_MAX        8     /* of one limiter */
#define RATION_STACK_MAX        16384 /* limiters of one stack */
#define RATION_CALL_KEYS_MAX    16    /* different keys that one call decides, ... */
#define RATION_CALL_RULES_MAX   16    /* ... with so many rules together */

/* How long after a limiter was made its time stands still: 17 years. */
#define RATION_LIMITER_TIME_MAX_NS UINT64_C(544924752303423487)

/* Any bytes. */
struct ration_key {
    const void *bytes;
    size_t size;
};

/* A key from a string literal: an lvalue, so that &RATION_KEY("x") is a request. */
#ifdef __cplusplus
#define RATION_KEY(text)                                                            \
    ([]() -> const struct ration_key & {                                            \
        static const struct ration_key ration_literal = {(text), sizeof(text) - 1}; \
        return ration_literal;                                                      \
    }())
#else
#define RATION_KEY(text) ((struct ration_key){(text), sizeof(text) - 1})
#endif

/* Room for a key function that has to compose its key. */
#define RATION_KEY_ROOM_SIZE 256

/*
 * Finds the key of a request. *out_key may point into the request, or into room, which is
 * RATION_KEY_ROOM_SIZE bytes. Returns RATION_OK, or RATION_EINVAL for a request without a key,
 * which is then what the call returns.
 */
typedef ration_status ration_keyer(void *context, const void *request, char *room,
                                   struct ration_key *out_key);

/*
 * Chooses the limit for a request, or NULL if this rule does not apply to it. Which limits it may return
 * is what the rule declares:
 *
 *     limits          the address of one of these. A key has a bucket for each of them: what is taken
 *                     under one is not missing under another (reads at 50/s, writes at 10/s)
 *     is_one_budget   any limit that lives as long as the limiter, of the same algorithm and refill
 *                     (for windows and logs also of the same tokens and period) as the rule's own. A key
 *                     has one bucket: what was taken under one limit is still out under the next, as
 *                     time (the plan that a customer is on)
 *     neither         a limit equal to the rule's own: the function says whether it applies, and its cost
 *
 * Anything else is RATION_EUNFIT for the call. May change *cost_tokens, which is the caller's: one per
 * request, say, whatever the caller takes of other limits (then set the rule's sets_cost). A look, of
 * cost 0, stays one. Called for every call about the request, and again if limits are changed meanwhile.
 */
typedef const struct ration_limit *ration_chooser(void *context, const void *request,
                                                  uint64_t *cost_tokens);

/* One limit of a limiter. */
struct ration_rule {
    struct ration_limit limit; /* for all requests, or an example of what choose() returns; not used
                                  if there are limits */
    ration_chooser *choose;    /* NULL: the limit above */
    void *choose_context;
    const struct ration_limit
        *limits;        /* that choose() chooses from, of any kinds; copied, but choose()
                                          returns addresses in this array. NULL: see ration_chooser */
    size_t limit_count; /* each counts as a rule: of RATION_RULES_MAX, and in limit_index, details,
                           reports and scans, where the limits of a rule stand in the rule's place */
    uint64_t stale_after_ns; /* how long a key is remembered when its buckets are full again, for
                                limits that do not start full; the longest counts, at most 365 days.
                                0: one day */
    uint32_t is_shadow;      /* 1: counted and reported, never enforced */
    uint32_t sets_cost; /* 1: choose() sets the cost, whatever the caller's, say one per request:
                                up_to does not divide it, and settling keeps it unless nothing was used */
    uint32_t is_one_budget; /* 1: what choose() returns are the changing terms of one bucket */
};

/* What happens to a key that finds no place: all 16 that it might have are in debt. */
enum ration_overflow {
    RATION_OVERFLOW_SHARED = 0, /* such keys share one bucket per limit, and take its debt along */
    RATION_OVERFLOW_DENY,
    RATION_OVERFLOW_ALLOW /* not limited at all */
};

struct ration_limiter_options {
    size_t struct_size;              /* = sizeof(struct ration_limiter_options) */
    const struct ration_rule *rules; /* copied */
    size_t rule_count;               /* 1 to RATION_RULES_MAX */

    uint64_t
        keys_max;     /* so many keys have a place that are in use at one time, or were charged more
                          than once and used within the last minute. 0: from bytes_max */
    size_t bytes_max; /* of the table; some 10 KB for rules and counts come on top. 0: as needed */
    enum ration_overflow overflow;

    ration_keyer *keyer; /* NULL: the request is a struct ration_key */
    void *keyer_context;
    const struct ration_clock *clock; /* copied; NULL: the default clock */
    const char *name;                 /* copied, up to RATION_LIMITER_NAME_MAX; NULL: none */

    uint32_t is_prefaulted;      /* 1: touch all memory now, not when it is first used */
    uint32_t uses_huge_pages;    /* 1: ask the system for large pages */
    uint32_t is_shared_by_forks; /* 1: children of fork() and this process decide together */
    uint32_t is_stackable;       /* 1: may be used in a stack. Implied there */
    uint32_t threads_max;        /* that decide at one instant, where a key has several buckets.
                                    0: 64. More wait for each other */
    uint32_t trusts_keys;        /* 1: keys are not chosen by strangers: a hash without secret */
    uint32_t has_inline_limits; /* 1: requests bring their own limits (struct ration_batch_item), so
                                    overflow buckets are kept apart by fill time */
    uint32_t unused;            /* 0 */

    uint32_t top_keys;       /* how many to keep by denials, and by cost. 0: none */
    uint32_t sample_latency; /* 1: time one decision in 64 */
};

/*
 * Creates a limiter. *out_limiter is owned by the caller: release it with ration_limiter_free().
 * options is borrowed for the call.
 * Returns RATION_EINVAL or RATION_EUNFIT, with error (may be NULL) telling what would be right;
 * RATION_ENOMEM. On failure *out_limiter is untouched.
 */
RATION_API ration_status ration_limiter_create(const struct ration_limiter_options *options,
                                               ration_limiter **out_limiter,
                                               struct ration_error *error);

/*
 * The common case in one call: a limiter of one limit, given as text ("10/s burst 20", as for
 * ration_limit_parse()), for keys_max keys. Requests are struct ration_key; everything else is the default.
 * Returns RATION_EINVAL, RATION_ERANGE (the limit cannot be kept), RATION_ENOMEM, with error (may be NULL)
 * telling what would be right. On failure *out_limiter is untouched.
 */
RATION_API ration_status ration_limiter_create_simple(const char *limit_text, uint64_t keys_max,
                                                      ration_limiter **out_limiter,
                                                      struct ration_error *error);

/* Releases a limiter that no thread uses any more; NULL is fine. Not one of a stack. */
RATION_API void ration_limiter_free(ration_limiter *limiter);

/* Now by the limiter's clock. */
RATION_API uint64_t ration_limiter_now(const ration_limiter *limiter);

/* Takes one token of each limit now, by the limiter's clock. True: go ahead. */
RATION_API bool ration_limiter_allow(ration_limiter *limiter, const void *request);

/* Takes cost tokens at now. True: go ahead. The fastest call: it computes no waits. */
RATION_API bool ration_limiter_allow_at(ration_limiter *limiter, const void *request,
                                        uint64_t cost_tokens, uint64_t now_ns);

/*
 * Takes cost tokens of each limit, or nothing, and tells everything about it. Cost 0 takes nothing and is
 * always ALLOW, also for a key that is in debt or blocked (remaining is then 0), and is not counted.
 *
 * On ALLOW *out_decision is about the limit with the least remaining, on DENY about the one with
 * the longest wait: after retry_after_ns all of them pass. If no rule applies, limit is 0 and
 * remaining UINT64_MAX. details (may be NULL) has room for the
 * limiter's rules: each one's own decision, also of shadow rules; limit 0 where a rule does not
 * apply.
 *
 * Returns RATION_EINVAL (no key, or one longer than RATION_KEY_SIZE_MAX), RATION_EUNFIT (a limit
 * was chosen that is not of its rule's kind). Then nothing was taken and outputs are untouched.
 */
RATION_API ration_status ration_limiter_take(ration_limiter *limiter, const void *request,
                                             uint64_t cost_tokens, uint64_t now_ns,
                                             struct ration_decision *out_decision,
                                             struct ration_decision *details);

/* What a take would be answered, taking nothing and creating nothing. Same returns. */
RATION_API ration_status ration_limiter_look(ration_limiter *limiter, const void *request,
                                             uint64_t cost_tokens, uint64_t now_ns,
                                             struct ration_decision *out_decision,
                                             struct ration_decision *details);

/*
 * Takes as many tokens as every limit has, at most cost_max: *out_granted of them. *out_decision
 * is ALLOW if that is at least one (or none was asked for), else the denial of one. Same returns.
 */
RATION_API ration_status ration_limiter_take_up_to(ration_limiter *limiter, const void *request,
                                                   uint64_t cost_tokens_max, uint64_t now_ns,
                                                   uint64_t *out_granted,
                                                   struct ration_decision *out_decision);

/*
 * A take whose answer may come later, where buckets lie in a store that has to be asked. Owned by
 * the caller, who sets done and context, and keeps it and the request until the answer is there.
 */
struct ration_pending {
    /* The answer; the decision is valid for the call, and only if status is RATION_OK. */
    void (*done)(struct ration_pending *pending, ration_status status,
                 const struct ration_decision *decision);
    void *context;
    uint64_t room[512]; /* the library's */
};

/*
 * Begins a take. RATION_OK: it was decided at once, see *out_decision; pending is free again.
 * RATION_EPENDING: pending->done() will be called once, from wherever the caller lets the store
 * run. Memory always decides at once. Otherwise as ration_limiter_take().
 */
RATION_API ration_status ration_limiter_begin(ration_limiter *limiter, const void *request,
                                              uint64_t cost_tokens, uint64_t now_ns,
                                              struct ration_pending *pending,
                                              struct ration_decision *out_decision);

/* Gives tokens back to each limit. A bucket never holds more than its burst. Same returns. */
RATION_API ration_status ration_limiter_refund(ration_limiter *limiter, const void *request,
                                               uint64_t tokens, uint64_t now_ns);

/* The same, of a limit that came with the request, as in struct ration_batch_item. */
RATION_API ration_status ration_limiter_refund_as(ration_limiter *limiter, const void *request,
                                                  const struct ration_limit *limit, uint64_t tokens,
                                                  uint64_t now_ns);

/*
 * Takes tokens that were already used, whatever is left. Same returns, and RATION_ENOMEM: the key
 * finds no place, and the rule is RATION_OVERFLOW_DENY, so that nothing can be charged.
 */
RATION_API ration_status ration_limiter_force(ration_limiter *limiter, const void *request,
                                              uint64_t tokens, uint64_t now_ns);

/*
 * Makes the key's buckets as those of a key never seen: of each rule that applies, those of all its limits.
 * Same returns.
 */
RATION_API ration_status ration_limiter_reset(ration_limiter *limiter, const void *request,
                                              uint64_t now_ns);

/*
 * Denies the key everything before until_ns, under each limit of the rules that apply; a longer block or
 * debt stays. Returns also
 * RATION_ERANGE if until_ns is more than RATION_BLOCK_NS_MAX after now_ns (nothing is blocked then),
 * RATION_EUNFIT if none of the limits that apply can say it (windows and logs cannot), RATION_ENOMEM
 * if the key finds no place: then it is not blocked, and nobody who shares a bucket with it is.
 */
RATION_API ration_status ration_limiter_block_until(ration_limiter *limiter, const void *request,
                                                    uint64_t until_ns, uint64_t now_ns);

/* Many keys in one call. */
struct ration_batch_item {
    const void *request;
    uint64_t cost_tokens;
    const struct ration_limit *limit; /* NULL: the rule's. Else one that came with the request, in
                                         place of the only rule's and as one that its choose()
                                         could return; borrowed for the call */
    struct ration_decision *decision; /* written, if not NULL and status is RATION_OK */
    uint32_t is_peek;                 /* 1: what would be answered, taking nothing */
    enum ration_verdict verdict;      /* written */
    ration_status status;             /* written */
};

/*
 * Decides items one after the other at one now, each for itself; hashing and fetching run
 * ahead, so that this is several times as fast as one call each. Returns how many are ALLOW.
 */
RATION_API size_t ration_limiter_take_batch(ration_limiter *limiter,
                                            struct ration_batch_item *items, size_t item_count,
                                            uint64_t now_ns);

/*
 * A place in the line of each limit that a request was held to. Owned by the caller; settled or
 * cancelled once, with the limiter or stack that gave it.
 */
struct ration_ticket {
    uint64_t ready_at_ns; /* go at this time */
    uint32_t part_count;
    uint32_t open; /* 1 until settled or cancelled */
    struct ration_ticket_part {
        uint64_t cost_tokens;
        uint64_t before[4];                /* the bucket as this found it */
        uint64_t mark[4];                  /* and as it left it */
        uint64_t returned_tokens;          /* by others until then */
        uint64_t refunded_tokens;          /* of those, by refunds, resets and blocks */
        uint64_t config_number;            /* of the limits that gave it */
        uint64_t spot[4];                  /* of the key */
        const struct ration_limit *chosen; /* by the rule's function; NULL: the rule's own */
        uint32_t limiter_index;
        uint32_t rule_index;
        uint32_t reserve_part; /* which half of a burst reserve paid */
        uint32_t is_overflow;  /* the shared overflow bucket paid */
        uint32_t has_own_cost; /* set by the rule's function: not what is settled */
    } parts[RATION_CALL_RULES_MAX];
};

/*
 * Takes a place in line if its turn comes within max_wait_ns. On ALLOW the caller goes after
 * delay_ns (at out_ticket->ready_at_ns), all limits being charged for that moment, and later
 * settles or cancels. On DENY and NEVER nothing is taken and *out_ticket is untouched; the
 * decision's retry_after_ns is the wait that would have been needed. Same returns as a take.
 */
RATION_API ration_status ration_limiter_reserve(ration_limiter *limiter, const void *request,
                                                uint64_t cost_tokens, uint64_t max_wait_ns,
                                                uint64_t now_ns,
                                                struct ration_decision *out_decision,
                                                struct ration_ticket *out_ticket);

/*
 * Ends a reservation with the tokens really used. What was used beyond the cost is charged,
 * whatever is left. What was not used comes back under each limit as far as it is still outstanding,
 * unless somebody waits for a turn; settled before its turn, only a cancelled one gives anything
 * back. See ration_bucket_settle(). So cancel the last in line first: under 5/min, of 100 reservations
 * of 1 that are all cancelled at the same instant, first first, those with others behind them give nothing
 * back, and the key is denied for 1140 s though nobody waits any more.
 *
 * What was refunded to the key since counts as this reservation's own: that much less comes back. After
 * a reset or a block of the key nothing does, nor if the limiter's limits changed since. A rule whose function has set a cost of its own keeps that, unless nothing was used.
 * Returns RATION_ECLOSED, with nothing changed, the second time.
 */
RATION_API ration_status ration_limiter_settle(ration_limiter *limiter,
                                               struct ration_ticket *ticket, uint64_t used_tokens,
                                               uint64_t now_ns);

/* Settles with 0: the last in line leaves every bucket as it found it. Same returns. */
RATION_API ration_status ration_limiter_cancel(ration_limiter *limiter,
                                               struct ration_ticket *ticket, uint64_t now_ns);

/* Ends waits early, from any thread or signal handler. Zero bytes: not cancelled. */
struct ration_canceller {
    uint32_t is_cancelled;
};

/* Wakes those who wait with this canceller, now and later. */
RATION_API void ration_canceller_cancel(struct ration_canceller *canceller);

/*
 * Takes a place in line and sleeps until its turn, by the limiter's clock. First come, first
 * served. *out_decision is ALLOW when the turn has come. It is DENY or NEVER, at once and with
 * nothing taken, if the turn would come after deadline_ns, or never.
 * Returns also RATION_ECANCELLED: the place is cancelled, see ration_limiter_cancel(). canceller may
 * be NULL.
 */
RATION_API ration_status ration_limiter_wait(ration_limiter *limiter, const void *request,
                                             uint64_t cost_tokens, uint64_t deadline_ns,
                                             struct ration_canceller *canceller,
                                             struct ration_decision *out_decision);

/*
 * Changes the limits of all keys, while others decide. rules has as many rules as the limiter, each
 * of an algorithm that fits where the old one's state is. Keys keep the tokens that they have now, by the
 * limiter's clock (RATION_CHANGE_KEEP), or start again.
 * Processes that share a limiter by fork() each have their own limits: make the change in all of them.
 * Returns RATION_EINVAL, RATION_EUNFIT, with error telling why and nothing changed.
 */
RATION_API ration_status ration_limiter_change(ration_limiter *limiter,
                                               const struct ration_rule *rules, size_t rule_count,
                                               enum ration_change change,
                                               struct ration_error *error);

/*
 * What one limiter did since it was created, readable from any thread at any time. Of processes that
 * share a limiter by fork() each counts its own.
 */
struct ration_limiter_report {
    size_t rule_count;
    struct ration_limit_stats rules[RATION_RULES_MAX];
    struct ration_limiter_stats limiter;
    struct ration_histogram_stats latency; /* with sample_latency */
};

RATION_API void ration_limiter_read_report(const ration_limiter *limiter,
                                           struct ration_limiter_report *out_report);

enum ration_top { RATION_TOP_DENIED = 0, RATION_TOP_COST };

/*
 * Writes up to keys_max of the keys that were denied most often, or took most tokens (estimated
 * from one decision in 64), highest first, and to *out_stats (may be NULL) what the list is worth.
 * Returns how many. 0 without top_keys, for an unknown order, or without memory for the reading.
 */
RATION_API size_t ration_limiter_top_keys(ration_limiter *limiter, enum ration_top by,
                                          struct ration_top_key *keys, size_t keys_max,
                                          struct ration_top_keys_stats *out_stats);

/* How many limits its rules have together: where no rule has limits to choose from, its rules. */
RATION_API size_t ration_limiter_rule_count(const ration_limiter *limiter);

/*
 * The rule that a decision's limit_index means, as it is now: its limit, and the limit's name. limit is then
 * the one with that index also if its rule has several to choose from. Returns
 * RATION_EINVAL, with *out_rule untouched, if there is none.
 */
RATION_API ration_status ration_limiter_rule(const ration_limiter *limiter, size_t rule_index,
                                             struct ration_rule *out_rule);

/*
 * How many keys are in use at now: those that a scan would list, with at least one bucket that is not full.
 * Idle keys, keys that are only remembered (stale_after_ns) and keys without a slot, which share the overflow
 * bucket, are not counted. Reads the whole table, 16 bytes or more per slot: some 10 ms for a million keys.
 * Calls that decide are not held up, and may change the number meanwhile; ration_limiter_change() waits.
 */
RATION_API size_t ration_limiter_count(ration_limiter *limiter, uint64_t now_ns);

/* The name it was given, or "". Borrowed: it lives as long as the limiter. */
RATION_API const char *ration_limiter_name(const ration_limiter *limiter);

/*
 * Bytes of memory that the limiter has, all counted; of one in a stack, without the memory that all
 * of the stack's limiters share.
 */
RATION_API size_t ration_limiter_bytes(const ration_limiter *limiter);

/* Several limiters decided together. */
struct ration_stack_options {
    size_t struct_size;                            /* = sizeof(struct ration_stack_options) */
    const struct ration_limiter_options *limiters; /* their clocks and memory options are ignored */
    size_t limiter_count;                          /* 1 to RATION_STACK_MAX */
    size_t limiters_max; /* with those that ration_stack_add() may add. 0: none; then all of the
                            stack's limiters have RATION_CALL_RULES_MAX rules together, and none of
                            them is a queue. Else a queue may be asked, by itself */
    size_t spare_bytes;  /* of memory for them, used only when they are added */
    const struct ration_clock *clock; /* copied; NULL: the default clock */
    uint32_t is_prefaulted;
    uint32_t uses_huge_pages;
    uint32_t is_shared_by_forks;
    uint32_t threads_max;
    uint32_t trusts_keys;
};

/* As ration_limiter_create(), for several in one piece of memory. Release: ration_stack_free(). */
RATION_API ration_status ration_stack_create(const struct ration_stack_options *options,
                                             ration_stack **out_stack, struct ration_error *error);
RATION_API void ration_stack_free(ration_stack *stack);

/*
 * Adds a limiter to a stack whose limiters_max is not reached, while others decide; *out_index is
 * its index. One caller at a time. It stays as long as the stack, or until it is replaced.
 * Returns as ration_limiter_create(); RATION_ENOMEM also if spare_bytes are used up.
 */
RATION_API ration_status ration_stack_add(ration_stack *stack,
                                          const struct ration_limiter_options *options,
                                          size_t *out_index, struct ration_error *error);

/*
 * Replaces one of some limiters that no thread uses any more by another one, in the same memory, while
 * others decide by other limiters: the first of limiter_indexes that would have been given as much memory,
 * rounded, or whose memory is enough if takes_larger. Its keys, what was taken from them, and its statistics
 * are gone. *out_index is its index. One caller at a time.
 * Returns as ration_stack_add(); RATION_EUNFIT if there is none, with nothing changed. After any other failure
 * all limiters are there, but one may have lost its keys.
 */
RATION_API ration_status ration_stack_replace(ration_stack *stack, const size_t *limiter_indexes,
                                              size_t index_count, bool takes_larger,
                                              const struct ration_limiter_options *options,
                                              size_t *out_index, struct ration_error *error);

RATION_API size_t ration_stack_limiter_count(const ration_stack *stack);

/* One limiter of the stack, for calls of its own. Borrowed: it lives as long as the stack. */
RATION_API ration_limiter *ration_stack_limiter(ration_stack *stack, size_t limiter_index);

/* Bytes of memory that the stack has, all counted but what is spare. */
RATION_API size_t ration_stack_bytes(const ration_stack *stack);

/*
 * As for one limiter; the decision's limiter_index says whose limit decided. details has room for
 * the rules of all limiters, one limiter's after the other's. RATION_EINVAL for a stack of more than
 * RATION_CALL_KEYS_MAX limiters: of those ration_stack_take_all() asks some.
 *
 * A reservation of a stack goes at once or is denied, whatever max_wait_ns: a bucket that is charged
 * for a moment to come would be closed to all other callers until then, and those of a shared
 * limiter did nothing to deserve it. It is there to be settled.
 */
RATION_API bool ration_stack_allow(ration_stack *stack, const void *request);
RATION_API bool ration_stack_allow_at(ration_stack *stack, const void *request,
                                      uint64_t cost_tokens, uint64_t now_ns);
RATION_API ration_status ration_stack_take(ration_stack *stack, const void *request,
                                           uint64_t cost_tokens, uint64_t now_ns,
                                           struct ration_decision *out_decision,
                                           struct ration_decision *details);
RATION_API ration_status ration_stack_look(ration_stack *stack, const void *request,
                                           uint64_t cost_tokens, uint64_t now_ns,
                                           struct ration_decision *out_decision,
                                           struct ration_decision *details);
RATION_API ration_status ration_stack_reserve(ration_stack *stack, const void *request,
                                              uint64_t cost_tokens, uint64_t max_wait_ns,
                                              uint64_t now_ns, struct ration_decision *out_decision,
                                              struct ration_ticket *out_ticket);
RATION_API ration_status ration_stack_settle(ration_stack *stack, struct ration_ticket *ticket,
                                             uint64_t used_tokens, uint64_t now_ns);
RATION_API ration_status ration_stack_cancel(ration_stack *stack, struct ration_ticket *ticket,
                                             uint64_t now_ns);
RATION_API uint64_t ration_stack_now(const ration_stack *stack);

/* One thing to take in a call that takes several. */
#define RATION_ASKS_MAX 32

struct ration_ask {
    size_t limiter_index; /* of the stack */
    const void *request;
    uint64_t cost_tokens;
};

/*
 * Takes all that is asked for, of any keys and limiters of the stack, or nothing. The same key of
 * the same limiter asked for twice is charged the sum. At most RATION_CALL_KEYS_MAX different keys, with
 * RATION_CALL_RULES_MAX rules together (six keys of a limiter of three rules are too many).
 * Same returns, and RATION_EINVAL for more.
 */
RATION_API ration_status ration_stack_take_all(ration_stack *stack, const struct ration_ask *asks,
                                               size_t ask_count, uint64_t now_ns,
                                               struct ration_decision *out_decision);

RATION_C_END

#endif
