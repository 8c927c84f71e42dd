/* limit_entry: parses one member of the list limits:. */
#include "policy/schema.h"

#include <inttypes.h>
#include <string.h>

#define COUNT_OF(array) (sizeof(array) / sizeof((array)[0]))

#define STALE_AFTER_NS_MAX (365 * RATION_NS_PER_DAY)
#define LEASE_NS_MAX       RATION_NS_PER_HOUR

enum field {
    FIELD_NAME,
    FIELD_MATCH,
    FIELD_KEY,
    FIELD_RATE,
    FIELD_BURST,
    FIELD_ALGORITHM,
    FIELD_REFILL,
    FIELD_START,
    FIELD_RESERVE,
    FIELD_COST,
    FIELD_COST_DEFAULT,
    FIELD_SHADOW,
    FIELD_OVERFLOW,
    FIELD_IPV6_PREFIX,
    FIELD_STALE_AFTER,
    FIELD_MAX_KEYS,
    FIELD_MISSING,
    FIELD_ON_REDIS_ERROR,
    FIELD_REDIS_MODE,
    FIELD_THRESHOLD,
    FIELD_LEASE,
    FIELD_COUNT
};

static const char *const field_names[FIELD_COUNT] = {
    [FIELD_NAME] = "name",
    [FIELD_MATCH] = "match",
    [FIELD_KEY] = "key",
    [FIELD_RATE] = "rate",
    [FIELD_BURST] = "burst",
    [FIELD_ALGORITHM] = "algorithm",
    [FIELD_REFILL] = "refill",
    [FIELD_START] = "start",
    [FIELD_RESERVE] = "reserve",
    [FIELD_COST] = "cost",
    [FIELD_COST_DEFAULT] = "cost_default",
    [FIELD_SHADOW] = "shadow",
    [FIELD_OVERFLOW] = "overflow",
    [FIELD_IPV6_PREFIX] = "ipv6_prefix",
    [FIELD_STALE_AFTER] = "stale_after",
    [FIELD_MAX_KEYS] = "max_keys",
    [FIELD_MISSING] = "missing",
    [FIELD_ON_REDIS_ERROR] = "on_redis_error",
    [FIELD_REDIS_MODE] = "redis_mode",
    [FIELD_THRESHOLD] = "threshold",
    [FIELD_LEASE] = "lease",
};

struct reader {
    struct ration_schema *schema;
    const struct ration_document_node *node;
    const struct ration_document_node *fields[FIELD_COUNT];
    struct ration_limit_entry *entry;
    struct ration_policy_rule *rule;
};

static void add_key_part(struct reader *reader, const struct ration_document_node *node,
                         const char **names)
{
    struct ration_policy_limit *view = &reader->entry->view;
    uint16_t index;

    if (!ration_schema_attribute(reader->schema, node, &index))
        return;
    for (size_t i = 0; i < view->key_count; i++) {
        if (reader->entry->key_names[i] == index) {
            RATION_SCHEMA_ERROR(reader->schema, node, "the key has %s twice: keep one",
                                reader->schema->policy->names[index].bytes);
            return;
        }
    }
    reader->entry->key_names[view->key_count] = index;
    names[view->key_count++] = reader->schema->policy->names[index].bytes;
}

static void read_key(struct reader *reader)
{
    const struct ration_document_node *node = reader->fields[FIELD_KEY];
    const char **names;

    if (!node)
        return;
    if (node->kind == RATION_DOCUMENT_NODE_LIST &&
        !ration_schema_list(reader->schema, node, "key", "key: ip", RATION_POLICY_KEY_PARTS_MAX))
        return;
    names = ration_arena_take(&reader->schema->policy->arena, RATION_POLICY_KEY_PARTS_MAX,
                              sizeof(names[0]));
    if (!names)
        return;
    if (node->kind == RATION_DOCUMENT_NODE_LIST) {
        for (const struct ration_document_node *part = node->first; part; part = part->next)
            add_key_part(reader, part, names);
    } else {
        add_key_part(reader, node, names);
    }
    reader->entry->view.key_names = reader->entry->view.key_count ? names : NULL;
}

static void read_cost(struct reader *reader)
{
    struct ration_policy_limit *view = &reader->entry->view;
    const struct ration_document_node *cost = reader->fields[FIELD_COST];
    const struct ration_document_node *cost_default = reader->fields[FIELD_COST_DEFAULT];
    struct ration_schema *schema = reader->schema;

    view->cost_tokens = 1;
    if (cost && ration_schema_text(schema, cost, "cost")) {
        if (strchr("0123456789+-.", cost->text[0])) {
            view->cost_kind = RATION_POLICY_COST_FIXED;
            ration_schema_count(schema, cost, "cost", 1, UINT64_MAX, &view->cost_tokens);
        } else if (ration_schema_attribute(schema, cost, &reader->entry->cost_name)) {
            view->cost_kind = RATION_POLICY_COST_ATTRIBUTE;
            view->cost_name = schema->policy->names[reader->entry->cost_name].bytes;
        }
    }
    if (!cost_default)
        return;
    if (!cost || view->cost_kind == RATION_POLICY_COST_FIXED)
        RATION_SCHEMA_ERROR(schema, cost_default->name,
                            "cost_default needs a cost that names an attribute: %s",
                            cost ? "leave it out" : "write for example cost: tokens");
    else
        ration_schema_count(schema, cost_default, "cost_default", 0, UINT64_MAX,
                            &view->cost_tokens);
}

/* A cost that exceeds every bucket of the limit would always be denied, so it is an error. */
static void check_cost(struct reader *reader)
{
    const struct ration_policy_limit *view = &reader->entry->view;
    uint64_t burst_max = view->limit.burst;

    if (view->limit.reserve_burst > burst_max)
        burst_max =
            view->limit.reserve_burst; /* a request is paid from one bucket, never from both */
    if (view->cost_kind != RATION_POLICY_COST_REQUEST && view->cost_tokens > burst_max)
        RATION_SCHEMA_ERROR(
            reader->schema,
            reader->fields[view->cost_kind == RATION_POLICY_COST_FIXED ? FIELD_COST
                                                                       : FIELD_COST_DEFAULT],
            "a cost of %" PRIu64 " would never be allowed: the burst is %" PRIu64,
            view->cost_tokens, burst_max);
}

/* Returns the index of the word that a field has; 0 if the field is absent or wrong. */
static size_t read_choice(struct reader *reader, enum field field, const char *const *words,
                          size_t word_count)
{
    size_t index = 0;

    if (reader->fields[field])
        ration_schema_choice(reader->schema, reader->fields[field], field_names[field], words,
                             word_count, &index);
    return index;
}

static void read_choices(struct reader *reader)
{
    static const char *const booleans[] = {"false", "true"};
    static const char *const overflows[] = {
        [RATION_OVERFLOW_SHARED] = "shared",
        [RATION_OVERFLOW_DENY] = "deny",
        [RATION_OVERFLOW_ALLOW] = "allow",
    };
    static const char *const missings[] = {
        [RATION_POLICY_MISSING_SHARED] = "shared",
        [RATION_POLICY_MISSING_SKIP] = "skip",
    };
    static const char *const fallbacks[] = {
        [RATION_POLICY_FALLBACK_LOCAL] = "local",
        [RATION_POLICY_FALLBACK_ALLOW] = "allow",
        [RATION_POLICY_FALLBACK_DENY] = "deny",
    };
    static const char *const modes[] = {
        [RATION_POLICY_STRICT] = "strict",
        [RATION_POLICY_LOCAL_FIRST] = "local_first",
        [RATION_POLICY_LEASE] = "lease",
    };
    struct ration_policy_limit *view = &reader->entry->view;

    view->mode =
        (enum ration_policy_mode)read_choice(reader, FIELD_REDIS_MODE, modes, COUNT_OF(modes));
    view->on_redis_error = (enum ration_policy_fallback)read_choice(reader, FIELD_ON_REDIS_ERROR,
                                                                    fallbacks, COUNT_OF(fallbacks));
    view->is_shadow = (uint32_t)read_choice(reader, FIELD_SHADOW, booleans, COUNT_OF(booleans));
    view->overflow =
        (enum ration_overflow)read_choice(reader, FIELD_OVERFLOW, overflows, COUNT_OF(overflows));
    view->missing = (enum ration_policy_missing)read_choice(reader, FIELD_MISSING, missings,
                                                            COUNT_OF(missings));
}

static void read_numbers(struct reader *reader)
{
    struct ration_policy_limit *view = &reader->entry->view;
    struct ration_schema *schema = reader->schema;
    uint64_t prefix = RATION_POLICY_IPV6_PREFIX_DEFAULT;
    uint64_t threshold;

    view->keys_max = view->key_count ? RATION_POLICY_KEYS_DEFAULT : 1;
    if (reader->fields[FIELD_MAX_KEYS])
        ration_schema_count(schema, reader->fields[FIELD_MAX_KEYS], "max_keys", 1,
                            RATION_POLICY_KEYS_MAX, &view->keys_max);
    if (reader->fields[FIELD_IPV6_PREFIX])
        ration_schema_count(schema, reader->fields[FIELD_IPV6_PREFIX], "ipv6_prefix", 1, 128,
                            &prefix);
    view->ipv6_prefix = (uint32_t)prefix;
    threshold = RATION_POLICY_THRESHOLD_PERCENT;
    if (reader->fields[FIELD_THRESHOLD])
        ration_schema_count(schema, reader->fields[FIELD_THRESHOLD], "threshold", 1, 99,
                            &threshold);
    view->threshold_percent = (uint32_t)threshold;
    if (reader->fields[FIELD_LEASE])
        ration_schema_duration(schema, reader->fields[FIELD_LEASE], "lease", LEASE_NS_MAX,
                               &view->lease_ns);
    if (reader->fields[FIELD_STALE_AFTER])
        ration_schema_duration(schema, reader->fields[FIELD_STALE_AFTER], "stale_after",
                               STALE_AFTER_NS_MAX, &view->stale_after_ns);
}

static void read_match(struct reader *reader)
{
    const struct ration_document_node *match = reader->fields[FIELD_MATCH];
    const struct ration_policy_limit *view = &reader->entry->view;

    if (match && ration_document_node_is_empty(match))
        RATION_SCHEMA_ERROR(reader->schema, match,
                            "match is empty: leave it out to match every request");
    else if (match)
        ration_condition_read(reader->schema, match, reader->rule);
    if (view->missing == RATION_POLICY_MISSING_SKIP) {
        reader->rule->needed = reader->entry->key_names;
        reader->rule->needed_count = (uint16_t)view->key_count;
    }
}

/* A name identifies one limit in metrics and lists. */
static void check_name(struct reader *reader)
{
    const struct ration_document_node *name = reader->fields[FIELD_NAME];

    if (!name)
        RATION_SCHEMA_ERROR(reader->schema, reader->node,
                            "the limit has no name: write for example name: login");
    else if (ration_document_node_is(name, RATION_POLICY_INLINE))
        RATION_SCHEMA_ERROR(
            reader->schema, name,
            "all inline limits are called %s: write another name, for example login",
            RATION_POLICY_INLINE);
}

/*
 * Only a continuously refilled token bucket with a bounded burst can be decided locally, ahead of
 * Redis.
 */
static void check_mode(struct reader *reader)
{
    const struct ration_policy_limit *view = &reader->entry->view;
    const struct ration_limit *limit = &view->limit;
    struct ration_schema *schema = reader->schema;

    if (reader->fields[FIELD_THRESHOLD] && view->mode != RATION_POLICY_LOCAL_FIRST)
        RATION_SCHEMA_ERROR(schema, reader->fields[FIELD_THRESHOLD]->name,
                            "threshold needs redis_mode: local_first");
    if (reader->fields[FIELD_LEASE] && view->mode != RATION_POLICY_LEASE)
        RATION_SCHEMA_ERROR(schema, reader->fields[FIELD_LEASE]->name,
                            "lease needs redis_mode: lease");
    if (view->mode == RATION_POLICY_STRICT)
        return;
    if (limit->algorithm != RATION_TOKEN_BUCKET || limit->refill != RATION_REFILL_CONTINUOUS ||
        limit->start != RATION_START_FULL)
        RATION_SCHEMA_ERROR(schema, reader->fields[FIELD_REDIS_MODE],
                            "%s is for token buckets that refill continuously and start full: "
                            "write redis_mode: strict",
                            view->mode == RATION_POLICY_LEASE ? "lease" : "local_first");
    else if (limit->burst > RATION_POLICY_NEAR_BURST_MAX)
        RATION_SCHEMA_ERROR(
            schema, reader->fields[FIELD_REDIS_MODE],
            "a limit with this redis_mode has a burst of at most %d: write redis_mode: strict, "
            "or a smaller burst",
            RATION_POLICY_NEAR_BURST_MAX);
}

static void read_limit(struct reader *reader)
{
    struct ration_limit_fields fields = {
        .name = reader->fields[FIELD_NAME],
        .rate = reader->fields[FIELD_RATE],
        .algorithm = reader->fields[FIELD_ALGORITHM],
        .refill = reader->fields[FIELD_REFILL],
        .start = reader->fields[FIELD_START],
        .burst = reader->fields[FIELD_BURST],
        .reserve = reader->fields[FIELD_RESERVE],
    };

    check_name(reader);
    if (ration_limit_fields_make(reader->schema, reader->node, &fields,
                                 &reader->entry->view.limit)) {
        check_cost(reader);
        check_mode(reader);
    }
}

void ration_limit_entry_read(struct ration_schema *schema, const struct ration_document_node *node,
                             struct ration_limit_entry *entry, struct ration_policy_rule *rule,
                             const struct ration_document_node **out_name)
{
    static const struct ration_schema_fields fields = {"a limit", field_names, FIELD_COUNT};
    struct reader reader = {.schema = schema, .node = node, .entry = entry, .rule = rule};

    entry->view.line = rule->line = node->line;
    entry->column = node->column;
    entry->cost_name = RATION_INDEX_NONE;
    if (!ration_schema_mapping(schema, node, &fields, reader.fields))
        return;
    read_key(&reader);
    read_cost(&reader);
    read_choices(&reader);
    read_numbers(&reader);
    read_match(&reader);
    read_limit(&reader);
    *out_name = reader.fields[FIELD_NAME];
}
