/*
 * state: a bucket's text, as take.lua reads and writes it: numbers, and the limit they are of.
 */
#include "base/time.h"
#include "redis/ask.h"
#include "redis/numbers.h"
#include "redis/shape.h"

#define NUMBERS_MAX 4
#define REST_PER_NS ((uint64_t)1 << RATION_FRAC_BITS)

/* All numbers, and then something else. */
static bool read_numbers(const char **at, const char *end, uint64_t *numbers, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (!ration_redis_number_read(at, end, &numbers[i]))
            return false;
    return *at < end && (**at < '0' || **at > '9');
}

/* Of seconds and nanoseconds. */
static bool is_moment(const uint64_t *numbers)
{
    return ration_redis_numbers_fit(numbers[0], numbers[1], RATION_NS_PER_SECOND);
}

/* Of seconds and their rest. */
static bool is_time(const uint64_t *numbers)
{
    return ration_redis_numbers_fit(numbers[0], numbers[1], RATION_NS_PER_SECOND * REST_PER_NS);
}

static struct ration_time time_of(const uint64_t *numbers)
{
    return (struct ration_time){numbers[0] * RATION_NS_PER_SECOND + numbers[1] / REST_PER_NS,
                                numbers[1] % REST_PER_NS};
}

static uint64_t moment_of(const uint64_t *numbers)
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

/* Whether a bucket of the limit can be so. One that is full tells nothing by what it has to spare. */
static bool is_state(const struct ration_limit *limit, const uint64_t *numbers, uint64_t now_ns)
{
    switch (limit->algorithm) {
    case RATION_BURST_RESERVE:
        return is_time(numbers) && is_time(numbers + 2);
    case RATION_SLIDING_WINDOW:
        return is_moment(numbers) && numbers[2] <= UINT32_MAX && numbers[3] <= UINT32_MAX;
    case RATION_FIXED_WINDOW:
        return is_moment(numbers);
    default:
        if (limit->refill == RATION_REFILL_INTERVAL)
            return is_moment(numbers) &&
                   (numbers[2] < limit->tokens || moment_of(numbers) <= now_ns);
        return is_time(numbers);
    }
}

static void adopt_numbers(const uint64_t *numbers, struct ration_any *any)
{
    uint64_t moment_ns = moment_of(numbers);

    switch (any->limit->algorithm) {
    case RATION_BURST_RESERVE:
        any->state.reserve.tats[0] = time_of(numbers);
        any->state.reserve.tats[1] = time_of(numbers + 2);
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
            any->state.one.tat = time_of(numbers);
    }
}

/* Until when it is held, if it says so. */
static bool read_hold(const char *at, const char *end, uint64_t *out_hold_ns)
{
    uint64_t numbers[2];

    *out_hold_ns = 0;
    if (*at != 'h')
        return true;
    at++;
    if (!read_numbers(&at, end, numbers, 2) || !is_moment(numbers))
        return false;
    *out_hold_ns = moment_of(numbers);
    return true;
}

bool ration_redis_state_read(const struct ration_redis_text *text, uint64_t now_ns,
                             struct ration_redis_runs *runs, struct ration_any *any,
                             uint64_t *out_hold_ns)
{
    bool is_log = any->limit->algorithm == RATION_SLIDING_LOG;
    const char *at = text->bytes, *end;
    uint64_t numbers[NUMBERS_MAX] = {0};
    size_t runs_size;

    *out_hold_ns = 0;
    if (text->bytes == NULL) {
        *any = ration_any_start(any, now_ns);
        if (is_log)
            ration_redis_runs_begin(runs, any);
        return true;
    }
    end = at + text->size;
    if (is_log)
        return ration_redis_runs_read(text->bytes, text->size, runs, any, &runs_size) &&
               read_hold(at + runs_size, end, out_hold_ns);
    if (!read_numbers(&at, end, numbers, number_count(any->limit)) ||
        !is_state(any->limit, numbers, now_ns) || !read_hold(at, end, out_hold_ns))
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

void ration_redis_lease_carry(const struct ration_redis_text *text, const struct ration_any *before,
                              uint64_t now_ns, struct ration_any *next,
                              struct ration_redis_beside *beside)
{
    struct ration_time now = ration_time_from_ns(now_ns);
    const char *at = text->bytes, *end;
    uint64_t tat[2], numbers[6];

    if (at == NULL || !ration_algorithm_is_gcra(next->limit))
        return;
    end = at + text->size;
    if (!read_numbers(&at, end, tat, 2) || *at++ != 'd' || !read_numbers(&at, end, numbers, 6) ||
        !is_time(numbers) || !is_time(numbers + 2))
        return;
    beside->has_lease = true;
    beside->charged = time_of(numbers);
    beside->least = time_of(numbers + 2);
    beside->since = now;
    /* Of a bucket that owes less by another limit, that is all it can owe. */
    if (ration_time_less(before->state.one.tat, beside->least))
        beside->least = before->state.one.tat;
    if (ration_time_less(now, beside->least))
        next->state.one.tat = ration_time_max(next->state.one.tat, beside->least);
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
