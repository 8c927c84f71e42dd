#include "redis/limit_tag.h"

static const struct {
    char letter;
    enum ration_algorithm algorithm;
    enum ration_refill refill;
} kinds[] = {
    {'t', RATION_TOKEN_BUCKET, RATION_REFILL_CONTINUOUS},
    {'i', RATION_TOKEN_BUCKET, RATION_REFILL_INTERVAL},
    {'q', RATION_LEAKY_QUEUE, RATION_REFILL_CONTINUOUS},
    {'r', RATION_BURST_RESERVE, RATION_REFILL_CONTINUOUS},
    {'f', RATION_FIXED_WINDOW, RATION_REFILL_CONTINUOUS},
    {'s', RATION_SLIDING_WINDOW, RATION_REFILL_CONTINUOUS},
    {'l', RATION_SLIDING_LOG, RATION_REFILL_CONTINUOUS},
};
#define KIND_COUNT (sizeof(kinds) / sizeof(kinds[0]))

/* Writing -------------------------------------------------------------------------------------- */

static void write_number(struct ration_output *text, uint64_t number)
{
    unsigned zeros = 0;

    while (number > 0 && number % 1000 == 0) {
        number /= 1000;
        zeros += 3;
    }
    ration_output_append_u64(text, number);
    if (zeros > 0) {
        ration_output_append_byte(text, 'e');
        ration_output_append_u64(text, zeros);
    }
}

static void write_rate(struct ration_output *text, uint64_t tokens, uint64_t period_ns,
                       uint64_t burst)
{
    write_number(text, tokens);
    ration_output_append_byte(text, '/');
    write_number(text, period_ns);
    if (burst != tokens) {
        ration_output_append_byte(text, '/');
        write_number(text, burst);
    }
}

void ration_redis_limit_tag_write(const struct ration_limit *limit, bool is_given,
                                  struct ration_output *text)
{
    ration_output_append_byte(text, ' ');
    if (is_given) {
        ration_output_append_byte(text, '-');
        return;
    }
    for (size_t i = 0; i < KIND_COUNT; i++)
        if (kinds[i].algorithm == limit->algorithm && kinds[i].refill == limit->refill)
            ration_output_append_byte(text, kinds[i].letter);
    write_rate(text, limit->tokens, limit->period_ns, limit->burst);
    if (limit->algorithm == RATION_BURST_RESERVE) {
        ration_output_append_byte(text, '+');
        write_rate(text, limit->reserve_tokens, limit->reserve_period_ns, limit->reserve_burst);
    }
}

/* Reading -------------------------------------------------------------------------------------- */

/* of a 64-bit number. Checked apart from overflow, since 0 times 10 never overflows */
#define ZEROS_MAX 19

struct reader {
    const char *cursor;
    const char *end;
    bool is_failed;
};

static bool skip_byte(struct reader *reader, char byte)
{
    bool is_there = reader->cursor < reader->end && *reader->cursor == byte;

    reader->cursor += is_there;
    return is_there;
}

static uint64_t read_digits(struct reader *reader)
{
    const char *first = reader->cursor;
    uint64_t number = 0;

    for (; reader->cursor < reader->end && *reader->cursor >= '0' && *reader->cursor <= '9';
         reader->cursor++)
        reader->is_failed |=
            __builtin_mul_overflow(number, 10, &number) ||
            __builtin_add_overflow(number, (uint64_t)(*reader->cursor - '0'), &number);
    reader->is_failed |= reader->cursor == first;
    return number;
}

static uint64_t read_number(struct reader *reader)
{
    uint64_t number = read_digits(reader);
    uint64_t zeros = skip_byte(reader, 'e') ? read_digits(reader) : 0;

    reader->is_failed |= zeros > ZEROS_MAX;
    for (; zeros > 0 && !reader->is_failed; zeros--)
        reader->is_failed |= __builtin_mul_overflow(number, 10, &number);
    return number;
}

static void read_rate(struct reader *reader, uint64_t *tokens, uint64_t *period_ns, uint64_t *burst)
{
    *tokens = read_number(reader);
    reader->is_failed |= !skip_byte(reader, '/');
    *period_ns = read_number(reader);
    *burst = skip_byte(reader, '/') ? read_number(reader) : *tokens;
}

bool ration_redis_limit_tag_read(const char *text, size_t size, struct ration_limit *out_limit)
{
    struct reader reader = {text, text + size, false};
    struct ration_limit_spec spec = {.tokens = 0};
    size_t kind = 0;

    while (kind < KIND_COUNT && !skip_byte(&reader, kinds[kind].letter))
        kind++;
    if (kind == KIND_COUNT)
        return false;
    spec.algorithm = kinds[kind].algorithm;
    spec.refill = kinds[kind].refill;
    read_rate(&reader, &spec.tokens, &spec.period_ns, &spec.burst);
    if (spec.algorithm == RATION_BURST_RESERVE) {
        reader.is_failed |= !skip_byte(&reader, '+');
        read_rate(&reader, &spec.reserve_tokens, &spec.reserve_period_ns, &spec.reserve_burst);
    }
    return !reader.is_failed && reader.cursor == reader.end &&
           ration_limit_make(&spec, out_limit, NULL) == RATION_OK;
}
