/*
 * glob: text with wildcards, compared in bounded time.
 *
 *     *    any bytes, or none        ?    one byte        \    the next byte means itself
 *
 * A glob is cut at its stars into pieces when the policy is read: "a-?" and ".json" of "a-?*.json". A value
 * matches if the first piece stands at its beginning, the last at its end, and the others between them, in
 * order. The cheap questions come first: the least size, then both ends. Only then is the value
 * searched, for each piece from left to right and never back, so that a comparison costs at most one pass
 * over the value.
 *
 * Many globs are compared with one value. A long value that has been searched several times gets a filter: the
 * set of its three-byte sequences. A piece with a sequence that the value does not have is not searched for.
 * All searches of a request together may take RATION_POLICY_STEPS_MAX steps, of about a byte each
 * (1 to 2 ms); a request that takes more gets an error instead of an answer.
 */
#ifndef RATION_POLICY_GLOB_H
#define RATION_POLICY_GLOB_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "policy/arena.h"
#include "ration/policy.h"

#define RATION_GLOB_FILTERS_MAX       8
#define RATION_GLOB_FILTER_BYTES_MAX  8192  /* of one: 8 bits for each byte of an 8 KiB value */
#define RATION_GLOB_FILTERS_BYTES_MAX 16384 /* of all filters of a request */

/* What stands between two stars. */
struct ration_glob_piece {
    const char *bytes;     /* without \ */
    const bool *is_any;    /* by byte: it was a ?; NULL: none was */
    uint32_t size;         /* at least 1 */
    uint32_t literal;      /* where the longest run without ? begins ... */
    uint32_t literal_size; /* ... and its size; 0: there are only ? */
};

struct ration_glob {
    const struct ration_glob_piece *pieces;
    uint32_t piece_count;
    size_t size_min;    /* of values that match */
    bool is_start_free; /* it begins with a star */
    bool is_end_free;
};

/* The sequences of one value. */
struct ration_glob_filter {
    const char *value; /* that it is of */
    uint32_t search_count;
    uint32_t shift; /* of a hash; 0: there is no filter yet */
    uint64_t *bits;
};

/* What the globs of one request have cost so far. */
struct ration_glob_work {
    size_t steps; /* above RATION_POLICY_STEPS_MAX: results are not to be used */
    size_t room_used;
    uint32_t filter_count;
    struct ration_glob_filter filters[RATION_GLOB_FILTERS_MAX];
    uint64_t room[RATION_GLOB_FILTERS_BYTES_MAX / sizeof(uint64_t)];
};

/* Starts the work of a request. The room needs no initial value. */
static inline void ration_glob_work_init(struct ration_glob_work *work)
{
    work->steps = work->room_used = 0;
    work->filter_count = 0;
}

static inline bool ration_glob_work_is_exceeded(const struct ration_glob_work *work)
{
    return work->steps > RATION_POLICY_STEPS_MAX;
}

/* Cuts text into pieces, which are the arena's. NULL if there is no memory. */
const struct ration_glob *ration_glob_make(struct ration_arena *arena, const char *text,
                                           size_t size);

/* Whether a value matches. work (may be NULL: no bound, no filter) counts what it costs. */
bool ration_glob_matches(const struct ration_glob *glob, const struct ration_key *value,
                         struct ration_glob_work *work);

#endif
