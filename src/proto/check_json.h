/*
 * check_json: checks from the JSON body of a request.
 *
 *     {"attributes": {"ip": "192.0.2.7", "tokens": 800}, "cost": 3}
 *     {"key": "user:7", "limit": "10/s burst 20", "peek": true}
 *     {"key": "user:7", "limit": {"tokens": 10, "period": "1s", "burst": 20}}
 *     {"checks": [ ... ]}                       up to RATION_CHECKS_MAX of them, check and peek only
 *     {"attributes": { ... }, "tokens": 2}      refund
 *     {"attributes": { ... }, "seconds": 60}    block; or "ns"
 *     {"attributes": { ... }, "limit": "login"} reset: only of this limit; also refund and block
 *
 * The body is checked as a whole before the first of its checks is decided: a mistake in the last
 * one must not cost the others' tokens. Numbers are whole and not negative; what is not known is
 * refused, since a cost that was meant and is not read would be a limit that does not hold.
 */
#ifndef RATION_PROTO_CHECK_JSON_H
#define RATION_PROTO_CHECK_JSON_H

#include "proto/check.h"

/* Objects and arrays in each other. */
#define RATION_CHECK_JSON_DEPTH_MAX 8

typedef struct ration_checks ration_checks;

/*
 * Reads a body. *out_checks is owned by the caller: release it with ration_checks_free(), after the
 * answer. The body is borrowed for the call. false: error (may be NULL) says why, and *out_checks
 * is untouched.
 */
bool ration_checks_read(enum ration_check_kind kind, const char *body, size_t size,
                        ration_checks **out_checks, struct ration_check_error *error);
void ration_checks_free(ration_checks *checks);

/* At least 1. */
size_t ration_checks_count(const ration_checks *checks);

/* Whether they came in {"checks": []}: the answer then is a list, too. */
bool ration_checks_is_batch(const ration_checks *checks);

/*
 * The check at an index below that count. What it points to lives in checks and in room. Nothing is
 * allocated, and nothing can be wrong any more.
 */
void ration_checks_get(const ration_checks *checks, size_t index, struct ration_check_room *room,
                       struct ration_asked *out_check);

#endif
