/*
 * scripts: the Lua scripts that run inside Redis. Each connection loads all of them, and then calls them by their
 * SHA-1. If Redis no longer knows a script, because its script cache was flushed, the script's text is sent
 * instead.
 *
 *     take     decides several buckets together
 *     lease    takes a cost, and leases tokens for use later
 *     admin    refunds, fills or blocks a token bucket, for an administrator
 *     swap     replaces any other bucket, if it is unchanged
 */
#ifndef RATION_REDIS_SCRIPTS_H
#define RATION_REDIS_SCRIPTS_H

#include "redis/argv.h"

enum ration_redis_script {
    RATION_REDIS_TAKE,
    RATION_REDIS_LEASE,
    RATION_REDIS_ADMIN,
    RATION_REDIS_SWAP,
    RATION_REDIS_SCRIPT_COUNT
};

struct ration_redis_script_text {
    const unsigned char *bytes;
    size_t size;
};

struct ration_redis_script_text ration_redis_script_text(enum ration_redis_script script);

/* Adds the two arguments that a call of a script begins with: EVALSHA and the SHA-1. */
void ration_redis_argv_add_script(struct ration_redis_argv *argv, enum ration_redis_script script);

/* Rewrites a call to send the script's text (EVAL) instead of its SHA-1. */
void ration_redis_argv_repeat(struct ration_redis_argv *argv, enum ration_redis_script script);

#endif
