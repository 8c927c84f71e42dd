/*
 * glob: matches text against a pattern with wildcards in bounded time.
 *
 *     *    any bytes, or none        ?    one byte        \    the next byte is literal
 *
 * When the policy is loaded, a glob is split at its stars into pieces: "a-?*.json" into "a-?" and
 * ".json". A value matches if it starts with the first piece, ends with the last, and contains the
 * others between them, in order. The cheap comparisons come first: the minimum size, then both
 * ends. Only then is the value searched for each piece from left to right, without backtracking, so
 * that a comparison costs at most one pass over the value.
 *
 * Many globs are compared with one value. A long value that has been searched several times gets a
 * filter: the set of its three-byte sequences. A piece with a sequence that is not in the filter is
 * not searched for. All searches of a request together may take RATION_POLICY_STEPS_MAX steps of
 * about one byte each (1 to 2 ms); a request that needs more gets an error instead of a decision.
 */
#ifndef RATION_POLICY_GLOB_H
#define RATION_POLICY_GLOB_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "policy/arena.h"
#include "ration/policy.h"

#define RATION_GLOB_FILTERS_MAX 8
#define RATION_GLOB_FILTER_BYTES_MAX \
    8192 /* of one filter: 8 bits for each byte of an 8 KiB value */
#define RATION_GLOB_FILTERS_BYTES_MAX 16384 /* of all filters of one request */

/* The text between two stars. */
struct ration_glob_piece {
    const char *bytes;  /* without the escaping backslashes */
    const bool *is_any; /* for each byte, whether it is a ? wildcard; NULL if the piece has none */
    uint32_t size;      /* at least 1 */
    uint32_t literal;   /* offset of the longest run of bytes without ? */
    uint32_t literal_size; /* size of that run; 0 if the piece has only ? */
};

struct ration_glob {
    const struct ration_glob_piece *pieces;
    uint32_t piece_count;
    size_t size_min;    /* minimum size of a value that matches */
    bool is_start_free; /* the glob begins with a star */
    bool is_end_free;
};

/* The set of three-byte sequences of one value. */
struct ration_glob_filter {
    const char *value; /* the value that this filter describes */
    uint32_t search_count;
    uint32_t shift; /* right shift of the 32-bit hash; 0 if the filter has not been built yet */
    uint64_t *bits;
};

/* The work that the globs of one request have done so far. */
struct ration_glob_work {
    size_t steps; /* above RATION_POLICY_STEPS_MAX, the caller must discard all results */
    size_t room_used;
    uint32_t filter_count;
    struct ration_glob_filter filters[RATION_GLOB_FILTERS_MAX];
    uint64_t room[RATION_GLOB_FILTERS_BYTES_MAX / sizeof(uint64_t)];
};

/* Starts the work of a request. The array room needs no initial value. */
static inline void ration_glob_work_init(struct ration_glob_work *work)
{
    work->steps = work->room_used = 0;
    work->filter_count = 0;
}

static inline bool ration_glob_work_is_exceeded(const struct ration_glob_work *work)
{
    return work->steps > RATION_POLICY_STEPS_MAX;
}

/* Splits text into pieces, which the arena owns. Returns NULL if memory runs out. */
const struct ration_glob *ration_glob_make(struct ration_arena *arena, const char *text,
                                           size_t size);

/* Whether a value matches. Steps are added to work (NULL: no bound and no filter). */
bool ration_glob_matches(const struct ration_glob *glob, const struct ration_key *value,
                         struct ration_glob_work *work);

#endif
