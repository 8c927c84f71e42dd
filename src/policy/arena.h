/*
 * arena: memory that is allocated piece by piece and released all at once.
 *
 * A policy, and the scratch data needed to parse it, consist of many small objects with the same
 * lifetime. When memory runs out, is_exhausted is set and stays set; a caller may check it once, at
 * the end.
 */
#ifndef RATION_POLICY_ARENA_H
#define RATION_POLICY_ARENA_H

#include <stdbool.h>
#include <stddef.h>

struct ration_arena_chunk;

/* All zero bytes: an empty arena. */
struct ration_arena {
    struct ration_arena_chunk *last;
    size_t left_bytes; /* free bytes in the last chunk */
    bool is_exhausted;
};

/*
 * Returns zeroed memory for count objects of size bytes each, aligned for any type (one byte if the
 * product is 0). Returns NULL if memory runs out. The memory is owned by the arena.
 */
void *ration_arena_take(struct ration_arena *arena, size_t count, size_t size);

/* Returns a copy with a terminating zero, owned by the arena, or NULL if memory runs out. */
char *ration_arena_copy(struct ration_arena *arena, const char *bytes, size_t size);

void ration_arena_done(struct ration_arena *arena);

#endif
