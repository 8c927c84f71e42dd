/*
 * redis_state: the text of a bucket, as take.lua reads and writes it: numbers, and the tag of its limit.
 */
#include "base/time.h"
#include "redis/limit_tag.h"
#include "redis/log_codec.h"
#include "redis/take_request.h"

#define NUMBERS_MAX  4
#define UNITS_PER_NS ((uint64_t)1 << RATION_FRAC_BITS)

/* Reads count numbers, which something other than a digit must follow. */
static bool read_numbers(const char **cursor, const char *end, uint64_t *numbers, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (!ration_redis_number_read(cursor, end, &numbers[i]))
            return false;
    return *cursor < end && (**cursor < '0' || **cursor > '9');
}

/* Whether seconds and nanoseconds form a time that a bucket can store. */
static bool is_valid_ns(const uint64_t *numbers)
{
    return ration_redis_numbers_fit(numbers[0], numbers[1], RATION_NS_PER_SECOND);
}

/* The same for seconds and a fraction in 2^-20 ns. */
static bool is_valid_time(const uint64_t *numbers)
{
    return ration_redis_numbers_fit(numbers[0], numbers[1], RATION_NS_PER_SECOND * UNITS_PER_NS);
}

static struct ration_time time_of(const uint64_t *numbers)
{
    return (struct ration_time){numbers[0] * RATION_NS_PER_SECOND + numbers[1] / UNITS_PER_NS,
                                numbers[1] % UNITS_PER_NS};
}

static uint64_t ns_of(const uint64_t *numbers)
{
    return numbers[0] * RATION_NS_PER_SECOND + numbers[1];
}

static size_t number_count(const struct ration_limit *limit)
{
    switch (limit->algorithm) {
    case RATION_BURST_RESERVE:
    case RATION_SLIDING_WINDOW:
        return 4;
    case RATION_FIXED_WINDOW:
        return 3;
    default:
        return limit->refill == RATION_REFILL_INTERVAL ? 3 : 2;
    }
}

/*
 * Whether a bucket of the limit can have these numbers. The spare tokens of a full bucket are not checked:
 * they have no meaning.
 */
static bool is_valid_state(const struct ration_limit *limit, const uint64_t *numbers,
                           uint64_t now_ns)
{
    switch (limit->algorithm) {
    case RATION_BURST_RESERVE:
        return is_valid_time(numbers) && is_valid_time(numbers + 2);
    case RATION_SLIDING_WINDOW:
        return is_valid_ns(numbers) && numbers[2] <= UINT32_MAX && numbers[3] <= UINT32_MAX;
    case RATION_FIXED_WINDOW:
        return is_valid_ns(numbers);
    default:
        if (limit->refill == RATION_REFILL_INTERVAL)
            return is_valid_ns(numbers) && (numbers[2] < limit->tokens || ns_of(numbers) <= now_ns);
        return is_valid_time(numbers);
    }
}

static void set_state(const uint64_t *numbers, struct ration_bucket_state *bucket)
{
    uint64_t time_ns = ns_of(numbers);

    switch (bucket->limit->algorithm) {
    case RATION_BURST_RESERVE:
        bucket->state.reserve.tats[0] = time_of(numbers);
        bucket->state.reserve.tats[1] = time_of(numbers + 2);
        break;
    case RATION_SLIDING_WINDOW:
        bucket->state.one.sliding = (struct ration_sliding_window){
            .end_ns = time_ns,
            .current_tokens = (uint32_t)numbers[2],
            .previous_tokens = (uint32_t)numbers[3],
        };
        break;
    case RATION_FIXED_WINDOW:
        bucket->state.one.fixed = (struct ration_fixed_window){time_ns, numbers[2]};
        break;
    default:
        if (bucket->limit->refill == RATION_REFILL_INTERVAL)
            bucket->state.one.interval = (struct ration_interval){time_ns, numbers[2]};
        else
            bucket->state.one.tat = time_of(numbers);
    }
}

/* Reads the time until which the bucket is blocked, if the text has one. */
static bool read_block(const char *cursor, const char *end, uint64_t *out_blocked_ns)
{
    uint64_t numbers[2];

    *out_blocked_ns = 0;
    if (*cursor != 'h')
        return true;
    cursor++;
    if (!read_numbers(&cursor, end, numbers, 2) || !is_valid_ns(numbers))
        return false;
    *out_blocked_ns = ns_of(numbers);
    return true;
}

bool ration_redis_state_read(const struct ration_redis_text *text, uint64_t now_ns,
                             struct ration_redis_log_codec *codec,
                             struct ration_bucket_state *bucket, uint64_t *out_blocked_ns)
{
    bool is_log = bucket->limit->algorithm == RATION_SLIDING_LOG;
    const char *cursor = text->bytes, *end;
    uint64_t numbers[NUMBERS_MAX] = {0};
    size_t runs_size;

    *out_blocked_ns = 0;
    if (text->bytes == NULL) {
        *bucket = ration_bucket_state_start(bucket, now_ns);
        if (is_log)
            ration_redis_log_codec_begin(codec, bucket);
        return true;
    }
    end = cursor + text->size;
    if (is_log)
        return ration_redis_log_codec_read(text->bytes, text->size, codec, bucket, &runs_size) &&
               read_block(cursor + runs_size, end, out_blocked_ns);
    if (!read_numbers(&cursor, end, numbers, number_count(bucket->limit)) ||
        !is_valid_state(bucket->limit, numbers, now_ns) || !read_block(cursor, end, out_blocked_ns))
        return false;
    set_state(numbers, bucket);
    return true;
}

static void write_ns(struct ration_output *text, uint64_t time_ns)
{
    ration_output_append_u64(text, time_ns / RATION_NS_PER_SECOND);
    ration_output_append_byte(text, ' ');
    ration_output_append_u64(text, time_ns % RATION_NS_PER_SECOND);
}

static void write_time(struct ration_output *text, struct ration_time time)
{
    ration_output_append_u64(text, time.ns / RATION_NS_PER_SECOND);
    ration_output_append_byte(text, ' ');
    ration_output_append_u64(text, time.ns % RATION_NS_PER_SECOND * UNITS_PER_NS + time.frac);
}

static void write_count(struct ration_output *text, uint64_t count)
{
    ration_output_append_byte(text, ' ');
    ration_output_append_u64(text, count);
}

void ration_redis_lease_carry(const struct ration_redis_text *text,
                              const struct ration_bucket_state *before, uint64_t now_ns,
                              struct ration_bucket_state *next,
                              struct ration_redis_annotations *annotations)
{
    struct ration_time now = ration_time_from_ns(now_ns);
    const char *cursor = text->bytes, *end;
    uint64_t tat[2], numbers[6];

    if (cursor == NULL || !ration_algorithm_is_gcra(next->limit))
        return;
    end = cursor + text->size;
    if (!read_numbers(&cursor, end, tat, 2) || *cursor++ != 'd' ||
        !read_numbers(&cursor, end, numbers, 6) || !is_valid_time(numbers) ||
        !is_valid_time(numbers + 2))
        return;
    annotations->has_lease = true;
    annotations->charged = time_of(numbers);
    annotations->min_tat = time_of(numbers + 2);
    annotations->returnable_since = now;
    /* If the bucket has less in use under the other limit, no more than that can stay charged. */
    if (ration_time_less(before->state.one.tat, annotations->min_tat))
        annotations->min_tat = before->state.one.tat;
    if (ration_time_less(now, annotations->min_tat))
        next->state.one.tat = ration_time_max(next->state.one.tat, annotations->min_tat);
}

void ration_redis_state_write(const struct ration_bucket_state *bucket,
                              const struct ration_redis_annotations *annotations,
                              struct ration_redis_argv *argv)
{
    struct ration_output *text = &argv->text;

    switch (bucket->limit->algorithm) {
    case RATION_SLIDING_LOG:
        ration_redis_log_codec_write(bucket, text);
        break;
    case RATION_BURST_RESERVE:
        write_time(text, bucket->state.reserve.tats[0]);
        ration_output_append_byte(text, ' ');
        write_time(text, bucket->state.reserve.tats[1]);
        break;
    case RATION_SLIDING_WINDOW:
        write_ns(text, bucket->state.one.sliding.end_ns);
        write_count(text, bucket->state.one.sliding.current_tokens);
        write_count(text, bucket->state.one.sliding.previous_tokens);
        break;
    case RATION_FIXED_WINDOW:
        write_ns(text, bucket->state.one.fixed.end_ns);
        write_count(text, bucket->state.one.fixed.count_tokens);
        break;
    default:
        if (bucket->limit->refill != RATION_REFILL_INTERVAL) {
            write_time(text, bucket->state.one.tat);
            break;
        }
        write_ns(text, bucket->state.one.interval.full_at_ns);
        write_count(text, bucket->state.one.interval.spare_tokens);
    }
    if (annotations->has_lease) {
        ration_output_append_text(text, " d");
        write_time(text, annotations->charged);
        ration_output_append_byte(text, ' ');
        write_time(text, annotations->min_tat);
        ration_output_append_byte(text, ' ');
        write_time(text, annotations->returnable_since);
    }
    if (annotations->blocked_ns > 0) {
        ration_output_append_text(text, " h");
        write_ns(text, annotations->blocked_ns);
    }
    ration_redis_limit_tag_write(bucket->limit, annotations->is_given, text);
    if (annotations->blocked_ns > 0)
        ration_output_append_byte(text, '!');
    ration_redis_argv_end(argv);
}
