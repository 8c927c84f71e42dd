#include "policy/glob.h"

#include <string.h>

/* The fixed cost of searching for a piece, in addition to the bytes searched. */
#define SEARCH_STEPS 16
#define LOOKUP_STEPS 16 /* the cost of looking up a piece in a filter */

/* Searching a shorter value is faster than consulting a filter. */
#define FILTER_VALUE_SIZE_MIN 256
#define FILTER_SEARCHES_MIN   8  /* this many searches cost about as much as building a filter */
#define FILTER_SEQUENCES_MAX  16 /* of a piece, that are looked up */
#define SEQUENCE_SIZE         3
#define HASH_BITS             32

/* Reads one piece, up to a star or the end. Returns the number of bytes of text that it used. */
static size_t read_piece(const char *text, size_t size, char *bytes, bool *is_any,
                         struct ration_glob_piece *out_piece)
{
    struct ration_glob_piece piece = {.bytes = bytes};
    uint32_t run = 0;
    size_t at = 0;

    for (; at < size && text[at] != '*'; at++) {
        bool is_escaped = text[at] == '\\' && at + 1 < size;
        if (is_escaped)
            at++;
        bytes[piece.size] = text[at];
        is_any[piece.size] = !is_escaped && text[at] == '?';
        run = is_any[piece.size] ? 0 : run + 1;
        if (is_any[piece.size])
            piece.is_any = is_any;
        piece.size++;
        if (run > piece.literal_size) {
            piece.literal_size = run;
            piece.literal = piece.size - run;
        }
    }
    *out_piece = piece;
    return at;
}

const struct ration_glob *ration_glob_make(struct ration_arena *arena, const char *text,
                                           size_t size)
{
    struct ration_glob *glob = ration_arena_take(arena, 1, sizeof(*glob));
    struct ration_glob_piece *pieces = ration_arena_take(arena, size / 2 + 1, sizeof(*pieces));
    char *bytes = ration_arena_take(arena, size, 1);
    bool *is_any = ration_arena_take(arena, size, sizeof(*is_any));

    if (!glob || !pieces || !bytes || !is_any)
        return NULL;
    glob->pieces = pieces;
    glob->is_start_free = size > 0 && text[0] == '*';
    for (size_t at = 0; at < size;) {
        struct ration_glob_piece *piece = &pieces[glob->piece_count];
        glob->is_end_free = text[at] == '*';
        if (glob->is_end_free) {
            at++;
            continue;
        }
        at += read_piece(text + at, size - at, bytes + glob->size_min, is_any + glob->size_min,
                         piece);
        glob->size_min += piece->size;
        glob->piece_count++;
    }
    return glob;
}

/* Whether the piece matches at this position. At least piece->size bytes must follow. */
static bool matches_at(const struct ration_glob_piece *piece, const char *at)
{
    if (!piece->is_any)
        return memcmp(at, piece->bytes, piece->size) == 0;
    for (uint32_t i = 0; i < piece->size; i++) {
        if (!piece->is_any[i] && at[i] != piece->bytes[i])
            return false;
    }
    return true;
}

static void count_steps(struct ration_glob_work *work, size_t steps)
{
    if (work)
        work->steps += steps;
}

/*
 * Returns the first position from at on where the piece matches and does not extend beyond end, or
 * NULL. The first match leaves the most room for the following pieces, so no later match needs to
 * be tried.
 */
static const char *find_piece(const struct ration_glob_piece *piece, const char *at,
                              const char *end, struct ration_glob_work *work)
{
    const char *literal = piece->bytes + piece->literal;

    while ((size_t)(end - at) >= piece->size && !(work && ration_glob_work_is_exceeded(work))) {
        size_t size = (size_t)(end - at) - (piece->size - piece->literal_size);
        const char *found = memmem(at + piece->literal, size, literal, piece->literal_size);
        const char *match = found ? found - piece->literal : end;

        count_steps(work, SEARCH_STEPS + (size_t)(match - at));
        if (!found)
            return NULL;
        if (!piece->is_any || matches_at(piece, match))
            return match;
        count_steps(work, piece->size);
        at = match + 1;
    }
    return NULL;
}

static uint32_t hash_sequence(const char *bytes)
{
    const unsigned char *b = (const unsigned char *)bytes;

    return (uint32_t)(b[0] | b[1] << 8 | b[2] << 16) * UINT32_C(2654435761);
}

/* Returns the value's filter, which may not be built yet, or NULL if all filters are in use. */
static struct ration_glob_filter *find_filter(struct ration_glob_work *work, const char *value)
{
    for (uint32_t i = 0; i < work->filter_count; i++) {
        if (work->filters[i].value == value)
            return &work->filters[i];
    }
    if (work->filter_count == RATION_GLOB_FILTERS_MAX)
        return NULL;
    work->filters[work->filter_count] = (struct ration_glob_filter){.value = value};
    return &work->filters[work->filter_count++];
}

/*
 * Builds a filter of 8 to 16 bits for each byte of the value, up to the maximum size and while room
 * lasts.
 */
static void build_filter(struct ration_glob_work *work, struct ration_glob_filter *filter,
                         const char *value, size_t size)
{
    size_t bytes = FILTER_VALUE_SIZE_MIN;
    uint32_t shift = HASH_BITS - 11; /* 2^11 bits are FILTER_VALUE_SIZE_MIN bytes */

    for (; bytes < size && bytes < RATION_GLOB_FILTER_BYTES_MAX; bytes *= 2)
        shift--;
    if (bytes > sizeof(work->room) - work->room_used)
        return;
    filter->bits = work->room + work->room_used / sizeof(work->room[0]);
    filter->shift = shift;
    work->room_used += bytes;
    count_steps(work, size);
    memset(filter->bits, 0, bytes);
    for (size_t i = 0; i + SEQUENCE_SIZE <= size; i++) {
        uint32_t bit = hash_sequence(value + i) >> shift;
        filter->bits[bit / 64] |= UINT64_C(1) << bit % 64;
    }
}

static bool may_contain_piece(const struct ration_glob_filter *filter,
                              const struct ration_glob_piece *piece, struct ration_glob_work *work)
{
    const char *literal = piece->bytes + piece->literal;

    count_steps(work, LOOKUP_STEPS);
    for (uint32_t i = 0; i + SEQUENCE_SIZE <= piece->literal_size && i < FILTER_SEQUENCES_MAX;
         i++) {
        uint32_t bit = hash_sequence(literal + i) >> filter->shift;
        if (!(filter->bits[bit / 64] >> bit % 64 & 1))
            return false;
    }
    return true;
}

/* True only if one of the pieces cannot occur in the value. */
static bool is_ruled_out(const struct ration_glob_piece *pieces, uint32_t count,
                         const struct ration_key *value, struct ration_glob_work *work)
{
    struct ration_glob_filter *filter;

    if (!work || value->size < FILTER_VALUE_SIZE_MIN)
        return false;
    filter = find_filter(work, value->bytes);
    if (!filter)
        return false;
    if (filter->shift == 0 && ++filter->search_count == FILTER_SEARCHES_MIN)
        build_filter(work, filter, value->bytes, value->size);
    if (filter->shift == 0)
        return false;
    for (uint32_t i = 0; i < count; i++) {
        if (!may_contain_piece(filter, &pieces[i], work))
            return true;
    }
    return false;
}

bool ration_glob_matches(const struct ration_glob *glob, const struct ration_key *value,
                         struct ration_glob_work *work)
{
    const struct ration_glob_piece *piece = glob->pieces;
    const struct ration_glob_piece *end_piece = piece + glob->piece_count;
    const char *at = value->bytes, *end = at + value->size;

    if (value->size < glob->size_min || (glob->piece_count <= 1 && !glob->is_start_free &&
                                         !glob->is_end_free && value->size > glob->size_min))
        return false;
    if (piece < end_piece && !glob->is_end_free) {
        end_piece--;
        end -= end_piece->size;
        if (!matches_at(end_piece, end))
            return false;
    }
    if (piece < end_piece && !glob->is_start_free) {
        if (!matches_at(piece, at))
            return false;
        at += piece->size;
        piece++;
    }
    if (piece < end_piece && is_ruled_out(piece, (uint32_t)(end_piece - piece), value, work))
        return false;
    for (; piece < end_piece; piece++) {
        at = find_piece(piece, at, end, work);
        if (!at)
            return false;
        at += piece->size;
    }
    return true;
}
