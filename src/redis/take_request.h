/*
 * take_request: a decision that Redis makes, written as a command and read from its reply.
 *
 * The script (take.lua) decides and charges; it replies with its time and with each bucket as it was before. The
 * details of the decision are computed from these here, by the same functions as for buckets in memory. Script and
 * C code must agree on the verdict, and ration_redis_take_result_read() checks this each time.
 *
 *     ration:{key}:limit             the name of a bucket. Braces and % of the key are escaped, as %7B
 *     ration:{%}:limit               of a limit without a key, or of an empty key
 *     ration:{%h5ac1...}:limit       of a key of more than 128 bytes: its BLAKE2b hash in 64 hexadecimal digits
 *
 * Clients choose their keys, so the size of a name is bounded whatever the size of the key. The hash is the same on
 * all nodes. If the nodes share a secret, the hash is keyed with it, so that a reader of the Redis data cannot test
 * guesses of long keys.
 *
 * All limits of one key are in one slot of a cluster; if the names have a tag, all limits of all keys are.
 */
#ifndef RATION_REDIS_TAKE_REQUEST_H
#define RATION_REDIS_TAKE_REQUEST_H

#include "limiter/evaluation.h"
#include "redis/argv.h"
#include "redis/log_codec.h"

#define RATION_REDIS_PARTS_MAX RATION_EVALUATION_LIMITS_MAX

#define RATION_REDIS_KEY_PLAIN_MAX 128 /* a longer key is replaced by its hash */

struct ration_redis_names {
    const char *prefix;    /* "ration" */
    const char *tag;       /* hash tag used instead of the key; NULL: none */
    const uint8_t *secret; /* key of the hash of long keys, RATION_BLAKE2B_SIZE bytes; NULL: none */
};

/* One limit of one key. Its pointers are borrowed. */
struct ration_redis_part {
    const struct ration_limit *limit;
    struct ration_key key;
    uint64_t cost_tokens;
    /* already taken without Redis, charged whatever is left; token buckets only */
    uint64_t debt_tokens;
    uint64_t stale_after_ns;
    /*
     * How long the limit has had its current values: a bucket written under other values is converted as
     * of then.
     */
    uint64_t changed_ago_ns;
    bool is_shadow;
    bool is_given; /* inline limit, sent with the request: its bucket is read under any limit */
};

struct ration_redis_take_request {
    bool is_peek;
    bool has_now;         /* use now_ns; else Redis' time */
    uint64_t now_ns;      /* for tests */
    uint64_t deadline_ns; /* a time of the loop's clock; 0: now plus the client's timeout */
    uint32_t part_count;
    struct ration_redis_part parts[RATION_REDIS_PARTS_MAX];
};

/* The text of a bucket. size 0 and bytes NULL: there was no bucket. */
struct ration_redis_text {
    const char *bytes;
    size_t size;
};

/* The script's reply. */
struct ration_redis_answer {
    uint64_t now_s;
    uint64_t now_ns; /* nanoseconds within the second */
    bool is_taken;
    bool is_of_others; /* nothing was done: a bucket was written under another limit */
    uint32_t text_count;
    struct ration_redis_text texts[RATION_REDIS_PARTS_MAX];
};

/* A decision in full. */
struct ration_redis_take_result {
    uint64_t now_ns;
    struct ration_decision decision; /* limiter_index is the index of the part that decided */
    struct ration_decision parts[RATION_REDIS_PARTS_MAX];
    /* each bucket before this request */
    struct ration_bucket_state befores[RATION_REDIS_PARTS_MAX];
    uint64_t blocks_ns[RATION_REDIS_PARTS_MAX]; /* time until which the bucket is blocked, or 0 */
    /* borrowed; as stored in Redis; bytes NULL: no bucket */
    struct ration_redis_text texts[RATION_REDIS_PARTS_MAX];
    /* the logs in befores read from these */
    struct ration_redis_log_codec log_codecs[RATION_REDIS_PARTS_MAX];
};

/*
 * Whether Redis can store buckets of a limit. If not, RATION_EUNSUPPORTED; error (may be NULL) then says why.
 */
ration_status ration_redis_is_supported(const struct ration_limit *limit,
                                        struct ration_error *error);

/*
 * Writes the keys and arguments: everything after EVAL script or EVALSHA sha. The last argument is the number
 * of converted texts: 0.
 */
void ration_redis_take_request_write(const struct ration_redis_take_request *request,
                                     const struct ration_redis_names *names,
                                     struct ration_redis_argv *argv);

/* Writes the name of a bucket as one argument. */
void ration_redis_name_write(const struct ration_redis_names *names, const struct ration_key *key,
                             const char *limit_name, struct ration_redis_argv *argv);

/*
 * Reads the decision. RATION_EINVAL: the answer is malformed, or does not fit the limits of the request; then
 * *out_result must not be read.
 */
ration_status ration_redis_take_result_read(const struct ration_redis_take_request *request,
                                            const struct ration_redis_answer *answer,
                                            struct ration_redis_take_result *out_result);

/*
 * Reads the text of a bucket as its state at now_ns. bucket->limit must be set. *out_blocked_ns: time until
 * which nothing passes, whatever the bucket has; or 0. A log is read from *codec, which must outlive *bucket.
 * False: the text is not of this limit.
 */
bool ration_redis_state_read(const struct ration_redis_text *text, uint64_t now_ns,
                             struct ration_redis_log_codec *codec,
                             struct ration_bucket_state *bucket, uint64_t *out_blocked_ns);

/* What a text holds besides the state. All zero: nothing. */
struct ration_redis_annotations {
    bool is_given; /* as in struct ration_redis_part */
    uint64_t blocked_ns;
    /* tokens are out on lease: the three times below, see lease.lua. Token buckets only */
    bool has_lease;
    struct ration_time charged;
    struct ration_time min_tat;
    struct ration_time returnable_since;
};

/*
 * Carries the lease record of a bucket over to its next text, if that is of another limit or written by an
 * administrator. Leases acquired before cannot be returned after this, and tokens out on lease stay charged.
 * before: the bucket under the next limit.
 */
void ration_redis_lease_carry(const struct ration_redis_text *text,
                              const struct ration_bucket_state *before, uint64_t now_ns,
                              struct ration_bucket_state *next,
                              struct ration_redis_annotations *annotations);

void ration_redis_state_write(const struct ration_bucket_state *bucket,
                              const struct ration_redis_annotations *annotations,
                              struct ration_redis_argv *argv);

#endif
