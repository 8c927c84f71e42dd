#include "redis/log_codec.h"

#include "limiter/log_ring.h"
#include "ration/limit.h"

/* Reading --------------------------------------------------------------------------------------- */

static bool read_run(const char **cursor, const char *end, uint64_t *out_expires_ns,
                     uint64_t *out_count)
{
    uint64_t seconds, ns;

    if (!ration_redis_number_read(cursor, end, &seconds) ||
        !ration_redis_number_read(cursor, end, &ns) ||
        !ration_redis_number_read(cursor, end, out_count) ||
        !ration_redis_numbers_fit(seconds, ns, RATION_NS_PER_SECOND))
        return false;
    *out_expires_ns = seconds * RATION_NS_PER_SECOND + ns;
    return true;
}

static void rewind_runs(struct ration_redis_log_codec *codec)
{
    codec->next = codec->begin;
    codec->first_index = codec->runless_count;
    codec->run_tokens = 0;
}

/* The ring starts at its head, so the index is the number of older tokens. */
static uint64_t read_expiry(const struct ration_log_ring_reader *reader, uint64_t index)
{
    struct ration_redis_log_codec *codec =
        (struct ration_redis_log_codec *)(uintptr_t)reader->context;

    if (index < codec->runless_count)
        return 0;
    if (index < codec->first_index)
        rewind_runs(codec);
    while (index >= codec->first_index + codec->run_tokens && codec->next < codec->end) {
        codec->first_index += codec->run_tokens;
        if (!read_run(&codec->next, codec->end, &codec->run_expires_ns, &codec->run_tokens))
            break; /* cannot happen: ration_redis_log_codec_read() has checked the text */
    }
    return codec->run_expires_ns;
}

static void attach_log(struct ration_redis_log_codec *codec, struct ration_bucket_state *bucket,
                       uint64_t newest_ns)
{
    bucket->state.log = (struct ration_log_ring_head){.newest_ns = newest_ns, .head_index = 0};
    bucket->reader = (struct ration_log_ring_reader){.read = read_expiry, .context = codec};
    bucket->write = (struct ration_log_ring_write){0};
}

bool ration_redis_log_codec_read(const char *text, size_t size,
                                 struct ration_redis_log_codec *codec,
                                 struct ration_bucket_state *bucket, size_t *out_size)
{
    const char *cursor = text, *end = text + size;
    uint64_t token_count = 0, newest_ns = 0;

    while (cursor < end && *cursor >= '0' && *cursor <= '9') {
        uint64_t expires_ns, count;

        if (!read_run(&cursor, end, &expires_ns, &count) || expires_ns < newest_ns ||
            count > bucket->limit->tokens - token_count)
            return false;
        newest_ns = expires_ns;
        token_count += count;
    }
    if (cursor == text || cursor == end)
        return false;
    *codec = (struct ration_redis_log_codec){
        .begin = text, .end = cursor, .runless_count = bucket->limit->tokens - token_count};
    rewind_runs(codec);
    attach_log(codec, bucket, newest_ns);
    *out_size = (size_t)(cursor - text);
    return true;
}

void ration_redis_log_codec_begin(struct ration_redis_log_codec *codec,
                                  struct ration_bucket_state *bucket)
{
    *codec = (struct ration_redis_log_codec){
        .runless_count = bucket->limit->tokens - bucket->write.count,
        .first_index = bucket->limit->tokens - bucket->write.count,
        .run_tokens = bucket->write.count,
        .run_expires_ns = bucket->write.moment_ns,
    };
    attach_log(codec, bucket, bucket->state.log.newest_ns);
}

/* Writing --------------------------------------------------------------------------------------- */

static void write_run(struct ration_output *text, uint64_t expires_ns, uint64_t count)
{
    ration_output_append_u64(text, expires_ns / RATION_NS_PER_SECOND);
    ration_output_append_byte(text, ' ');
    ration_output_append_u64(text, expires_ns % RATION_NS_PER_SECOND);
    ration_output_append_byte(text, ' ');
    ration_output_append_u64(text, count);
}

void ration_redis_log_codec_write(const struct ration_bucket_state *bucket,
                                  struct ration_output *text)
{
    uint64_t expires_ns = 0, count = 0;
    bool is_first = true;

    for (uint64_t i = 0; i <= bucket->limit->tokens; i++) {
        uint64_t next_ns =
            i < bucket->limit->tokens ? ration_log_ring_moment(bucket, i) : UINT64_MAX;

        if (next_ns != expires_ns && expires_ns > 0) {
            if (!is_first)
                ration_output_append_byte(text, ' ');
            write_run(text, expires_ns, count);
            is_first = false;
        }
        count = next_ns == expires_ns ? count + 1 : 1;
        expires_ns = next_ns;
    }
    if (is_first)
        write_run(text, 0, 0);
}
