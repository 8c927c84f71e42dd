#include "policy/index.h"

#include <string.h>

#include "policy/index_key.h"
#include "policy/policy_internal.h"

uint16_t ration_index_find_name(const struct ration_policy *policy, const struct ration_key *name)
{
    const struct ration_index *index = &policy->index;
    uint64_t hash = ration_index_hash(index, name->bytes, name->size);

    for (uint32_t slot = (uint32_t)hash & index->name_mask;; slot = (slot + 1) & index->name_mask) {
        uint16_t found = index->name_slots[slot];
        if (found == RATION_INDEX_NONE)
            return RATION_INDEX_NONE;
        if (policy->names[found].size == name->size &&
            memcmp(policy->names[found].bytes, name->bytes, name->size) == 0)
            return found;
    }
}

static void visit_hash(const struct ration_index *index, uint64_t hash, ration_index_visit *visit,
                       void *context)
{
    uint32_t slot = (uint32_t)hash & index->bucket_mask;

    while (index->buckets[slot].count && index->buckets[slot].hash != hash)
        slot = (slot + 1) & index->bucket_mask;
    const struct ration_index_bucket *bucket = &index->buckets[slot];
    for (uint32_t i = 0; i < bucket->count; i++)
        visit(context, &index->postings[bucket->first + i]);
}

static void probe_networks(const struct ration_policy *policy, uint16_t name_index,
                           const struct ration_address *address, ration_index_visit *visit,
                           void *context)
{
    const struct ration_index_name *name = &policy->index.names[name_index];
    int which = address->family == 6;

    for (size_t i = 0; i < name->bits_count[which]; i++) {
        struct ration_network network = {*address, name->bits[which][i]};
        ration_address_mask(&network.base, network.bits);
        visit_hash(&policy->index, ration_index_network_key(&policy->index, name_index, &network),
                   visit, context);
    }
}

void ration_index_probe(const struct ration_policy *policy, uint16_t name_index,
                        const struct ration_key *value, const struct ration_address *address,
                        ration_index_visit *visit, void *context)
{
    const struct ration_index *index = &policy->index;
    const struct ration_index_name *name = &index->names[name_index];

    if (name_index == policy->ip_name) {
        if (policy->has_networks)
            probe_networks(policy, name_index, address, visit, context);
        return;
    }
    if (name->has_exact && value->size <= name->exact_size_max)
        visit_hash(
            index,
            ration_index_text_key(index, name_index, RATION_INDEX_EXACT, value->bytes, value->size),
            visit, context);
    for (size_t i = 0; i < name->size_count && name->sizes[i] <= value->size; i++)
        visit_hash(index,
                   ration_index_text_key(index, name_index, RATION_INDEX_START, value->bytes,
                                         name->sizes[i]),
                   visit, context);
}
