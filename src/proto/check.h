/*
 * check: what a client asks about one caller, whether it came as JSON or as a query string.
 *
 * The caller is named by attributes, which a policy maps to limits and keys:
 *
 *     {"attributes": {"method": "POST", "path": "/login", "ip": "192.0.2.7"}, "cost": 1}
 *
 * or by a key, with the limit that it is held to:
 *
 *     {"key": "user:7", "limit": "10/s burst 20"}
 */
#ifndef RATION_PROTO_CHECK_H
#define RATION_PROTO_CHECK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "ration/limit.h"
#include "ration/limiter.h"
#include "ration/policy.h"

#define RATION_CHECKS_MAX 1000 /* of one request */

enum ration_check_kind {
    RATION_CHECK_TAKE = 0,
    RATION_CHECK_PEEK,   /* what would be decided */
    RATION_CHECK_REFUND, /* gives tokens back */
    RATION_CHECK_RESET,  /* fills the buckets */
    RATION_CHECK_BLOCK   /* denies for a time */
};

struct ration_asked {
    enum ration_check_kind kind;
    bool has_key;   /* otherwise attributes say who asks */
    bool has_limit; /* always with has_key, but for a reset */
    struct ration_key key;
    struct ration_limit limit;
    bool is_inline;      /* a reset of all limits that came with requests, and nothing else */
    bool has_limit_name; /* attributes, and only this limit of the policy; not to check or peek */
    struct ration_key limit_name;
    const struct ration_attribute *attributes;
    size_t attribute_count;
    uint64_t tokens;   /* what it costs (1 unless said), or how many to refund */
    uint64_t block_ns; /* of RATION_CHECK_BLOCK */
};

/* The error of a block that is too long, in every protocol. */
#define RATION_BLOCK_TOO_LONG \
    "a block lasts at most 730 days; ban a caller for longer in the policy"
_Static_assert(RATION_BLOCK_NS_MAX == 730 * RATION_NS_PER_DAY, "the error says the bound");

/* The longest text of a JSON integer, with its end. */
#define RATION_CHECK_NUMBER_SIZE 21

/* Room for what one check points to besides what the client sent. */
struct ration_check_room {
    struct ration_attribute attributes[RATION_ATTRIBUTES_MAX];
    char numbers[RATION_ATTRIBUTES_MAX][RATION_CHECK_NUMBER_SIZE];
};

/* What is wrong, where, and what would be right. */
struct ration_check_error {
    char pointer[160]; /* RFC 6901: /checks/3/cost; empty: the whole */
    char message[RATION_ERROR_MESSAGE_MAX];
};

/*
 * A check from a query string, which is decoded where it stands: cost, peek, key and limit are what
 * they are in JSON, and all other names are attributes. false: error (may be NULL) says why; then
 * *out_check is untouched.
 */
bool ration_check_read_query(char *query, size_t size, struct ration_check_room *room,
                             struct ration_asked *out_check, struct ration_check_error *error);

/* Notes what is wrong, in the way of printf. error may be NULL. Returns false. */
bool ration_check_fail(struct ration_check_error *error, const char *pointer, const char *format,
                       ...) __attribute__((format(printf, 3, 4)));

#endif
