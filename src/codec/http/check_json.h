/*
 * check_json: reads checks from the JSON body of a request.
 *
 *     {"attributes": {"ip": "192.0.2.7", "tokens": 800}, "cost": 3}
 *     {"key": "user:7", "limit": "10/s burst 20", "peek": true}
 *     {"key": "user:7", "limit": {"tokens": 10, "period": "1s", "burst": 20}}
 *     {"checks": [ ... ]}                       up to RATION_CHECKS_MAX of them, check and peek only
 *     {"attributes": { ... }, "tokens": 2}      refund
 *     {"attributes": { ... }, "seconds": 60}    block; or "ns"
 *     {"attributes": { ... }, "limit": "login"} reset: only this limit; also refund and block
 *
 * The whole body is validated before the first check is decided: an error in the last check must
 * not cost the tokens of the others. Numbers are non-negative integers. Unknown members are
 * refused, because a misspelled cost that is ignored would weaken the limit.
 */
#ifndef RATION_CODEC_HTTP_CHECK_JSON_H
#define RATION_CODEC_HTTP_CHECK_JSON_H

#include "codec/http/check.h"

/* Maximum nesting of objects and arrays. */
#define RATION_CHECK_JSON_DEPTH_MAX 8

typedef struct ration_checks ration_checks;

/*
 * Reads a body. *out_checks is owned by the caller, which releases it with ration_check_json_free()
 * after the answer is written. The body is borrowed for the call. On error, returns false,
 * describes it in error (may be NULL) and leaves *out_checks untouched.
 */
bool ration_check_json_read(enum ration_check_kind kind, const char *body, size_t size,
                            ration_checks **out_checks, struct ration_check_error *error);
void ration_check_json_free(ration_checks *checks);

/* At least 1. */
size_t ration_check_json_count(const ration_checks *checks);

/* Whether they were sent as {"checks": []}: then the answer is a list too. */
bool ration_check_json_is_batch(const ration_checks *checks);

/*
 * Returns the check at an index below ration_check_json_count(). It points into checks and room.
 * Allocates nothing and cannot fail, because ration_check_json_read() has validated it.
 */
void ration_check_json_get(const ration_checks *checks, size_t index,
                           struct ration_check_room *room, struct ration_check_request *out_check);

#endif
