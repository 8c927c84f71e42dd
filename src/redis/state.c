/*
 * state: a bucket's text, as take.lua reads and writes it: numbers, and the limit they are of.
 */
#include "base/time.h"
#include "redis/ask.h"
#include "redis/shape.h"

#define NUMBERS_MAX 4
#define REST_PER_NS ((uint64_t)1 << RATION_FRAC_BITS)

/* A number with a blank behind it. False: there is none. */
static bool read_number(const struct ration_redis_text *text, size_t *at, uint64_t *out_number)
{
    size_t first = *at;

    *out_number = 0;
    for (; *at < text->size && text->bytes[*at] >= '0' && text->bytes[*at] <= '9'; ++*at)
        if (__builtin_mul_overflow(*out_number, 10, out_number) ||
            __builtin_add_overflow(*out_number, (uint64_t)(text->bytes[*at] - '0'), out_number))
            return false;
    return *at > first && *at < text->size && text->bytes[(*at)++] == ' ';
}

/* All numbers, and then something else. */
static bool read_numbers(const struct ration_redis_text *text, size_t *at, uint64_t *numbers,
                         size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (!read_number(text, at, &numbers[i]))
            return false;
    return *at < text->size && (text->bytes[*at] < '0' || text->bytes[*at] > '9');
}

static struct ration_time time_of(uint64_t seconds, uint64_t rest)
{
    return (struct ration_time){seconds * RATION_NS_PER_SECOND + rest / REST_PER_NS,
                                rest % REST_PER_NS};
}

static bool is_second(uint64_t seconds)
{
    return seconds <=
           RATION_NOW_MAX_NS / RATION_NS_PER_SECOND + RATION_SPAN_NS / RATION_NS_PER_SECOND;
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

static void adopt_numbers(const uint64_t *numbers, struct ration_any *any)
{
    uint64_t moment_ns = numbers[0] * RATION_NS_PER_SECOND + numbers[1];

    switch (any->limit->algorithm) {
    case RATION_BURST_RESERVE:
        any->state.reserve.tats[0] = time_of(numbers[0], numbers[1]);
        any->state.reserve.tats[1] = time_of(numbers[2], numbers[3]);
        break;
    case RATION_SLIDING_WINDOW:
        any->state.one.sliding = (struct ration_sliding_window){
            .end_ns = moment_ns,
            .current_tokens = (uint32_t)numbers[2],
            .previous_tokens = (uint32_t)numbers[3],
        };
        break;
    case RATION_FIXED_WINDOW:
        any->state.one.fixed = (struct ration_fixed_window){moment_ns, numbers[2]};
        break;
    default:
        if (any->limit->refill == RATION_REFILL_INTERVAL)
            any->state.one.interval = (struct ration_interval){moment_ns, numbers[2]};
        else
            any->state.one.tat = time_of(numbers[0], numbers[1]);
    }
}

/* Until when it is held, if it says so. */
static bool read_hold(const struct ration_redis_text *text, size_t at, uint64_t *out_hold_ns)
{
    uint64_t numbers[2];

    *out_hold_ns = 0;
    if (text->bytes[at] != 'h')
        return true;
    at++;
    if (!read_numbers(text, &at, numbers, 2) || !is_second(numbers[0]) ||
        numbers[1] >= RATION_NS_PER_SECOND)
        return false;
    *out_hold_ns = numbers[0] * RATION_NS_PER_SECOND + numbers[1];
    return true;
}

bool ration_redis_state_read(const struct ration_redis_text *text, uint64_t now_ns,
                             struct ration_redis_runs *runs, struct ration_any *any,
                             uint64_t *out_hold_ns)
{
    bool is_log = any->limit->algorithm == RATION_SLIDING_LOG;
    uint64_t numbers[NUMBERS_MAX] = {0};
    size_t at = 0;

    *out_hold_ns = 0;
    if (text->bytes == NULL) {
        *any = ration_any_start(any, now_ns);
        if (is_log)
            ration_redis_runs_begin(runs, any);
        return true;
    }
    if (is_log)
        return ration_redis_runs_read(text->bytes, text->size, runs, any, &at) &&
               read_hold(text, at, out_hold_ns);
    if (!read_numbers(text, &at, numbers, number_count(any->limit)) || !is_second(numbers[0]) ||
        (any->limit->algorithm == RATION_BURST_RESERVE && !is_second(numbers[2])) ||
        !read_hold(text, at, out_hold_ns))
        return false;
    adopt_numbers(numbers, any);
    return true;
}

static void write_moment(struct ration_output *text, uint64_t moment_ns)
{
    ration_output_append_u64(text, moment_ns / RATION_NS_PER_SECOND);
    ration_output_append_byte(text, ' ');
    ration_output_append_u64(text, moment_ns % RATION_NS_PER_SECOND);
}

static void write_time(struct ration_output *text, struct ration_time time)
{
    ration_output_append_u64(text, time.ns / RATION_NS_PER_SECOND);
    ration_output_append_byte(text, ' ');
    ration_output_append_u64(text, time.ns % RATION_NS_PER_SECOND * REST_PER_NS + time.frac);
}

static void write_count(struct ration_output *text, uint64_t count)
{
    ration_output_append_byte(text, ' ');
    ration_output_append_u64(text, count);
}

void ration_redis_lease_carry(const struct ration_redis_text *text, const struct ration_limit *next,
                              uint64_t now_ns, struct ration_redis_beside *beside)
{
    uint64_t tat[2], numbers[6];
    size_t at = 0;

    if (text->bytes == NULL || !ration_algorithm_is_gcra(next) ||
        !read_numbers(text, &at, tat, 2) || text->bytes[at++] != 'd' ||
        !read_numbers(text, &at, numbers, 6) || !is_second(numbers[0]) || !is_second(numbers[2]))
        return;
    beside->has_lease = true;
    beside->charged = time_of(numbers[0], numbers[1]);
    beside->least = time_of(numbers[2], numbers[3]);
    beside->since = ration_time_from_ns(now_ns);
}

void ration_redis_state_write(const struct ration_any *any,
                              const struct ration_redis_beside *beside,
                              struct ration_redis_words *words)
{
    struct ration_output *text = &words->text;

    switch (any->limit->algorithm) {
    case RATION_SLIDING_LOG:
        ration_redis_runs_write(any, text);
        break;
    case RATION_BURST_RESERVE:
        write_time(text, any->state.reserve.tats[0]);
        ration_output_append_byte(text, ' ');
        write_time(text, any->state.reserve.tats[1]);
        break;
    case RATION_SLIDING_WINDOW:
        write_moment(text, any->state.one.sliding.end_ns);
        write_count(text, any->state.one.sliding.current_tokens);
        write_count(text, any->state.one.sliding.previous_tokens);
        break;
    case RATION_FIXED_WINDOW:
        write_moment(text, any->state.one.fixed.end_ns);
        write_count(text, any->state.one.fixed.count_tokens);
        break;
    default:
        if (any->limit->refill != RATION_REFILL_INTERVAL) {
            write_time(text, any->state.one.tat);
            break;
        }
        write_moment(text, any->state.one.interval.full_at_ns);
        write_count(text, any->state.one.interval.spare_tokens);
    }
    if (beside->has_lease) {
        ration_output_append_text(text, " d");
        write_time(text, beside->charged);
        ration_output_append_byte(text, ' ');
        write_time(text, beside->least);
        ration_output_append_byte(text, ' ');
        write_time(text, beside->since);
    }
    if (beside->hold_ns > 0) {
        ration_output_append_text(text, " h");
        write_moment(text, beside->hold_ns);
    }
    ration_redis_shape_write(any->limit, beside->is_given, text);
    if (beside->hold_ns > 0)
        ration_output_append_byte(text, '!');
    ration_redis_word_end(words);
}
