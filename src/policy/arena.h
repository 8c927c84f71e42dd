/*
 * arena: memory that is given piece by piece and given back at once.
 *
 * A policy, and what is needed to read it, are many small things that live equally long. Who runs out
 * of memory finds is_exhausted set and may ask only at the end.
 */
#ifndef RATION_POLICY_ARENA_H
#define RATION_POLICY_ARENA_H

#include <stdbool.h>
#include <stddef.h>

struct ration_arena_chunk;

/* Zero bytes: empty. */
struct ration_arena {
    struct ration_arena_chunk *last;
    size_t left_bytes; /* of the last chunk */
    bool is_exhausted;
};

/*
 * Zeroed room for count things of size bytes, aligned for any of them; of one byte for none. NULL if
 * there is no memory.
 */
void *ration_arena_take(struct ration_arena *arena, size_t count, size_t size);

/* A copy with a terminating zero. NULL if there is no memory. */
char *ration_arena_copy(struct ration_arena *arena, const char *bytes, size_t size);

void ration_arena_done(struct ration_arena *arena);

#endif
