#include "redis/take_request.h"

#include <string.h>

#include "base/error.h"
#include "base/hash_blake2b.h"
#include "base/time.h"
#include "redis/argv.h"
#include "redis/limit_tag.h"

#define EXACT_MAX     ((uint64_t)1 << 50) /* Largest count in a script: Lua numbers are doubles. */
#define POINTS_MAX    ((uint64_t)1 << 31)
#define WINDOW_MIN_NS RATION_NS_PER_US

enum mode { MODE_SHADOW = 1, MODE_NEVER = 2, MODE_FREE = 4 };

ration_status ration_redis_is_supported(const struct ration_limit *limit,
                                        struct ration_error *error)
{
    bool is_window = limit->algorithm == RATION_FIXED_WINDOW ||
                     limit->algorithm == RATION_SLIDING_WINDOW ||
                     limit->refill == RATION_REFILL_INTERVAL;

    if (limit->algorithm == RATION_SLIDING_LOG && limit->tokens > RATION_REDIS_LOG_TOKENS_MAX)
        return ration_error_set(error, RATION_EUNSUPPORTED,
                                "on Redis a sliding_log has at most %d tokens, because the time of "
                                "each is stored; a sliding_window has no such bound",
                                RATION_REDIS_LOG_TOKENS_MAX);
    if (is_window && (limit->tokens > EXACT_MAX || limit->burst > EXACT_MAX))
        return ration_error_set(error, RATION_EUNSUPPORTED,
                                "on Redis a window or interval has at most 2^50 tokens");
    if (is_window && limit->period_ns < WINDOW_MIN_NS)
        return ration_error_set(error, RATION_EUNSUPPORTED,
                                "on Redis a window or interval is at least a microsecond long");
    if (limit->refill == RATION_REFILL_INTERVAL && limit->burst / limit->tokens >= POINTS_MAX - 1)
        return ration_error_set(error, RATION_EUNSUPPORTED,
                                "on Redis a burst is less than 2^31 intervals' tokens");
    return RATION_OK;
}

/* Names --------------------------------------------------------------------------------------- */

/* Writes the bytes of a key without braces, which would end the tag, and never empty: {} is not a tag. */
static void write_escaped(struct ration_output *text, const struct ration_key *key)
{
    const char *bytes = key->bytes;
    size_t copied_until = 0;

    if (key->size == 0) {
        ration_output_append_text(text, "%"); /* no other key is escaped to this */
        return;
    }
    for (size_t i = 0; i < key->size; i++) {
        const char *escape = bytes[i] == '{'   ? "%7B"
                             : bytes[i] == '}' ? "%7D"
                             : bytes[i] == '%' ? "%25"
                                               : NULL;

        if (escape == NULL)
            continue;
        ration_output_append(text, bytes + copied_until, i - copied_until);
        ration_output_append_text(text, escape);
        copied_until = i + 1;
    }
    ration_output_append(text, bytes + copied_until, key->size - copied_until);
}

/* No escaped key starts like this: there a % precedes 7B, 7D or 25, or is alone. */
static void write_hashed(struct ration_output *text, const uint8_t *secret,
                         const struct ration_key *key)
{
    static const char digits[] = "0123456789abcdef";
    uint8_t hash[RATION_BLAKE2B_SIZE];

    ration_hash_blake2b(secret, secret != NULL ? RATION_BLAKE2B_SIZE : 0, key->bytes, key->size,
                        hash);
    ration_output_append_text(text, "%h");
    for (size_t i = 0; i < sizeof(hash); i++) {
        ration_output_append_byte(text, digits[hash[i] >> 4]);
        ration_output_append_byte(text, digits[hash[i] & 15]);
    }
}

static void write_key(struct ration_output *text, const struct ration_redis_names *names,
                      const struct ration_key *key)
{
    if (key->size > RATION_REDIS_KEY_PLAIN_MAX)
        write_hashed(text, names->secret, key);
    else
        write_escaped(text, key);
}

/* Escapes the colons of a limit name that a key follows, so that its end can be found. */
static void write_limit_name(struct ration_output *text, const char *name)
{
    for (; *name != '\0'; name++)
        if (*name == ':' || *name == '%')
            ration_output_append_text(text, *name == ':' ? "%3A" : "%25");
        else
            ration_output_append_byte(text, *name);
}

void ration_redis_name_write(const struct ration_redis_names *names, const struct ration_key *key,
                             const char *limit_name, struct ration_redis_argv *argv)
{
    struct ration_output *text = &argv->text;

    ration_output_append_text(text, names->prefix);
    if (names->tag != NULL) {
        ration_output_append_text(text, ":{");
        ration_output_append_text(text, names->tag);
        ration_output_append_text(text, "}:");
        write_limit_name(text, limit_name);
        ration_output_append_byte(text, ':');
        write_key(text, names, key);
    } else {
        ration_output_append_text(text, ":{");
        write_key(text, names, key);
        ration_output_append_text(text, "}:");
        ration_output_append_text(text, limit_name);
    }
    ration_redis_argv_end(argv);
}

/* Arguments ----------------------------------------------------------------------------------- */

static uint64_t min_u64(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

/* Tokens that are already in use in a new bucket. */
static uint64_t start_used_tokens(const struct ration_limit *limit)
{
    if (limit->start == RATION_START_FULL || limit->start_tokens >= limit->burst)
        return 0;
    return limit->burst - limit->start_tokens;
}

/* The sustained part fills first, so the reserve is the first to be short. */
static void write_reserve(struct ration_redis_argv *argv, const struct ration_redis_part *part)
{
    const struct ration_limit *limit = part->limit;
    struct ration_reserve start = {.tats = {{0, 0}, {0, 0}}};
    const struct ration_rate *rates[] = {&limit->rate, &limit->reserve_rate};

    if (limit->start != RATION_START_FULL)
        start = ration_reserve_set(limit, limit->start_tokens, 0);
    for (int i = 0; i < 2; i++) {
        ration_redis_argv_add_u64(argv, part->cost_tokens <= rates[i]->burst);
        ration_redis_argv_add_time(
            argv, ration_time_scale(rates[i]->token, min_u64(part->cost_tokens, rates[i]->burst)));
        ration_redis_argv_add_time(argv, rates[i]->capacity);
        ration_redis_argv_add_time(argv, start.tats[i]);
    }
}

static void write_window(struct ration_redis_argv *argv, const struct ration_redis_part *part)
{
    ration_redis_argv_add_ns(argv, part->limit->period_ns);
    ration_redis_argv_add_u64(argv, part->limit->tokens);
    ration_redis_argv_add_u64(argv, min_u64(part->cost_tokens, part->limit->tokens));
    ration_redis_argv_add_u64(argv, start_used_tokens(part->limit));
}

static void write_interval(struct ration_redis_argv *argv, const struct ration_redis_part *part)
{
    ration_redis_argv_add_ns(argv, part->limit->period_ns);
    ration_redis_argv_add_u64(argv, part->limit->tokens);
    ration_redis_argv_add_u64(argv, part->limit->burst);
    ration_redis_argv_add_u64(argv, min_u64(part->cost_tokens, part->limit->burst));
    ration_redis_argv_add_u64(argv, start_used_tokens(part->limit));
}

/* Most limits start full and report no debt: they omit these arguments. */
static bool has_extra_arguments(const struct ration_redis_part *part)
{
    return start_used_tokens(part->limit) > 0 || part->debt_tokens > 0;
}

static void write_gcra(struct ration_redis_argv *argv, const struct ration_redis_part *part)
{
    const struct ration_rate *rate = &part->limit->rate;

    ration_redis_argv_add_time(
        argv, ration_time_scale(rate->token, min_u64(part->cost_tokens, rate->burst)));
    ration_redis_argv_add_time(argv, rate->capacity);
    if (!has_extra_arguments(part))
        return;
    ration_redis_argv_add_time(argv,
                               ration_time_scale(rate->token, start_used_tokens(part->limit)));
    ration_redis_argv_add_time(
        argv, ration_time_scale(rate->token, min_u64(part->debt_tokens, rate->span_tokens)));
}

static uint64_t mode_bits(const struct ration_redis_part *part)
{
    uint64_t max_tokens =
        part->limit->algorithm == RATION_BURST_RESERVE
            ? (part->limit->burst > part->limit->reserve_burst ? part->limit->burst
                                                               : part->limit->reserve_burst)
            : part->limit->burst;

    return (part->is_shadow ? MODE_SHADOW : 0u) +
           (part->cost_tokens > max_tokens ? MODE_NEVER : 0u) +
           (part->cost_tokens == 0 ? MODE_FREE : 0u);
}

static void write_part(struct ration_redis_argv *argv, const struct ration_redis_part *part)
{
    static const struct {
        const char *name;
        void (*write)(struct ration_redis_argv *argv, const struct ration_redis_part *part);
    } algorithms[] = {
        [RATION_ALGORITHM_DEFAULT] = {"gcra", write_gcra}, /* a limit that was made has another */
        [RATION_TOKEN_BUCKET] = {"gcra", write_gcra},
        [RATION_LEAKY_QUEUE] = {"gcra", write_gcra},
        [RATION_BURST_RESERVE] = {"reserve", write_reserve},
        [RATION_FIXED_WINDOW] = {"fixed", write_window},
        [RATION_SLIDING_WINDOW] = {"sliding", write_window},
        [RATION_SLIDING_LOG] = {"log", write_window},
    };
    bool is_interval = part->limit->refill == RATION_REFILL_INTERVAL;
    uint64_t keep_ms =
        part->limit->start == RATION_START_FULL ? 0 : part->stale_after_ns / RATION_NS_PER_MS + 1;

    if (is_interval)
        ration_redis_argv_add_text(argv, "interval");
    else if (algorithms[part->limit->algorithm].write == write_gcra && has_extra_arguments(part))
        ration_redis_argv_add_text(argv, "gcra+");
    else
        ration_redis_argv_add_text(argv, algorithms[part->limit->algorithm].name);
    ration_redis_argv_add_u64(argv, mode_bits(part));
    ration_redis_argv_add_u64(argv, keep_ms);
    (is_interval ? write_interval : algorithms[part->limit->algorithm].write)(argv, part);
}

void ration_redis_take_request_write(const struct ration_redis_take_request *request,
                                     const struct ration_redis_names *names,
                                     struct ration_redis_argv *argv)
{
    ration_redis_argv_add_u64(argv, request->part_count);
    for (uint32_t i = 0; i < request->part_count; i++)
        ration_redis_name_write(names, &request->parts[i].key, request->parts[i].limit->name, argv);
    ration_redis_argv_add_now(argv, request->has_now, request->now_ns);
    ration_redis_argv_add_text(argv, request->is_peek ? "peek" : "take");
    for (uint32_t i = 0; i < request->part_count; i++) {
        ration_redis_limit_tag_write(request->parts[i].limit, request->parts[i].is_given,
                                     &argv->text);
        ration_redis_argv_end(argv);
    }
    for (uint32_t i = 0; i < request->part_count; i++)
        write_part(argv, &request->parts[i]);
    ration_redis_argv_add_text(argv, "0");
}

/* Answers ------------------------------------------------------------------------------------- */

/* Reads each bucket as it was before this request. */
static bool read_buckets(const struct ration_redis_take_request *request,
                         const struct ration_redis_answer *answer,
                         struct ration_evaluation *evaluation,
                         struct ration_redis_take_result *result)
{
    for (uint32_t i = 0; i < request->part_count; i++) {
        const struct ration_redis_part *part = &request->parts[i];
        struct ration_limit_eval *limit_eval = &evaluation->items[i];

        *limit_eval = (struct ration_limit_eval){
            .cost_tokens = part->cost_tokens,
            .is_shadow = part->is_shadow,
            .shares_with = -1,
            .part_index = i,
            .limiter_index = i,
            .before = {.limit = part->limit},
        };
        if (!ration_redis_state_read(&answer->texts[i], evaluation->now_ns, &result->log_codecs[i],
                                     &limit_eval->before, &result->blocks_ns[i]))
            return false;
        if (result->blocks_ns[i] > evaluation->now_ns && !part->is_shadow)
            limit_eval->blocked_ns = result->blocks_ns[i] - evaluation->now_ns;
        if (part->debt_tokens > 0)
            limit_eval->before = ration_bucket_state_charge(&limit_eval->before, part->debt_tokens,
                                                            evaluation->now_ns);
    }
    evaluation->item_count = request->part_count;
    return true;
}

ration_status ration_redis_take_result_read(const struct ration_redis_take_request *request,
                                            const struct ration_redis_answer *answer,
                                            struct ration_redis_take_result *out_result)
{
    struct ration_op op = {.kind = request->is_peek ? RATION_OP_PEEK : RATION_OP_TAKE,
                           .has_decision = true,
                           .has_details = true};
    struct ration_evaluation evaluation = {.op = &op};

    if (answer->is_of_others || answer->text_count != request->part_count ||
        answer->now_ns >= RATION_NS_PER_SECOND ||
        answer->now_s > RATION_NOW_MAX_NS / RATION_NS_PER_SECOND)
        return RATION_EINVAL;
    evaluation.now_ns = ration_time_clamp(answer->now_s * RATION_NS_PER_SECOND + answer->now_ns);
    op.now_ns = evaluation.now_ns;
    if (!read_buckets(request, answer, &evaluation, out_result))
        return RATION_EINVAL;
    ration_evaluation_run(&evaluation);
    if ((evaluation.verdict == RATION_ALLOW) != answer->is_taken)
        return RATION_EINVAL;
    out_result->now_ns = evaluation.now_ns;
    out_result->decision = ration_evaluation_describe_all(&evaluation);
    for (uint32_t i = 0; i < evaluation.item_count; i++) {
        out_result->parts[i] = ration_evaluation_describe(&evaluation, &evaluation.items[i]);
        out_result->befores[i] = evaluation.items[i].before;
        out_result->texts[i] = answer->texts[i];
    }
    return RATION_OK;
}
