#include "limiter/snapshot/chunks.h"

#include <string.h>

#include "base/hash.h"

#define PRELUDE_SIZE    16
#define BYTE_ORDER_MARK 0x01020304u

static const uint8_t magic[8] = {'r', 'a', 't', 'i', 'o', 'n', '\r', '\n'};

static void store_number(uint8_t *bytes, uint64_t number, size_t size)
{
    for (size_t i = 0; i < size; i++)
        bytes[i] = (uint8_t)(number >> (8 * i));
}

static uint64_t load_number(const uint8_t *bytes, size_t size)
{
    uint64_t number = 0;

    for (size_t i = 0; i < size; i++)
        number |= (uint64_t)bytes[i] << (8 * i);
    return number;
}

static uint64_t checksum_of(const void *bytes, size_t size)
{
    return ration_hash_trusted(bytes, size).words[0];
}

/* Computes the checksum of a chunk whose bytes and size are filled in. */
static uint64_t chunk_checksum(struct ration_chunk *chunk)
{
    store_number(chunk->bytes, chunk->checksum, 8);
    store_number(chunk->bytes + 8, chunk->size, 4);
    return checksum_of(chunk->bytes, RATION_CHUNK_BEFORE_SIZE + chunk->size);
}

void ration_chunks_create(struct ration_chunk_writer *writer, ration_writer *write, void *context)
{
    uint8_t prelude[PRELUDE_SIZE];

    memcpy(prelude, magic, sizeof(magic));
    store_number(prelude + 8, RATION_CHUNKS_VERSION, 4);
    store_number(prelude + 12, BYTE_ORDER_MARK, 4);
    writer->write = write;
    writer->context = context;
    writer->chunk.checksum = checksum_of(prelude, sizeof(prelude));
    writer->chunk.size = 0;
    writer->status = write(context, prelude, sizeof(prelude));
}

static void flush_chunk(struct ration_chunk_writer *writer)
{
    struct ration_chunk *chunk = &writer->chunk;

    if (chunk->size == 0 || writer->status != RATION_OK)
        return;
    chunk->checksum = chunk_checksum(chunk);
    store_number(chunk->bytes + RATION_CHUNK_BEFORE_SIZE + chunk->size, chunk->checksum, 8);
    /* starting at the size: the previous checksum was written with the previous chunk */
    writer->status =
        writer->write(writer->context, chunk->bytes + 8, 4 + chunk->size + RATION_CHUNK_AFTER_SIZE);
    chunk->size = 0;
}

void ration_chunks_put_bytes(struct ration_chunk_writer *writer, const void *bytes, size_t size)
{
    struct ration_chunk *chunk = &writer->chunk;
    const uint8_t *from = bytes;

    for (size_t i = 0; i < size && writer->status == RATION_OK; i++) {
        chunk->bytes[RATION_CHUNK_BEFORE_SIZE + chunk->size++] = from[i];
        if (chunk->size == RATION_CHUNK_BYTES_MAX)
            flush_chunk(writer);
    }
}

void ration_chunks_put(struct ration_chunk_writer *writer, uint64_t number, size_t size)
{
    uint8_t bytes[8];

    store_number(bytes, number, size);
    ration_chunks_put_bytes(writer, bytes, size);
}

void ration_chunks_put_time(struct ration_chunk_writer *writer, struct ration_time time)
{
    ration_chunks_put(writer, time.ns, 8);
    ration_chunks_put(writer, time.frac, 4);
}

ration_status ration_chunks_finish(struct ration_chunk_writer *writer)
{
    flush_chunk(writer);
    return writer->status;
}

void ration_chunks_refuse(struct ration_chunk_reader *reader, const char *reason)
{
    if (reader->status != RATION_OK)
        return;
    reader->status = RATION_EINVAL;
    reader->reason = reason;
}

/* Reads exactly size bytes. */
static bool read_bytes(struct ration_chunk_reader *reader, uint8_t *bytes, size_t size)
{
    for (size_t got = 0; got < size && reader->status == RATION_OK;) {
        size_t count = 0;
        ration_status status = reader->read(reader->context, bytes + got, size - got, &count);

        if (status != RATION_OK) {
            reader->status = status;
            reader->reason = "it could not be read";
        } else if (count == 0 || count > size - got) {
            ration_chunks_refuse(reader, "it is truncated");
        }
        got += count;
    }
    return reader->status == RATION_OK;
}

void ration_chunks_open(struct ration_chunk_reader *reader, ration_reader *read, void *context)
{
    uint8_t prelude[PRELUDE_SIZE];

    reader->read = read;
    reader->context = context;
    reader->status = RATION_OK;
    reader->reason = NULL;
    reader->used = 0;
    reader->chunk.size = 0;
    if (!read_bytes(reader, prelude, sizeof(prelude)))
        return;
    if (memcmp(prelude, magic, sizeof(magic)) != 0)
        ration_chunks_refuse(reader, "it does not start with the header of a dump");
    if (load_number(prelude + 12, 4) != BYTE_ORDER_MARK)
        ration_chunks_refuse(reader, "its byte order is wrong");
    if (load_number(prelude + 8, 4) != RATION_CHUNKS_VERSION)
        ration_chunks_refuse(reader, "it has a format version that this release does not know");
    reader->chunk.checksum = checksum_of(prelude, sizeof(prelude));
}

static void next_chunk(struct ration_chunk_reader *reader)
{
    struct ration_chunk *chunk = &reader->chunk;
    uint8_t size[4];
    uint64_t expected;

    if (!read_bytes(reader, size, sizeof(size)))
        return;
    reader->used = 0;
    chunk->size = (uint32_t)load_number(size, sizeof(size));
    if (chunk->size == 0 || chunk->size > RATION_CHUNK_BYTES_MAX) {
        chunk->size = 0;
        ration_chunks_refuse(reader, "it is damaged: no chunk has such a size");
        return;
    }
    if (!read_bytes(reader, chunk->bytes + RATION_CHUNK_BEFORE_SIZE,
                    chunk->size + RATION_CHUNK_AFTER_SIZE)) {
        chunk->size = 0;
        return;
    }
    expected = load_number(chunk->bytes + RATION_CHUNK_BEFORE_SIZE + chunk->size, 8);
    chunk->checksum = chunk_checksum(chunk);
    if (chunk->checksum != expected) {
        chunk->size = 0;
        ration_chunks_refuse(reader, "it is damaged: a checksum is wrong");
    }
}

void ration_chunks_get_bytes(struct ration_chunk_reader *reader, void *bytes, size_t size)
{
    uint8_t *to = bytes;

    for (size_t i = 0; i < size; i++) {
        if (reader->status == RATION_OK && ration_chunks_is_used(reader))
            next_chunk(reader);
        to[i] = reader->status == RATION_OK
                    ? reader->chunk.bytes[RATION_CHUNK_BEFORE_SIZE + reader->used++]
                    : 0;
    }
}

uint64_t ration_chunks_get(struct ration_chunk_reader *reader, size_t size)
{
    uint8_t bytes[8];

    ration_chunks_get_bytes(reader, bytes, size);
    return reader->status == RATION_OK ? load_number(bytes, size) : 0;
}

struct ration_time ration_chunks_get_time(struct ration_chunk_reader *reader)
{
    struct ration_time time;

    time.ns = ration_chunks_get(reader, 8);
    time.frac = ration_chunks_get(reader, 4);
    if (time.frac >= RATION_FRAC_COUNT) {
        ration_chunks_refuse(reader, "it has a fraction of a nanosecond that is too large");
        time.frac = 0;
    }
    return time;
}
