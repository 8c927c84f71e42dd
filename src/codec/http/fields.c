#include "codec/http/fields.h"

#include <string.h>

#include "base/u64.h"

/* The draft may still rename these: they are defined only here. */
#define FIELD_POLICY     "RateLimit-Policy"
#define FIELD_STATE      "RateLimit"
#define PARAMETER_QUOTA  ";q="
#define PARAMETER_WINDOW ";w="
#define PARAMETER_LEFT   ";r="
#define PARAMETER_TIME   ";t="

static uint64_t round_up_seconds(uint64_t ns)
{
    return ns / RATION_NS_PER_SECOND + (ns % RATION_NS_PER_SECOND != 0);
}

uint64_t ration_fields_window_seconds(const struct ration_limit *limit)
{
    unsigned __int128 tokens = limit->burst;
    if (limit->refill == RATION_REFILL_INTERVAL) /* refills happen in whole periods */
        tokens = (tokens + limit->tokens - 1) / limit->tokens * limit->tokens;
    unsigned __int128 second = (unsigned __int128)limit->tokens * RATION_NS_PER_SECOND;
    unsigned __int128 seconds = (tokens * limit->period_ns + second - 1) / second;
    return seconds < 1 ? 1 : (uint64_t)(seconds < UINT64_MAX ? seconds : UINT64_MAX);
}

static char *put_text(char *out, const char *text)
{
    size_t size = strlen(text);
    memcpy(out, text, size);
    return out + size;
}

static char *put_number(char *out, uint64_t number)
{
    return ration_output_put_u64(ration_u64_min(number, RATION_FIELDS_NUMBER_MAX), out);
}

/*
 * Writes a string of a structured field. Bytes that it cannot contain do not occur in names; they
 * would be written as ?.
 */
static char *put_string(char *out, const char *text)
{
    *out++ = '"';
    for (size_t i = 0; i < RATION_LIMIT_NAME_MAX && text[i]; i++) {
        if (text[i] == '"' || text[i] == '\\')
            *out++ = '\\';
        *out++ = text[i] >= ' ' && text[i] <= '~' ? text[i] : '?';
    }
    *out++ = '"';
    return out;
}

/* The number of tokens available at once: the burst, and a reserve in addition to it. */
static uint64_t limit_capacity(const struct ration_limit *limit)
{
    uint64_t capacity = limit->burst;

    if (limit->algorithm == RATION_BURST_RESERVE &&
        __builtin_add_overflow(capacity, limit->reserve_burst, &capacity))
        capacity = UINT64_MAX;
    return capacity;
}

/* Computes when tokens are refilled. Rounded so that a time computed from it is never too early. */
static void set_steps(struct ration_fields_limit *fields, const struct ration_limit *limit)
{
    bool is_interval = limit->refill == RATION_REFILL_INTERVAL;
    bool is_bucket =
        limit->algorithm == RATION_TOKEN_BUCKET || limit->algorithm == RATION_LEAKY_QUEUE;

    fields->burst = limit->burst;
    fields->step_tokens = !is_bucket ? 0 : is_interval ? limit->tokens : 1;
    fields->step_ns = is_interval ? limit->period_ns : limit->period_ns / limit->tokens;
    fields->more_ns_max = limit->algorithm == RATION_BURST_RESERVE
                              ? limit->reserve_period_ns / limit->reserve_tokens + 1
                              : UINT64_MAX;
}

/*
 * The time until more tokens are available than now: the time until full, minus the time of all
 * refills but the first.
 */
static uint64_t more_after_ns(const struct ration_fields_limit *fields,
                              const struct ration_decision *decision)
{
    uint64_t full_ns = ration_u64_min(decision->reset_after_ns, fields->more_ns_max), later_ns;

    if (fields->step_tokens == 0 || decision->remaining >= fields->burst)
        return full_ns;
    later_ns = fields->burst - decision->remaining - 1;
    if (fields->step_tokens > 1)
        later_ns /= fields->step_tokens;
    if (__builtin_mul_overflow(later_ns, fields->step_ns, &later_ns) || later_ns > full_ns)
        return full_ns;
    return full_ns - later_ns;
}

void ration_fields_limit_init(struct ration_fields_limit *fields, const char *name,
                              const struct ration_limit *limit)
{
    char *out = put_string(fields->policy, name && name[0] ? name : RATION_FIELDS_NAME_DEFAULT);
    fields->name_size = (uint16_t)(out - fields->policy);
    out = put_number(put_text(out, PARAMETER_QUOTA), limit_capacity(limit));
    out = put_number(put_text(out, PARAMETER_WINDOW), ration_fields_window_seconds(limit));
    fields->policy_size = (uint16_t)(out - fields->policy);
    set_steps(fields, limit);
}

uint64_t ration_fields_retry_seconds(const struct ration_decision *decision,
                                     const struct ration_fields_retry *retry, uint64_t random)
{
    uint64_t seconds = round_up_seconds(decision->retry_after_ns);
    if (decision->verdict != RATION_DENY || decision->retry_after_ns == RATION_FOREVER)
        return 0;
    if (retry->seconds_max > 0)
        seconds = ration_u64_min(seconds, retry->seconds_max);
    if (seconds == 0)
        seconds = 1;
    return seconds + random % (ration_u64_min(retry->spread_seconds, UINT32_MAX) + 1);
}

static void append_number(struct ration_output *output, uint64_t number)
{
    ration_output_append_u64(output, ration_u64_min(number, RATION_FIELDS_NUMBER_MAX));
}

void ration_fields_write_policy(struct ration_output *output,
                                const struct ration_fields_item *items, size_t item_count)
{
    for (size_t i = 0; i < item_count; i++) {
        ration_output_append_text(output, i == 0 ? FIELD_POLICY ": " : ", ");
        ration_output_append(output, items[i].limit->policy, items[i].limit->policy_size);
    }
    if (item_count > 0)
        ration_output_append_text(output, "\r\n");
}

/* Writes t for one limit. The response is a denial if retry_seconds is not 0. */
static void write_time(struct ration_output *output, const struct ration_fields_item *item,
                       uint64_t retry_seconds)
{
    const struct ration_decision *decision = &item->decision;
    uint64_t seconds = round_up_seconds(more_after_ns(item->limit, decision));
    if (decision->verdict == RATION_NEVER)
        return; /* the requested tokens will never be available */
    if (retry_seconds > 0)
        seconds = decision->verdict == RATION_DENY ? retry_seconds
                                                   : ration_u64_min(seconds, retry_seconds);
    ration_output_append_text(output, PARAMETER_TIME);
    append_number(output, seconds);
}

void ration_fields_write_state(struct ration_output *output, const struct ration_fields_item *items,
                               size_t item_count, uint64_t retry_seconds)
{
    for (size_t i = 0; i < item_count; i++) {
        ration_output_append_text(output, i == 0 ? FIELD_STATE ": " : ", ");
        ration_output_append(output, items[i].limit->policy, items[i].limit->name_size);
        ration_output_append_text(output, PARAMETER_LEFT);
        append_number(output, items[i].decision.remaining);
        write_time(output, &items[i], retry_seconds);
    }
    if (item_count > 0)
        ration_output_append_text(output, "\r\n");
}

static void write_line(struct ration_output *output, const char *name, uint64_t number)
{
    ration_output_append_text(output, name);
    ration_output_append_u64(output, number);
    ration_output_append_text(output, "\r\n");
}

void ration_fields_write_retry_after(struct ration_output *output, uint64_t retry_seconds)
{
    if (retry_seconds > 0)
        write_line(output, "Retry-After: ", retry_seconds);
}

void ration_fields_write_x(struct ration_output *output, const struct ration_decision *decision,
                           enum ration_fields_reset reset, uint64_t epoch_seconds)
{
    uint64_t seconds = round_up_seconds(decision->reset_after_ns);
    if (reset == RATION_FIELDS_RESET_EPOCH)
        seconds += epoch_seconds;
    write_line(output, "X-RateLimit-Limit: ", decision->limit);
    write_line(output, "X-RateLimit-Remaining: ", decision->remaining);
    write_line(output, "X-RateLimit-Reset: ", seconds);
}
