/*
 * chunks: a stream of bytes in chunks whose checksums are verified before their bytes are used.
 *
 *     +---------------------------+--------------------------------+--------- ...
 *     | prelude: magic 8,         | chunk: size 4, bytes,          | chunk
 *     | version 4, byte order 4   | checksum 8                     |
 *     +---------------------------+--------------------------------+--------- ...
 *
 * A chunk's checksum covers the previous checksum (for the first chunk, that of the prelude), its size and its
 * bytes: so every change, loss or move of data is detected. A chunk may end anywhere. Numbers are little
 * endian.
 *
 * The caller need not check the status after each number: the first failure is remembered, nothing is written
 * after it, and numbers read after it are 0.
 */
#ifndef RATION_LIMITER_SNAPSHOT_CHUNKS_H
#define RATION_LIMITER_SNAPSHOT_CHUNKS_H

#include "base/time.h"
#include "ration/dump.h"

#define RATION_CHUNKS_VERSION    1
#define RATION_CHUNK_BYTES_MAX   32768
#define RATION_CHUNK_BEFORE_SIZE 12 /* in memory: the previous checksum, and the size */
#define RATION_CHUNK_AFTER_SIZE  8  /* the checksum */

/* Memory for one chunk. */
struct ration_chunk {
    uint64_t checksum; /* checksum of the previous chunk */
    uint32_t size;
    uint8_t bytes[RATION_CHUNK_BEFORE_SIZE + RATION_CHUNK_BYTES_MAX + RATION_CHUNK_AFTER_SIZE];
};

struct ration_chunk_writer {
    ration_writer *write;
    void *context;
    ration_status status;
    struct ration_chunk chunk;
};

struct ration_chunk_reader {
    ration_reader *read;
    void *context;
    ration_status status;
    const char *reason; /* the reason for status. Static storage */
    uint32_t used;      /* bytes of the chunk that were read */
    struct ration_chunk chunk;
};

/* Writes the prelude. */
void ration_chunks_create(struct ration_chunk_writer *writer, ration_writer *write, void *context);
void ration_chunks_put_bytes(struct ration_chunk_writer *writer, const void *bytes, size_t size);
void ration_chunks_put(struct ration_chunk_writer *writer, uint64_t number, size_t size);
void ration_chunks_put_time(struct ration_chunk_writer *writer, struct ration_time time);

/* Writes the last chunk. Returns the status of all writes. */
ration_status ration_chunks_finish(struct ration_chunk_writer *writer);

/* Reads the prelude. */
void ration_chunks_open(struct ration_chunk_reader *reader, ration_reader *read, void *context);
void ration_chunks_get_bytes(struct ration_chunk_reader *reader, void *bytes, size_t size);
uint64_t ration_chunks_get(struct ration_chunk_reader *reader, size_t size);
struct ration_time ration_chunks_get_time(struct ration_chunk_reader *reader);

/* Whether all bytes of the current chunk were read. */
static inline bool ration_chunks_is_used(const struct ration_chunk_reader *reader)
{
    return reader->used == reader->chunk.size;
}

/* Records that the data is invalid, and why. An earlier failure is not replaced. */
void ration_chunks_refuse(struct ration_chunk_reader *reader, const char *reason);

#endif
