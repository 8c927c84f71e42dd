/*
 * lease: a cost taken from one bucket, and tokens of it, drawn from Redis to be spent here before a moment.
 *
 * Drawn tokens count as spent at the end of the lease (lease.lua). As much as is wanted is drawn, or half
 * of it, or a quarter, down to one; or none.
 */
#ifndef RATION_REDIS_LEASE_H
#define RATION_REDIS_LEASE_H

#include "redis/ask.h"

#define RATION_REDIS_LEASE_NUMBERS 4096

struct ration_redis_lease {
    const struct ration_limit *limit; /* a token bucket that refills continuously */
    struct ration_key key;
    uint64_t cost_tokens; /* taken now, or nothing is drawn. 0: nothing is taken */
    uint64_t want_tokens;
    uint64_t back_tokens; /* of an earlier lease, which were not spent */
    uint32_t back_number; /* that lease's */
    uint64_t back_age_ns; /* how long ago it was asked for */
    uint64_t length_ns;
    uint64_t changed_ago_ns; /* as in struct ration_redis_part */
    bool has_now;
    uint64_t now_ns;
    uint64_t deadline_ns; /* as in struct ration_redis_ask */
};

#define RATION_REDIS_LEASE_STORED 5 /* the word for a bucket's text; the next stands for it */

/* The keys and arguments: all words behind EVAL script. */
void ration_redis_lease_write(const struct ration_redis_lease *lease,
                              const struct ration_redis_names *names,
                              struct ration_redis_words *words);

#endif
