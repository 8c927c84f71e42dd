/* policy: parses a policy in one pass that finds every error. */
#include "policy/policy_internal.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "policy/document.h"
#include "policy/policy_errors.h"
#include "policy/schema.h"

enum section {
    SECTION_LIMITS,
    SECTION_EXEMPT,
    SECTION_BANNED,
    SECTION_CLUSTER,
    SECTION_SERVER,
    SECTION_VERSION
};

static const char *const section_names[] = {"limits",  "exempt", "banned",
                                            "cluster", "server", "version"};

#define SECTION_COUNT (sizeof(section_names) / sizeof(section_names[0]))

static int compare_names(const void *left, const void *right)
{
    const struct ration_document_node *a = *(const struct ration_document_node *const *)left;
    const struct ration_document_node *b = *(const struct ration_document_node *const *)right;
    int order = strcmp(a->text, b->text);

    if (order != 0)
        return order;
    return a->line != b->line ? (a->line < b->line ? -1 : 1) : (a->column < b->column ? -1 : 1);
}

/* Finds repeated names. After sorting, equal names are adjacent, the first in the file first. */
static void check_names(struct ration_schema *schema, const struct ration_document_node **names,
                        size_t count)
{
    size_t first = 0;

    if (count > 1)
        qsort(names, count, sizeof(names[0]), compare_names);
    for (size_t i = 1; i < count; i++) {
        char quote[RATION_TEXT_QUOTE_SIZE];
        const struct ration_document_node *name = names[i];
        if (strcmp(names[first]->text, name->text) != 0) {
            first = i;
            continue;
        }
        RATION_SCHEMA_ERROR(schema, name,
                            "the name %s is already used by the limit in line %" PRIu32
                            ": names must be unique",
                            ration_text_quote(name->text, name->size, quote), names[first]->line);
    }
}

/* A request has at most RATION_POLICY_MATCHES_MAX limits; those without conditions apply to all. */
static void check_unconditional(struct ration_schema *schema)
{
    const struct ration_policy *policy = schema->policy;
    size_t count = 0;

    for (size_t i = 0; i < policy->limit_count; i++) {
        const struct ration_policy_rule *rule = ration_policy_limit_rule(policy, i);
        count += rule->term_count == 0 && rule->needed_count == 0;
        if (count > RATION_POLICY_MATCHES_MAX) {
            ration_policy_errors_add(
                schema->errors, rule->line, policy->limits[i].column,
                "more than %d limits have no match and apply to every request: a "
                "request has at most %d limits",
                RATION_POLICY_MATCHES_MAX, RATION_POLICY_MATCHES_MAX);
            return;
        }
    }
}

static void read_limits(struct ration_schema *schema, const struct ration_document_node *list)
{
    struct ration_policy *policy = schema->policy;
    struct ration_policy_rule *rules = policy->rules + policy->banned_count + policy->exempt_count;
    const struct ration_document_node **names =
        ration_arena_take(schema->scratch, policy->limit_count, sizeof(*names));
    size_t i = 0, name_count = 0;

    policy->limits =
        ration_arena_take(&policy->arena, policy->limit_count, sizeof(policy->limits[0]));
    if (!policy->limits || !names)
        return;
    for (const struct ration_document_node *node = list->first; node; node = node->next, i++) {
        const struct ration_document_node *name = NULL;
        size_t error_count = schema->errors->count;
        ration_limit_entry_read(schema, node, &policy->limits[i], &rules[i], &name);
        policy->limits[i].has_error = schema->errors->count > error_count;
        if (name && name->kind == RATION_DOCUMENT_NODE_SCALAR && name->size > 0)
            names[name_count++] = name;
    }
    check_names(schema, names, name_count);
    check_unconditional(schema);
    ration_overlap_check(schema);
}

/* Reads the entries of exempt or banned. An empty match would apply to every request. */
static void read_items(struct ration_schema *schema, const struct ration_document_node *list,
                       struct ration_policy_rule *rules)
{
    for (const struct ration_document_node *node = list->first; node; node = node->next, rules++) {
        rules->line = node->line;
        if (ration_document_node_is_empty(node))
            RATION_SCHEMA_ERROR(schema, node,
                                "the match is empty and would apply to every request: write for "
                                "example user: root");
        else
            ration_condition_read(schema, node, rules);
    }
}

/*
 * Returns the number of members of a section. If it is absent or not a valid list, returns 0 and
 * sets *section to NULL; an error may be recorded.
 */
static size_t count_items(struct ration_schema *schema, const struct ration_document_node **section,
                          const char *what, const char *example, size_t count_max)
{
    bool is_right = *section && !ration_document_node_is_blank(*section) &&
                    ration_schema_list(schema, *section, what, example, count_max);

    if (!is_right)
        *section = NULL;
    return is_right ? (*section)->count : 0;
}

static void read_version(struct ration_schema *schema, const struct ration_document_node *node)
{
    if (node && !ration_document_node_is(node, "1"))
        RATION_SCHEMA_ERROR(schema, node, "the only supported version is 1: write version: 1");
}

static void read_cluster(struct ration_schema *schema, const struct ration_document_node *node)
{
    static const char *const words[] = {"one_slot"};
    size_t word;

    if (node && ration_schema_choice(schema, node, "cluster", words, 1, &word))
        schema->policy->is_one_slot = true;
}

static void check_any_limits(struct ration_schema *schema, const struct ration_document_node *root,
                             const struct ration_document_node *limits)
{
    if (!limits)
        RATION_SCHEMA_ERROR(schema, root, "the policy has no limits: write limits: and a list");
    else if (ration_document_node_is_blank(limits) ||
             (limits->kind == RATION_DOCUMENT_NODE_LIST && limits->count == 0))
        RATION_SCHEMA_ERROR(schema, limits,
                            "limits is empty: write for example - {name: all, rate: 100/s}");
}

static void read_root(struct ration_schema *schema, const struct ration_document_node *root)
{
    static const struct ration_schema_fields fields = {"a policy", section_names, SECTION_COUNT};
    const struct ration_document_node *sections[SECTION_COUNT];
    struct ration_policy *policy = schema->policy;

    if (!ration_schema_mapping(schema, root, &fields, sections))
        return;
    read_version(schema, sections[SECTION_VERSION]);
    read_cluster(schema, sections[SECTION_CLUSTER]);
    check_any_limits(schema, root, sections[SECTION_LIMITS]);
    policy->banned_count = count_items(schema, &sections[SECTION_BANNED], "banned",
                                       "- user: mallory", RATION_POLICY_ITEMS_MAX);
    policy->exempt_count = count_items(schema, &sections[SECTION_EXEMPT], "exempt", "- user: root",
                                       RATION_POLICY_ITEMS_MAX);
    policy->limit_count = count_items(schema, &sections[SECTION_LIMITS], "limits",
                                      "- {name: all, rate: 100/s}", RATION_POLICY_LIMITS_MAX);
    policy->rules = ration_arena_take(&policy->arena, ration_policy_rule_count(policy),
                                      sizeof(policy->rules[0]));
    if (!policy->rules)
        return;
    if (sections[SECTION_BANNED])
        read_items(schema, sections[SECTION_BANNED], policy->rules);
    if (sections[SECTION_EXEMPT])
        read_items(schema, sections[SECTION_EXEMPT], policy->rules + policy->banned_count);
    if (sections[SECTION_LIMITS])
        read_limits(schema, sections[SECTION_LIMITS]);
    if (sections[SECTION_SERVER])
        ration_policy_settings_read(schema, sections[SECTION_SERVER]);
}

/* Fills the policy, or records errors. The caller must check whether an arena was exhausted. */
static ration_status read_policy(struct ration_schema *schema, const char *text, size_t text_size)
{
    const struct ration_document_node *root;
    ration_status status;

    if (text == NULL && text_size > 0) {
        ration_policy_errors_add(schema->errors, 1, 1, "the text is NULL, with a size of %zu bytes",
                                 text_size);
        return RATION_EINVAL;
    }
    if (text_size > RATION_POLICY_BYTES_MAX) {
        ration_policy_errors_add(schema->errors, 1, 1, "a policy has at most %d bytes (got %zu)",
                                 RATION_POLICY_BYTES_MAX, text_size);
        return RATION_EINVAL;
    }
    /* libyaml aborts the process if the text is NULL, even with size 0 */
    status = ration_document_read(text != NULL ? text : "", text_size, schema->scratch,
                                  schema->errors, &root);
    if (status != RATION_OK)
        return status;
    read_root(schema, root);
    if (schema->errors->count > 0)
        return RATION_EINVAL;
    return ration_index_build(schema->policy, schema->scratch) ? RATION_OK : RATION_ENOMEM;
}

ration_status ration_policy_parse(const char *text, size_t text_size,
                                  ration_policy_error_func *on_error, void *context,
                                  ration_policy **out_policy)
{
    struct ration_arena scratch = {0};
    struct ration_policy_errors *errors = ration_arena_take(&scratch, 1, sizeof(*errors));
    struct ration_policy *policy = calloc(1, sizeof(*policy));
    ration_status status = RATION_ENOMEM;

    if (errors && policy) {
        struct ration_schema schema = {policy, &scratch, errors};
        errors->arena = &scratch;
        policy->ip_name = RATION_INDEX_NONE;
        status = read_policy(&schema, text, text_size);
        if (scratch.is_exhausted || policy->arena.is_exhausted)
            status = RATION_ENOMEM;
    }
    if (status == RATION_EINVAL)
        ration_policy_errors_report(errors, on_error, context);
    ration_arena_done(&scratch);
    if (status == RATION_OK)
        *out_policy = policy;
    else
        ration_policy_free(policy);
    return status;
}

void ration_policy_free(ration_policy *policy)
{
    if (policy)
        ration_arena_done(&policy->arena);
    free(policy);
}

size_t ration_policy_limit_count(const ration_policy *policy)
{
    return policy->limit_count;
}

const struct ration_policy_limit *ration_policy_limit_at(const ration_policy *policy,
                                                         size_t limit_index)
{
    return limit_index < policy->limit_count ? &policy->limits[limit_index].view : NULL;
}

bool ration_policy_is_one_slot(const ration_policy *policy)
{
    return policy->is_one_slot;
}

size_t ration_policy_setting_count(const ration_policy *policy)
{
    return policy->setting_count;
}

void ration_policy_forget_settings(ration_policy *policy)
{
    for (size_t i = 0; i < policy->setting_count; i++) {
        for (size_t j = 0; j < policy->settings[i].value_count; j++) {
            const struct ration_policy_value *value = &policy->settings[i].values[j];

            explicit_bzero((char *)(uintptr_t)value->text, value->size);
        }
    }
    policy->setting_count = 0;
}

const struct ration_policy_setting *ration_policy_setting_at(const ration_policy *policy,
                                                             size_t setting_index)
{
    return setting_index < policy->setting_count ? &policy->settings[setting_index] : NULL;
}
