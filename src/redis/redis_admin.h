/*
 * redis_admin: changes buckets in Redis for an administrator.
 *
 * Refunding, filling or blocking a token bucket is one call of a script, so takes of other clients cannot interfere.
 * A bucket of another kind is read by a take request, changed by the caller, and swapped: a script replaces it unless it
 * has changed in Redis meanwhile.
 */
#ifndef RATION_REDIS_REDIS_ADMIN_H
#define RATION_REDIS_REDIS_ADMIN_H

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

enum ration_redis_admin_kind { RATION_REDIS_REFUND, RATION_REDIS_FILL, RATION_REDIS_BLOCK };

struct ration_redis_admin {
    struct ration_redis_bucket bucket;
    enum ration_redis_admin_kind kind;
    uint64_t tokens;
    uint64_t block_ns; /* from now on */
    bool has_now;
    uint64_t now_ns;
};

enum ration_redis_admin_outcome {
    RATION_REDIS_ADMIN_DONE,
    RATION_REDIS_ADMIN_NO_BUCKET, /* there was no such bucket: it is full, or now blocked */
    /* nothing was done: the bucket is of another limit, and has to be swapped */
    RATION_REDIS_ADMIN_SCHEMA_MISMATCH,
    /* nothing was done: Redis replied with an error; for example, the key's value is not a bucket */
    RATION_REDIS_ADMIN_ERROR,
    RATION_REDIS_ADMIN_UNKNOWN, /* no answer: it may or may not have been done */
};

typedef void ration_redis_admin_done(void *context, enum ration_redis_admin_outcome outcome);

/* Whether buckets of a limit can be changed this way. */
bool ration_redis_admin_is_supported(const struct ration_limit *limit);

/* Writes the keys and arguments: everything after the script. */
void ration_redis_admin_write(const struct ration_redis_admin *op,
                              const struct ration_redis_names *names,
                              struct ration_redis_argv *argv);

/* op is borrowed for the call. deadline_ns as in ration_redis_client_call(). */
void ration_redis_admin(struct ration_redis_client *client, const struct ration_redis_admin *op,
                        uint64_t deadline_ns, ration_redis_admin_done *done, void *context);

#endif
