/*
 * index: finds the few rules that may match a request among thousands.
 *
 * Each rule is indexed by one of its terms, the one that is expected to select the fewest requests.
 * The attribute and each value of that term form a key of a hash table. A request probes the table
 * for each of its attributes:
 *
 *     exact       path = /login                      once, for the whole value
 *     prefix      path starts with /api/ (or a glob)  once for each prefix size in the table
 *     network     ip = 10.0.0.0/8                    once for each prefix length in the table
 *
 * The rules found are then compared in full, so a hash collision costs time but never changes a
 * decision. Rules whose terms are all negated, or begin with a wildcard, are always compared.
 *
 * Prefixes above 32 bytes are truncated to a multiple of 8, and at 256: the table never has more
 * than 60 prefix sizes for an attribute.
 */
#ifndef RATION_POLICY_INDEX_H
#define RATION_POLICY_INDEX_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/address.h"
#include "base/hash.h"
#include "policy/arena.h"
#include "ration/limiter.h"

#define RATION_INDEX_NONE UINT16_MAX

struct ration_policy;

/* A rule, and the pattern of its indexed term that is the key in the table. */
struct ration_index_posting {
    uint32_t rule_index;
    uint32_t pattern_index;
};

struct ration_index_bucket {
    uint64_t hash;
    uint32_t first; /* index of the first posting */
    uint32_t count; /* number of postings; 0 if the bucket is free */
};

/* The kinds and sizes of keys that the table has for one attribute. */
struct ration_index_name {
    bool has_exact;
    uint32_t exact_size_max;
    uint16_t size_count;    /* number of prefix sizes */
    uint16_t bits_count[2]; /* number of prefix lengths of IPv4 and of IPv6 networks */
    uint16_t *sizes;        /* in ascending order */
    uint8_t *bits[2];
};

struct ration_index {
    struct ration_hash_secret *secret;
    uint16_t *name_slots; /* indexes of names, by hash; RATION_INDEX_NONE: free */
    uint32_t name_mask;
    struct ration_index_name *names;
    struct ration_index_bucket *buckets;
    uint32_t bucket_mask;
    struct ration_index_posting *postings;
    uint32_t *always; /* rules that are always compared */
    uint32_t always_count;
};

/*
 * Builds the index of a policy's rules and names. Returns false if there is no memory or no
 * randomness.
 */
bool ration_index_build(struct ration_policy *policy, struct ration_arena *scratch);

/* Returns the index of an attribute's name, or RATION_INDEX_NONE. */
uint16_t ration_index_find_name(const struct ration_policy *policy, const struct ration_key *name);

typedef void ration_index_visit(void *context, const struct ration_index_posting *posting);

/*
 * Calls visit for every posting under the value of an attribute. For the attribute ip, address is
 * the parsed value.
 */
void ration_index_probe(const struct ration_policy *policy, uint16_t name_index,
                        const struct ration_key *value, const struct ration_address *address,
                        ration_index_visit *visit, void *context);

#endif
