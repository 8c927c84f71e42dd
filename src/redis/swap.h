/*
 * swap: buckets in Redis that are replaced or removed by hand.
 */
#ifndef RATION_REDIS_SWAP_H
#define RATION_REDIS_SWAP_H

#include "redis/client.h"

/* count: how many buckets were changed or removed. is_known: Redis has said so. */
typedef void ration_redis_swapped(void *context, uint64_t count, bool is_known);

/* A bucket and its limit, as told by an ask about it alone. */
struct ration_redis_bucket {
    const struct ration_limit *limit;
    struct ration_key key;
    bool is_given; /* as in struct ration_redis_part */
};

/* What a bucket is to be. */
struct ration_redis_next {
    struct ration_any any;
    uint64_t hold_ns; /* until then it is held; 0: it is not */
    uint64_t keep_ms; /* that it is remembered after it is full */
};

/* Replaces a bucket, unless it has changed since it was told. deadline_ns as in ration_redis_client_call(). */
void ration_redis_swap(struct ration_redis_client *client, const struct ration_redis_bucket *bucket,
                       const struct ration_redis_told *told, const struct ration_redis_next *next,
                       uint64_t deadline_ns, ration_redis_swapped *swapped, void *context);

/* Removes a bucket: it is as one never seen. */
void ration_redis_remove(struct ration_redis_client *client,
                         const struct ration_redis_bucket *bucket, uint64_t deadline_ns,
                         ration_redis_swapped *swapped, void *context);

#endif
