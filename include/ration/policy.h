/*
 * policy: a file that names limits and says which requests they apply to, and by which key.
 *
 *     limits:
 *       - name: login
 *         match: {method: POST, path: /login}
 *         key: ip
 *         rate: 5/min
 *
 *     ration_policy *policy;
 *     ration_policy_load("policy.yaml", print_error, NULL, &policy);  // print_error() is called for each error
 *
 *     struct ration_attribute request[] = {{RATION_KEY("method"), RATION_KEY("POST")},
 *                                          {RATION_KEY("path"), RATION_KEY("/login")},
 *                                          {RATION_KEY("ip"), RATION_KEY("192.0.2.7")}};
 *     struct ration_policy_match match;
 *     ration_policy_find_matches(policy, request, 3, &match);         // match.limits[0] is login
 *
 * A request is a list of attributes: names and values, any bytes. Well-known names are method,
 * path, host, ip, user, plan and header.<name in lower case>; any other name may be used. ip is an
 * address: it is compared as an address, however it is written, and has one canonical form in keys.
 *
 * Threads: a policy does not change once it is loaded, so any number of threads may use it.
 * Matching, keys and costs allocate nothing and take no lock. The fields of a policy are in docs/reference/policy.md.
 */
#ifndef RATION_POLICY_H
#define RATION_POLICY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "ration/export.h"
#include "ration/limit.h"
#include "ration/limiter.h"
#include "ration/status.h"

RATION_C_BEGIN

typedef struct ration_policy ration_policy;

/* Limits of a policy file. */
#define RATION_POLICY_BYTES_MAX      (4 << 20)
#define RATION_POLICY_DEPTH_MAX      16     /* nested lists and mappings */
#define RATION_POLICY_NODES_MAX      524288 /* names, values, lists and mappings */
#define RATION_POLICY_LIMITS_MAX     4096
#define RATION_POLICY_ITEMS_MAX      4096 /* in exempt, and in banned */
#define RATION_POLICY_CONDITIONS_MAX 16   /* in one match */
#define RATION_POLICY_VALUES_MAX     4096 /* in one condition */
#define RATION_POLICY_VALUE_SIZE_MAX 1024 /* bytes of one value */
#define RATION_POLICY_NAMES_MAX      128  /* different attributes used by a policy */
#define RATION_POLICY_KEY_PARTS_MAX  8    /* attributes in one key */
#define RATION_POLICY_KEYS_MAX       UINT64_C(1000000000)
#define RATION_POLICY_SETTINGS_MAX   256
#define RATION_POLICY_ERRORS_MAX     100 /* errors reported; one more says that there are more */

/* Limits of a request. */
#define RATION_ATTRIBUTES_MAX     64
#define RATION_ATTRIBUTE_NAME_MAX 127
#define RATION_POLICY_MATCHES_MAX 16                /* limits that apply to one request */
#define RATION_POLICY_STEPS_MAX   ((size_t)2 << 20) /* bytes that globs may scan for one request */

/* The common name of all inline limits; a policy cannot use it for a limit of its own. */
#define RATION_POLICY_INLINE "inline"

#define RATION_POLICY_KEYS_DEFAULT        1000000
#define RATION_POLICY_IPV6_PREFIX_DEFAULT 64

struct ration_attribute {
    struct ration_key name;
    struct ration_key value;
};

/* An error in a policy: where it is, what is wrong and what would be valid. */
struct ration_policy_error {
    uint32_t line;       /* from 1; 0 if the file could not be read */
    uint32_t column;     /* from 1, in characters */
    const char *message; /* one line of printable ASCII; borrowed for the call */
};

/* Receives one error. The error and its message are borrowed for the call. */
typedef void ration_policy_error_func(void *context, const struct ration_policy_error *error);

/*
 * Parses a policy from text, which is borrowed for the call and needs no terminator. The caller
 * owns *out_policy and releases it with ration_policy_free(). Returns RATION_EINVAL for a text with
 * errors, after calling on_error (may be NULL) for each of them in the order of their lines;
 * RATION_ENOMEM. On failure *out_policy is untouched.
 */
RATION_API ration_status ration_policy_parse(const char *text, size_t text_size,
                                             ration_policy_error_func *on_error, void *context,
                                             ration_policy **out_policy);

/*
 * As ration_policy_parse(), from a file. A file that cannot be read is reported as an error without
 * a line, and RATION_EINVAL.
 */
RATION_API ration_status ration_policy_load(const char *path, ration_policy_error_func *on_error,
                                            void *context, ration_policy **out_policy);

/* Releases a policy that no thread uses any more. NULL is allowed. */
RATION_API void ration_policy_free(ration_policy *policy);

/* The cost of a request under a limit. */
enum ration_policy_cost_kind {
    RATION_POLICY_COST_REQUEST = 0, /* the cost that the caller passes */
    RATION_POLICY_COST_FIXED,       /* cost_tokens, whatever the caller passes */
    RATION_POLICY_COST_ATTRIBUTE    /* the number in attribute cost_name; if it is missing,
                                       cost_tokens */
};

/* What happens to a request without an attribute of the key. */
enum ration_policy_missing {
    RATION_POLICY_MISSING_SHARED = 0, /* the attribute counts as empty: such requests share a
                                        bucket */
    RATION_POLICY_MISSING_SKIP        /* the limit does not apply */
};

/* What happens when Redis cannot decide. */
enum ration_policy_fallback {
    RATION_POLICY_FALLBACK_LOCAL = 0, /* a share of the limit is enforced in this process */
    RATION_POLICY_FALLBACK_ALLOW,     /* the limit is skipped */
    RATION_POLICY_FALLBACK_DENY       /* the request cannot be decided: an error, not a denial */
};

/* When Redis is queried for a limit. */
enum ration_policy_mode {
    RATION_POLICY_STRICT = 0,  /* for every request */
    RATION_POLICY_LOCAL_FIRST, /* when fewer tokens than the threshold would be left in the local
                                  bucket */
    RATION_POLICY_LEASE        /* to acquire tokens ahead of need, which this process then spends */
};

#define RATION_POLICY_THRESHOLD_PERCENT 25
#define RATION_POLICY_NEAR_BURST_MAX    1000000 /* largest burst of a limit that is not strict */

/* One limit of a policy. Borrowed: it lives as long as the policy. */
struct ration_policy_limit {
    struct ration_limit limit;    /* with its name */
    const char *const *key_names; /* attributes; NULL if key_count is 0: one bucket for all
                                     requests */
    size_t key_count;
    enum ration_policy_cost_kind cost_kind;
    uint64_t cost_tokens;
    const char *cost_name; /* NULL except for RATION_POLICY_COST_ATTRIBUTE */
    enum ration_policy_missing missing;
    enum ration_overflow overflow;
    uint32_t is_shadow;
    uint32_t ipv6_prefix;    /* leading bits of an IPv6 address used as the key */
    uint64_t stale_after_ns; /* 0: the limiter's default */
    uint64_t keys_max;
    enum ration_policy_fallback on_redis_error;
    enum ration_policy_mode mode;
    uint32_t threshold_percent; /* RATION_POLICY_LOCAL_FIRST: percent of the burst */
    uint64_t lease_ns;          /* RATION_POLICY_LEASE: length of a lease; 0: derived from the
                                   burst */
    uint32_t line;              /* its line in the text */
};

/* Returns the number of limits. */
RATION_API size_t ration_policy_limit_count(const ration_policy *policy);

/* Returns the limit at an index, in the order of the text; NULL if there is none. */
RATION_API const struct ration_policy_limit *ration_policy_limit_at(const ration_policy *policy,
                                                                    size_t limit_index);

/* Returns whether the policy sets cluster: one_slot. It has no effect without Redis Cluster. */
RATION_API bool ration_policy_is_one_slot(const ration_policy *policy);

/*
 * Finds two limits that may apply to one request and have different keys, so that Redis Cluster
 * could not decide them together. Returns false if there are none. Two limits for which this is
 * uncertain, or would take too long to determine, count as found.
 */
RATION_API bool ration_policy_find_two_keys(const ration_policy *policy, size_t *out_limit_index,
                                            size_t *out_other_index);

enum ration_policy_verdict {
    RATION_POLICY_LIMITS = 0, /* the limits listed apply, if any */
    RATION_POLICY_EXEMPT,     /* no limit applies */
    RATION_POLICY_BANNED      /* denied, whatever the limits decide; overrides exempt */
};

struct ration_policy_match {
    enum ration_policy_verdict verdict;
    uint32_t limit_count;
    uint32_t limits[RATION_POLICY_MATCHES_MAX]; /* indexes, in the order of the text */
    uint32_t compared_count;                    /* limits and items whose conditions were checked */
    uint32_t item_index; /* the first matching item of exempt or banned, ... */
    uint32_t item_line;  /* ... and its line in the text */
};

/*
 * Finds the limits that apply to a request. The time grows with the number of limits that apply,
 * not with the size of the policy; only globs that begin with a wildcard are compared with every
 * request. limit_count is 0 unless the verdict is RATION_POLICY_LIMITS. Returns, with *out_match
 * untouched:
 *
 *     RATION_EINVAL   more than RATION_ATTRIBUTES_MAX attributes, an attribute used by the policy given twice,
 *                     an ip that is not an address where any condition uses ip, or more than
 *                     RATION_POLICY_MATCHES_MAX limits that apply
 *     RATION_ENOSPC   the globs would have to scan more than RATION_POLICY_STEPS_MAX bytes of values, which takes
 *                     thousands of globs and values of kilobytes
 */
RATION_API ration_status ration_policy_find_matches(const ration_policy *policy,
                                                    const struct ration_attribute *attributes,
                                                    size_t attribute_count,
                                                    struct ration_policy_match *out_match);

/*
 * Builds the key of a request under a limit: empty, the value of one attribute, or several values
 * joined by '|', with '\' before any '|' and '\' in them. An ip is written as in RFC 5952; IPv6 as
 * the network of the limit's ipv6_prefix: 2001:db8:1:2::/64. *out_key points into the request or
 * into buffer. Returns RATION_EINVAL (no such limit, an ip that is not an address, a key longer
 * than RATION_KEY_SIZE_MAX) or RATION_ENOSPC (a key longer than buffer_size). Then *out_key is
 * untouched.
 */
RATION_API ration_status ration_policy_key(const ration_policy *policy, size_t limit_index,
                                           const struct ration_attribute *attributes,
                                           size_t attribute_count, char *buffer, size_t buffer_size,
                                           struct ration_key *out_key);

/*
 * Computes the cost of a request under a limit; request_cost_tokens is the cost that the caller
 * passes. Returns RATION_EINVAL for no such limit, or a cost attribute that is not decimal digits
 * up to UINT64_MAX. Then *out_cost_tokens is untouched.
 */
RATION_API ration_status ration_policy_cost(const ration_policy *policy, size_t limit_index,
                                            const struct ration_attribute *attributes,
                                            size_t attribute_count, uint64_t request_cost_tokens,
                                            uint64_t *out_cost_tokens);

/*
 * Returns whether the policy uses the attribute of this name. A program that fills requests from
 * data of untrusted clients (headers, for example) leaves out unused attributes, and so never
 * exceeds RATION_ATTRIBUTES_MAX because of them.
 */
RATION_API bool ration_policy_uses(const ration_policy *policy, const char *name);

/* A value of the server: section, as written. */
struct ration_policy_value {
    const char *text; /* zero-terminated; may also contain zero bytes */
    size_t size;
    uint32_t line;
    uint32_t column;
};

/*
 * A setting of the server: section. The library only stores settings; the program that uses them
 * checks them.
 */
struct ration_policy_setting {
    const char *name;
    const struct ration_policy_value *values;
    size_t value_count;
    uint32_t is_list; /* 1: written as a list, which may be empty */
    uint32_t line;
    uint32_t column;
};

/* Returns the number of settings in the server: section. */
RATION_API size_t ration_policy_setting_count(const ration_policy *policy);

/*
 * Returns the setting at an index; NULL if there is none. Borrowed: it lives as long as the policy.
 */
RATION_API const struct ration_policy_setting *ration_policy_setting_at(const ration_policy *policy,
                                                                        size_t setting_index);

/*
 * Erases the values of the server: section, which may be passwords, and leaves a policy without
 * settings. A program calls it after reading them, before it passes the policy to an engine, which
 * then owns the policy.
 */
RATION_API void ration_policy_forget_settings(ration_policy *policy);

/*
 * Writes the conditions of a limit as one line for a person ("method is POST, path starts with
 * /api/"). Text that does not fit into buffer (at least 1 byte) is truncated with "...". Returns
 * buffer.
 */
RATION_API const char *ration_policy_describe(const ration_policy *policy, size_t limit_index,
                                              char *buffer, size_t buffer_size);

/*
 * Writes why a limit does not apply to a request, as one line for a person: the first condition
 * that is false. Empty if the limit applies. Returns RATION_EINVAL as ration_policy_find_matches()
 * does, with buffer (at least 1 byte) untouched.
 */
RATION_API ration_status ration_policy_explain(const ration_policy *policy, size_t limit_index,
                                               const struct ration_attribute *attributes,
                                               size_t attribute_count, char *buffer,
                                               size_t buffer_size);

RATION_C_END

#endif
