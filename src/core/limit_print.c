/* limit_print: prints limits as text, in one order, so that equal limits print alike. */
#include "ration/limit.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "base/units.h"
#include "core/algorithm.h"
#include "core/limit_bounds.h"

/* Appends to buffer, which has room for any limit. */
__attribute__((format(printf, 3, 4))) static void append_text(char *buffer, size_t *size,
                                                              const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    *size += (size_t)vsnprintf(buffer + *size, RATION_LIMIT_TEXT_SIZE - *size, format, arguments);
    va_end(arguments);
}

/* "10/s", "5/10s", and the burst where it is not the default. */
static void append_rate(char *buffer, size_t *size, uint64_t tokens, uint64_t period_ns,
                        uint64_t burst)
{
    char period[RATION_UNITS_TEXT_SIZE];
    ration_units_print_duration(period_ns, period, sizeof(period));
    bool is_single_unit = period[0] == '1' && period[1] > '9'; /* a unit, not a digit */
    append_text(buffer, size, "%" PRIu64 "/%s", tokens, period + is_single_unit);
    if (burst != tokens)
        append_text(buffer, size, " burst %" PRIu64, burst);
}

static const char *const algorithm_words[] = {
#define ALGORITHM_WORD(word, algorithm) [algorithm] = word,
    RATION_ALGORITHM_WORDS(ALGORITHM_WORD)
#undef ALGORITHM_WORD
};

static void append_algorithm(char *buffer, size_t *size, const struct ration_limit *limit)
{
    if (limit->algorithm == RATION_BURST_RESERVE) {
        append_text(buffer, size, " reserve ");
        append_rate(buffer, size, limit->reserve_tokens, limit->reserve_period_ns,
                    limit->reserve_burst);
        return;
    }
    if (limit->algorithm != RATION_TOKEN_BUCKET)
        append_text(buffer, size, " %s", algorithm_words[limit->algorithm]);
}

ration_status ration_limit_print(const struct ration_limit *limit, char *buffer, size_t buffer_size)
{
    char text[RATION_LIMIT_TEXT_SIZE];
    size_t size = 0;

    if (!ration_limit_is_made(limit))
        return RATION_EINVAL;
    append_rate(text, &size, limit->tokens, limit->period_ns, limit->burst);
    if (limit->refill == RATION_REFILL_INTERVAL)
        append_text(text, &size, " refill interval");
    append_algorithm(text, &size, limit);
    if (limit->start == RATION_START_EMPTY)
        append_text(text, &size, " start empty");
    if (limit->start == RATION_START_TOKENS)
        append_text(text, &size, " start %" PRIu64, limit->start_tokens);
    if (limit->name[0])
        append_text(text, &size, " name %.*s", RATION_LIMIT_NAME_MAX, limit->name);
    if (size + 1 > buffer_size)
        return RATION_ENOSPC;
    memcpy(buffer, text, size + 1);
    return RATION_OK;
}
