/*
 * kept: bytes that a connection must keep. Memory grows with what is appended and goes when all
 * is dropped.
 */
#include <stdlib.h>
#include <string.h>

#include "server/loop_parts.h"

#define CAPACITY_LEAST 256u
#define CAPACITY_LARGE ((size_t)1 << 20)

/*
 * A connection may have as much as is left over, so that whatever a few of them hold, as much again is
 * free for others: one has at most half of the budget, two a third each.
 */
static bool may_grow(const struct ration_connection *connection, uint64_t used_bytes,
                     uint64_t unauthenticated_bytes, size_t own_bytes)
{
    uint64_t max = connection->loop->loops->limits.connection_memory_max;
    uint64_t left = used_bytes < max ? max - used_bytes : 0;

    if (connection->ending_after != RATION_ENDING_NONE)
        return true; /* its last reply */
    if (used_bytes > max)
        return false;
    if (connection->is_unauthenticated) { /* however many there are, most is left for the others */
        max /= RATION_UNAUTHENTICATED_ONE_IN;
        used_bytes = unauthenticated_bytes;
        left = used_bytes < max ? (max - used_bytes) / RATION_UNAUTHENTICATED_ONE_IN : 0;
    }
    return used_bytes <= max && (own_bytes <= RATION_CONNECTION_MEMORY_LOW || own_bytes <= left);
}

/* Adds to the sum of all unauthenticated connections, if this is one, and returns it. more wraps if it is less. */
static uint64_t add_unauthenticated(const struct ration_connection *connection, size_t more)
{
    uint64_t *sum = &connection->loop->loops->unauthenticated_bytes;

    return connection->is_unauthenticated
               ? __atomic_add_fetch(sum, (uint64_t)more, __ATOMIC_RELAXED)
               : 0;
}

bool ration_connection_account(struct ration_connection *connection, size_t *accounted_bytes,
                               size_t bytes)
{
    uint64_t *all = &connection->loop->loops->memory_bytes;
    size_t before = *accounted_bytes, more = bytes - before; /* wraps if it is less */
    uint64_t used, unauthenticated;

    if (more == 0)
        return true;
    /* relaxed: nothing but the sum itself depends on it */
    used = __atomic_add_fetch(all, (uint64_t)more, __ATOMIC_RELAXED);
    unauthenticated = add_unauthenticated(connection, more);
    if (bytes > before &&
        !may_grow(connection, used, unauthenticated, connection->memory_bytes + more)) {
        __atomic_sub_fetch(all, (uint64_t)more, __ATOMIC_RELAXED);
        add_unauthenticated(connection, 0 - more);
        return false;
    }
    connection->memory_bytes += more;
    *accounted_bytes = bytes;
    return true;
}

void ration_kept_done(struct ration_connection *connection, struct ration_kept *kept)
{
    size_t accounted = kept->capacity;

    if (kept->is_secret && kept->bytes != NULL)
        explicit_bzero(kept->bytes, kept->capacity);
    free(kept->bytes);
    (void)ration_connection_account(connection, &accounted, 0);
    *kept = (struct ration_kept){0};
}

/* Twice as much each time, a quarter more each time where that is much. */
static enum ration_ending make_room(struct ration_connection *connection, struct ration_kept *kept,
                                    size_t wanted)
{
    size_t capacity = kept->capacity > 0 ? kept->capacity : CAPACITY_LEAST;
    size_t accounted = kept->capacity;
    char *bytes;

    if (wanted > INT32_MAX)
        return RATION_ENDING_MEMORY;
    while (capacity < wanted)
        capacity += capacity < CAPACITY_LARGE ? capacity : capacity / 4;
    if (!ration_connection_account(connection, &accounted, capacity))
        return RATION_ENDING_MEMORY_MAX;
    bytes = kept->is_secret ? malloc(capacity) : realloc(kept->bytes, capacity);
    if (bytes == NULL) {
        (void)ration_connection_account(connection, &accounted, kept->capacity);
        return RATION_ENDING_MEMORY;
    }
    if (kept->is_secret && kept->bytes != NULL) { /* realloc() would leave a copy behind */
        memcpy(bytes, kept->bytes, kept->end);
        explicit_bzero(kept->bytes, kept->capacity);
        free(kept->bytes);
    }
    kept->bytes = bytes;
    kept->capacity = (uint32_t)capacity;
    return RATION_ENDING_NONE;
}

enum ration_ending ration_kept_append(struct ration_connection *connection,
                                      struct ration_kept *kept, const char *bytes, size_t size)
{
    enum ration_ending ending;

    /* Bytes are moved only if at least as many are done with: each one is moved about once. */
    if (size > kept->capacity - kept->end && kept->begin >= ration_kept_size(kept)) {
        if (kept->begin > 0)
            memmove(kept->bytes, kept->bytes + kept->begin, ration_kept_size(kept));
        kept->end -= kept->begin;
        kept->begin = 0;
    }
    if (size > kept->capacity - kept->end) {
        ending = make_room(connection, kept, kept->end + size);
        if (ending != RATION_ENDING_NONE)
            return ending;
    }
    memcpy(kept->bytes + kept->end, bytes, size);
    kept->end += (uint32_t)size;
    return RATION_ENDING_NONE;
}

void ration_kept_drop(struct ration_connection *connection, struct ration_kept *kept, size_t size)
{
    kept->begin += (uint32_t)size;
    if (kept->begin == kept->end)
        ration_kept_done(connection, kept);
}
