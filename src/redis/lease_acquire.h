/*
 * lease_acquire: takes a cost from one bucket in Redis, and leases tokens of it, which this node spends locally before
 * the lease ends.
 *
 * Leased tokens count as spent at the end of the lease (lease.lua). Redis grants the amount requested, or half of
 * it, or a quarter, down to one token; or none.
 */
#ifndef RATION_REDIS_LEASE_ACQUIRE_H
#define RATION_REDIS_LEASE_ACQUIRE_H

#include "redis/client.h"
#include "redis/take_request.h"

#define RATION_REDIS_LEASE_NUMBERS 4096

struct ration_redis_lease {
    const struct ration_limit *limit; /* a token bucket with continuous refill */
    struct ration_key key;
    /* taken now; if it does not fit, no tokens are leased. 0: nothing is taken */
    uint64_t cost_tokens;
    uint64_t want_tokens;
    uint64_t back_tokens; /* unused tokens of an earlier lease, to be returned */
    uint32_t back_number; /* number of that lease */
    uint64_t back_age_ns; /* how long ago that lease was requested */
    uint64_t length_ns;
    uint64_t changed_ago_ns; /* as in struct ration_redis_part */
    bool has_now;
    uint64_t now_ns;
    uint64_t deadline_ns; /* as in struct ration_redis_take_request */
};

/* index of the argument with the bucket's stored text; the next is its converted text */
#define RATION_REDIS_LEASE_STORED 5

/* Writes the keys and arguments: everything after EVAL script. */
void ration_redis_lease_write(const struct ration_redis_lease *lease,
                              const struct ration_redis_names *names,
                              struct ration_redis_argv *argv);

/* The tokens that were leased. */
struct ration_redis_grant {
    uint64_t tokens; /* 0: none */
    /* of the lease, below RATION_REDIS_LEASE_NUMBERS; needed to return unused tokens */
    uint32_t number;
};

/*
 * result: the decision about the cost. NULL: there is no valid answer from Redis; tokens may have been leased,
 * and then expire.
 */
typedef void ration_redis_lease_acquired(void *context,
                                         const struct ration_redis_take_result *result,
                                         struct ration_redis_grant grant);

/* acquired() is called once, possibly before this returns. lease and its pointers are borrowed for the call. */
void ration_redis_lease_acquire(struct ration_redis_client *client,
                                const struct ration_redis_lease *lease,
                                ration_redis_lease_acquired *acquired, void *context);

#endif
