/*
 * limiter: one bucket per key, for any number of keys in fixed memory.
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
 * A limiter extracts a key from the caller's request and checks that key against one or more
 * limits. Either all limits allow the request, or no tokens are taken from any of them. A stack
 * does the same for several limiters and keys.
 *
 * Threads: any number of threads may call at the same time. A decision takes no lock, allocates no
 * memory and makes no system call; a denial writes nothing.
 *
 * Memory: all memory is allocated when the limiter is created. Keys are stored as hashes under a
 * secret of the limiter; two keys share a bucket with a probability below 1e-12. When a new key
 * needs a slot, only a key whose buckets are full is evicted, which changes no decision. A key has
 * 16 candidate slots; if all of them are in use by other keys, the overflow option (enum
 * ration_overflow) decides.
 *
 * Time: now_ns is a time of the limiter's clock, in nanoseconds (ration_limiter_now()). The caller
 * reads it once and may use it for all decisions it makes together. It may be stale, repeated, zero
 * or UINT64_MAX. The limiter's time stops 17 years after the limiter was created
 * (RATION_LIMITER_TIME_MAX_NS). (A time of day is not a time of the default clock and lies beyond
 * that maximum: pass the clock you read in the options.)
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
#define RATION_RULES_MAX        8     /* per limiter */
#define RATION_STACK_MAX        16384 /* limiters per stack */
#define RATION_CALL_KEYS_MAX    16    /* different keys in one call, ... */
#define RATION_CALL_RULES_MAX   16    /* ... and rules of these keys together */

/* A limiter's time stops this many nanoseconds after the limiter was created: 17 years. */
#define RATION_LIMITER_TIME_MAX_NS UINT64_C(544924752303423487)

/* A key: any bytes, up to RATION_KEY_SIZE_MAX. */
struct ration_key {
    const void *bytes;
    size_t size;
};

/*
 * A key from a string literal; anything else does not compile. It is an lvalue, so &RATION_KEY("x") can be passed as a
 * request.
 */
#ifdef __cplusplus
#define RATION_KEY(text)                                                             \
    ([]() -> const struct ration_key & {                                             \
        static const struct ration_key ration_literal = {"" text, sizeof(text) - 1}; \
        return ration_literal;                                                       \
    }())
#else
#define RATION_KEY(text) ((struct ration_key){"" text, sizeof(text) - 1})
#endif

/* Size in bytes of the buffer that a key function may compose its key in. */
#define RATION_KEY_ROOM_SIZE 256

/*
 * Extracts the key of a request. *out_key may point into the request or into room, a buffer of
 * RATION_KEY_ROOM_SIZE bytes. Returns RATION_OK, or RATION_EINVAL for a request without a key; the
 * limiter call then returns RATION_EINVAL.
 */
typedef ration_status ration_key_func(void *context, const void *request, char *room,
                                      struct ration_key *out_key);

/*
 * Chooses the limit for a request. Returns NULL if the rule does not apply to the request. The rule
 * declares which limits the function may return:
 *
 *     limits          the address of one of these. A key has a separate bucket for each of them: a take under
 *                     one leaves the others unchanged (reads at 50/s, writes at 10/s)
 *     is_one_budget   any limit that lives as long as the limiter and has the same algorithm and refill mode
 *                     (for windows and logs also the same tokens and period) as the rule's own. A key has one
 *                     bucket, so what was taken under one limit counts under the next (a customer who changes plan)
 *     neither         a limit equal to the rule's own: the function only decides whether the rule applies, and its cost
 *
 * If it returns anything else, the call returns RATION_EUNSUPPORTED.
 *
 * The function may change *cost_tokens, which holds the caller's cost: for example to one per
 * request, whatever the caller takes from other limits (then set the rule's sets_cost). A call with
 * cost 0 keeps cost 0. The limiter calls the function once for every call about the request, and
 * again if the limits are changed during the call.
 */
typedef const struct ration_limit *ration_limit_func(void *context, const void *request,
                                                     uint64_t *cost_tokens);

/* One limit of a limiter. */
struct ration_rule {
    /* For all requests, or an example of what choose() returns. Not used if limits is set. */
    struct ration_limit limit;
    ration_limit_func *choose; /* NULL: always the limit above */
    void *choose_context;
    /*
     * The limits that choose() chooses from, of any algorithms. Copied, but choose() returns
     * addresses in the caller's array. NULL: see ration_limit_func.
     */
    const struct ration_limit *limits;
    /*
     * Each of these limits counts as a rule towards RATION_RULES_MAX and has an index of its own in
     * limit_index, details, reports and scans, in the order of the rules.
     */
    size_t limit_count;
    /*
     * For limits that do not start full: how long a key is remembered after its buckets are full
     * again, in nanoseconds. The longest of all rules applies, at most 365 days. 0: one day.
     */
    uint64_t stale_after_ns;
    uint32_t is_shadow; /* 1: counted and reported, never enforced */
    /*
     * 1: choose() sets the cost, whatever the caller passes (one per request, for example).
     * ration_limiter_take_up_to() does not divide this cost, and settling does not change it unless
     * nothing was used.
     */
    uint32_t sets_cost;
    uint32_t is_one_budget; /* 1: all limits that choose() returns share one bucket */
};

/* What happens to a new key without a slot: all its 16 candidate slots are in use by other keys. */
enum ration_overflow {
    RATION_OVERFLOW_SHARED = 0, /* such keys share one bucket per limit; a key that gets a slot
                                   later starts with the tokens in use there */
    RATION_OVERFLOW_DENY,
    RATION_OVERFLOW_ALLOW /* such keys are not limited */
};

struct ration_limiter_options {
    size_t struct_size;              /* = sizeof(struct ration_limiter_options) */
    const struct ration_rule *rules; /* copied */
    size_t rule_count;               /* 1 to RATION_RULES_MAX */

    /*
     * How many keys the table has slots for: keys in use at the same time, and keys that were
     * charged more than once and used within the last minute. 0: derived from bytes_max.
     */
    uint64_t keys_max;
    /*
     * Size of the table in bytes; rules and counters need about 10 KB more. 0: as many as keys_max
     * needs.
     */
    size_t bytes_max;
    enum ration_overflow overflow;

    ration_key_func *key_func; /* extracts the key. NULL: the request is a struct ration_key */
    void *key_context;
    const struct ration_clock *clock; /* copied; NULL: the default clock */
    const char *name;                 /* copied, up to RATION_LIMITER_NAME_MAX bytes; NULL: none */

    uint32_t is_prefaulted;      /* 1: touch all memory at creation instead of at first use */
    uint32_t uses_huge_pages;    /* 1: request huge pages from the kernel */
    uint32_t is_shared_by_forks; /* 1: this process and its fork() children share the buckets */
    uint32_t is_stackable;       /* 1: may be used in a stack. Set for limiters of a stack */
    /*
     * How many threads may decide at the same instant where a key has several buckets. Further
     * threads wait for each other. 0: 64.
     */
    uint32_t threads_max;
    /*
     * 1: keys are not chosen by untrusted clients, so the limiter may use a hash without a secret.
     */
    uint32_t trusts_keys;
    /*
     * 1: requests carry their own limits (struct ration_batch_item), so overflow buckets are
     * separated by fill time.
     */
    uint32_t has_inline_limits;
    uint32_t unused; /* must be 0 */

    uint32_t top_keys;       /* keys in each of two lists: by denials, and by cost. 0: no lists */
    uint32_t sample_latency; /* 1: measure the latency of one decision in 64 */
};

/*
 * Creates a limiter. The caller owns *out_limiter and releases it with ration_limiter_free().
 * options is borrowed for the call. Returns RATION_EINVAL or RATION_EUNSUPPORTED, with error (may
 * be NULL) explaining what is wrong and what would be valid; RATION_ENOMEM. On failure *out_limiter
 * is untouched.
 */
RATION_API ration_status ration_limiter_create(const struct ration_limiter_options *options,
                                               ration_limiter **out_limiter,
                                               struct ration_error *error);

/*
 * Creates a limiter with one limit, given as text ("10/s burst 20", see ration_limit_parse()), for
 * keys_max keys. Requests are struct ration_key; every other option has its default. Returns
 * RATION_EINVAL, RATION_ERANGE (the limit cannot be represented exactly) or RATION_ENOMEM, with
 * error (may be NULL) explaining what is wrong and what would be valid. On failure *out_limiter is
 * untouched.
 */
RATION_API ration_status ration_limiter_create_simple(const char *limit_text, uint64_t keys_max,
                                                      ration_limiter **out_limiter,
                                                      struct ration_error *error);

/*
 * Releases a limiter that no thread uses any more; NULL is allowed. Not for a limiter of a stack.
 */
RATION_API void ration_limiter_free(ration_limiter *limiter);

/* Returns the current time of the limiter's clock, in nanoseconds. */
RATION_API uint64_t ration_limiter_now(const ration_limiter *limiter);

/*
 * Takes one token from each limit at the current time of the limiter's clock. Returns true if the
 * request is allowed, false if it is denied or could not be decided.
 */
RATION_API bool ration_limiter_allow(ration_limiter *limiter, const void *request);

/*
 * Takes cost_tokens from each limit at now_ns. Returns true if the request is allowed. The fastest
 * call: it does not compute waits.
 */
RATION_API bool ration_limiter_allow_at(ration_limiter *limiter, const void *request,
                                        uint64_t cost_tokens, uint64_t now_ns);

/*
 * Takes cost_tokens from each limit, or nothing, and reports the full decision. Cost 0 takes
 * nothing, is always ALLOW, even for a key that is below zero tokens or blocked (remaining is then
 * 0), and is not counted in the statistics.
 *
 * On ALLOW *out_decision describes the limit with the fewest remaining tokens; on DENY the limit
 * with the longest wait, so that all limits allow the request after retry_after_ns. If no rule
 * applies, limit is 0 and remaining is UINT64_MAX. details (may be NULL) is an array with one
 * element per rule of the limiter (ration_limiter_rule_count()). It receives each rule's own
 * decision, including those of shadow rules; limit is 0 where a rule does not apply.
 *
 * Returns RATION_EINVAL (no key, or a key longer than RATION_KEY_SIZE_MAX) or RATION_EUNSUPPORTED
 * (choose() returned a limit that its rule does not permit). In both cases nothing was taken and
 * the outputs are untouched.
 */
RATION_API ration_status ration_limiter_take(ration_limiter *limiter, const void *request,
                                             uint64_t cost_tokens, uint64_t now_ns,
                                             struct ration_decision *out_decision,
                                             struct ration_decision *details);

/*
 * Computes the decision that ration_limiter_take() would return, without taking tokens or creating
 * a key. Same returns.
 */
RATION_API ration_status ration_limiter_peek(ration_limiter *limiter, const void *request,
                                             uint64_t cost_tokens, uint64_t now_ns,
                                             struct ration_decision *out_decision,
                                             struct ration_decision *details);

/*
 * Takes as many tokens as every limit has, at most cost_tokens_max, and stores their number in
 * *out_granted. *out_decision is ALLOW if at least one was taken (or none was requested), otherwise
 * the denial of one token. Same returns.
 */
RATION_API ration_status ration_limiter_take_up_to(ration_limiter *limiter, const void *request,
                                                   uint64_t cost_tokens_max, uint64_t now_ns,
                                                   uint64_t *out_granted,
                                                   struct ration_decision *out_decision);

/*
 * A take whose decision may arrive later, because the buckets are in an external store. The caller
 * owns it, sets done and context, and keeps it and the request valid until done() is called.
 */
struct ration_pending {
    /* Receives the decision, which is valid during the call, and only if status is RATION_OK. */
    void (*done)(struct ration_pending *pending, ration_status status,
                 const struct ration_decision *decision);
    void *context;
    uint64_t room[512]; /* private to the library */
};

/*
 * Starts a take. RATION_OK: it was decided immediately, *out_decision is written and pending may be
 * reused. RATION_EPENDING: the library will call pending->done() once, from the thread in which the
 * caller runs the store. A limiter in memory always decides immediately. Otherwise as
 * ration_limiter_take().
 */
RATION_API ration_status ration_limiter_begin(ration_limiter *limiter, const void *request,
                                              uint64_t cost_tokens, uint64_t now_ns,
                                              struct ration_pending *pending,
                                              struct ration_decision *out_decision);

/*
 * Returns tokens to each limit. A bucket never has more than its burst. Returns as
 * ration_limiter_take().
 */
RATION_API ration_status ration_limiter_refund(ration_limiter *limiter, const void *request,
                                               uint64_t tokens, uint64_t now_ns);

/* As ration_limiter_refund(), for an inline limit as in struct ration_batch_item. */
RATION_API ration_status ration_limiter_refund_as(ration_limiter *limiter, const void *request,
                                                  const struct ration_limit *limit, uint64_t tokens,
                                                  uint64_t now_ns);

/*
 * Takes tokens that were already used, even if fewer are left. Returns as ration_limiter_take(),
 * and RATION_ENOMEM: the key has no slot and the overflow option is RATION_OVERFLOW_DENY, so
 * nothing can be charged.
 */
RATION_API ration_status ration_limiter_charge(ration_limiter *limiter, const void *request,
                                               uint64_t tokens, uint64_t now_ns);

/*
 * Resets the key's buckets to those of a key never seen: for each rule that applies, the buckets of
 * all its limits. Returns as ration_limiter_take().
 */
RATION_API ration_status ration_limiter_reset(ration_limiter *limiter, const void *request,
                                              uint64_t now_ns);

/*
 * Denies every request of the key before until_ns, under each limit of the rules that apply. A
 * block or debt that lasts longer is not shortened. Returns as ration_limiter_take(), and:
 *
 *     RATION_ERANGE        until_ns is more than RATION_BLOCK_NS_MAX after now_ns; nothing is blocked
 *     RATION_EUNSUPPORTED  none of the limits that apply can represent a block (windows and logs cannot)
 *     RATION_ENOMEM        the key has no slot; neither it nor the keys that share the overflow bucket are blocked
 */
RATION_API ration_status ration_limiter_block_until(ration_limiter *limiter, const void *request,
                                                    uint64_t until_ns, uint64_t now_ns);

/* One item of ration_limiter_take_batch(). */
struct ration_batch_item {
    const void *request;
    uint64_t cost_tokens;
    /*
     * NULL: the rule's limit. Otherwise an inline limit, carried by the request, which replaces
     * that of the limiter's only rule and must be one that the rule's choose() could return.
     * Borrowed for the call.
     */
    const struct ration_limit *limit;
    struct ration_decision *decision; /* written if not NULL and status is RATION_OK */
    uint32_t is_peek;                 /* 1: report the decision without taking tokens */
    enum ration_verdict verdict;      /* written */
    ration_status status;             /* written */
};

/*
 * Decides the items in order, all at now_ns, each independently of the others. Hashing and
 * prefetching run ahead, so this is several times faster than one call per item. Returns how many
 * are ALLOW.
 */
RATION_API size_t ration_limiter_take_batch(ration_limiter *limiter,
                                            struct ration_batch_item *items, size_t item_count,
                                            uint64_t now_ns);

/*
 * A reservation: tokens charged ahead of use, with a position in the queue of each limit that
 * applied to the request. Owned by the caller, who settles or cancels it once, with the limiter or
 * stack that made it. The fields of parts are private to the library.
 */
struct ration_reservation {
    uint64_t ready_at_ns; /* the caller may proceed at this time */
    uint32_t part_count;
    uint32_t open; /* 1 until settled or cancelled */
    struct ration_reservation_part {
        uint64_t cost_tokens;
        uint64_t before[4];                /* the bucket before this reservation */
        uint64_t mark[4];                  /* the bucket after it */
        uint64_t returned_tokens;          /* to the bucket by other calls until then */
        uint64_t refunded_tokens;          /* the part of these from refunds, resets and blocks */
        uint64_t config_number;            /* version of the limiter's limits */
        uint64_t location[4];              /* where the key's buckets are */
        const struct ration_limit *chosen; /* the limit chosen by choose(); NULL: the rule's own */
        uint32_t limiter_index;
        uint32_t rule_index;
        uint32_t reserve_part; /* which of the two buckets of a burst reserve paid */
        uint32_t is_overflow;  /* 1: the shared overflow bucket paid */
        uint32_t has_own_cost; /* 1: choose() set the cost, so settling does not change it */
    } parts[RATION_CALL_RULES_MAX];
};

/*
 * Reserves cost_tokens if they become available within max_wait_ns. On ALLOW the caller may proceed
 * after delay_ns (at out_reservation->ready_at_ns); all limits are charged as of that time, and the
 * caller later settles or cancels. On DENY and NEVER nothing is taken and *out_reservation is
 * untouched; the decision's retry_after_ns is the wait that would have been needed. Returns as
 * ration_limiter_take().
 */
RATION_API ration_status ration_limiter_reserve(ration_limiter *limiter, const void *request,
                                                uint64_t cost_tokens, uint64_t max_wait_ns,
                                                uint64_t now_ns,
                                                struct ration_decision *out_decision,
                                                struct ration_reservation *out_reservation);

/*
 * Ends a reservation with the tokens really used. Tokens used beyond the cost are charged, even if
 * fewer are left. Unused tokens are returned to each limit as far as they are still outstanding,
 * unless another reservation waits behind this one. Before ready_at_ns only a cancelled reservation
 * returns anything. See ration_bucket_settle().
 *
 * So cancel the last reservation in the queue first. Under 5/min, if 100 reservations of 1 token
 * are all cancelled at the same instant, the oldest first, those with others behind them return
 * nothing, and the key is denied for 1140 s although no reservation is left.
 *
 * Tokens refunded to the key since the reservation was made count as its own: that much less is
 * returned. Nothing is returned after a reset or a block of the key, or if the limiter's limits
 * changed since. A cost set by choose() stays charged unless nothing was used. Returns
 * RATION_ECLOSED, with nothing changed, if the reservation was already settled or cancelled.
 */
RATION_API ration_status ration_limiter_settle(ration_limiter *limiter,
                                               struct ration_reservation *reservation,
                                               uint64_t used_tokens, uint64_t now_ns);

/*
 * Settles with 0 tokens used. Cancelling the last reservation in the queue leaves every bucket as
 * it was before. Same returns.
 */
RATION_API ration_status ration_limiter_cancel(ration_limiter *limiter,
                                               struct ration_reservation *reservation,
                                               uint64_t now_ns);

/* Ends waits early, from any thread or signal handler. All-zero bytes: not cancelled. */
struct ration_canceller {
    uint32_t is_cancelled;
};

/* Ends all waits with this canceller, those in progress and later ones. */
RATION_API void ration_limiter_cancel_wait(struct ration_canceller *canceller);

/*
 * Reserves cost_tokens and sleeps until they are available, by the limiter's clock; callers are
 * served in order of arrival. *out_decision is ALLOW when the tokens are available. It is DENY or
 * NEVER, immediately and with nothing taken, if they would become available after deadline_ns, or
 * never. Returns as ration_limiter_take(), and RATION_ECANCELLED: the reservation was cancelled,
 * see ration_limiter_cancel(). canceller may be NULL.
 */
RATION_API ration_status ration_limiter_wait(ration_limiter *limiter, const void *request,
                                             uint64_t cost_tokens, uint64_t deadline_ns,
                                             struct ration_canceller *canceller,
                                             struct ration_decision *out_decision);

/*
 * Changes the limits of all keys while other threads decide. rules has as many rules as the
 * limiter, and the state of each new algorithm must fit into that of the old one. Keys keep the
 * tokens they have now, by the limiter's clock (RATION_CHANGE_KEEP), or start with the new initial
 * fill (RATION_CHANGE_RESET). Processes that share a limiter by fork() each have their own limits:
 * make the change in all of them. Returns RATION_EINVAL or RATION_EUNSUPPORTED, with error
 * explaining why and nothing changed.
 */
RATION_API ration_status ration_limiter_change(ration_limiter *limiter,
                                               const struct ration_rule *rules, size_t rule_count,
                                               enum ration_change change,
                                               struct ration_error *error);

/*
 * Statistics of one limiter since it was created. Any thread may read them at any time. Processes
 * that share a limiter by fork() each count their own decisions.
 */
struct ration_limiter_report {
    size_t rule_count;
    struct ration_limit_stats rules[RATION_RULES_MAX];
    struct ration_limiter_stats limiter;
    struct ration_histogram_stats latency; /* only with sample_latency */
};

/* Reads the statistics into *out_report. Cannot fail. */
RATION_API void ration_limiter_read_report(const ration_limiter *limiter,
                                           struct ration_limiter_report *out_report);

enum ration_top { RATION_TOP_DENIED = 0, RATION_TOP_COST };

/*
 * Writes up to keys_max keys, highest first: those denied most often, or those that took the most
 * tokens (estimated from one decision in 64). *out_stats (may be NULL) receives the accuracy of the
 * list. Returns the number of keys written: 0 without top_keys, for an unknown order, or if memory
 * for the call cannot be allocated.
 */
RATION_API size_t ration_limiter_top_keys(ration_limiter *limiter, enum ration_top by,
                                          struct ration_top_key *keys, size_t keys_max,
                                          struct ration_top_keys_stats *out_stats);

/*
 * Returns the number of limits of all rules together. It equals the number of rules where no rule
 * has several limits to choose from.
 */
RATION_API size_t ration_limiter_rule_count(const ration_limiter *limiter);

/*
 * Returns the current rule for a decision's limit_index: its limit, with the limit's name. If the
 * rule has several limits to choose from, out_rule->limit is the one with that index. Returns
 * RATION_EINVAL, with *out_rule untouched, if there is none.
 */
RATION_API ration_status ration_limiter_rule(const ration_limiter *limiter, size_t rule_index,
                                             struct ration_rule *out_rule);

/*
 * Returns how many keys are in use at now_ns: those that a scan would list, with at least one
 * bucket that is not full. Idle keys, keys that are only remembered (stale_after_ns) and keys
 * without a slot, which share the overflow bucket, are not counted. Reads the whole table, 16 bytes
 * or more per slot: about 10 ms for a million keys. Deciding threads are not delayed and may change
 * the number meanwhile; ration_limiter_change() waits.
 */
RATION_API size_t ration_limiter_count(ration_limiter *limiter, uint64_t now_ns);

/* Returns the limiter's name, or "". Borrowed: it lives as long as the limiter. */
RATION_API const char *ration_limiter_name(const ration_limiter *limiter);

/*
 * Returns the limiter's memory in bytes, everything included. For a limiter of a stack: without the
 * memory that the stack's limiters share.
 */
RATION_API size_t ration_limiter_bytes(const ration_limiter *limiter);

RATION_C_END

#endif
