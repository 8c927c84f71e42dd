/*
 * local_cache: what this node knows about buckets in Redis, so that it does not have to call Redis for every check.
 *
 * For a key under a limit the cache has a main entry: an expiry time, a count and flags, in 16 bytes that change
 * together. An entry may be evicted after its expiry time. What the main entry means depends on the limit's mode:
 *
 *     lease        A lease: the tokens that the node may spend before the expiry time, the size of the last lease, and
 *                  how much less than requested Redis granted; if that was little, the node requests no more for a
 *                  while. Or, with the flag RATION_CACHE_ENTRY_DENIED: Redis has denied until the expiry time
 *     local_first  A local bucket, which is full at the expiry time. It has the burst of the limit and the node's share
 *                  of its rate. The count is the debt: tokens taken from it and not yet reported to Redis. A second
 *                  entry says until when Redis has denied, and at which cost
 *
 * The hash of an entry includes the limit's settings, so a limit that a reload has changed starts without entries.
 *
 * A cached denial is trusted for 500 ms, because other nodes may refund tokens or change the bucket by an admin
 * operation. Then the node calls Redis again. A separate entry says until when the denial is trusted.
 *
 * Times are of the engine's clock. Any thread may call these functions; they take no lock.
 */
#ifndef RATION_ENGINE_LOCAL_CACHE_H
#define RATION_ENGINE_LOCAL_CACHE_H

#include "engine/engine_internal.h"
#include "redis/lease_acquire.h"

#define RATION_LOCAL_CACHE_FILL_NS_MAX (UINT64_C(1) << 59) /* time to fill a local bucket */

struct ration_local_cache;

enum ration_local_cache_answer {
    RATION_LOCAL_CACHE_TAKEN,  /* allowed, and charged on this node */
    RATION_LOCAL_CACHE_DENIED, /* denied by a cached denial, or during the backoff of leases */
    RATION_LOCAL_CACHE_MISS    /* Redis has to decide */
};

/* One limit and one key. All pointers are borrowed. */
struct ration_local_cache_request {
    const struct ration_policy_limit *limit;
    const struct ration_hash *secret; /* of the limit: ration_engine_block_secret() */
    const struct ration_key *key;
    uint64_t cost_tokens; /* at least 1 */
    uint64_t node_count;
};

/* The decision, and the lease to request next. */
struct ration_local_cache_result {
    struct ration_decision decision;
    uint64_t until_ns;     /* expiry time of the lease that was charged */
    uint64_t lease_tokens; /* tokens to request from Redis ahead of need; 0: none */
};

/* Release: ration_local_cache_free(). Returns RATION_ENOMEM. */
ration_status ration_local_cache_create(const struct ration_clock *clock, uint32_t threads_max,
                                        struct ration_local_cache **out_cache,
                                        struct ration_error *error);
void ration_local_cache_free(struct ration_local_cache *local_cache);

/* Decides one limit from the cache, and charges the cost if it allows. */
enum ration_local_cache_answer ration_local_cache_take(
    struct ration_local_cache *local_cache, const struct ration_local_cache_request *request,
    uint64_t now_ns, struct ration_local_cache_result *out_result);

/* Undoes ration_local_cache_take(), because another limit of the check denies or needs Redis. */
void ration_local_cache_put_back(struct ration_local_cache *local_cache,
                                 const struct ration_local_cache_request *request,
                                 const struct ration_local_cache_result *result, uint64_t now_ns);

/* Returns the debt of a local bucket, which the caller now reports to Redis, and sets it to 0. 0 in other modes. */
uint64_t ration_local_bucket_drain_debt(struct ration_local_cache *local_cache,
                                        const struct ration_local_cache_request *request,
                                        uint64_t now_ns);

/* Adds to the debt again tokens that could not be reported to Redis. */
void ration_local_bucket_report_debt(struct ration_local_cache *local_cache,
                                     const struct ration_local_cache_request *request,
                                     uint64_t tokens, uint64_t now_ns);

/* The result of a request for a lease. */
struct ration_local_lease_granted {
    struct ration_redis_grant grant;
    uint64_t wanted_tokens;
    uint64_t requested_ns; /* when the node requested it: the lease starts then */
};

/* Caches what Redis has decided about this limit. */
void ration_local_cache_learn(struct ration_local_cache *local_cache,
                              const struct ration_local_cache_request *request,
                              const struct ration_decision *decision,
                              const struct ration_local_lease_granted *granted, uint64_t now_ns);

/*
 * The number of tokens to lease along with the current check: as many as the key has needed recently, or as waiting
 * checks need. 0: none.
 */
uint64_t ration_local_lease_want(struct ration_local_cache *local_cache,
                                 const struct ration_local_cache_request *request,
                                 uint64_t waiting_count, uint64_t now_ns);

/*
 * The same for one limit of a check with several limits that Redis has decided. Also returns 0 if the node has unspent
 * tokens of a lease, or if a caller was given a request for this lease less than wait_ns ago.
 */
uint64_t ration_local_lease_want_apart(struct ration_local_cache *local_cache,
                                       const struct ration_local_cache_request *request,
                                       uint64_t wait_ns, uint64_t now_ns);

/* The length of a lease of a limit. */
uint64_t ration_local_lease_ns(const struct ration_policy_limit *limit);

/*
 * The unused tokens of a lease that has expired or has too few tokens for the cost. ration_local_lease_unused() removes
 * them from the cache; the caller returns them to Redis with the next lease request.
 */
struct ration_local_lease_return {
    uint64_t tokens;
    uint32_t number;
    uint64_t age_ns; /* upper bound of the time since the node requested the lease */
};

struct ration_local_lease_return ration_local_lease_unused(
    struct ration_local_cache *local_cache, const struct ration_local_cache_request *request,
    uint64_t now_ns);

/* Stores tokens that were leased ahead of need. */
void ration_local_lease_fill(struct ration_local_cache *local_cache,
                             const struct ration_local_cache_request *request,
                             const struct ration_local_lease_granted *granted, uint64_t now_ns);

/* This node has changed the bucket in Redis by an admin operation: drops what the cache knows about it. */
void ration_local_cache_apply_admin(struct ration_local_cache *local_cache,
                                    const struct ration_local_cache_request *request,
                                    enum ration_admin_op_kind kind, uint64_t now_ns);

#endif
