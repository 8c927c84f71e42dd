/* cost: the number of tokens that a request costs under a limit. */
#include <string.h>

#include "policy/policy_internal.h"

/* Accepts decimal digits only: no sign, blank, decimal point or overflow. */
static ration_status read_digits(const struct ration_key *value, uint64_t *out_number)
{
    const char *bytes = value->bytes;
    uint64_t number = 0;

    if (value->size == 0)
        return RATION_EINVAL;
    for (size_t i = 0; i < value->size; i++) {
        if (bytes[i] < '0' || bytes[i] > '9' || __builtin_mul_overflow(number, 10, &number) ||
            __builtin_add_overflow(number, (uint64_t)(bytes[i] - '0'), &number))
            return RATION_EINVAL;
    }
    *out_number = number;
    return RATION_OK;
}

ration_status ration_policy_cost(const ration_policy *policy, size_t limit_index,
                                 const struct ration_attribute *attributes, size_t attribute_count,
                                 uint64_t request_cost_tokens, uint64_t *out_cost_tokens)
{
    const struct ration_limit_entry *limit;
    const struct ration_policy_name *name;

    if (limit_index >= policy->limit_count || attribute_count > RATION_ATTRIBUTES_MAX)
        return RATION_EINVAL;
    limit = &policy->limits[limit_index];
    if (limit->view.cost_kind == RATION_POLICY_COST_REQUEST) {
        *out_cost_tokens = request_cost_tokens;
        return RATION_OK;
    }
    if (limit->view.cost_kind == RATION_POLICY_COST_ATTRIBUTE) {
        name = &policy->names[limit->cost_name];
        for (size_t i = 0; i < attribute_count; i++) {
            if (attributes[i].name.size == name->size &&
                memcmp(attributes[i].name.bytes, name->bytes, name->size) == 0)
                return read_digits(&attributes[i].value, out_cost_tokens);
        }
    }
    *out_cost_tokens = limit->view.cost_tokens;
    return RATION_OK;
}
