/*
 * check_answer: decisions as JSON.
 *
 *     {"allowed":false,"verdict":"deny","limit":"login","burst":5,"remaining":0,
 *      "retry_after_ns":12000000000,"reset_after_ns":60000000000,"delay_ns":0,
 *      "limits":[{"limit":"login","verdict":"deny","burst":5, ...}]}
 *
 * A wait that never ends (RATION_FOREVER) is null: no number would be right. Where no limit applied,
 * limit is null, and so are burst, remaining and the waits that only a limit has.
 */
#ifndef RATION_PROTO_CHECK_ANSWER_H
#define RATION_PROTO_CHECK_ANSWER_H

#include <stdbool.h>
#include <stddef.h>

#include "proto/json_write.h"
#include "ration/decision.h"

/* What one limit decided. */
struct ration_check_limit {
    const char *name; /* "" for a limit that was given in the request without one */
    struct ration_decision decision;
    bool is_shadow; /* it would have decided so, and was not asked */
};

struct ration_check_answer {
    struct ration_decision decision;
    const char *limit_name; /* of the limit that decided; NULL: no limit applied */
    bool is_banned;         /* denied by the policy itself, whatever the limits say */
    bool is_degraded;       /* decided by the fallback, since the store did not answer */
    const struct ration_check_limit *limits; /* NULL: they are not told */
    size_t limit_count;
};

/* One answer, as a value wherever json stands: alone, or in the array of a batch. */
void ration_check_answer_write(struct ration_json *json, const struct ration_check_answer *answer);

/*
 * The same as a whole text. Names of limits are the policy's, and have nothing in them that JSON
 * escapes.
 */
void ration_check_answer_write_alone(struct ration_output *output,
                                     const struct ration_check_answer *answer);

/* What stands around the answers of a batch: {"results":[ ... ]} */
void ration_check_answer_begin_batch(struct ration_json *json);
void ration_check_answer_end_batch(struct ration_json *json);

#endif
