#include "policy/index.h"

#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "base/os.h"
#include "policy/policy_internal.h"

#define RULE_STEPS    16 /* cost of comparing a rule with a request */
#define PATTERN_STEPS 4  /* added for each of its values */

/*
 * The hash under which a value is stored. It is keyed by a secret of each policy, so that clients cannot send
 * values that collide on purpose.
 */
enum key_kind { KEY_EXACT, KEY_PREFIX, KEY_NETWORK };

static uint64_t hash_bytes(const struct ration_index *index, const void *bytes, size_t size)
{
    return ration_hash_key(index->secret, bytes, size).words[0];
}

/* Separates equal bytes of different attributes, and of different kinds of key. */
static uint64_t key_role(uint16_t name_index, enum key_kind kind, unsigned bits)
{
    return (((uint64_t)name_index + 1) << 16 | (uint64_t)kind << 8 | bits) *
           UINT64_C(0x9E3779B97F4A7C15);
}

static uint64_t text_key(const struct ration_index *index, uint16_t name_index, enum key_kind kind,
                         const void *bytes, size_t size)
{
    return hash_bytes(index, bytes, size) ^ key_role(name_index, kind, 0);
}

/* Requires that the bits of network beyond its prefix length are 0. */
static uint64_t network_key(const struct ration_index *index, uint16_t name_index,
                            const struct ration_network *network)
{
    size_t size = network->base.family == 6 ? 16 : 4;

    return hash_bytes(index, network->base.bytes, size) ^
           key_role(name_index, KEY_NETWORK, network->bits);
}

/* How many bytes of a prefix are stored in the table; see index.h. */
static uint32_t indexed_prefix_size(uint32_t size)
{
    if (size <= 32)
        return size;
    return (size < 256 ? size : 256) & ~UINT32_C(7);
}

/* Searching ------------------------------------------------------------------------------------- */

uint16_t ration_index_find_name(const struct ration_policy *policy, const struct ration_key *name)
{
    const struct ration_index *index = &policy->index;
    uint64_t hash = hash_bytes(index, name->bytes, name->size);

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
        visit_hash(&policy->index, network_key(&policy->index, name_index, &network), visit,
                   context);
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
        visit_hash(index, text_key(index, name_index, KEY_EXACT, value->bytes, value->size), visit,
                   context);
    for (size_t i = 0; i < name->size_count && name->sizes[i] <= value->size; i++)
        visit_hash(index, text_key(index, name_index, KEY_PREFIX, value->bytes, name->sizes[i]),
                   visit, context);
}

/*
 * Building the index. Each rule is indexed by the term that is expected to select the fewest requests.
 *
 * The builder first counts in how many rules each value occurs. A term is rated by its most common
 * value: the rarer, the better. Among equals, the term with more bytes to compare wins. So the
 * rules
 *
 *     {method: POST, path: /login}   {method: POST, path: /signup}   {method: POST, path: /}
 *
 * are all indexed by path.
 */
struct entry {
    uint64_t key;
    struct ration_index_posting posting;
};

/* The number of occurrences of a key. */
struct key_count {
    uint64_t key;
    uint32_t count; /* 0: free */
};

struct builder {
    struct ration_policy *policy;
    struct ration_arena *scratch;
    struct key_count *key_counts;
    size_t key_count_mask;
    struct entry *entries;
    size_t entry_count;
};

/* A power of two, large enough that at most half of the table is used. */
static size_t table_size(size_t count)
{
    size_t size = 4;

    while (size < 2 * count)
        size *= 2;
    return size;
}

static bool is_indexable(const struct ration_pattern *pattern)
{
    if (pattern->kind == RATION_PATTERN_NETWORK)
        return pattern->network.bits > 0;
    return pattern->kind == RATION_PATTERN_EXACT || pattern->start_size > 0;
}

static bool is_term_indexable(const struct ration_term *term)
{
    for (uint32_t i = 0; i < term->pattern_count; i++) {
        if (!is_indexable(&term->patterns[i]))
            return false;
    }
    return !term->is_negated;
}

static uint64_t pattern_key(const struct ration_index *index, uint16_t name_index,
                            const struct ration_pattern *pattern)
{
    if (pattern->kind == RATION_PATTERN_NETWORK)
        return network_key(index, name_index, &pattern->network);
    if (pattern->kind == RATION_PATTERN_EXACT)
        return text_key(index, name_index, KEY_EXACT, pattern->bytes, pattern->size);
    return text_key(index, name_index, KEY_PREFIX, pattern->start,
                    indexed_prefix_size(pattern->start_size));
}

static struct key_count *find_key_count(const struct builder *builder, uint64_t key)
{
    size_t slot = (size_t)key & builder->key_count_mask;

    while (builder->key_counts[slot].count && builder->key_counts[slot].key != key)
        slot = (slot + 1) & builder->key_count_mask;
    return &builder->key_counts[slot];
}

/* Counts the occurrences of every value of every term that could be indexed. */
static bool count_values(struct builder *builder)
{
    struct ration_policy *policy = builder->policy;
    size_t rule_count = ration_policy_rule_count(policy), count = 0;

    for (size_t i = 0; i < rule_count; i++)
        for (size_t t = 0; t < policy->rules[i].term_count; t++)
            count += policy->rules[i].terms[t].pattern_count;
    builder->key_count_mask = table_size(count) - 1;
    builder->key_counts =
        ration_arena_take(builder->scratch, builder->key_count_mask + 1, sizeof(struct key_count));
    builder->entries = ration_arena_take(builder->scratch, count, sizeof(struct entry));
    if (!builder->key_counts || !builder->entries)
        return false;
    for (size_t i = 0; i < rule_count; i++)
        for (size_t t = 0; t < policy->rules[i].term_count; t++) {
            const struct ration_term *term = &policy->rules[i].terms[t];
            for (uint32_t p = 0; is_term_indexable(term) && p < term->pattern_count; p++) {
                uint64_t key = pattern_key(&policy->index, term->name_index, &term->patterns[p]);
                struct key_count *key_count = find_key_count(builder, key);
                key_count->key = key;
                key_count->count++;
            }
        }
    return true;
}

/* How many bytes of a value must be equal for the pattern to be found. */
static uint32_t compared_bytes(const struct ration_pattern *pattern)
{
    if (pattern->kind == RATION_PATTERN_NETWORK)
        return pattern->network.bits / 8;
    return pattern->start_size + (pattern->kind == RATION_PATTERN_EXACT);
}

/* A smaller score is better. */
static uint64_t term_score(const struct builder *builder, const struct ration_term *term)
{
    uint32_t count_max = 0, bytes_min = UINT32_MAX;

    for (uint32_t i = 0; i < term->pattern_count; i++) {
        const struct ration_pattern *pattern = &term->patterns[i];
        uint64_t key = pattern_key(&builder->policy->index, term->name_index, pattern);
        uint32_t count = find_key_count(builder, key)->count;
        if (count > count_max)
            count_max = count;
        if (compared_bytes(pattern) < bytes_min)
            bytes_min = compared_bytes(pattern);
    }
    return (uint64_t)count_max << 32 | (UINT32_MAX - bytes_min);
}

static void choose_term(struct builder *builder, uint32_t rule_index)
{
    struct ration_policy_rule *rule = &builder->policy->rules[rule_index];
    struct ration_index *index = &builder->policy->index;
    uint64_t best = UINT64_MAX;

    rule->indexed_term = RATION_INDEX_NONE;
    for (uint16_t t = 0; t < rule->term_count; t++) {
        const struct ration_term *term = &rule->terms[t];
        uint64_t score = is_term_indexable(term) ? term_score(builder, term) : UINT64_MAX;
        if (score < best) {
            best = score;
            rule->indexed_term = t;
        }
    }
    if (rule->indexed_term == RATION_INDEX_NONE) {
        index->always[index->always_count++] = rule_index;
        return;
    }
    const struct ration_term *term = &rule->terms[rule->indexed_term];
    for (uint32_t i = 0; i < term->pattern_count; i++)
        builder->entries[builder->entry_count++] = (struct entry){
            pattern_key(index, term->name_index, &term->patterns[i]), {rule_index, i}};
}

static int compare_entries(const void *left, const void *right)
{
    const struct entry *a = left, *b = right;

    if (a->key != b->key)
        return a->key < b->key ? -1 : 1;
    if (a->posting.rule_index != b->posting.rule_index)
        return a->posting.rule_index < b->posting.rule_index ? -1 : 1;
    return a->posting.pattern_index < b->posting.pattern_index
               ? -1
               : a->posting.pattern_index > b->posting.pattern_index;
}

static void add_bucket(struct ration_index *index, uint64_t key, uint32_t first, uint32_t count)
{
    uint32_t slot = (uint32_t)key & index->bucket_mask;

    while (index->buckets[slot].count)
        slot = (slot + 1) & index->bucket_mask;
    index->buckets[slot] = (struct ration_index_bucket){key, first, count};
}

static bool fill_table(struct builder *builder)
{
    struct ration_index *index = &builder->policy->index;
    struct ration_arena *arena = &builder->policy->arena;
    size_t count = builder->entry_count, size = table_size(count);

    index->bucket_mask = (uint32_t)size - 1;
    index->buckets = ration_arena_take(arena, size, sizeof(index->buckets[0]));
    index->postings = ration_arena_take(arena, count, sizeof(index->postings[0]));
    if (!index->buckets || !index->postings)
        return false;
    qsort(builder->entries, count, sizeof(builder->entries[0]), compare_entries);
    for (size_t first = 0, end; first < count; first = end) {
        for (end = first; end < count && builder->entries[end].key == builder->entries[first].key;
             end++)
            index->postings[end] = builder->entries[end].posting;
        add_bucket(index, builder->entries[first].key, (uint32_t)first, (uint32_t)(end - first));
    }
    return true;
}

/* Which prefix sizes and network prefix lengths the table has for one attribute. */
struct extent {
    bool has_start[257];
    bool has_bits[2][129];
};

static void add_to_extent(struct ration_index_name *name, struct extent *extent,
                          const struct ration_pattern *pattern)
{
    if (pattern->kind == RATION_PATTERN_NETWORK) {
        extent->has_bits[pattern->network.base.family == 6][pattern->network.bits] = true;
    } else if (pattern->kind == RATION_PATTERN_EXACT) {
        name->has_exact = true;
        if (name->exact_size_max < pattern->size)
            name->exact_size_max = pattern->size;
    } else {
        extent->has_start[indexed_prefix_size(pattern->start_size)] = true;
    }
}

static bool fill_name(struct ration_arena *arena, const struct extent *extent,
                      struct ration_index_name *name)
{
    size_t size_max = sizeof(extent->has_start), bits_max = sizeof(extent->has_bits[0]);

    name->sizes = ration_arena_take(arena, size_max, sizeof(name->sizes[0]));
    for (int which = 0; which < 2; which++)
        name->bits[which] = ration_arena_take(arena, bits_max, 1);
    if (!name->sizes || !name->bits[0] || !name->bits[1])
        return false;
    for (size_t size = 0; size < size_max; size++) {
        if (extent->has_start[size])
            name->sizes[name->size_count++] = (uint16_t)size;
    }
    for (int which = 0; which < 2; which++)
        for (size_t bits = 0; bits < bits_max; bits++) {
            if (extent->has_bits[which][bits])
                name->bits[which][name->bits_count[which]++] = (uint8_t)bits;
        }
    return true;
}

static bool fill_names(struct builder *builder)
{
    struct ration_policy *policy = builder->policy;
    struct ration_index *index = &policy->index;
    struct extent *extents =
        ration_arena_take(builder->scratch, policy->name_count, sizeof(*extents));

    index->names = ration_arena_take(&policy->arena, policy->name_count, sizeof(index->names[0]));
    if (!extents || !index->names)
        return false;
    for (size_t i = 0; i < builder->entry_count; i++) {
        const struct ration_index_posting *posting = &builder->entries[i].posting;
        const struct ration_policy_rule *rule = &policy->rules[posting->rule_index];
        const struct ration_term *term = &rule->terms[rule->indexed_term];
        add_to_extent(&index->names[term->name_index], &extents[term->name_index],
                      &term->patterns[posting->pattern_index]);
    }
    for (size_t i = 0; i < policy->name_count; i++) {
        if (!fill_name(&policy->arena, &extents[i], &index->names[i]))
            return false;
    }
    return true;
}

static bool fill_name_slots(struct ration_policy *policy)
{
    struct ration_index *index = &policy->index;
    size_t size = table_size(policy->name_count);

    index->name_mask = (uint32_t)size - 1;
    index->name_slots = ration_arena_take(&policy->arena, size, sizeof(index->name_slots[0]));
    if (!index->name_slots)
        return false;
    memset(index->name_slots, 0xFF, size * sizeof(index->name_slots[0]));
    for (size_t i = 0; i < policy->name_count; i++) {
        uint64_t hash = hash_bytes(index, policy->names[i].bytes, policy->names[i].size);
        uint32_t slot = (uint32_t)hash & index->name_mask;
        while (index->name_slots[slot] != RATION_INDEX_NONE)
            slot = (slot + 1) & index->name_mask;
        index->name_slots[slot] = (uint16_t)i;
    }
    return true;
}

/* The secret needs a larger alignment than the arena provides. */
static bool make_secret(struct ration_policy *policy)
{
    size_t alignment = _Alignof(struct ration_hash_secret);
    uint8_t seed[RATION_HASH_SEED_SIZE];
    char *room =
        ration_arena_take(&policy->arena, 1, sizeof(struct ration_hash_secret) + alignment);

    if (!room || !ration_os_random(seed, sizeof(seed)))
        return false;
    room += (alignment - (uintptr_t)room % alignment) % alignment;
    policy->index.secret = (struct ration_hash_secret *)(void *)room;
    ration_hash_secret_init(policy->index.secret, seed);
    return true;
}

/* The unit is the time in which a glob searches one byte. */
static void count_compare_steps(struct ration_policy_rule *rule)
{
    rule->compare_steps = RULE_STEPS;
    for (uint16_t t = 0; t < rule->term_count; t++)
        rule->compare_steps += rule->terms[t].pattern_count * PATTERN_STEPS;
}

bool ration_index_build(struct ration_policy *policy, struct ration_arena *scratch)
{
    struct builder builder = {.policy = policy, .scratch = scratch};
    size_t rule_count = ration_policy_rule_count(policy);

    if (!make_secret(policy) || !fill_name_slots(policy) || !count_values(&builder))
        return false;
    policy->index.always =
        ration_arena_take(&policy->arena, rule_count, sizeof(policy->index.always[0]));
    if (!policy->index.always)
        return false;
    for (uint32_t i = 0; i < rule_count; i++) {
        choose_term(&builder, i);
        count_compare_steps(&policy->rules[i]);
    }
    return fill_table(&builder) && fill_names(&builder);
}
