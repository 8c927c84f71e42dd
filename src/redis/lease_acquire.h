/*
 * lease_acquire: requests a lease from Redis, and reports the result.
 */
#ifndef RATION_REDIS_LEASE_ACQUIRE_H
#define RATION_REDIS_LEASE_ACQUIRE_H

#include "redis/client.h"
#include "redis/lease.h"

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
