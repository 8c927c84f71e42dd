/*
 * match: finds the rules that apply to a request. The index returns candidates; each is compared in
 * full.
 */
#include "policy/match.h"

#include <string.h>

#include "policy/policy_internal.h"

ration_status ration_policy_request_read(const struct ration_policy *policy,
                                         const struct ration_attribute *attributes,
                                         size_t attribute_count,
                                         struct ration_policy_request *out_request)
{
    if (attribute_count > RATION_ATTRIBUTES_MAX)
        return RATION_EINVAL;
    memset(out_request->values, 0, policy->name_count * sizeof(out_request->values[0]));
    for (size_t i = 0; i < attribute_count; i++) {
        uint16_t index = ration_index_find_name(policy, &attributes[i].name);
        if (index == RATION_INDEX_NONE)
            continue;
        if (out_request->values[index])
            return RATION_EINVAL;
        out_request->values[index] = &attributes[i].value;
    }
    if (!policy->has_networks || !out_request->values[policy->ip_name])
        return RATION_OK;
    const struct ration_key *ip = out_request->values[policy->ip_name];
    return ration_address_parse(ip->bytes, ip->size, &out_request->address) ? RATION_OK
                                                                            : RATION_EINVAL;
}

/* Whether a condition is true for the request. */
static bool request_meets(const struct ration_policy_request *request,
                          const struct ration_term *term)
{
    const struct ration_key *value = request->values[term->name_index];

    if (!value)
        return term->is_negated;
    for (uint32_t i = 0; i < term->pattern_count; i++) {
        if (ration_pattern_matches(&term->patterns[i], value, &request->address, request->work))
            return !term->is_negated;
    }
    return term->is_negated;
}

size_t ration_policy_request_fails(const struct ration_policy_request *request,
                                   const struct ration_policy_rule *rule)
{
    size_t i = 0, needed = 0;

    while (i < rule->term_count && request_meets(request, &rule->terms[i]))
        i++;
    if (i < rule->term_count)
        return i;
    while (needed < rule->needed_count && request->values[rule->needed[needed]])
        needed++;
    return i + needed;
}

struct matcher {
    const struct ration_policy *policy;
    struct ration_policy_request request;
    struct ration_glob_work work;
    /* The rules that apply: the lowest numbers, ascending */
    uint32_t rules[RATION_POLICY_MATCHES_MAX];
    uint32_t rule_count;
    uint32_t compared_count;
    uint64_t compare_steps;
    bool has_more; /* more rules apply than fit in the array */
};

/* Adds a rule once, even if the index finds it by several values. */
static void add_rule(struct matcher *matcher, uint32_t rule_index)
{
    uint32_t position = matcher->rule_count;

    while (position > 0 && matcher->rules[position - 1] > rule_index)
        position--;
    if (position > 0 && matcher->rules[position - 1] == rule_index)
        return;
    if (matcher->rule_count == RATION_POLICY_MATCHES_MAX) {
        matcher->has_more = true;
        if (position == RATION_POLICY_MATCHES_MAX)
            return;
        matcher->rule_count--;
    }
    memmove(&matcher->rules[position + 1], &matcher->rules[position],
            (matcher->rule_count - position) * sizeof(matcher->rules[0]));
    matcher->rules[position] = rule_index;
    matcher->rule_count++;
}

/* Whether the rule applies. The caller has already compared the term at index checked_term. */
static bool rule_applies(const struct matcher *matcher, const struct ration_policy_rule *rule,
                         size_t checked_term)
{
    for (size_t i = 0; i < rule->term_count; i++) {
        if (i != checked_term && !request_meets(&matcher->request, &rule->terms[i]))
            return false;
    }
    for (size_t i = 0; i < rule->needed_count; i++) {
        if (!matcher->request.values[rule->needed[i]])
            return false;
    }
    return true;
}

/* Compares the value that the index found as well, because its hash may collide. */
static void compare_posting(void *context, const struct ration_index_posting *posting)
{
    struct matcher *matcher = context;
    const struct ration_policy_rule *rule = &matcher->policy->rules[posting->rule_index];
    const struct ration_term *term = &rule->terms[rule->indexed_term];
    const struct ration_key *value = matcher->request.values[term->name_index];

    matcher->compared_count++;
    matcher->compare_steps += rule->compare_steps;
    if (value &&
        ration_pattern_matches(&term->patterns[posting->pattern_index], value,
                               &matcher->request.address, &matcher->work) &&
        rule_applies(matcher, rule, rule->indexed_term))
        add_rule(matcher, posting->rule_index);
}

static void compare_always(struct matcher *matcher)
{
    const struct ration_index *index = &matcher->policy->index;

    for (uint32_t i = 0; i < index->always_count; i++) {
        const struct ration_policy_rule *rule = &matcher->policy->rules[index->always[i]];

        matcher->compared_count++;
        matcher->compare_steps += rule->compare_steps;
        if (rule_applies(matcher, rule, RATION_INDEX_NONE))
            add_rule(matcher, index->always[i]);
    }
}

/*
 * Derives the verdict from the lowest rule number: an entry of banned, an entry of exempt, or
 * otherwise limits only.
 */
static ration_status decide_verdict(const struct matcher *matcher,
                                    struct ration_policy_match *out_match)
{
    const struct ration_policy *policy = matcher->policy;
    uint32_t banned_end = (uint32_t)policy->banned_count;
    uint32_t exempt_end = banned_end + (uint32_t)policy->exempt_count;
    uint32_t first = matcher->rule_count ? matcher->rules[0] : exempt_end;
    struct ration_policy_match match = {.compared_count = matcher->compared_count};

    if (first < exempt_end) {
        bool is_banned = first < banned_end;
        match.verdict = is_banned ? RATION_POLICY_BANNED : RATION_POLICY_EXEMPT;
        match.item_index = is_banned ? first : first - banned_end;
        match.item_line = policy->rules[first].line;
    } else {
        if (matcher->has_more)
            return RATION_EINVAL;
        for (uint32_t i = 0; i < matcher->rule_count; i++)
            match.limits[i] = matcher->rules[i] - exempt_end;
        match.limit_count = matcher->rule_count;
    }
    *out_match = match;
    return RATION_OK;
}

ration_status ration_match_find(const ration_policy *policy,
                                const struct ration_attribute *attributes, size_t attribute_count,
                                struct ration_policy_match *out_match, uint64_t *out_steps)
{
    struct matcher matcher;
    ration_status status;

    matcher.policy = policy;
    matcher.rule_count = matcher.compared_count = 0;
    matcher.compare_steps = 0;
    matcher.has_more = false;
    matcher.request.work = &matcher.work;
    ration_glob_work_init(&matcher.work);
    status = ration_policy_request_read(policy, attributes, attribute_count, &matcher.request);
    if (status != RATION_OK) {
        *out_steps = 0;
        return status;
    }
    for (uint16_t name = 0; name < policy->name_count; name++) {
        const struct ration_key *value = matcher.request.values[name];
        if (value)
            ration_index_probe(policy, name, value, &matcher.request.address, compare_posting,
                               &matcher);
    }
    compare_always(&matcher);
    *out_steps = matcher.work.steps + matcher.compare_steps;
    if (ration_glob_work_is_exceeded(&matcher.work))
        return RATION_ENOSPC;
    return decide_verdict(&matcher, out_match);
}

ration_status ration_policy_find_matches(const ration_policy *policy,
                                         const struct ration_attribute *attributes,
                                         size_t attribute_count,
                                         struct ration_policy_match *out_match)
{
    uint64_t steps;

    return ration_match_find(policy, attributes, attribute_count, out_match, &steps);
}

bool ration_policy_uses(const ration_policy *policy, const char *name)
{
    return ration_index_find_name(policy, &(struct ration_key){name, strlen(name)}) !=
           RATION_INDEX_NONE;
}
