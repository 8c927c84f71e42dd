/*
 * redis_admin: an administrator refunds, fills or blocks a token bucket in Redis. This is one call of a
 * script, so takes of other clients cannot interfere. Buckets of other kinds are swapped (swap.h).
 */
#ifndef RATION_REDIS_REDIS_ADMIN_H
#define RATION_REDIS_REDIS_ADMIN_H

#include "redis/swap.h"

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
