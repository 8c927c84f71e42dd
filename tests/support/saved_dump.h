/*
 * saved_dump: dumps in memory, and limiters that are dumped and loaded.
 *
 * saved_unwrap() and saved_wrap() implement the chunks of docs/reference/dump-format.md independently, so that a test can
 * change the contents of a dump and give it correct checksums.
 */
#ifndef RATION_TESTS_SAVED_DUMP_H
#define RATION_TESTS_SAVED_DUMP_H

#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "ration/dump.h"

#define SAVED_PRELUDE_SIZE    16
#define SAVED_CHUNK_BYTES_MAX 32768

/* Offsets in the joined bytes of all chunks. */
#define SAVED_WALL_AT      0
#define SAVED_NOW_AT       8
#define SAVED_SEED_AT      16
#define SAVED_HASH_KIND_AT 48
#define SAVED_LIMITERS_AT  52
#define SAVED_KEYS_MAX_AT  56
#define SAVED_SETS_AT      64
#define SAVED_RULES_AT     68
#define SAVED_RULE_AT      72
#define SAVED_RULE_SIZE    72
#define SAVED_RECORD_SIZE  16

/* Owned by the caller: free(data). */
struct saved_bytes {
    uint8_t *data;
    size_t size;
    size_t max;
    size_t at;        /* of the reader */
    size_t piece_max; /* the most bytes that a read returns; 0: no bound */
};

static inline void saved_add(struct saved_bytes *bytes, const void *data, size_t size)
{
    if (size == 0)
        return;
    if (bytes->size + size > bytes->max) {
        bytes->max = 2 * bytes->max + size;
        bytes->data = realloc(bytes->data, bytes->max);
        if (bytes->data == NULL)
            abort();
    }
    memcpy(bytes->data + bytes->size, data, size);
    bytes->size += size;
}

static inline uint64_t saved_number(const uint8_t *bytes, size_t size)
{
    uint64_t number = 0;

    for (size_t i = size; i-- > 0;)
        number = number << 8 | bytes[i];
    return number;
}

static inline void saved_set_number(uint8_t *bytes, size_t size, uint64_t number)
{
    for (size_t i = 0; i < size; i++, number >>= 8)
        bytes[i] = (uint8_t)number;
}

static inline ration_status saved_write(void *context, const void *data, size_t size)
{
    saved_add(context, data, size);
    return RATION_OK;
}

static inline ration_status saved_read(void *context, void *data, size_t size, size_t *out_size)
{
    struct saved_bytes *bytes = context;
    size_t left = bytes->size - bytes->at;

    size = size < left ? size : left;
    if (bytes->piece_max > 0 && size > bytes->piece_max)
        size = bytes->piece_max;
    if (size > 0)
        memcpy(data, bytes->data + bytes->at, size);
    bytes->at += size;
    *out_size = size;
    return RATION_OK;
}

static inline struct saved_bytes saved_dump(ration_limiter *limiter, uint64_t now_ns)
{
    struct saved_bytes bytes = {0};

    if (ration_limiter_dump(limiter, now_ns, saved_write, &bytes) != RATION_OK)
        abort();
    return bytes;
}

static inline ration_status saved_load(const struct ration_limiter_options *options,
                                       struct saved_bytes *bytes, ration_limiter **out_limiter,
                                       struct ration_error *error)
{
    bytes->at = 0;
    return ration_limiter_load(options, saved_read, bytes, out_limiter, error);
}

/* The bytes of all chunks, one after the other. */
static inline struct saved_bytes saved_unwrap(const struct saved_bytes *dump)
{
    struct saved_bytes payload = {0};

    for (size_t at = SAVED_PRELUDE_SIZE; at < dump->size;) {
        size_t size = (size_t)saved_number(dump->data + at, 4);

        saved_add(&payload, dump->data + at + 4, size);
        at += 4 + size + 8;
    }
    return payload;
}

/* A dump of these bytes, with correct checksums. */
static inline struct saved_bytes saved_wrap(const uint8_t *payload, size_t size)
{
    static const uint8_t prelude[SAVED_PRELUDE_SIZE] = "ration\r\n\x01\0\0\0\x04\x03\x02\x01";
    struct saved_bytes dump = {0};
    uint64_t checksum = ration_hash_trusted(prelude, sizeof(prelude)).words[0];

    saved_add(&dump, prelude, sizeof(prelude));
    while (size > 0) {
        static _Thread_local uint8_t chunk[12 + SAVED_CHUNK_BYTES_MAX + 8];
        size_t part = size < SAVED_CHUNK_BYTES_MAX ? size : SAVED_CHUNK_BYTES_MAX;

        saved_set_number(chunk, 8, checksum);
        saved_set_number(chunk + 8, 4, part);
        memcpy(chunk + 12, payload, part);
        checksum = ration_hash_trusted(chunk, 12 + part).words[0];
        saved_set_number(chunk + 12 + part, 8, checksum);
        saved_add(&dump, chunk + 8, 4 + part + 8);
        payload += part;
        size -= part;
    }
    return dump;
}

#endif
