/*
 * kept: bytes that a connection must keep. Memory grows with what is appended and goes when all
 * is dropped.
 */
#include <stdlib.h>
#include <string.h>

#include "server/loop_parts.h"

#define CAPACITY_LEAST 256u

void ration_kept_done(struct ration_kept *kept)
{
    if (kept->is_secret && kept->bytes != NULL)
        explicit_bzero(kept->bytes, kept->capacity);
    free(kept->bytes);
    *kept = (struct ration_kept){0};
}

static bool make_room(struct ration_kept *kept, size_t wanted)
{
    size_t capacity = kept->capacity > 0 ? kept->capacity : CAPACITY_LEAST;
    char *bytes;

    if (wanted > INT32_MAX)
        return false;
    while (capacity < wanted)
        capacity *= 2;
    bytes = kept->is_secret ? malloc(capacity) : realloc(kept->bytes, capacity);
    if (bytes == NULL)
        return false;
    if (kept->is_secret && kept->bytes != NULL) { /* realloc() would leave a copy behind */
        memcpy(bytes, kept->bytes, kept->end);
        explicit_bzero(kept->bytes, kept->capacity);
        free(kept->bytes);
    }
    kept->bytes = bytes;
    kept->capacity = (uint32_t)capacity;
    return true;
}

bool ration_kept_append(struct ration_kept *kept, const char *bytes, size_t size)
{
    if (kept->begin > 0) {
        memmove(kept->bytes, kept->bytes + kept->begin, ration_kept_size(kept));
        kept->end -= kept->begin;
        kept->begin = 0;
    }
    if (size > kept->capacity - kept->end && !make_room(kept, kept->end + size))
        return false;
    memcpy(kept->bytes + kept->end, bytes, size);
    kept->end += (uint32_t)size;
    return true;
}

void ration_kept_drop(struct ration_kept *kept, size_t size)
{
    kept->begin += (uint32_t)size;
    if (kept->begin == kept->end)
        ration_kept_done(kept);
}
