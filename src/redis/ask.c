#include "redis/ask.h"

#include <string.h>

#include "base/hash_blake2b.h"
#include "base/refuse.h"
#include "base/time.h"
#include "redis/shape.h"
#include "redis/times.h"

#define EXACT_MAX     ((uint64_t)1 << 50) /* of a count in a script that has only doubles */
#define POINTS_MAX    ((uint64_t)1 << 31)
#define WINDOW_MIN_NS RATION_NS_PER_US

enum mode { MODE_SHADOW = 1, MODE_NEVER = 2, MODE_FREE = 4 };

ration_status ration_redis_fits(const struct ration_limit *limit, struct ration_error *error)
{
    bool is_window = limit->algorithm == RATION_FIXED_WINDOW ||
                     limit->algorithm == RATION_SLIDING_WINDOW ||
                     limit->refill == RATION_REFILL_INTERVAL;

    if (limit->algorithm == RATION_SLIDING_LOG && limit->tokens > RATION_REDIS_LOG_TOKENS_MAX)
        return ration_refuse(error, RATION_EUNFIT,
                             "on Redis a sliding-log has at most %d tokens, each of which is a "
                             "moment to send; a sliding-window has no such bound",
                             RATION_REDIS_LOG_TOKENS_MAX);
    if (is_window && (limit->tokens > EXACT_MAX || limit->burst > EXACT_MAX))
        return ration_refuse(error, RATION_EUNFIT,
                             "on Redis a window or interval has at most 2^50 tokens");
    if (is_window && limit->period_ns < WINDOW_MIN_NS)
        return ration_refuse(error, RATION_EUNFIT,
                             "on Redis a window or interval is at least a microsecond long");
    if (limit->refill == RATION_REFILL_INTERVAL && limit->burst / limit->tokens >= POINTS_MAX - 1)
        return ration_refuse(error, RATION_EUNFIT,
                             "on Redis a burst is less than 2^31 intervals' tokens");
    return RATION_OK;
}

/* Names --------------------------------------------------------------------------------------- */

/* A key's bytes without braces, which would end a tag, and not empty: {} is no tag. */
static void write_escaped(struct ration_output *text, const struct ration_key *key)
{
    const char *bytes = key->bytes;
    size_t plain = 0;

    if (key->size == 0) {
        ration_output_append_text(text, "%"); /* no other key is written so */
        return;
    }
    for (size_t i = 0; i < key->size; i++) {
        const char *escape = bytes[i] == '{'   ? "%7B"
                             : bytes[i] == '}' ? "%7D"
                             : bytes[i] == '%' ? "%25"
                                               : NULL;

        if (escape == NULL)
            continue;
        ration_output_append(text, bytes + plain, i - plain);
        ration_output_append_text(text, escape);
        plain = i + 1;
    }
    ration_output_append(text, bytes + plain, key->size - plain);
}

/* No key is escaped so: a % stands before 7B, 7D and 25, or alone. */
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

/* Where a key follows: without colons, so that its end is known. */
static void write_limit_name(struct ration_output *text, const char *name)
{
    for (; *name != '\0'; name++)
        if (*name == ':' || *name == '%')
            ration_output_append_text(text, *name == ':' ? "%3A" : "%25");
        else
            ration_output_append_byte(text, *name);
}

void ration_redis_name_write(const struct ration_redis_names *names, const struct ration_key *key,
                             const char *limit_name, struct ration_redis_words *words)
{
    struct ration_output *text = &words->text;

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
    ration_redis_word_end(words);
}

/* Arguments ----------------------------------------------------------------------------------- */

static uint64_t least(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

/* What a bucket that is new owes, of so many tokens. */
static uint64_t start_out(const struct ration_limit *limit)
{
    if (limit->start == RATION_START_FULL || limit->start_tokens >= limit->burst)
        return 0;
    return limit->burst - limit->start_tokens;
}

/* The sustained part is filled first, so the reserve is what lacks first. */
static void write_reserve(struct ration_redis_words *words, const struct ration_redis_part *part)
{
    const struct ration_limit *limit = part->limit;
    struct ration_reserve start = {.tats = {{0, 0}, {0, 0}}};
    const struct ration_rate *rates[] = {&limit->rate, &limit->reserve_rate};

    if (limit->start != RATION_START_FULL)
        start = ration_reserve_set(limit, limit->start_tokens, 0);
    for (int i = 0; i < 2; i++) {
        ration_redis_word_u64(words, part->cost_tokens <= rates[i]->burst);
        ration_redis_word_time(
            words, ration_time_scale(rates[i]->token, least(part->cost_tokens, rates[i]->burst)));
        ration_redis_word_time(words, rates[i]->capacity);
        ration_redis_word_time(words, start.tats[i]);
    }
}

static void write_window(struct ration_redis_words *words, const struct ration_redis_part *part)
{
    ration_redis_word_moment(words, part->limit->period_ns);
    ration_redis_word_u64(words, part->limit->tokens);
    ration_redis_word_u64(words, least(part->cost_tokens, part->limit->tokens));
    ration_redis_word_u64(words, start_out(part->limit));
}

static void write_interval(struct ration_redis_words *words, const struct ration_redis_part *part)
{
    ration_redis_word_moment(words, part->limit->period_ns);
    ration_redis_word_u64(words, part->limit->tokens);
    ration_redis_word_u64(words, part->limit->burst);
    ration_redis_word_u64(words, least(part->cost_tokens, part->limit->burst));
    ration_redis_word_u64(words, start_out(part->limit));
}

/* Most begin full, and owe nothing. */
static bool has_more(const struct ration_redis_part *part)
{
    return start_out(part->limit) > 0 || part->owed_tokens > 0;
}

static void write_gcra(struct ration_redis_words *words, const struct ration_redis_part *part)
{
    const struct ration_rate *rate = &part->limit->rate;

    ration_redis_word_time(words,
                           ration_time_scale(rate->token, least(part->cost_tokens, rate->burst)));
    ration_redis_word_time(words, rate->capacity);
    if (!has_more(part))
        return;
    ration_redis_word_time(words, ration_time_scale(rate->token, start_out(part->limit)));
    ration_redis_word_time(
        words, ration_time_scale(rate->token, least(part->owed_tokens, rate->span_tokens)));
}

static uint64_t mode_of(const struct ration_redis_part *part)
{
    uint64_t most =
        part->limit->algorithm == RATION_BURST_RESERVE
            ? (part->limit->burst > part->limit->reserve_burst ? part->limit->burst
                                                               : part->limit->reserve_burst)
            : part->limit->burst;

    return (part->is_shadow ? MODE_SHADOW : 0u) + (part->cost_tokens > most ? MODE_NEVER : 0u) +
           (part->cost_tokens == 0 ? MODE_FREE : 0u);
}

static void write_part(struct ration_redis_words *words, const struct ration_redis_part *part)
{
    static const struct {
        const char *name;
        void (*write)(struct ration_redis_words *words, const struct ration_redis_part *part);
    } algorithms[] = {
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
        ration_redis_word_text(words, "interval");
    else if (algorithms[part->limit->algorithm].write == write_gcra && has_more(part))
        ration_redis_word_text(words, "gcra+");
    else
        ration_redis_word_text(words, algorithms[part->limit->algorithm].name);
    ration_redis_word_u64(words, mode_of(part));
    ration_redis_word_u64(words, keep_ms);
    (is_interval ? write_interval : algorithms[part->limit->algorithm].write)(words, part);
}

void ration_redis_ask_write(const struct ration_redis_ask *ask,
                            const struct ration_redis_names *names,
                            struct ration_redis_words *words)
{
    ration_redis_word_u64(words, ask->part_count);
    for (uint32_t i = 0; i < ask->part_count; i++)
        ration_redis_name_write(names, &ask->parts[i].key, ask->parts[i].limit->name, words);
    ration_redis_word_now(words, ask->has_now, ask->now_ns);
    ration_redis_word_text(words, ask->is_look ? "look" : "take");
    for (uint32_t i = 0; i < ask->part_count; i++) {
        ration_redis_shape_write(ask->parts[i].limit, ask->parts[i].is_given, &words->text);
        ration_redis_word_end(words);
    }
    for (uint32_t i = 0; i < ask->part_count; i++)
        write_part(words, &ask->parts[i]);
    ration_redis_word_text(words, "0");
}

/* Answers ------------------------------------------------------------------------------------- */

/* Each bucket as it was, before what is asked for now. */
static bool read_items(const struct ration_redis_ask *ask, const struct ration_redis_answer *answer,
                       struct ration_case *c, struct ration_redis_told *told)
{
    for (uint32_t i = 0; i < ask->part_count; i++) {
        const struct ration_redis_part *part = &ask->parts[i];
        struct ration_item *item = &c->items[i];

        *item = (struct ration_item){
            .cost_tokens = part->cost_tokens,
            .is_shadow = part->is_shadow,
            .shares_with = -1,
            .part_index = i,
            .limiter_index = i,
            .before = {.limit = part->limit},
        };
        if (!ration_redis_state_read(&answer->texts[i], c->now_ns, &told->runs[i], &item->before,
                                     &told->holds_ns[i]))
            return false;
        if (told->holds_ns[i] > c->now_ns && !part->is_shadow)
            item->hold_ns = told->holds_ns[i] - c->now_ns;
        if (part->owed_tokens > 0)
            item->before = ration_any_force(&item->before, part->owed_tokens, c->now_ns);
    }
    c->item_count = ask->part_count;
    return true;
}

ration_status ration_redis_ask_read(const struct ration_redis_ask *ask,
                                    const struct ration_redis_answer *answer,
                                    struct ration_redis_told *out_told)
{
    struct ration_op op = {.kind = ask->is_look ? RATION_OP_LOOK : RATION_OP_TAKE,
                           .has_decision = true,
                           .has_details = true};
    struct ration_case c = {.op = &op};

    if (answer->is_of_others || answer->text_count != ask->part_count ||
        answer->now_ns >= RATION_NS_PER_SECOND ||
        answer->now_s > RATION_NOW_MAX_NS / RATION_NS_PER_SECOND)
        return RATION_EINVAL;
    c.now_ns = ration_time_clamp(answer->now_s * RATION_NS_PER_SECOND + answer->now_ns);
    op.now_ns = c.now_ns;
    if (!read_items(ask, answer, &c, out_told))
        return RATION_EINVAL;
    ration_judge(&c);
    if ((c.verdict == RATION_ALLOW) != answer->is_taken)
        return RATION_EINVAL;
    out_told->now_ns = c.now_ns;
    out_told->decision = ration_judge_describe_all(&c);
    for (uint32_t i = 0; i < c.item_count; i++) {
        out_told->parts[i] = ration_judge_describe(&c, &c.items[i]);
        out_told->befores[i] = c.items[i].before;
        out_told->texts[i] = answer->texts[i];
    }
    return RATION_OK;
}
