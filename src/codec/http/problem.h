/*
 * problem: writes errors as application/problem+json (RFC 9457).
 *
 *     {"type":"https://iana.org/assignments/http-problem-types#quota-exceeded",
 *      "title":"Quota Exceeded","status":429,
 *      "detail":"login allows 5 at once, and fills in 60 seconds; retry in 12 seconds.",
 *      "violated-policies":["login"]}
 *
 * For a request that could not be parsed, "pointer" identifies the part of its body (RFC 6901).
 */
#ifndef RATION_CODEC_HTTP_PROBLEM_H
#define RATION_CODEC_HTTP_PROBLEM_H

#include <stddef.h>
#include <stdint.h>

#include "codec/json/json_write.h"
#include "ration/policy.h"

#define RATION_PROBLEM_CONTENT_TYPE "application/problem+json"

struct ration_problem {
    unsigned status;
    const char *detail;  /* a sentence for people; NULL: none */
    const char *pointer; /* NULL: none */
};

/* Writes a problem of type about:blank; its title is the text of its status. */
void ration_problem_write(struct ration_json *json, const struct ration_problem *problem);

/* A limit that denied. */
struct ration_problem_quota {
    const char *name;
    uint64_t burst;
    uint64_t window_seconds;
    uint64_t retry_seconds; /* 0 if no wait helps */
};

/*
 * Writes a denial with this status (429, or another one that proxies understand). quotas has at
 * least one entry; the first is the limit that decided. is_degraded: the fallback decided, because
 * the backend did not respond.
 */
void ration_problem_write_quota(struct ration_json *json, unsigned status, bool is_degraded,
                                const struct ration_problem_quota *quotas, size_t quota_count);

/* Writes a 503: the backend is unavailable and the fallback is to deny. */
void ration_problem_write_reduced(struct ration_json *json, const char *detail);

#endif
