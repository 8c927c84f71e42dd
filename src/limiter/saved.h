/*
 * saved: what a dump holds, as values. docs/dump-format.md has its bytes.
 *
 * Times of states are to come, counted from the dump's now. When they are read back the age of the
 * dump is taken off, and what is left is counted from the now of that day; so a bucket's moment
 * may be read under any clock, and one that has passed meanwhile is a full bucket.
 */
#ifndef RATION_LIMITER_SAVED_H
#define RATION_LIMITER_SAVED_H

#include "limiter/chunks.h"
#include "limiter/walk.h"
#include "table/slot.h"

/*
 * The longest time to come in a dump: all that a slot can hold, so that whatever a table holds can be loaded. It is longer
 * than any block or debt, since the now of a dump may lie before the now of the call that wrote a bucket.
 */
#define RATION_SAVED_TO_COME_NS_MAX RATION_MOMENT_NS_MAX

/* The clock that runs from the dump to the load is the same if it agrees with the wall's so far. */
#define RATION_SAVED_SAME_CLOCK_NS RATION_NS_PER_SECOND

#define RATION_SAVED_ESTABLISHED (UINT64_C(1) << 63) /* of a key's word: the key is established */

enum ration_saved_kind {
    RATION_SAVED_KEY = 1,
    RATION_SAVED_OVERFLOW,
    RATION_SAVED_MARK,
    RATION_SAVED_END
};

struct ration_saved_rule {
    struct ration_limit limit; /* without a name */
    uint64_t stale_after_ns;   /* 0 for limits that start full */
};

struct ration_saved_limiter {
    uint64_t keys_max;
    uint32_t set_count;
    uint32_t rule_count;
    struct ration_saved_rule rules[RATION_RULES_MAX];
};

struct ration_saved_header {
    uint64_t wall_ns; /* of the dump */
    uint64_t now_ns;  /* of the dump, by the limiter's clock */
    uint32_t hash_kind;
    uint8_t seed[RATION_HASH_SEED_SIZE];
    uint32_t limiter_count;
    struct ration_saved_limiter *limiters; /* owned by the header's owner; free() */
};

void ration_saved_put_header(struct ration_chunk_writer *writer,
                             const struct ration_saved_header *header);

/* Checks all that can be known by looking at it. limiters is NULL on failure. */
void ration_saved_get_header(struct ration_chunk_reader *reader,
                             struct ration_saved_header *out_header);

struct ration_saved_record {
    enum ration_saved_kind kind;
    uint32_t limiter_index;
    uint32_t set_index;
    uint64_t
        word; /* KEY: the tag, with RATION_SAVED_ESTABLISHED. MARK: the time to come. END: how many records came before */
};

void ration_saved_put_record(struct ration_chunk_writer *writer,
                             const struct ration_saved_record *record);
void ration_saved_get_record(struct ration_chunk_reader *reader,
                             const struct ration_saved_header *header,
                             struct ration_saved_record *out_record);

/* Tokens of a log that come back at one moment; oldest first. Grows as it is read. */
struct ration_saved_run {
    uint64_t back_at_ns;
    uint64_t count_until; /* of this run and those before */
};

struct ration_saved_log {
    struct ration_saved_run *runs; /* owned; free() */
    size_t run_count;
    size_t run_max;
    uint64_t tokens; /* of the limit: the ring's size */
};

/* A reader of the log as a ring whose head is cell 0. log is borrowed. */
struct ration_log_reader ration_saved_log_reader(const struct ration_saved_log *log);

/* The log of a limit whose bucket was changed: what any->write says, and nothing else. */
void ration_saved_log_set(struct ration_saved_log *log, const struct ration_any *any);

/*
 * Writes a bucket as it is at now. moments is room for as many words as a log has tokens;
 * unused for others.
 */
void ration_saved_put_state(struct ration_chunk_writer *writer, const struct ration_any *any,
                            uint64_t now_ns, uint64_t *moments);

/* When a dump is read: what is to come more than age_ns after it, counted from now_ns. */
struct ration_saved_time {
    uint64_t now_ns;
    uint64_t age_ns;
};

struct ration_saved_time ration_saved_time(const struct ration_saved_header *header,
                                           uint64_t now_ns, uint64_t wall_ns);

/* How far a moment lies ahead of now, as it is written: 0 if it has passed, and cut at what can be loaded. */
static inline uint64_t ration_saved_to_come_ns(uint64_t moment_ns, uint64_t now_ns)
{
    uint64_t ns = moment_ns > now_ns ? moment_ns - now_ns : 0;

    return ns < RATION_SAVED_TO_COME_NS_MAX ? ns : RATION_SAVED_TO_COME_NS_MAX;
}

/* What is left of a time to come; 0 if it has passed. */
uint64_t ration_saved_left_ns(struct ration_saved_time time, uint64_t to_come_ns);

/*
 * Reads a bucket under the limit that it was written under. Windows are put where the clock has
 * them: at the first end that is not earlier. log is filled for logs; the bucket reads it.
 */
void ration_saved_get_state(struct ration_chunk_reader *reader, const struct ration_limit *limit,
                            struct ration_saved_time time, struct ration_saved_log *log,
                            struct ration_any *out_any);

#endif
