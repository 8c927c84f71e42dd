/*
 * engine: a policy put to work.
 *
 *     ration_policy *policy;
 *     ration_policy_load("policy.yaml", print_error, NULL, &policy);
 *
 *     ration_engine *engine;
 *     ration_engine_create(&(struct ration_engine_options){.struct_size = sizeof(struct ration_engine_options)},
 *                          policy, &engine, NULL);
 *
 *     struct ration_check check = {.attributes = request, .attribute_count = 3, .cost_tokens = 1};
 *     ration_engine_check(engine, &check, 1, ration_engine_now(engine));
 *     if (check.status != RATION_OK)
 *         answer_400(check.reason); // a request that cannot be decided must not pass
 *     else if (check.decision.verdict != RATION_ALLOW)
 *         answer_429();
 *
 * The engine applies to a request every limit of the policy that matches it, each limit with its own key. Either all
 * of them allow the request, or the engine takes tokens from none. Any number of threads may check at once; a check
 * decided in memory takes no lock and allocates nothing. Another thread may replace the policy at the same time
 * (ration_engine_reload()); buckets keep their state.
 *
 * An engine also has a limiter for inline limits, which are limits that a request carries itself: one bucket per key,
 * whatever limit the request carries (ration_engine_inline_limiter()).
 */
#ifndef RATION_ENGINE_H
#define RATION_ENGINE_H

#include "ration/dump.h"
#include "ration/limiter.h"
#include "ration/policy.h"
#include "ration/redis.h"

RATION_C_BEGIN

typedef struct ration_engine ration_engine;

struct ration_engine_options {
    size_t struct_size;               /* = sizeof(struct ration_engine_options) */
    const struct ration_clock *clock; /* copied; NULL: the default clock */
    uint64_t inline_keys_max;         /* keys of inline limits. 0: 1000000 */
    /*
     * Address space, in bytes, for limits that reloads add while removed limits still have their tables. 0: 256 GiB, or
     * as much as the system allows. Memory is used only as keys arrive.
     */
    size_t spare_bytes;
    uint32_t threads_max; /* as in struct ration_limiter_options */
    /*
     * As in struct ration_limiter_options, for every limit with a key and for the inline limiter. In a policy of many
     * limits each limit has fewer.
     */
    uint32_t top_keys;
    uint32_t is_prefaulted;
    uint32_t uses_huge_pages;
    const struct ration_redis *redis; /* copied; NULL: buckets are in this process's memory */
    uint32_t sends_time; /* 1: Redis uses the engine's clock instead of its own. For tests */
    /* Maximum size of an attribute's value; at most RATION_ATTRIBUTE_BYTES_MAX. 0: RATION_ATTRIBUTE_BYTES_DEFAULT */
    uint32_t attribute_bytes_max;
};

/* A request with a longer value is an error, even if the policy does not read that attribute. */
#define RATION_ATTRIBUTE_BYTES_DEFAULT 8192
#define RATION_ATTRIBUTE_BYTES_MAX     (1 << 20)

/*
 * Creates an engine. *out_engine is owned by the caller: release it with ration_engine_free(). On success the engine
 * owns policy. options is borrowed for the call.
 * Returns RATION_EINVAL, RATION_EUNSUPPORTED or RATION_ENOMEM, with the reason in *error (may be NULL). On failure
 * *out_engine is not written, and the caller still owns policy.
 */
RATION_API ration_status ration_engine_create(const struct ration_engine_options *options,
                                              ration_policy *policy, ration_engine **out_engine,
                                              struct ration_error *error);

/* Releases an engine and its policy. No thread may be using the engine. NULL is allowed. */
RATION_API void ration_engine_free(ration_engine *engine);

/* Returns the current time of the engine's clock, in nanoseconds. */
RATION_API uint64_t ration_engine_now(const ration_engine *engine);

/*
 * A read guard. It pins the policy that is current when the guard is locked. Every call that takes the guard (for the
 * policy, its generation, its limiters, or checks) uses that one policy, and pointers to its limits and names stay
 * valid until the guard is unlocked, whatever is reloaded in between. A reload takes effect for guards locked
 * afterwards. It waits for older guards before it releases the old policy, so unlock soon. Guards may be nested; each
 * pins its own policy. Fields are private.
 */
struct ration_engine_plan;

struct ration_engine_guard {
    ration_engine *engine;
    const struct ration_engine_plan *plan;
    uint32_t phase;
};

/* Pins the current policy until ration_engine_unlock(). Never waits and cannot fail. Any thread. */
RATION_API void ration_engine_lock(ration_engine *engine, struct ration_engine_guard *out_guard);

/* Unlocks a guard, once, on any thread. */
RATION_API void ration_engine_unlock(struct ration_engine_guard *guard);

/* The decision of one limit about a check. */
struct ration_check_part {
    const struct ration_policy_limit *limit; /* valid until the guard of the check is unlocked */
    uint64_t cost_tokens;
    struct ration_decision decision;
};

/* One request, and its result. */
struct ration_check {
    const struct ration_attribute *attributes;
    size_t attribute_count;
    uint64_t cost_tokens; /* charged by limits that set no cost themselves; 0: takes nothing */
    uint32_t is_peek;     /* 1: reports the decision and takes nothing */

    /*
     * Result. status is RATION_OK, or an error whose text is in reason (RATION_EINVAL for a bad request); the verdict
     * of decision is NEVER then.
     */
    ration_status status;
    const char *reason;   /* static storage */
    uint32_t is_degraded; /* 1: Redis did not decide; the limits' on_redis_error did */
    enum ration_policy_verdict policy_verdict; /* exempt: ALLOW; banned: NEVER */
    /*
     * The decision of all limits together, as for a stack; limit_index is the limit's index in the policy, and limit is
     * 0 if no limit applies.
     */
    struct ration_decision decision;
    /* The limit that decided, or NULL. Valid until the guard of the check is unlocked. */
    const struct ration_policy_limit *limit;

    /*
     * NULL, or room for RATION_POLICY_MATCHES_MAX parts: one is written for every limit that applies, shadow limits
     * included.
     */
    struct ration_check_part *parts;
    uint32_t part_count; /* written */
    /*
     * Written, on failure too: the cost of matching the request against the policy, in bytes that globs searched or an
     * equal amount of time (about 1 ns each).
     */
    uint64_t match_steps;
};

/* Bytes for the composed keys of one request: keys of several attributes, or with an address. */
#define RATION_CHECK_KEYS_ROOM 16384

/*
 * Decides the checks in order, all by the current policy and at the same now_ns; hashing and prefetching run ahead.
 * To read the limits that decided, use ration_engine_check_guarded(): after this call a reload may release the policy
 * that they point into.
 */
RATION_API void ration_engine_check(ration_engine *engine, struct ration_check *checks,
                                    size_t check_count, uint64_t now_ns);

/* The same, by the guard's policy. */
RATION_API void ration_engine_check_guarded(const struct ration_engine_guard *guard,
                                            struct ration_check *checks, size_t check_count,
                                            uint64_t now_ns);

/*
 * The same for event loops, which must not block for long: stops when the match_steps of the decided checks add up to
 * match_steps_max. Returns how many checks were decided, counted from the first; at least one if check_count > 0. An
 * engine with Redis (ration_engine_is_remote()) decides all of them.
 */
RATION_API size_t ration_engine_check_some(const struct ration_engine_guard *guard,
                                           struct ration_check *checks, size_t check_count,
                                           uint64_t match_steps_max, uint64_t now_ns);

/* Whether the engine's buckets are in Redis. */
RATION_API bool ration_engine_is_remote(const ration_engine *engine);

/*
 * A caller with an event loop does not have to wait for Redis. Each loop has its own connection, which may be used only
 * by the loop's thread and only in the process that created it. hiredis writes from the loop: ignore SIGPIPE.
 */
typedef struct ration_engine_connection ration_engine_connection;

/*
 * Starts to connect. *out_connection is owned by the caller: release it with ration_engine_connection_free(), after its
 * batches. loop is copied. Returns RATION_EINVAL if the engine does not use Redis, or RATION_ENOMEM.
 */
RATION_API ration_status ration_engine_connection_create(ration_engine *engine,
                                                         const struct ration_redis_loop *loop,
                                                         ration_engine_connection **out_connection);

/* Closes and releases a connection that has no batches any more. NULL is allowed. */
RATION_API void ration_engine_connection_free(ration_engine_connection *connection);

/*
 * is_connected: whether the connection to Redis works. last_error: why it does not, or "" if it does. has_connected:
 * false until the first attempt to connect has ended, with success or failure.
 */
RATION_API bool ration_engine_connection_is_connected(const ration_engine_connection *connection);
RATION_API bool ration_engine_connection_has_connected(const ration_engine_connection *connection);
RATION_API const char *ration_engine_connection_last_error(
    const ration_engine_connection *connection);

/* Reads the counters of the connection. On the loop's thread. */
RATION_API void ration_engine_connection_stats(const ration_engine_connection *connection,
                                               struct ration_redis_stats *out_stats);

/*
 * Checks that are decided together, asynchronously.
 *
 *     batch = ration_engine_batch_create(connection, NULL, now_ns, done, context);
 *     ration_engine_batch_add(batch, &check);                    for each check
 *     if (ration_engine_batch_send(batch))                       all are decided now
 *         use(ration_engine_batch_check(batch, 0));              otherwise done() is called once
 *     ration_engine_batch_free(batch);
 */
typedef struct ration_engine_batch ration_engine_batch;
typedef void ration_engine_batch_done(void *context);

/*
 * Returns NULL without memory. The batch pins the guard's policy, or the current policy if guard is NULL, until the
 * batch is released: release it soon. The guard may be unlocked before that.
 */
RATION_API ration_engine_batch *ration_engine_batch_create(ration_engine_connection *connection,
                                                           const struct ration_engine_guard *guard,
                                                           uint64_t now_ns,
                                                           ration_engine_batch_done *done,
                                                           void *context);

/* Adds a check; what it points to is borrowed for the call. Returns RATION_ENOMEM. */
RATION_API ration_status ration_engine_batch_add(ration_engine_batch *batch,
                                                 const struct ration_check *check);

/*
 * Adds a check of an inline limit, as for ration_engine_inline_limiter(). Returns RATION_ENOMEM, RATION_EINVAL for a
 * key that is too long, RATION_EUNSUPPORTED for a limit that cannot be inline.
 */
RATION_API ration_status ration_engine_batch_add_inline(ration_engine_batch *batch,
                                                        const struct ration_key *key,
                                                        const struct ration_limit *limit,
                                                        uint64_t cost_tokens, bool is_peek);

/* Returns true if all checks are decided now; done() is not called then. */
RATION_API bool ration_engine_batch_send(ration_engine_batch *batch);

/* Returns how many checks were added. */
RATION_API size_t ration_engine_batch_count(const ration_engine_batch *batch);

/*
 * The result of a check, with its parts; a check of an inline limit has a decision only. Valid once the batch is
 * decided; match_steps is valid as soon as the check is added.
 */
RATION_API const struct ration_check *ration_engine_batch_check(const ration_engine_batch *batch,
                                                                size_t index);

/* May be called at any time. The results of checks that Redis has not decided are dropped. NULL is allowed. */
RATION_API void ration_engine_batch_free(ration_engine_batch *batch);

/*
 * Selects the keys that an admin operation changes: those of a request with these attributes. limit_name: the key of
 * this limit only; NULL: the keys of all limits that apply. With NULL, reset and block skip limits without a key,
 * because all clients share their bucket.
 */
struct ration_admin_op {
    const struct ration_attribute *attributes;
    size_t attribute_count;
    const char *limit_name;
    const struct ration_engine_guard *guard; /* uses its policy; NULL: the current policy */
    uint64_t *match_steps; /* NULL, or written like match_steps of struct ration_check */
};

/*
 * Refunds the tokens that a check with these attributes and this cost took. *out_count (may be NULL) is the number of
 * limits changed. Returns RATION_EINVAL; with Redis also RATION_ESTORE and RATION_ENOMEM.
 */
RATION_API ration_status ration_engine_refund(ration_engine *engine,
                                              const struct ration_admin_op *op,
                                              uint64_t cost_tokens, uint64_t now_ns,
                                              size_t *out_count);

/* Resets the buckets to those of unused keys, and unblocks the keys. Same returns. */
RATION_API ration_status ration_engine_reset(ration_engine *engine,
                                             const struct ration_admin_op *op, uint64_t now_ns,
                                             size_t *out_count);

/*
 * Blocks the keys: denies every request before until_ns, whatever the limit's algorithm. Shadow limits are skipped.
 * At until_ns a token bucket has one token, and a window or a log continues with what it had counted. A reload
 * preserves blocks as it preserves the tokens in use; blocks of windows and logs also survive a reload that resets
 * the limit but does not change its key. Also returns RATION_ERANGE if until_ns is more than RATION_BLOCK_NS_MAX
 * after now_ns (then nothing is blocked), RATION_EUNSUPPORTED if only shadow limits apply, and RATION_ENOMEM if there
 * is no slot for one of the keys, which then is not blocked: in memory, at most 65536 keys of windows and logs, over
 * all limits, can be blocked at a time.
 */
RATION_API ration_status ration_engine_block_until(ration_engine *engine,
                                                   const struct ration_admin_op *op,
                                                   uint64_t until_ns, uint64_t now_ns,
                                                   size_t *out_count);

/* The three admin operations above; here also for the keys of inline limits. */
enum ration_admin_op_kind { RATION_ADMIN_REFUND = 0, RATION_ADMIN_RESET, RATION_ADMIN_BLOCK };

struct ration_engine_admin_task {
    enum ration_admin_op_kind kind;
    const struct ration_admin_op *op; /* NULL: for keys of inline limits */
    const struct ration_key *keys;    /* the keys, if op is NULL */
    size_t key_count;
    const struct ration_limit *limit; /* for a refund of inline limits */
    uint64_t tokens;                  /* of a refund */
    uint64_t until_ns;                /* of a block */
    uint64_t now_ns;
};

/*
 * The same for a caller with an event loop and buckets in Redis. done() is called once, with the number of buckets
 * changed and a status: as above, or RATION_ESTORE if Redis did not answer; RATION_ERANGE for a block that is too long
 * applies to inline limits, too. done() may be called before this function returns; the function then returns NULL.
 * After ration_engine_admin_forget() of the returned operation, done() is not called, but the operation continues.
 */
typedef struct ration_engine_admin_run ration_engine_admin_run;
typedef void ration_engine_admin_done(void *context, ration_status status, size_t count);

RATION_API ration_engine_admin_run *ration_engine_admin_begin(
    ration_engine_connection *connection, const struct ration_engine_admin_task *task,
    ration_engine_admin_done *done, void *context);
RATION_API void ration_engine_admin_forget(ration_engine_admin_run *run);

/*
 * The limiter for inline limits. Each struct ration_batch_item carries its own limit, which may be any continuous token
 * bucket. Its requests are struct ration_key. Borrowed: it lives as long as the engine.
 */
RATION_API ration_limiter *ration_engine_inline_limiter(ration_engine *engine);

/*
 * Clears all inline limits: every key becomes unused, and its slot is free. Other threads may decide at the same time.
 * Returns RATION_EUNSUPPORTED if the buckets are in Redis.
 */
RATION_API ration_status ration_engine_clear_inline(ration_engine *engine);

/* The guard's policy. Borrowed until the guard is unlocked. */
RATION_API const ration_policy *ration_engine_policy(const struct ration_engine_guard *guard);

/* The number of the guard's policy: 1 for the engine's first policy, one more after each reload. */
RATION_API uint64_t ration_engine_generation(const struct ration_engine_guard *guard);

/*
 * The limiter behind a limit of the policy, for reports, top keys and scans. Its only rule is the limit, and its
 * requests are struct ration_key as ration_policy_key() builds them. Borrowed until the guard is unlocked. Returns
 * NULL if the guard's policy has no limit of this index.
 */
RATION_API ration_limiter *ration_engine_limiter(const struct ration_engine_guard *guard,
                                                 size_t limit_index);

/* Counters of the engine itself; each limiter has its own. */
struct ration_engine_stats {
    uint64_t exempt;
    uint64_t banned;
    uint64_t unlimited;       /* no limit applied */
    uint64_t errors;          /* requests that could not be decided */
    uint64_t decided_locally; /* decided from a lease or a local bucket, without a call to Redis */
    uint64_t degraded;        /* Redis should have decided and did not; on_redis_error applied */
    uint64_t reloads;
};

/* Reads the counters into *out_stats. Any thread; they are not all of the same instant. */
RATION_API void ration_engine_read_stats(const ration_engine *engine,
                                         struct ration_engine_stats *out_stats);

/* The maximum memory that the engine's current tables may use, in bytes; spare_bytes are not included. */
RATION_API size_t ration_engine_bytes(const ration_engine *engine);

enum ration_engine_change {
    RATION_ENGINE_ADDED = 0,
    RATION_ENGINE_REMOVED,
    RATION_ENGINE_CHANGED, /* keys keep their state */
    RATION_ENGINE_RESET, /* its key has changed, or its new algorithm stores a different state: all keys start again */
    RATION_ENGINE_SAME_SIZE /* changed, but not its table's size (keys): the table and the tokens in use stay */
};

/*
 * Called for each limit that the reload changed. name is borrowed for the call. The function must not reload or save
 * the engine.
 */
typedef void ration_engine_change_func(void *context, enum ration_engine_change change,
                                       const char *name);

/* "added", "removed", "changed", "reset", "kept its size". Static storage. */
RATION_API const char *ration_engine_change_name(enum ration_engine_change change);

/*
 * Replaces the whole policy, or on failure nothing, while other threads check. On success the engine owns policy.
 * Limits of the same name continue with their buckets. So do limits that an earlier reload removed and this one adds
 * again, unless the engine has reused their memory. The engine retains the limits removed last: as many as the policy
 * has limits, and at least 8; more while there are spare_bytes. A limit whose memory was reused starts with full
 * buckets, so rule R1 holds for it from its return on. One caller at a time; other callers wait.
 * Returns RATION_EINVAL, RATION_EUNSUPPORTED, or RATION_ENOMEM if neither spare_bytes nor the memory of removed
 * limits has room for the new limits; with the reason in *error (may be NULL).
 */
RATION_API ration_status ration_engine_reload(ration_engine *engine, ration_policy *policy,
                                              ration_engine_change_func *change, void *context,
                                              struct ration_error *error);

/*
 * Writes the state of all buckets in use, as ration_limiter_dump() does, with the same returns. Reloads wait until it
 * is done.
 */
RATION_API ration_status ration_engine_save(ration_engine *engine, uint64_t now_ns,
                                            ration_writer *write, void *context);

/*
 * Creates an engine from saved state. policy may differ from the policy that was saved: the result is as after a reload
 * from that policy to this one. Tables have the sizes that were saved. Ownership and returns are those of
 * ration_engine_create() and ration_limiter_load().
 */
RATION_API ration_status ration_engine_load(const struct ration_engine_options *options,
                                            ration_policy *policy, ration_reader *read,
                                            void *context, ration_engine **out_engine,
                                            struct ration_error *error);

RATION_C_END

#endif
