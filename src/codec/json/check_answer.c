#include "codec/json/check_answer.h"

static void write_number(struct ration_json *json, const char *name, uint64_t number)
{
    ration_json_name(json, name);
    ration_json_u64(json, number);
}

static void write_wait(struct ration_json *json, const char *name, uint64_t ns)
{
    ration_json_name(json, name);
    if (ns == RATION_FOREVER)
        ration_json_null(json);
    else
        ration_json_u64(json, ns);
}

static void write_null(struct ration_json *json, const char *name)
{
    ration_json_name(json, name);
    ration_json_null(json);
}

static void write_numbers(struct ration_json *json, const struct ration_decision *decision)
{
    write_number(json, "burst", decision->limit);
    write_number(json, "remaining", decision->remaining);
    write_wait(json, "retry_after_ns", decision->retry_after_ns);
    write_wait(json, "reset_after_ns", decision->reset_after_ns);
    write_number(json, "delay_ns", decision->delay_ns);
}

/*
 * Without a limit there are no numbers: an allowed request needs no wait, and no wait helps a
 * denied one.
 */
static void write_no_numbers(struct ration_json *json, const struct ration_decision *decision)
{
    write_null(json, "burst");
    write_null(json, "remaining");
    write_wait(json, "retry_after_ns", decision->verdict == RATION_ALLOW ? 0 : RATION_FOREVER);
    write_null(json, "reset_after_ns");
    write_number(json, "delay_ns", 0);
}

static void write_limits(struct ration_json *json, const struct ration_check_answer *answer)
{
    ration_json_name(json, "limits");
    ration_json_begin_array(json);
    for (size_t i = 0; i < answer->limit_count; i++) {
        const struct ration_check_limit *limit = &answer->limits[i];
        ration_json_begin_object(json);
        ration_json_name(json, "limit");
        ration_json_text(json, limit->name);
        ration_json_name(json, "verdict");
        ration_json_text(json, ration_decision_verdict_name(limit->decision.verdict));
        write_numbers(json, &limit->decision);
        if (limit->is_shadow) {
            ration_json_name(json, "shadow");
            ration_json_bool(json, true);
        }
        ration_json_end(json);
    }
    ration_json_end(json);
}

#define APPEND(output, literal) ration_output_append(output, literal, sizeof(literal) - 1)

/*
 * Writes the most common answer: one limit, allowed, without the list of limits. The text is the
 * same as that of ration_check_answer_write(), from constant pieces that need no escaping.
 */
static void write_allowed(struct ration_output *output, const struct ration_check_answer *answer)
{
    APPEND(output, "{\"allowed\":true,\"verdict\":\"allow\",\"limit\":\"");
    ration_output_append_text(output, answer->limit_name);
    APPEND(output, "\",\"burst\":");
    ration_output_append_u64(output, answer->decision.limit);
    APPEND(output, ",\"remaining\":");
    ration_output_append_u64(output, answer->decision.remaining);
    APPEND(output, ",\"retry_after_ns\":0,\"reset_after_ns\":");
    ration_output_append_u64(output, answer->decision.reset_after_ns);
    APPEND(output, ",\"delay_ns\":");
    ration_output_append_u64(output, answer->decision.delay_ns);
    APPEND(output, "}");
}

void ration_check_answer_write_alone(struct ration_output *output,
                                     const struct ration_check_answer *answer)
{
    struct ration_json json;

    if (answer->decision.verdict == RATION_ALLOW && answer->limit_name != NULL &&
        answer->limits == NULL && !answer->is_degraded) {
        write_allowed(output, answer);
        return;
    }
    ration_json_init(&json, output);
    ration_check_answer_write(&json, answer);
}

void ration_check_answer_write(struct ration_json *json, const struct ration_check_answer *answer)
{
    const struct ration_decision *decision = &answer->decision;
    ration_json_begin_object(json);
    ration_json_name(json, "allowed");
    ration_json_bool(json, decision->verdict == RATION_ALLOW);
    ration_json_name(json, "verdict");
    ration_json_text(json, ration_decision_verdict_name(decision->verdict));
    ration_json_name(json, "limit");
    if (answer->limit_name) {
        ration_json_text(json, answer->limit_name);
        write_numbers(json, decision);
    } else {
        ration_json_null(json);
        write_no_numbers(json, decision);
    }
    if (answer->is_banned) {
        ration_json_name(json, "banned");
        ration_json_bool(json, true);
    }
    if (answer->is_degraded) {
        ration_json_name(json, "degraded");
        ration_json_bool(json, true);
    }
    if (answer->limits != NULL)
        write_limits(json, answer);
    ration_json_end(json);
}

void ration_check_answer_begin_batch(struct ration_json *json)
{
    ration_json_begin_object(json);
    ration_json_name(json, "results");
    ration_json_begin_array(json);
}

void ration_check_answer_end_batch(struct ration_json *json)
{
    ration_json_end(json);
    ration_json_end(json);
}
