/*
 * swap: replaces or removes a bucket in Redis, for an administrator.
 */
#ifndef RATION_REDIS_SWAP_H
#define RATION_REDIS_SWAP_H

#include "redis/client.h"

/* count: number of buckets that were changed or removed. is_known: Redis has answered. */
typedef void ration_redis_swapped(void *context, uint64_t count, bool is_known);

/* A bucket and its limit. */
struct ration_redis_bucket {
    const struct ration_limit *limit;
    struct ration_key key;
    bool is_given; /* as in struct ration_redis_part */
};

/* The new state of a bucket. */
struct ration_redis_next {
    struct ration_bucket_state any;
    uint64_t blocked_ns; /* time until which it is blocked; 0: not blocked */
    uint64_t keep_ms;    /* how long to store it after it is full */
};

/*
 * Replaces a bucket, unless it has changed since result was read, by a take request about this bucket alone.
 * deadline_ns as in ration_redis_client_call().
 */
void ration_redis_swap(struct ration_redis_client *client, const struct ration_redis_bucket *bucket,
                       const struct ration_redis_take_result *result,
                       const struct ration_redis_next *next, uint64_t deadline_ns,
                       ration_redis_swapped *swapped, void *context);

/* Removes a bucket: the key is new again. */
void ration_redis_remove(struct ration_redis_client *client,
                         const struct ration_redis_bucket *bucket, uint64_t deadline_ns,
                         ration_redis_swapped *swapped, void *context);

#endif
