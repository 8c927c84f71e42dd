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
 *     ration_policy_load("policy.yaml", tell, NULL, &policy);       // tell() gets every fault
 *
 *     struct ration_attribute request[] = {{RATION_KEY("method"), RATION_KEY("POST")},
 *                                          {RATION_KEY("path"), RATION_KEY("/login")},
 *                                          {RATION_KEY("ip"), RATION_KEY("192.0.2.7")}};
 *     struct ration_policy_match match;
 *     ration_policy_find_matches(policy, request, 3, &match);              // match.limits[0] is login
 *
 * A request is a list of attributes: names and values, any bytes. Well-known names are method, path,
 * host, ip, user, plan and header.<name in lower case>; any other may be used. ip is an address: it
 * is compared as one, whatever way it is written, and stands in keys in one way only.
 *
 * A policy never changes once it is read: any number of threads may use it. Matching, keys and costs
 * allocate nothing and take no lock. The language is in docs/policy.md.
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

/* Of the text. */
#define RATION_POLICY_BYTES_MAX      (4 << 20)
#define RATION_POLICY_DEPTH_MAX      16     /* lists and mappings in each other */
#define RATION_POLICY_NODES_MAX      524288 /* names, values, lists and mappings */
#define RATION_POLICY_LIMITS_MAX     4096
#define RATION_POLICY_ITEMS_MAX      4096 /* of exempt, and of banned */
#define RATION_POLICY_CONDITIONS_MAX 16   /* of one match */
#define RATION_POLICY_VALUES_MAX     4096 /* of one condition */
#define RATION_POLICY_VALUE_SIZE_MAX 1024 /* bytes of one of them */
#define RATION_POLICY_NAMES_MAX      128  /* different attributes that a policy names */
#define RATION_POLICY_KEY_PARTS_MAX  8    /* attributes of one key */
#define RATION_POLICY_KEYS_MAX       UINT64_C(1000000000)
#define RATION_POLICY_SETTINGS_MAX   256
#define RATION_POLICY_FAULTS_MAX     100 /* that are told; one more says that there are more */

/* Of a request. */
#define RATION_ATTRIBUTES_MAX     64
#define RATION_ATTRIBUTE_NAME_MAX 127
#define RATION_POLICY_MATCHES_MAX 16                /* limits that apply to one request */
#define RATION_POLICY_STEPS_MAX   ((size_t)2 << 20) /* bytes that its globs search together */

/* What limits that come with requests are called together; no limit of a policy has this name. */
#define RATION_POLICY_THROTTLE "throttle"

#define RATION_POLICY_KEYS_DEFAULT        1000000
#define RATION_POLICY_IPV6_PREFIX_DEFAULT 64

struct ration_attribute {
    struct ration_key name;
    struct ration_key value;
};

/* What is wrong with a policy, where, and what would be right. */
struct ration_policy_fault {
    uint32_t line;       /* from 1; 0 where the file could not be read at all */
    uint32_t column;     /* from 1, in characters */
    const char *message; /* one line of printable ASCII; borrowed for the call */
};

typedef void ration_policy_fault_fn(void *context, const struct ration_policy_fault *fault);

/*
 * Reads a policy from text, which is borrowed for the call and needs no terminator. *out_policy is
 * owned by the caller: release it with ration_policy_free().
 * Returns RATION_EINVAL for a text with faults: all of them are told to fault (may be NULL), in
 * order of their lines. RATION_ENOMEM. On failure *out_policy is untouched.
 */
RATION_API ration_status ration_policy_parse(const char *text, size_t text_size,
                                             ration_policy_fault_fn *fault, void *context,
                                             ration_policy **out_policy);

/* The same from a file. One that cannot be read is a fault without a line, and RATION_EINVAL. */
RATION_API ration_status ration_policy_load(const char *path, ration_policy_fault_fn *fault,
                                            void *context, ration_policy **out_policy);

/* Releases a policy that no thread uses any more; NULL is fine. */
RATION_API void ration_policy_free(ration_policy *policy);

/* What a request pays under a limit. */
enum ration_policy_cost_kind {
    RATION_POLICY_COST_REQUEST = 0, /* what the caller says */
    RATION_POLICY_COST_FIXED,       /* cost_tokens, whatever the caller says */
    RATION_POLICY_COST_ATTRIBUTE    /* the number in cost_name; without it cost_tokens */
};

/* What happens to a request that lacks an attribute of the key. */
enum ration_policy_missing {
    RATION_POLICY_MISSING_SHARE = 0, /* it counts as empty: such requests share a bucket */
    RATION_POLICY_MISSING_SKIP       /* the limit does not apply */
};

/* What happens where Redis cannot decide. */
enum ration_policy_fallback {
    RATION_POLICY_FALLBACK_LOCAL = 0, /* a share of the limit in this process */
    RATION_POLICY_FALLBACK_ALLOW,     /* the limit is left out */
    RATION_POLICY_FALLBACK_DENY       /* the request cannot be decided: an error, not a denial */
};

/* How a limit in Redis is asked. */
enum ration_policy_mode {
    RATION_POLICY_STRICT = 0,  /* every time */
    RATION_POLICY_LOCAL_FIRST, /* when less than the threshold would be left in the local bucket */
    RATION_POLICY_LEASE        /* tokens are drawn ahead, and spent here */
};

#define RATION_POLICY_THRESHOLD_PERCENT 25
#define RATION_POLICY_NEAR_BURST_MAX    1000000 /* of a limit that is not strict */

/* One limit of a policy. Borrowed: it lives as long as the policy. */
struct ration_policy_limit {
    struct ration_limit limit;    /* with its name */
    const char *const *key_names; /* attributes; NULL if key_count is 0: one bucket for all */
    size_t key_count;
    enum ration_policy_cost_kind cost_kind;
    uint64_t cost_tokens;
    const char *cost_name; /* NULL but for RATION_POLICY_COST_ATTRIBUTE */
    enum ration_policy_missing missing;
    enum ration_overflow overflow;
    uint32_t is_shadow;
    uint32_t ipv6_prefix;    /* so many bits of an IPv6 address are the key */
    uint64_t stale_after_ns; /* 0: the limiter's default */
    uint64_t keys_max;
    enum ration_policy_fallback on_backend_error;
    enum ration_policy_mode mode;
    uint32_t threshold_percent; /* RATION_POLICY_LOCAL_FIRST: of the burst */
    uint64_t lease_ns;          /* RATION_POLICY_LEASE; 0: as the burst allows */
    uint32_t line;              /* where it stands in the text */
};

RATION_API size_t ration_policy_limit_count(const ration_policy *policy);

/* The limit at an index, in the order of the text; NULL if the policy has fewer. */
RATION_API const struct ration_policy_limit *ration_policy_limit_at(const ration_policy *policy,
                                                                    size_t limit_index);

/* Whether the policy says cluster: one-slot. Without a cluster of Redis it means nothing. */
RATION_API bool ration_policy_is_one_slot(const ration_policy *policy);

/*
 * Finds two limits that may apply to one request and have different keys, so that a cluster of Redis
 * could not decide them together. Returns false if there are none. Where that is not certain, or would
 * take too long to tell, they are taken for such.
 */
RATION_API bool ration_policy_find_two_keys(const ration_policy *policy, size_t *out_limit_index,
                                            size_t *out_other_index);

enum ration_policy_verdict {
    RATION_POLICY_LIMITS = 0, /* the limits listed apply, if any */
    RATION_POLICY_EXEMPT,     /* no limit applies */
    RATION_POLICY_BANNED      /* denied, whatever the limits say; wins over exempt */
};

struct ration_policy_match {
    enum ration_policy_verdict verdict;
    uint32_t limit_count;
    uint32_t limits[RATION_POLICY_MATCHES_MAX]; /* indexes, in the order of the text */
    uint32_t compared_count; /* limits and items whose conditions were looked at */
    uint32_t item_index;     /* of exempt or banned: the first that matched, ... */
    uint32_t item_line;      /* ... and where it stands in the text */
};

/*
 * Finds what a policy says of a request. The cost grows with what applies, not with the size of the
 * policy; only globs that begin with a wildcard are compared with every request. limit_count is 0
 * unless the verdict is RATION_POLICY_LIMITS.
 * Returns RATION_EINVAL, with *out_match untouched: more than RATION_ATTRIBUTES_MAX attributes, one
 * that the policy uses given twice, an ip that is no address where any condition is about ip, or more than
 * RATION_POLICY_MATCHES_MAX limits that apply. RATION_ENOSPC: its globs would have to search more than
 * RATION_POLICY_STEPS_MAX bytes of values, which takes thousands of globs and values of kilobytes.
 */
RATION_API ration_status ration_policy_find_matches(const ration_policy *policy,
                                                    const struct ration_attribute *attributes,
                                                    size_t attribute_count,
                                                    struct ration_policy_match *out_match);

/*
 * The key of a request under a limit: empty, the value of one attribute, or several values joined by
 * '|', with '\' before any '|' and '\' in them. An ip is written as RFC 5952 says, IPv6 as the
 * network of the limit's ipv6_prefix: 2001:db8:1:2::/64.
 * *out_key points into the request, or into buffer.
 * Returns RATION_EINVAL: no such limit, an ip that is no address, a key above RATION_KEY_SIZE_MAX;
 * RATION_ENOSPC: one above buffer_size. Then *out_key is untouched.
 */
RATION_API ration_status ration_policy_key(const ration_policy *policy, size_t limit_index,
                                           const struct ration_attribute *attributes,
                                           size_t attribute_count, char *buffer, size_t buffer_size,
                                           struct ration_key *out_key);

/*
 * What a request pays under a limit, where the caller says request_cost_tokens.
 * Returns RATION_EINVAL: no such limit, or a cost attribute that is not decimal digits up to
 * UINT64_MAX. Then *out_cost_tokens is untouched.
 */
RATION_API ration_status ration_policy_cost(const ration_policy *policy, size_t limit_index,
                                            const struct ration_attribute *attributes,
                                            size_t attribute_count, uint64_t request_cost_tokens,
                                            uint64_t *out_cost_tokens);

/*
 * Whether the policy looks at the attribute of this name at all. Who fills requests from what strangers
 * send (headers, say) leaves out what is not looked at, and so never has too many.
 */
RATION_API bool ration_policy_uses(const ration_policy *policy, const char *name);

/* A value of the section server:, as it was written. */
struct ration_policy_value {
    const char *text; /* terminated; may also hold zero bytes */
    size_t size;
    uint32_t line;
    uint32_t column;
};

/* A setting of the section server:. The library keeps them; who uses them checks them. */
struct ration_policy_setting {
    const char *name;
    const struct ration_policy_value *values;
    size_t value_count;
    uint32_t is_list; /* 1: written as a list, which may be empty */
    uint32_t line;
    uint32_t column;
};

RATION_API size_t ration_policy_setting_count(const ration_policy *policy);

/* The setting at an index; NULL if there are fewer. Borrowed: it lives as long as the policy. */
RATION_API const struct ration_policy_setting *ration_policy_setting_at(const ration_policy *policy,
                                                                        size_t setting_index);

/*
 * Wipes the values of the section server:, which may be passwords, and leaves a policy without settings. For a program
 * that has read them, before it hands the policy to an engine that keeps it.
 */
RATION_API void ration_policy_forget_settings(ration_policy *policy);

/*
 * Writes what a limit matches as one line for a person ("method is POST, path starts with /api/").
 * What does not fit into buffer, of at least 1 byte, is cut with "...". Returns buffer.
 */
RATION_API const char *ration_policy_describe(const ration_policy *policy, size_t limit_index,
                                              char *buffer, size_t buffer_size);

/*
 * Writes why a limit does not apply to a request, as one line for a person: the first condition that
 * does not hold. Empty if it applies. Returns RATION_EINVAL as ration_policy_find_matches() does, with
 * buffer, of at least 1 byte, untouched.
 */
RATION_API ration_status ration_policy_explain(const ration_policy *policy, size_t limit_index,
                                               const struct ration_attribute *attributes,
                                               size_t attribute_count, char *buffer,
                                               size_t buffer_size);

RATION_C_END

#endif
