/*
 * resp_batch: requests that are decided, together where they came together.
 */
#include <string.h>

#include "proto/check_resp.h"
#include "server/resp_session.h"

bool ration_word_number(const struct ration_key *word, uint64_t *out_number)
{
    const unsigned char *digits = word->bytes;
    uint64_t number = 0;

    if (word->size == 0)
        return false;
    for (size_t i = 0; i < word->size; i++) {
        if (digits[i] < '0' || digits[i] > '9' || __builtin_mul_overflow(number, 10, &number) ||
            __builtin_add_overflow(number, (uint64_t)(digits[i] - '0'), &number))
            return false;
    }
    *out_number = number;
    return true;
}

void ration_desk_write_throttle(struct ration_resp_desk *desk, ration_status status,
                                const struct ration_decision *decision)
{
    if (status != RATION_OK)
        ration_desk_error(desk, "ERR the key is too long: at most 65535 bytes");
    else
        ration_throttle_write(desk->output, decision);
}

static void decide_throttles(struct ration_resp_desk *desk)
{
    size_t count = desk->throttle_count;
    uint64_t began_ns = ration_durations_begin(&desk->part->durations);

    ration_limiter_take_batch(ration_gate_throttle(desk->service->gate), desk->items, count,
                              ration_desk_now(desk));
    ration_durations_end(&desk->part->durations, began_ns, count);
    for (size_t i = 0; i < count; i++)
        ration_desk_write_throttle(desk, desk->items[i].status, &desk->decisions[i]);
    desk->throttle_count = 0;
    desk->batch_number++;
}

void ration_desk_write_check(struct ration_resp_desk *desk, const struct ration_check *check)
{
    struct ration_check_answer answer = {
        .decision = check->decision,
        .limit_name = check->limit != NULL ? check->limit->limit.name : NULL,
        .is_banned = check->policy_verdict == RATION_POLICY_BANNED,
        .is_degraded = check->is_degraded != 0,
    };

    if (check->status == RATION_OK) {
        ration_check_resp_write(desk->output, ration_desk_version(desk), &answer);
        return;
    }
    ration_service_add(desk->part, RATION_SERVICE_RESP_ERRORS, 1);
    ration_output_append_text(desk->output, "-ERR ");
    ration_output_append_text(desk->output, check->reason);
    ration_output_append_text(desk->output, "\r\n");
}

bool ration_desk_postpone(struct ration_resp_desk *desk, size_t first)
{
    size_t count = desk->check_count - first;

    desk->check_count = 0;
    desk->attribute_count = 0;
    if (__builtin_expect(count == 0, 1))
        return true;
    desk->postponed = desk->check_starts[first];
    desk->postponed_count = count;
    desk->is_waiting = true;
    ration_connection_yield(desk->connection);
    return false;
}

/* As many as this turn has time for. True: that was all. */
static bool decide_checks(struct ration_resp_desk *desk)
{
    size_t count;
    uint64_t steps = 0;
    uint64_t began_ns = ration_durations_begin(&desk->part->durations);
    struct ration_visit visit;

    ration_gate_enter(desk->service->gate, &visit);
    count = ration_gate_check_some(&visit, desk->checks, desk->check_count,
                                   ration_connection_match_steps_left(desk->connection),
                                   ration_desk_now(desk));
    ration_durations_end(&desk->part->durations, began_ns, count);
    for (size_t i = 0; i < count; i++) {
        ration_desk_write_check(desk, &desk->checks[i]);
        steps += desk->checks[i].match_steps;
    }
    ration_gate_leave(&visit);
    ration_connection_charge(desk->connection, steps);
    return ration_desk_postpone(desk, count);
}

bool ration_desk_flush(struct ration_resp_desk *desk)
{
    if (__builtin_expect(desk->part->link != NULL, 0))
        return ration_desk_flush_later(desk);
    if (desk->throttle_count > 0)
        decide_throttles(desk);
    return desk->check_count == 0 || decide_checks(desk);
}

/* An error behind what waits. */
static void answer_error(struct ration_resp_desk *desk, const char *error)
{
    if (ration_desk_flush(desk))
        ration_desk_error(desk, error);
}

static size_t cache_index(const struct ration_throttle *throttle)
{
    uint64_t mixed = throttle->tokens * UINT64_C(0x9e3779b97f4a7c15) ^
                     throttle->period_ns * UINT64_C(0xc2b2ae3d27d4eb4f) ^
                     throttle->burst * UINT64_C(0x165667b19e3779f9);

    return (size_t)(mixed >> 40) % RATION_LIMIT_CACHE_COUNT;
}

/*
 * The limit of a request: most bring one that was seen before. NULL: it cannot be kept, and the request
 * is answered.
 */
static const struct ration_limit *find_limit(struct ration_resp_desk *desk,
                                             const struct ration_throttle *throttle)
{
    struct ration_cached_limit *cached = &desk->limits[cache_index(throttle)];
    char error[RATION_THROTTLE_ERROR_SIZE];
    struct ration_limit limit;

    if (cached->tokens == throttle->tokens && cached->period_ns == throttle->period_ns &&
        cached->burst == throttle->burst) {
        cached->batch_number = desk->batch_number;
        return &cached->limit;
    }
    if (!ration_throttle_make_limit(throttle, &limit, error)) {
        answer_error(desk, error);
        return NULL;
    }
    if (ration_service_check_inline(desk->service, &limit) != RATION_OK) {
        answer_error(desk, "ERR " RATION_INLINE_FILL_REASON);
        return NULL;
    }
    if (desk->throttle_count > 0 && cached->batch_number == desk->batch_number &&
        !ration_desk_flush(desk)) /* one that waits uses what is replaced */
        return NULL;
    *cached = (struct ration_cached_limit){throttle->tokens, throttle->period_ns, throttle->burst,
                                           desk->batch_number, limit};
    return &cached->limit;
}

void ration_desk_throttle(struct ration_resp_desk *desk, bool is_gcra)
{
    struct ration_words words = ration_desk_words(desk);
    char error[RATION_THROTTLE_ERROR_SIZE];
    struct ration_throttle throttle;
    const struct ration_limit *limit;
    size_t index;

    if (!(is_gcra ? ration_throttle_parse_gcra : ration_throttle_parse)(words.items, words.count,
                                                                        &throttle, error)) {
        answer_error(desk, error);
        return;
    }
    if ((desk->check_count > 0 || desk->throttle_count >= desk->service->settings->pipeline_max) &&
        !ration_desk_flush(desk))
        return;
    limit = find_limit(desk, &throttle);
    if (limit == NULL)
        return;
    index = desk->throttle_count++;
    desk->keys[index] = throttle.key;
    desk->items[index] = (struct ration_batch_item){
        .request = &desk->keys[index],
        .cost_tokens = throttle.quantity,
        .limit = limit,
        .decision = &desk->decisions[index],
    };
}

bool ration_desk_attributes(struct ration_resp_desk *desk, size_t first,
                            struct ration_attribute *attributes, size_t attributes_max,
                            size_t *out_count)
{
    struct ration_words words = ration_desk_words(desk);
    size_t count = (words.count - first) / 2;

    if ((words.count - first) % 2 != 0) {
        ration_desk_error(desk, "ERR attributes come in pairs: name value [name value ...]");
        return false;
    }
    if (count > attributes_max) {
        ration_desk_error(desk, "ERR a request has at most 64 attributes");
        return false;
    }
    for (size_t i = 0; i < count; i++) {
        attributes[i] =
            (struct ration_attribute){words.items[first + 2 * i], words.items[first + 2 * i + 1]};
        if (ration_commands_is_word(&attributes[i].name, "cost")) {
            ration_desk_error(desk, "ERR COST n comes before the attributes, and only once");
            return false;
        }
    }
    *out_count = count;
    return true;
}

/* Whether ration_desk_attributes() will take them. */
static bool is_well_formed(struct ration_words words, size_t first)
{
    if ((words.count - first) % 2 != 0 || words.count - first > 2 * RATION_ATTRIBUTES_MAX)
        return false;
    for (size_t i = first; i < words.count; i += 2)
        if (ration_commands_is_word(&words.items[i], "cost"))
            return false;
    return true;
}

void ration_desk_check(struct ration_resp_desk *desk, bool is_peek)
{
    struct ration_words words = ration_desk_words(desk);
    struct ration_attribute *attributes;
    uint64_t cost_tokens = 1;
    size_t first = 1;
    size_t count = 0;

    if (desk->throttle_count > 0 || desk->check_count >= desk->service->settings->pipeline_max ||
        desk->attribute_count + RATION_ATTRIBUTES_MAX > RATION_RESP_ATTRIBUTES_MAX)
        if (!ration_desk_flush(desk))
            return;
    if (words.count > 2 && ration_commands_is_word(&words.items[1], "cost")) {
        if (!ration_word_number(&words.items[2], &cost_tokens)) {
            answer_error(desk, RATION_ERROR_INTEGER);
            return;
        }
        first = 3;
    }
    attributes = desk->attributes + desk->attribute_count;
    if (!is_well_formed(words, first) && !ration_desk_flush(desk)) /* it will be answered at once */
        return;
    if (!ration_desk_attributes(desk, first, attributes, RATION_ATTRIBUTES_MAX, &count))
        return;
    desk->check_starts[desk->check_count] = desk->request_start;
    desk->checks[desk->check_count++] = (struct ration_check){
        .attributes = attributes,
        .attribute_count = count,
        .cost_tokens = cost_tokens,
        .is_peek = is_peek,
    };
    desk->attribute_count += count;
}
