/*
 * check: a check request, whether it was sent as JSON or as a query string.
 *
 * The caller is identified by attributes, which a policy maps to limits and keys:
 *
 *     {"attributes": {"method": "POST", "path": "/login", "ip": "192.0.2.7"}, "cost": 1}
 *
 * or by a key, with an inline limit:
 *
 *     {"key": "user:7", "limit": "10/s burst 20"}
 */
#ifndef RATION_CODEC_HTTP_CHECK_H
#define RATION_CODEC_HTTP_CHECK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "ration/limit.h"
#include "ration/limiter.h"
#include "ration/policy.h"

#define RATION_CHECKS_MAX 1000 /* in one request */

enum ration_check_kind {
    RATION_CHECK_TAKE = 0,
    RATION_CHECK_PEEK,   /* reports the decision without taking tokens */
    RATION_CHECK_REFUND, /* returns tokens */
    RATION_CHECK_RESET,  /* fills the buckets */
    RATION_CHECK_BLOCK   /* denies all requests for a time */
};

struct ration_check_request {
    enum ration_check_kind kind;
    bool has_key;   /* otherwise attributes identify the caller */
    bool has_limit; /* always true with has_key, except for a reset */
    struct ration_key key;
    struct ration_limit limit;
    bool is_inline;      /* a reset of all inline limits; no other field is set */
    bool has_limit_name; /* attributes with one named limit of the policy; not for take and peek */
    struct ration_key limit_name;
    const struct ration_attribute *attributes;
    size_t attribute_count;
    uint64_t tokens;   /* the cost (1 by default), or the number of tokens to refund */
    uint64_t block_ns; /* for RATION_CHECK_BLOCK */
};

/* The error for a block that is too long, in every protocol. */
#define RATION_BLOCK_TOO_LONG \
    "a block lasts at most 730 days; ban a caller for longer in the policy"
_Static_assert(RATION_BLOCK_NS_MAX == 730 * RATION_NS_PER_DAY, "the error says the bound");

/* The longest text of a JSON integer, with its terminating zero. */
#define RATION_CHECK_NUMBER_SIZE 21

/* Storage for the data of one check that is not in the client's own bytes. */
struct ration_check_room {
    struct ration_attribute attributes[RATION_ATTRIBUTES_MAX];
    char numbers[RATION_ATTRIBUTES_MAX][RATION_CHECK_NUMBER_SIZE];
};

/* What is wrong, where, and how to fix it. */
struct ration_check_error {
    char pointer[160]; /* RFC 6901: /checks/3/cost; empty for the whole body */
    char message[RATION_ERROR_MESSAGE_MAX];
};

/*
 * Reads a check from a query string, which is decoded in place. cost, peek, key and limit have the
 * same meaning as in JSON; all other names are attributes. On error, returns false, describes it in
 * error (may be NULL) and leaves *out_check untouched.
 */
bool ration_check_read_query(char *query, size_t size, struct ration_check_room *room,
                             struct ration_check_request *out_check,
                             struct ration_check_error *error);

/* Stores an error, formatted as by printf. error may be NULL. Always returns false. */
bool ration_check_fail(struct ration_check_error *error, const char *pointer, const char *format,
                       ...) __attribute__((format(printf, 3, 4)));

#endif
