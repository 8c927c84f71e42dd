/*
 * saved: the contents of a dump, as values. docs/reference/dump-format.md describes its bytes.
 *
 * Times of states are durations from the dump's now. The loader subtracts the age of the dump and adds the rest
 * to its own now; so a bucket's times may be read under any clock, and a time that has passed meanwhile is a
 * full bucket.
 */
#ifndef RATION_LIMITER_SNAPSHOT_SAVED_H
#define RATION_LIMITER_SNAPSHOT_SAVED_H

#include "limiter/snapshot/chunks.h"
#include "limiter/store.h"
#include "table/slot.h"

/*
 * The longest duration in a dump: all that a slot can hold, so that every state of a table can be loaded. It is
 * longer than any block and than any bucket takes to fill up, since the now of a dump may lie before the now of
 * the call that wrote a bucket.
 */
#define RATION_SAVED_DURATION_NS_MAX RATION_EXPIRES_AT_NS_MAX

/*
 * The limiter's clock is the same at the dump and at the load if the time it measured between them differs from
 * the wall clock's by at most this.
 */
#define RATION_SAVED_SAME_CLOCK_NS RATION_NS_PER_SECOND

#define RATION_SAVED_ESTABLISHED (UINT64_C(1) << 63) /* flag in a KEY record's word */

enum ration_saved_kind {
    RATION_SAVED_KEY = 1,
    RATION_SAVED_OVERFLOW,
    RATION_SAVED_WATERMARK,
    RATION_SAVED_END
};

struct ration_saved_rule {
    struct ration_limit limit; /* the limit without its name */
    uint64_t stale_after_ns;   /* 0 for limits that start full */
};

struct ration_saved_limiter {
    uint64_t keys_max;
    uint32_t set_count;
    uint32_t rule_count;
    struct ration_saved_rule rules[RATION_RULES_MAX];
};

struct ration_saved_header {
    uint64_t wall_ns; /* time of the dump by the wall clock */
    uint64_t now_ns;  /* the same by the limiter's clock */
    uint32_t hash_kind;
    uint8_t seed[RATION_HASH_SEED_SIZE];
    uint32_t limiter_count;
    struct ration_saved_limiter *limiters; /* owned by the header's owner; free() */
};

void ration_saved_put_header(struct ration_chunk_writer *writer,
                             const struct ration_saved_header *header);

/* Reads the header and checks all that can be checked without the limiter. limiters is NULL on failure. */
void ration_saved_get_header(struct ration_chunk_reader *reader,
                             struct ration_saved_header *out_header);

struct ration_saved_record {
    enum ration_saved_kind kind;
    uint32_t limiter_index;
    uint32_t set_index;
    /*
     * KEY: the tag, with RATION_SAVED_ESTABLISHED. OVERFLOW: the index of the overflow bucket. WATERMARK: a
     * duration. END: the number of records before it.
     */
    uint64_t word;
};

void ration_saved_put_record(struct ration_chunk_writer *writer,
                             const struct ration_saved_record *record);
void ration_saved_get_record(struct ration_chunk_reader *reader,
                             const struct ration_saved_header *header,
                             struct ration_saved_record *out_record);

/* Tokens of a log that return at the same time; oldest first. The array grows as it is read. */
struct ration_saved_run {
    uint64_t back_at_ns;
    uint64_t count_until; /* tokens of this run and of those before it */
};

struct ration_saved_log {
    struct ration_saved_run *runs; /* owned; free() */
    size_t run_count;
    size_t run_max;
    uint64_t tokens; /* of the limit: the ring's size */
};

/* Returns a reader of the log as a ring whose head is cell 0. log is borrowed. */
struct ration_log_ring_reader ration_saved_log_reader(const struct ration_saved_log *log);

/* Sets the log to the writes of a bucket that was converted (bucket->write), and nothing else. */
void ration_saved_log_set(struct ration_saved_log *log, const struct ration_bucket_state *bucket);

/*
 * Writes a bucket as it is at now_ns. return_after_ns has room for as many words as a log has tokens; other algorithms
 * do not use it.
 */
void ration_saved_put_state(struct ration_chunk_writer *writer,
                            const struct ration_bucket_state *bucket, uint64_t now_ns,
                            uint64_t *return_after_ns);

/* The time of a load: the loader's now, and the age of the dump. */
struct ration_saved_time {
    uint64_t now_ns;
    uint64_t age_ns;
};

struct ration_saved_time ration_saved_time(const struct ration_saved_header *header,
                                           uint64_t now_ns, uint64_t wall_ns);

/*
 * The duration from now to until_ns, as it is written: 0 if that has passed, and at most the longest that can
 * be loaded.
 */
static inline uint64_t ration_saved_duration_ns(uint64_t until_ns, uint64_t now_ns)
{
    uint64_t ns = until_ns > now_ns ? until_ns - now_ns : 0;

    return ns < RATION_SAVED_DURATION_NS_MAX ? ns : RATION_SAVED_DURATION_NS_MAX;
}

/* What is left of a saved duration; 0 if it has passed. */
uint64_t ration_saved_left_ns(struct ration_saved_time time, uint64_t duration_ns);

/*
 * Reads a bucket under the limit that it was written under. A window ends at the first boundary of the loader's
 * clock that is not earlier than the saved end. For a log, fills in log, which the bucket's reader then reads.
 */
void ration_saved_get_state(struct ration_chunk_reader *reader, const struct ration_limit *limit,
                            struct ration_saved_time time, struct ration_saved_log *log,
                            struct ration_bucket_state *out_bucket);

#endif
