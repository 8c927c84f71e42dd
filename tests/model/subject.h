/*
 * subject: the code under test, behind one interface.
 *
 * Three kinds of state: 16 bytes by the public ration_bucket_* calls, and the two that need more
 * room, by the library's inner functions. A negative control is a copy of one with a call replaced.
 */
#ifndef RATION_TESTS_SUBJECT_H
#define RATION_TESTS_SUBJECT_H

#include <stddef.h>
#include <stdint.h>

#include "core/reserve.h"
#include "ration/bucket.h"

#define SUBJECT_LOG_TOKENS_MAX 4096
#define SUBJECT_STATE_SIZE_MAX (sizeof(uint64_t) * (SUBJECT_LOG_TOKENS_MAX + 2))

struct subject_reservation {
    struct ration_bucket_reservation bucket; /* ready_at_ns and cost_tokens are set for all kinds */
    enum ration_reserve_part part;
    struct ration_reserve reserve_before, reserve_mark;

    /* Written by settle. */
    uint64_t returned_tokens; /* by others, as the bucket counts them */
    uint64_t refunded_tokens; /* of those: which may have been its own */
};

struct subject {
    const char *name;
    size_t (*size)(const struct ration_limit *limit);
    void (*start)(void *state, const struct ration_limit *limit, uint64_t now_ns);
    struct ration_decision (*take)(void *state, const struct ration_limit *limit, uint64_t cost,
                                   uint64_t now_ns);
    struct ration_decision (*peek)(const void *state, const struct ration_limit *limit,
                                   uint64_t cost, uint64_t now_ns);
    uint64_t (*take_up_to)(void *state, const struct ration_limit *limit, uint64_t cost_max,
                           uint64_t now_ns, struct ration_decision *out);
    void (*refund)(void *state, const struct ration_limit *limit, uint64_t tokens, uint64_t now_ns);
    void (*charge)(void *state, const struct ration_limit *limit, uint64_t tokens, uint64_t now_ns);
    void (*set)(void *state, const struct ration_limit *limit, uint64_t tokens, uint64_t now_ns);
    /* NULL where it cannot. */
    ration_status (*block)(void *state, const struct ration_limit *limit, uint64_t until_ns);
    struct ration_decision (*reserve)(void *state, const struct ration_limit *limit, uint64_t cost,
                                      uint64_t max_wait_ns, uint64_t now_ns,
                                      struct subject_reservation *out);
    void (*settle)(void *state, const struct ration_limit *limit, struct subject_reservation *r,
                   uint64_t used, uint64_t now_ns);
    uint64_t (*full_after)(const void *state, const struct ration_limit *limit, uint64_t now_ns);
};

extern const struct subject subject_bucket;
extern const struct subject subject_reserve;
extern const struct subject subject_log;

/* The subject that decides a limit. */
const struct subject *subject_of(const struct ration_limit *limit);

#endif
