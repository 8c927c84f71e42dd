/*
 * check_answer: writes decisions as JSON.
 *
 *     {"allowed":false,"verdict":"deny","limit":"login","burst":5,"remaining":0,
 *      "retry_after_ns":12000000000,"reset_after_ns":60000000000,"delay_ns":0,
 *      "limits":[{"limit":"login","verdict":"deny","burst":5, ...}]}
 *
 * A wait that never ends (RATION_FOREVER) is written as null: no number would be correct. If no
 * limit applied, limit is null, and so are burst, remaining and the waits that only a limit has.
 */
#ifndef RATION_CODEC_JSON_CHECK_ANSWER_H
#define RATION_CODEC_JSON_CHECK_ANSWER_H

#include <stdbool.h>
#include <stddef.h>

#include "codec/json/json_write.h"
#include "ration/decision.h"

/* The decision of one limit. */
struct ration_check_limit {
    const char *name; /* "" for an inline limit without a name */
    struct ration_decision decision;
    bool is_shadow; /* a shadow limit: its decision was not enforced */
};

struct ration_check_answer {
    struct ration_decision decision;
    const char *limit_name; /* of the limit that decided; NULL if no limit applied */
    bool is_banned;         /* denied by the policy itself, whatever the limits decided */
    bool is_degraded;       /* decided by the fallback, because the backend did not respond */
    const struct ration_check_limit *limits; /* NULL: do not list them */
    size_t limit_count;
};

/* Writes one answer as a JSON value: on its own, or as an element of a batch. */
void ration_check_answer_write(struct ration_json *json, const struct ration_check_answer *answer);

/*
 * Writes the same as a complete text. limit_name comes from the policy and needs no JSON escapes.
 */
void ration_check_answer_write_alone(struct ration_output *output,
                                     const struct ration_check_answer *answer);

/* Write the object and array around the answers of a batch: {"results":[ ... ]} */
void ration_check_answer_begin_batch(struct ration_json *json);
void ration_check_answer_end_batch(struct ration_json *json);

#endif
