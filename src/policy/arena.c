#include "policy/arena.h"

#include <stdalign.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define CHUNK_BYTES_MIN 8192

struct ration_arena_chunk {
    struct ration_arena_chunk *previous;
    size_t size_bytes;
    alignas(max_align_t) char bytes[];
};

static size_t round_up(size_t size)
{
    return (size + alignof(max_align_t) - 1) & ~(alignof(max_align_t) - 1);
}

/* Each chunk is at least twice as large as the one before, so that there are few. */
static bool add_chunk(struct ration_arena *arena, size_t size)
{
    size_t bytes = arena->last ? 2 * arena->last->size_bytes : CHUNK_BYTES_MIN;

    if (bytes < size)
        bytes = size;
    struct ration_arena_chunk *chunk = calloc(1, sizeof(*chunk) + bytes);
    if (!chunk)
        return false;
    chunk->previous = arena->last;
    chunk->size_bytes = arena->left_bytes = bytes;
    arena->last = chunk;
    return true;
}

void *ration_arena_take(struct ration_arena *arena, size_t count, size_t size)
{
    size_t bytes;

    if (__builtin_mul_overflow(count, size, &bytes) || bytes > SIZE_MAX / 4)
        arena->is_exhausted = true;
    if (arena->is_exhausted)
        return NULL;
    bytes = round_up(bytes ? bytes : 1);
    if (bytes > arena->left_bytes && !add_chunk(arena, bytes)) {
        arena->is_exhausted = true;
        return NULL;
    }
    arena->left_bytes -= bytes;
    return arena->last->bytes + (arena->last->size_bytes - arena->left_bytes - bytes);
}

char *ration_arena_copy(struct ration_arena *arena, const char *bytes, size_t size)
{
    char *copy = ration_arena_take(arena, size + 1, 1);

    if (copy && size)
        memcpy(copy, bytes, size);
    return copy;
}

void ration_arena_done(struct ration_arena *arena)
{
    while (arena->last) {
        struct ration_arena_chunk *previous = arena->last->previous;

        explicit_bzero(arena->last->bytes,
                       arena->last->size_bytes); /* a policy may contain passwords */
        free(arena->last);
        arena->last = previous;
    }
    *arena = (struct ration_arena){0};
}
