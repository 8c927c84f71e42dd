/*
 * overlap: finds limits that may apply to the same request.
 *
 * Two limits exclude each other if no value of some attribute satisfies both: they require
 * different exact values, prefixes or networks, or one requires what the other negates. If this is
 * not certain, they are assumed to overlap.
 */
#include "policy/schema.h"

#include <inttypes.h>

/*
 * Comparisons of values. A policy that needs more is refused, instead of being checked for minutes.
 */
#define COMPARISONS_MAX 50000000

struct search {
    const struct ration_policy *policy;
    uint64_t comparison_count;
};

static bool all_exclude(struct search *search, const struct ration_term *a,
                        const struct ration_term *b)
{
    for (uint32_t i = 0; i < a->pattern_count; i++)
        for (uint32_t j = 0; j < b->pattern_count; j++) {
            search->comparison_count++;
            if (!ration_pattern_exclude_each_other(&a->patterns[i], &b->patterns[j]))
                return false;
        }
    return true;
}

/*
 * Whether every value that the term `required` accepts is excluded by the negated term `excluded`.
 */
static bool all_excluded(struct search *search, const struct ration_term *required,
                         const struct ration_term *excluded)
{
    for (uint32_t i = 0; i < required->pattern_count; i++) {
        uint32_t j = 0;
        while (j < excluded->pattern_count &&
               !ration_pattern_covers(&excluded->patterns[j], &required->patterns[i]))
            j++;
        search->comparison_count += j + 1;
        if (j == excluded->pattern_count)
            return false;
    }
    return true;
}

static bool terms_exclude(struct search *search, const struct ration_term *a,
                          const struct ration_term *b)
{
    if (a->name_index != b->name_index || (a->is_negated && b->is_negated))
        return false;
    if (a->is_negated)
        return all_excluded(search, b, a);
    if (b->is_negated)
        return all_excluded(search, a, b);
    return all_exclude(search, a, b);
}

static bool rules_exclude(struct search *search, const struct ration_policy_rule *a,
                          const struct ration_policy_rule *b)
{
    for (size_t i = 0; i < a->term_count; i++)
        for (size_t j = 0; j < b->term_count; j++) {
            if (terms_exclude(search, &a->terms[i], &b->terms[j]))
                return true;
        }
    return false;
}

/* Returns the first limit that may apply together with the queue, or limit_count. */
static size_t find_overlap(struct search *search, size_t queue)
{
    const struct ration_policy *policy = search->policy;
    size_t other = 0;

    while (other < policy->limit_count && search->comparison_count < COMPARISONS_MAX &&
           (other == queue || policy->limits[other].has_error ||
            rules_exclude(search, ration_policy_limit_rule(policy, queue),
                          ration_policy_limit_rule(policy, other)))) {
        search->comparison_count++;
        other++;
    }
    return other;
}

void ration_overlap_check(struct ration_schema *schema)
{
    const struct ration_policy *policy = schema->policy;
    struct search search = {.policy = policy};

    for (size_t i = 0; i < policy->limit_count; i++) {
        const struct ration_policy_limit *view = &policy->limits[i].view;
        if (view->limit.algorithm != RATION_LEAKY_QUEUE || policy->limits[i].has_error)
            continue;
        size_t other = find_overlap(&search, i);
        if (search.comparison_count >= COMPARISONS_MAX) {
            ration_policy_errors_add(
                schema->errors, view->line, policy->limits[i].column,
                "too many limits and values to determine whether a leaky_queue is the only "
                "limit of its requests");
            return;
        }
        if (other < policy->limit_count)
            ration_policy_errors_add(
                schema->errors, view->line, policy->limits[i].column,
                "%s is a leaky_queue, which must be the only limit of its requests, but %s in line "
                "%" PRIu32
                " may apply to them too: give the two a match on the same attribute with "
                "different values, or exclude one with not",
                view->limit.name, policy->limits[other].view.limit.name,
                policy->limits[other].view.line);
    }
}

/* Keys ----------------------------------------------------------------------------------------- */

/* Whether two limits give a request the same key: same attributes, order and IPv6 prefix length. */
static bool is_same_key(const struct ration_policy *policy, const struct ration_limit_entry *a,
                        const struct ration_limit_entry *b)
{
    if (a->view.key_count != b->view.key_count)
        return false;
    for (size_t i = 0; i < a->view.key_count; i++)
        if (a->key_names[i] != b->key_names[i] ||
            (a->key_names[i] == policy->ip_name && a->view.ipv6_prefix != b->view.ipv6_prefix))
            return false;
    return true;
}

bool ration_policy_find_two_keys(const ration_policy *policy, size_t *out_limit_index,
                                 size_t *out_other_index)
{
    struct search search = {.policy = policy};

    for (size_t i = 0; i < policy->limit_count; i++)
        for (size_t j = i + 1; j < policy->limit_count; j++) {
            search.comparison_count++;
            if (is_same_key(policy, &policy->limits[i], &policy->limits[j]) ||
                (search.comparison_count < COMPARISONS_MAX &&
                 rules_exclude(&search, ration_policy_limit_rule(policy, i),
                               ration_policy_limit_rule(policy, j))))
                continue;
            *out_limit_index = i;
            *out_other_index = j;
            return true;
        }
    return false;
}
