/*
 * buffer: input and output bytes that a connection must buffer. Memory grows as bytes are appended and is freed
 * when all of them are dropped.
 */
#include <stdlib.h>
#include <string.h>

#include "server/net/loop_parts.h"

#define CAPACITY_MIN   256u
#define CAPACITY_LARGE ((size_t)1 << 20)

/*
 * A connection may use as much memory as is still free, so that a few of them leave as much to others as each
 * uses: one connection uses at most half of the budget, two a third each.
 */
static bool may_grow(const struct ration_connection *connection, uint64_t used_bytes,
                     uint64_t unauthenticated_bytes, size_t own_bytes)
{
    uint64_t max = connection->loop->loops->limits.connection_memory_max;
    uint64_t left = used_bytes < max ? max - used_bytes : 0;

    if (connection->close_after != RATION_CLOSE_REASON_NONE)
        return true; /* the last reply is always buffered */
    if (used_bytes > max)
        return false;
    if (connection->is_unauthenticated) { /* most is left for authenticated ones */
        max /= RATION_UNAUTHENTICATED_ONE_IN;
        used_bytes = unauthenticated_bytes;
        left = used_bytes < max ? (max - used_bytes) / RATION_UNAUTHENTICATED_ONE_IN : 0;
    }
    return used_bytes <= max && (own_bytes <= RATION_CONNECTION_MEMORY_LOW || own_bytes <= left);
}

/* Adds more to the sum of unauthenticated connections and returns it; 0 if this is none. more wraps for a decrease. */
static uint64_t add_unauthenticated(const struct ration_connection *connection, size_t more)
{
    uint64_t *sum = &connection->loop->loops->unauthenticated_bytes;

    return connection->is_unauthenticated
               ? __atomic_add_fetch(sum, (uint64_t)more, __ATOMIC_RELAXED)
               : 0;
}

bool ration_buffer_account(struct ration_connection *connection, size_t *accounted_bytes,
                           size_t bytes)
{
    uint64_t *all = &connection->loop->loops->memory_bytes;
    size_t before = *accounted_bytes, more = bytes - before; /* wraps if bytes < before */
    uint64_t used, unauthenticated;

    if (more == 0)
        return true;
    /* relaxed: no other data is published with the sum */
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

void ration_buffer_done(struct ration_connection *connection, struct ration_buffer *buffer)
{
    size_t accounted = buffer->capacity;

    if (buffer->is_secret && buffer->bytes != NULL)
        explicit_bzero(buffer->bytes, buffer->capacity);
    free(buffer->bytes);
    (void)ration_buffer_account(connection, &accounted, 0);
    *buffer = (struct ration_buffer){0};
}

/* Doubles the capacity; from CAPACITY_LARGE on, adds a quarter at a time. */
static enum ration_close_reason grow_buffer(struct ration_connection *connection,
                                            struct ration_buffer *buffer, size_t min_capacity)
{
    size_t capacity = buffer->capacity > 0 ? buffer->capacity : CAPACITY_MIN;
    size_t accounted = buffer->capacity;
    char *bytes;

    if (min_capacity > INT32_MAX)
        return RATION_CLOSE_REASON_MEMORY;
    while (capacity < min_capacity)
        capacity += capacity < CAPACITY_LARGE ? capacity : capacity / 4;
    if (!ration_buffer_account(connection, &accounted, capacity))
        return RATION_CLOSE_REASON_MAX_CONNECTION_MEMORY;
    bytes = buffer->is_secret ? malloc(capacity) : realloc(buffer->bytes, capacity);
    if (bytes == NULL) {
        (void)ration_buffer_account(connection, &accounted, buffer->capacity);
        return RATION_CLOSE_REASON_MEMORY;
    }
    if (buffer->is_secret && buffer->bytes != NULL) { /* realloc() would leave a copy behind */
        memcpy(bytes, buffer->bytes, buffer->end);
        explicit_bzero(buffer->bytes, buffer->capacity);
        free(buffer->bytes);
    }
    buffer->bytes = bytes;
    buffer->capacity = (uint32_t)capacity;
    return RATION_CLOSE_REASON_NONE;
}

enum ration_close_reason ration_buffer_append(struct ration_connection *connection,
                                              struct ration_buffer *buffer, const char *bytes,
                                              size_t size)
{
    enum ration_close_reason close_reason;

    /* Bytes are moved only if at least as many before them were dropped, so each is moved about once. */
    if (size > buffer->capacity - buffer->end && buffer->begin >= ration_loop_buffer_size(buffer)) {
        if (buffer->begin > 0)
            memmove(buffer->bytes, buffer->bytes + buffer->begin, ration_loop_buffer_size(buffer));
        buffer->end -= buffer->begin;
        buffer->begin = 0;
    }
    if (size > buffer->capacity - buffer->end) {
        close_reason = grow_buffer(connection, buffer, buffer->end + size);
        if (close_reason != RATION_CLOSE_REASON_NONE)
            return close_reason;
    }
    memcpy(buffer->bytes + buffer->end, bytes, size);
    buffer->end += (uint32_t)size;
    return RATION_CLOSE_REASON_NONE;
}

void ration_buffer_drop(struct ration_connection *connection, struct ration_buffer *buffer,
                        size_t size)
{
    buffer->begin += (uint32_t)size;
    if (buffer->begin == buffer->end)
        ration_buffer_done(connection, buffer);
}
