#include "proto/throttle.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "base/words.h"

#define ERROR      "ERR "
#define CELL_ERROR "Cell error: Store error: "

/* The most bytes of an argument that an error repeats. */
#define QUOTE_MAX 128

/* In seconds: more do not fit 64 bits of nanoseconds. */
#define PERIOD_MAX (UINT64_MAX / RATION_NS_PER_SECOND)

/* So many digits cannot wrap. */
#define SAFE_DIGITS 19

#define FRACTION_DIGITS 9
#define VALUES_COUNT    5

/* Arguments by their place. */
enum { KEY = 1, MAX_BURST, COUNT, PERIOD, QUANTITY, TOKENS_WORD = QUANTITY, TOKENS_VALUE };

static bool refuse(char out_error[RATION_THROTTLE_ERROR_SIZE], const char *kind, const char *text)
{
    snprintf(out_error, RATION_THROTTLE_ERROR_SIZE, "%s%s", kind, text);
    return false;
}

static bool refuse_integer(char out_error[RATION_THROTTLE_ERROR_SIZE],
                           const struct ration_key *argument)
{
    char quote[QUOTE_MAX + 1];
    size_t size = argument->size < QUOTE_MAX ? argument->size : QUOTE_MAX;
    for (size_t i = 0; i < size; i++) {
        char byte = ((const char *)argument->bytes)[i];
        quote[i] = byte ? byte : ' ';
    }
    quote[size] = '\0';
    snprintf(out_error, RATION_THROTTLE_ERROR_SIZE, CELL_ERROR "Couldn't parse as integer: %s",
             quote);
    return false;
}

/* Digits that are all of text, not above max. */
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

/* Digits, perhaps with a sign: -INT64_MAX to INT64_MAX. */
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

bool ration_throttle_parse(const struct ration_key *arguments, size_t argument_count,
                           struct ration_throttle *out_throttle,
                           char out_error[RATION_THROTTLE_ERROR_SIZE])
{
    int64_t values[QUANTITY + 1] = {[QUANTITY] = 1};
    if (argument_count <= PERIOD || argument_count > QUANTITY + 1)
        return refuse(out_error, CELL_ERROR,
                      "Usage: cl.throttle <key> <max_burst> <count per period> <period> "
                      "[<quantity>]");
    for (size_t i = MAX_BURST; i < argument_count; i++) {
        if (!read_integer(&arguments[i], &values[i]))
            return refuse_integer(out_error, &arguments[i]);
    }
    if (arguments[KEY].size > RATION_KEY_SIZE_MAX)
        return refuse(out_error, CELL_ERROR, "The key is longer than 65535 bytes");
    if (values[MAX_BURST] < 0)
        return refuse(out_error, CELL_ERROR, "max_burst must not be negative");
    if (values[QUANTITY] < 0)
        return refuse(out_error, CELL_ERROR, "quantity must not be negative");
    if (values[COUNT] <= 0 || values[PERIOD] <= 0)
        return refuse(out_error, CELL_ERROR, "Zero rates are not supported");
    if ((uint64_t)values[PERIOD] > PERIOD_MAX)
        return refuse(out_error, CELL_ERROR, "period must not exceed 18446744073 seconds");
    uint64_t period_ns = (uint64_t)values[PERIOD] * RATION_NS_PER_SECOND;
    if (period_ns < (uint64_t)values[COUNT])
        return refuse(out_error, CELL_ERROR, "Zero rates are not supported");
    *out_throttle = (struct ration_throttle){
        .key = arguments[KEY],
        .tokens = (uint64_t)values[COUNT],
        .period_ns = period_ns,
        .burst = (uint64_t)values[MAX_BURST] + 1,
        .quantity = (uint64_t)values[QUANTITY],
    };
    return true;
}

/* Seconds with at most nine decimals (more if they are zeros), to nanoseconds. */
static bool read_seconds(const struct ration_key *argument, uint64_t *out_ns)
{
    const char *text = argument->bytes;
    const char *point = argument->size ? memchr(text, '.', argument->size) : NULL;
    size_t whole_size = point ? (size_t)(point - text) : argument->size;
    uint64_t seconds, fraction = 0;
    if (!read_digits(text, whole_size, PERIOD_MAX - 1, &seconds))
        return false;
    if (point) {
        size_t digits = argument->size - whole_size - 1;
        while (digits > FRACTION_DIGITS && point[digits] == '0')
            digits--;
        if (digits > FRACTION_DIGITS || !read_digits(point + 1, digits, UINT64_MAX, &fraction))
            return false;
        for (; digits < FRACTION_DIGITS; digits++)
            fraction *= 10;
    }
    *out_ns = seconds * RATION_NS_PER_SECOND + fraction;
    return true;
}

static bool is_word(const struct ration_key *argument, const char *word)
{
    return ration_words_is_listed(argument->bytes, argument->size, word, true);
}

bool ration_throttle_parse_gcra(const struct ration_key *arguments, size_t argument_count,
                                struct ration_throttle *out_throttle,
                                char out_error[RATION_THROTTLE_ERROR_SIZE])
{
    int64_t max_burst, tokens, quantity = 1;
    uint64_t period_ns;
    if (argument_count <= PERIOD)
        return refuse(out_error, ERROR, "wrong number of arguments for 'gcra' command");
    if (argument_count > PERIOD + 1 &&
        (argument_count != TOKENS_VALUE + 1 || !is_word(&arguments[TOKENS_WORD], "tokens")))
        return refuse(out_error, ERROR, "syntax error");
    if (!read_integer(&arguments[MAX_BURST], &max_burst) ||
        !read_integer(&arguments[COUNT], &tokens) ||
        (argument_count > TOKENS_VALUE && !read_integer(&arguments[TOKENS_VALUE], &quantity)))
        return refuse(out_error, ERROR, "value is not an integer or out of range");
    if (!read_seconds(&arguments[PERIOD], &period_ns))
        return refuse(out_error, ERROR,
                      "period is not a number of seconds with at most 9 decimals or out of range");
    if (arguments[KEY].size > RATION_KEY_SIZE_MAX)
        return refuse(out_error, ERROR, "the key is longer than 65535 bytes");
    if (max_burst < 0)
        return refuse(out_error, ERROR, "max_burst must not be negative");
    if (tokens < 1)
        return refuse(out_error, ERROR, "tokens_per_period must be at least 1");
    if (period_ns < RATION_NS_PER_SECOND)
        return refuse(out_error, ERROR, "period must be at least 1.0 seconds");
    if (quantity < 0)
        return refuse(out_error, ERROR, "TOKENS must not be negative");
    if (period_ns < (uint64_t)tokens)
        return refuse(out_error, ERROR, "tokens_per_period exceeds one per nanosecond");
    *out_throttle = (struct ration_throttle){
        .key = arguments[KEY],
        .tokens = (uint64_t)tokens,
        .period_ns = period_ns,
        .burst = (uint64_t)max_burst + 1,
        .quantity = (uint64_t)quantity,
        .is_gcra = true,
    };
    return true;
}

bool ration_throttle_make_limit(const struct ration_throttle *throttle,
                                struct ration_limit *out_limit,
                                char out_error[RATION_THROTTLE_ERROR_SIZE])
{
    struct ration_error error;
    struct ration_limit_spec spec = {
        .tokens = throttle->tokens, .period_ns = throttle->period_ns, .burst = throttle->burst};
    if (ration_limit_make(&spec, out_limit, &error) == RATION_OK)
        return true;
    return refuse(out_error, throttle->is_gcra ? ERROR : CELL_ERROR, error.message);
}

/* As far as an integer of the protocol can say it. */
static int64_t clip(uint64_t count)
{
    return count > INT64_MAX ? INT64_MAX : (int64_t)count;
}

void ration_throttle_write(struct ration_output *output, const struct ration_decision *decision)
{
    if (!ration_output_reserve(output, (1 + VALUES_COUNT) * RATION_RESP_NUMBER_SIZE))
        return;
    bool is_wait_known = decision->verdict == RATION_DENY;
    int64_t retry_after =
        is_wait_known ? (int64_t)ration_throttle_seconds(decision->retry_after_ns) : -1;
    char *out = output->bytes + output->size;
    out = ration_resp_put_number('*', VALUES_COUNT, out);
    out = ration_resp_put_number(':', decision->verdict != RATION_ALLOW, out);
    out = ration_resp_put_number(':', clip(decision->limit), out);
    out = ration_resp_put_number(':', clip(decision->remaining), out);
    out = ration_resp_put_number(':', retry_after, out);
    out = ration_resp_put_number(':', (int64_t)ration_throttle_seconds(decision->reset_after_ns),
                                 out);
    output->size = (size_t)(out - output->bytes);
}

void ration_throttle_write_gcra(struct ration_output *output, enum ration_resp_version version,
                                const struct ration_decision *decision)
{
    ration_resp_write_array(output, VALUES_COUNT);
    ration_resp_write_integer(output, decision->verdict != RATION_ALLOW);
    ration_resp_write_count(output, decision->limit);
    ration_resp_write_count(output, decision->remaining);
    if (decision->verdict == RATION_DENY)
        ration_resp_write_decimal(output, version, clip(decision->retry_after_ns), FRACTION_DIGITS);
    else
        ration_resp_write_decimal(output, version, -1, 0);
    ration_resp_write_decimal(output, version, clip(decision->reset_after_ns), FRACTION_DIGITS);
}
