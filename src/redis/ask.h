/*
 * ask: a decision that Redis makes, as a command and from its answer.
 *
 * The script (take.lua) decides and charges; it answers with its time and with each bucket as it was.
 * What is told of the decision is computed from these here, by the same functions as in memory. So the
 * two must agree about the verdict, and that they do is checked each time.
 *
 *     ration:{key}:limit             a bucket's name. Braces and % of the key are written as %7B
 *     ration:{%}:limit               of a limit without a key, and of an empty one
 *     ration:{%h5ac1...}:limit       of a key of more than 128 bytes: 64 hexadecimal digits of its BLAKE2b hash
 *
 * A client chooses its keys, so a name has a longest size whatever the key's. The hash is the same on all nodes; with a
 * secret that all of them have it is keyed, so that nobody who reads Redis can test guesses of long keys.
 *
 * All limits of one key are in one slot of a cluster, or of all keys if the names have a tag.
 */
#ifndef RATION_REDIS_ASK_H
#define RATION_REDIS_ASK_H

#include "limiter/judge.h"
#include "redis/runs.h"
#include "redis/words.h"

#define RATION_REDIS_PARTS_MAX RATION_ITEMS_MAX

#define RATION_REDIS_KEY_PLAIN_MAX 128 /* bytes of a key that stands in a name as it is */

/* How buckets are named. */
struct ration_redis_names {
    const char *prefix;    /* "ration" */
    const char *tag;       /* in the place of the key's own tag; NULL: none */
    const uint8_t *secret; /* of the hash of long keys, RATION_BLAKE2B_SIZE bytes; NULL: none */
};

/* One limit of one key. What it points to is borrowed. */
struct ration_redis_part {
    const struct ration_limit *limit;
    struct ration_key key;
    uint64_t cost_tokens;
    uint64_t owed_tokens; /* taken elsewhere, charged whatever is left; token buckets only */
    uint64_t stale_after_ns;
    uint64_t
        changed_ago_ns; /* for how long the limit has been this one: what was written under another is
                                converted as of then */
    bool is_shadow;
    bool is_given; /* the limit came with the request: its bucket is read under any */
};

struct ration_redis_ask {
    bool is_look;
    bool has_now;         /* else it is Redis' time */
    uint64_t now_ns;      /* for tests */
    uint64_t deadline_ns; /* a moment of the loop's; 0: the client's deadline, from now on */
    uint32_t part_count;
    struct ration_redis_part parts[RATION_REDIS_PARTS_MAX];
};

/* A bucket's text; size 0 and bytes NULL: there was none. */
struct ration_redis_text {
    const char *bytes;
    size_t size;
};

/* What the script answered. */
struct ration_redis_answer {
    uint64_t now_s;
    uint64_t now_ns; /* of the second */
    bool is_taken;
    bool is_of_others; /* nothing was done: a bucket was written under another limit */
    uint32_t text_count;
    struct ration_redis_text texts[RATION_REDIS_PARTS_MAX];
};

/* A decision as it is told. */
struct ration_redis_told {
    uint64_t now_ns;
    struct ration_decision decision; /* limiter_index is the part's that decided */
    struct ration_decision parts[RATION_REDIS_PARTS_MAX];
    struct ration_any befores[RATION_REDIS_PARTS_MAX]; /* each bucket as it was */
    uint64_t holds_ns[RATION_REDIS_PARTS_MAX];         /* until when it is held; a moment, or 0 */
    struct ration_redis_text
        texts[RATION_REDIS_PARTS_MAX]; /* borrowed, as stored; bytes NULL: none */
    struct ration_redis_runs runs[RATION_REDIS_PARTS_MAX]; /* that befores are read from */
};

/* Whether a limit can be kept by Redis: RATION_EUNFIT, with error (may be NULL) telling why not. */
ration_status ration_redis_fits(const struct ration_limit *limit, struct ration_error *error);

/*
 * The keys and arguments: all words behind EVAL script or EVALSHA sha. The last is how many texts stand for
 * others: none.
 */
void ration_redis_ask_write(const struct ration_redis_ask *ask,
                            const struct ration_redis_names *names,
                            struct ration_redis_words *words);

/* A bucket's name, as one word. */
void ration_redis_name_write(const struct ration_redis_names *names, const struct ration_key *key,
                             const char *limit_name, struct ration_redis_words *words);

/*
 * What was decided. RATION_EINVAL: the answer is none, or another than that of the limits asked; *out_told is
 * nothing to read then.
 */
ration_status ration_redis_ask_read(const struct ration_redis_ask *ask,
                                    const struct ration_redis_answer *answer,
                                    struct ration_redis_told *out_told);

/*
 * A bucket's text, as a state at now; and the other way round. hold_ns: the moment before which nothing passes,
 * whatever it has; or 0. A log is read from runs. False: it is none of this limit.
 */
bool ration_redis_state_read(const struct ration_redis_text *text, uint64_t now_ns,
                             struct ration_redis_runs *runs, struct ration_any *any,
                             uint64_t *out_hold_ns);

/* What a text has beside the state. Zero: nothing. */
struct ration_redis_beside {
    bool is_given; /* as in struct ration_redis_part */
    uint64_t hold_ns;
    bool
        has_lease; /* tokens are out on lease: three moments, as in lease.lua. Token buckets only */
    struct ration_time charged;
    struct ration_time least;
    struct ration_time since;
};

/*
 * Adds what is out on lease of a bucket, if its next text is of another limit or made by hand: whoever has drawn
 * before that may not give back after it, and what is out stays owed. before: the bucket under the next limit.
 */
void ration_redis_lease_carry(const struct ration_redis_text *text, const struct ration_any *before,
                              uint64_t now_ns, struct ration_any *next,
                              struct ration_redis_beside *beside);

void ration_redis_state_write(const struct ration_any *any,
                              const struct ration_redis_beside *beside,
                              struct ration_redis_words *words);

#endif
