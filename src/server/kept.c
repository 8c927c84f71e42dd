/*
 * kept: bytes that a connection must keep. Memory grows with what is appended and goes when all
 * is dropped.
 */
#include <stdlib.h>
#include <string.h>

#include "server/loop_parts.h"

#define CAPACITY_LEAST 256u
#define CAPACITY_LARGE ((size_t)1 << 20)

void ration_kept_done(struct ration_kept *kept)
{
    free(kept->bytes);
    *kept = (struct ration_kept){0};
}

/* Twice as much each time, a quarter more each time where that is much. */
static bool make_room(struct ration_kept *kept, size_t wanted)
{
    size_t capacity = kept->capacity > 0 ? kept->capacity : CAPACITY_LEAST;
    char *bytes;

    if (wanted > INT32_MAX)
        return false;
    while (capacity < wanted)
        capacity += capacity < CAPACITY_LARGE ? capacity : capacity / 4;
    bytes = realloc(kept->bytes, capacity);
    if (bytes == NULL)
        return false;
    kept->bytes = bytes;
    kept->capacity = (uint32_t)capacity;
    return true;
}

bool ration_kept_append(struct ration_kept *kept, const char *bytes, size_t size)
{
    /* Bytes are moved only if at least as many are done with: each one is moved about once. */
    if (size > kept->capacity - kept->end && kept->begin >= ration_kept_size(kept)) {
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
