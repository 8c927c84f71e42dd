#include "policy/policy_request.h"

#include <string.h>

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

bool ration_policy_request_meets(const struct ration_policy_request *request,
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

    while (i < rule->term_count && ration_policy_request_meets(request, &rule->terms[i]))
        i++;
    if (i < rule->term_count)
        return i;
    while (needed < rule->needed_count && request->values[rule->needed[needed]])
        needed++;
    return i + needed;
}
