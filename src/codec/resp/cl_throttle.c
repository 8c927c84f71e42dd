#include "codec/resp/cl_throttle.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "base/text.h"

#define ERROR      "ERR "
#define CELL_ERROR "Cell error: Store error: "

/* The maximum number of bytes of an argument that an error quotes. */
#define QUOTE_MAX 128

/* In seconds: larger values do not fit in 64 bits of nanoseconds. */
#define PERIOD_MAX (UINT64_MAX / RATION_NS_PER_SECOND)

/* A number with this many digits cannot overflow. */
#define SAFE_DIGITS 19

#define FRACTION_DIGITS 9
#define TEN_TO_18       UINT64_C(1000000000000000000)

/* Maximum size of a number of seconds, and maximum of its exponent. */
#define DECIMAL_BYTES_MAX 64
#define EXPONENT_MAX      99

/* A number may be rounded by at most one part in this many. */
#define ROUNDING_PARTS UINT64_C(1000000000)

#define VALUES_COUNT 5

/* Positions of the arguments. */
enum { KEY = 1, MAX_BURST, COUNT, PERIOD, QUANTITY, TOKENS_WORD = QUANTITY, TOKENS_VALUE };

static bool set_error(char out_error[RATION_CL_THROTTLE_ERROR_SIZE], const char *kind,
                      const char *text)
{
    snprintf(out_error, RATION_CL_THROTTLE_ERROR_SIZE, "%s%s", kind, text);
    return false;
}

static bool set_integer_error(char out_error[RATION_CL_THROTTLE_ERROR_SIZE],
                              const struct ration_key *argument)
{
    char quote[QUOTE_MAX + 1];
    size_t size = argument->size < QUOTE_MAX ? argument->size : QUOTE_MAX;
    for (size_t i = 0; i < size; i++) {
        char byte = ((const char *)argument->bytes)[i];
        quote[i] = byte ? byte : ' ';
    }
    quote[size] = '\0';
    snprintf(out_error, RATION_CL_THROTTLE_ERROR_SIZE, CELL_ERROR "Couldn't parse as integer: %s",
             quote);
    return false;
}

/* Reads text that consists of digits only; the number must not exceed max. */
static bool read_digits(const char *text, size_t size, uint64_t max, uint64_t *out_number)
{
    uint64_t number = 0;
    if (size == 0)
        return false;
    for (size_t i = 0; i < size; i++) {
        unsigned digit = (unsigned char)(text[i] - '0');
        if (digit > 9)
            return false;
        if (i >= SAFE_DIGITS && number > (max - digit) / 10)
            return false;
        number = 10 * number + digit;
    }
    if (number > max)
        return false;
    *out_number = number;
    return true;
}

/* Reads digits with an optional sign: -INT64_MAX to INT64_MAX. */
static bool read_integer(const struct ration_key *argument, int64_t *out_integer)
{
    const char *text = argument->bytes;
    size_t size = argument->size;
    uint64_t magnitude;
    bool is_signed = size > 0 && (*text == '-' || *text == '+');
    if (!read_digits(text + is_signed, size - is_signed, INT64_MAX, &magnitude))
        return false;
    *out_integer = is_signed && *text == '-' ? -(int64_t)magnitude : (int64_t)magnitude;
    return true;
}

bool ration_cl_throttle_parse(const struct ration_key *arguments, size_t argument_count,
                              struct ration_cl_throttle *out_throttle,
                              char out_error[RATION_CL_THROTTLE_ERROR_SIZE])
{
    int64_t values[QUANTITY + 1] = {[QUANTITY] = 1};
    if (argument_count <= PERIOD || argument_count > QUANTITY + 1)
        return set_error(out_error, CELL_ERROR,
                         "Usage: cl.throttle <key> <max_burst> <count per period> <period> "
                         "[<quantity>]");
    for (size_t i = MAX_BURST; i < argument_count; i++) {
        if (!read_integer(&arguments[i], &values[i]))
            return set_integer_error(out_error, &arguments[i]);
    }
    if (arguments[KEY].size > RATION_KEY_SIZE_MAX)
        return set_error(out_error, CELL_ERROR, "The key is longer than 65535 bytes");
    if (values[MAX_BURST] < 0)
        return set_error(out_error, CELL_ERROR, "max_burst must not be negative");
    if (values[QUANTITY] < 0)
        return set_error(out_error, CELL_ERROR, "quantity must not be negative");
    if (values[COUNT] <= 0 || values[PERIOD] <= 0)
        return set_error(out_error, CELL_ERROR, "Zero rates are not supported");
    if ((uint64_t)values[PERIOD] > PERIOD_MAX)
        return set_error(out_error, CELL_ERROR, "period must not exceed 18446744073 seconds");
    uint64_t period_ns = (uint64_t)values[PERIOD] * RATION_NS_PER_SECOND;
    if (period_ns < (uint64_t)values[COUNT])
        return set_error(out_error, CELL_ERROR, "Zero rates are not supported");
    *out_throttle = (struct ration_cl_throttle){
        .key = arguments[KEY],
        .tokens = (uint64_t)values[COUNT],
        .period_ns = period_ns,
        .burst = (uint64_t)values[MAX_BURST] + 1,
        .quantity = (uint64_t)values[QUANTITY],
    };
    return true;
}

/* A decimal number as digits * 10^exponent. Digits that do not fit, after the 19th, are dropped. */
struct decimal {
    uint64_t digits;
    int exponent;
};

/* Reads digits with an optional decimal point. *used is their size in bytes. */
static bool read_mantissa(const char *text, size_t size, struct decimal *out, size_t *used)
{
    bool has_point = false, has_digit = false;
    size_t i = 0;
    for (; i < size && (text[i] == '.' ? !has_point : text[i] >= '0' && text[i] <= '9'); i++) {
        if (text[i] == '.') {
            has_point = true;
            continue;
        }
        has_digit = true;
        if (out->digits <= (UINT64_MAX - 9) / 10)
            out->digits = 10 * out->digits + (uint64_t)(text[i] - '0');
        else
            out->exponent++;
        out->exponent -= has_point;
    }
    *used = i;
    return has_digit;
}

/* Reads the whole text: 60, 0.5, .5, 1.5e-3. */
static bool read_decimal(const char *text, size_t size, struct decimal *out)
{
    size_t used;
    uint64_t exponent;
    *out = (struct decimal){0};
    if (size > DECIMAL_BYTES_MAX || !read_mantissa(text, size, out, &used))
        return false;
    if (used == size)
        return true;
    if (text[used] != 'e' && text[used] != 'E')
        return false;
    used++;
    bool is_signed = used < size && (text[used] == '-' || text[used] == '+');
    bool is_negative = is_signed && text[used] == '-';
    used += is_signed;
    if (!read_digits(text + used, size - used, EXPONENT_MAX, &exponent))
        return false;
    out->exponent += is_negative ? -(int)exponent : (int)exponent;
    return true;
}

/*
 * Converts seconds to nanoseconds, rounded to the nearest, because a client that computes 0.1 + 0.2
 * sends 0.30000000000000004. If rounding would change the number by more than 1 in 1e9, it is
 * refused.
 */
static bool read_seconds(const struct ration_key *argument, uint64_t *out_ns)
{
    struct decimal seconds;
    if (!read_decimal(argument->bytes, argument->size, &seconds))
        return false;
    uint64_t ns = seconds.digits;
    int exponent = seconds.exponent + FRACTION_DIGITS;
    for (; exponent > 0 && ns > 0; exponent--) {
        if (__builtin_mul_overflow(ns, 10, &ns))
            return false;
    }
    uint64_t divisor = 1;
    for (; exponent < 0 && divisor <= TEN_TO_18; exponent++)
        divisor *= 10;
    if (exponent < 0 && ns > 0)
        return false; /* far below one nanosecond */
    uint64_t remainder = ns % divisor, to_next_multiple = divisor - remainder;
    if ((remainder < to_next_multiple ? remainder : to_next_multiple) > ns / ROUNDING_PARTS)
        return false;
    *out_ns = ns / divisor + (to_next_multiple <= remainder);
    return *out_ns <= PERIOD_MAX * RATION_NS_PER_SECOND;
}

static bool is_word(const struct ration_key *argument, const char *word)
{
    return ration_text_is_listed(argument->bytes, argument->size, word, true);
}

bool ration_cl_throttle_parse_gcra(const struct ration_key *arguments, size_t argument_count,
                                   struct ration_cl_throttle *out_throttle,
                                   char out_error[RATION_CL_THROTTLE_ERROR_SIZE])
{
    int64_t max_burst, tokens, quantity = 1;
    uint64_t period_ns;
    if (argument_count <= PERIOD)
        return set_error(out_error, ERROR, "wrong number of arguments for 'gcra' command");
    if (argument_count > PERIOD + 1 &&
        (argument_count != TOKENS_VALUE + 1 || !is_word(&arguments[TOKENS_WORD], "tokens")))
        return set_error(out_error, ERROR, "syntax error");
    if (!read_integer(&arguments[MAX_BURST], &max_burst) ||
        !read_integer(&arguments[COUNT], &tokens) ||
        (argument_count > TOKENS_VALUE && !read_integer(&arguments[TOKENS_VALUE], &quantity)))
        return set_error(out_error, ERROR, "value is not an integer or out of range");
    if (!read_seconds(&arguments[PERIOD], &period_ns))
        return set_error(out_error, ERROR,
                         "period is not a number of seconds in whole nanoseconds, or out of range");
    if (arguments[KEY].size > RATION_KEY_SIZE_MAX)
        return set_error(out_error, ERROR, "the key is longer than 65535 bytes");
    if (max_burst < 0)
        return set_error(out_error, ERROR, "max_burst must not be negative");
    if (tokens < 1)
        return set_error(out_error, ERROR, "tokens_per_period must be at least 1");
    if (period_ns == 0)
        return set_error(out_error, ERROR, "period must be above 0");
    if (quantity < 1)
        return set_error(out_error, ERROR, "TOKENS must be at least 1");
    if (period_ns < (uint64_t)tokens)
        return set_error(out_error, ERROR, "tokens_per_period exceeds one per nanosecond");
    *out_throttle = (struct ration_cl_throttle){
        .key = arguments[KEY],
        .tokens = (uint64_t)tokens,
        .period_ns = period_ns,
        .burst = (uint64_t)max_burst + 1,
        .quantity = (uint64_t)quantity,
        .is_gcra = true,
    };
    return true;
}

bool ration_cl_throttle_make_limit(const struct ration_cl_throttle *throttle,
                                   struct ration_limit *out_limit,
                                   char out_error[RATION_CL_THROTTLE_ERROR_SIZE])
{
    struct ration_error error;
    struct ration_limit_spec spec = {
        .tokens = throttle->tokens, .period_ns = throttle->period_ns, .burst = throttle->burst};
    if (ration_limit_make(&spec, out_limit, &error) == RATION_OK)
        return true;
    return set_error(out_error, throttle->is_gcra ? ERROR : CELL_ERROR, error.message);
}

/* Limits a count to INT64_MAX, the largest integer of the protocol. */
static int64_t clip_to_i64(uint64_t count)
{
    return count > INT64_MAX ? INT64_MAX : (int64_t)count;
}

void ration_cl_throttle_write(struct ration_output *output, const struct ration_decision *decision)
{
    if (!ration_output_reserve(output, (1 + VALUES_COUNT) * RATION_RESP_NUMBER_SIZE))
        return;
    bool is_wait_known = decision->verdict == RATION_DENY;
    int64_t retry_after =
        is_wait_known ? (int64_t)ration_cl_throttle_seconds(decision->retry_after_ns) : -1;
    char *out = output->bytes + output->size;
    out = ration_resp_put_number('*', VALUES_COUNT, out);
    out = ration_resp_put_number(':', decision->verdict != RATION_ALLOW, out);
    out = ration_resp_put_number(':', clip_to_i64(decision->limit), out);
    out = ration_resp_put_number(':', clip_to_i64(decision->remaining), out);
    out = ration_resp_put_number(':', retry_after, out);
    out = ration_resp_put_number(':', (int64_t)ration_cl_throttle_seconds(decision->reset_after_ns),
                                 out);
    output->size = (size_t)(out - output->bytes);
}
