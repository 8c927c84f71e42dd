#include "policy/settings.h"

#include <inttypes.h>
#include <string.h>

#include "base/words.h"

static bool copy_value(struct ration_schema *schema, const struct ration_node *node,
                       struct ration_policy_value *out_value)
{
    if (node->kind != RATION_NODE_SCALAR) {
        RATION_SCHEMA_FAULT(schema, node,
                            "a setting is a value or a list of values, and this is %s",
                            ration_node_kind_text(node));
        return false;
    }
    *out_value = (struct ration_policy_value){
        ration_arena_copy(&schema->policy->arena, node->text, node->size), node->size, node->line,
        node->column};
    return out_value->text != NULL;
}

static void read_setting(struct ration_schema *schema, const struct ration_node *node,
                         struct ration_policy_setting *setting)
{
    struct ration_arena *arena = &schema->policy->arena;
    bool is_list = node->kind == RATION_NODE_LIST;
    struct ration_policy_value *values =
        ration_arena_take(arena, is_list ? node->count : 1, sizeof(values[0]));

    setting->name = ration_arena_copy(arena, node->name->text, node->name->size);
    setting->line = node->name->line;
    setting->column = node->name->column;
    setting->is_list = is_list;
    setting->values = values;
    if (!values || !setting->name)
        return;
    for (const struct ration_node *value = is_list ? node->first : node; value;
         value = is_list ? value->next : NULL)
        setting->value_count += copy_value(schema, value, &values[setting->value_count]);
}

/* Names are told as strings: no zero byte in them. */
static bool check_name(struct ration_schema *schema, const struct ration_node *name)
{
    size_t i = 0;

    while (i < name->size && name->text[i] > ' ' && name->text[i] <= '~')
        i++;
    if (i > 0 && i == name->size)
        return true;
    RATION_SCHEMA_FAULT(schema, name, "the name of a setting is printable ASCII without blanks");
    return false;
}

static bool is_repeated(struct ration_schema *schema, const struct ration_node *section,
                        const struct ration_node *member)
{
    const struct ration_node *before = section->first;

    while (before != member && (before->name->size != member->name->size ||
                                memcmp(before->name->text, member->name->text, before->name->size)))
        before = before->next;
    if (before == member)
        return false;
    char quote[RATION_WORDS_QUOTE_SIZE];
    RATION_SCHEMA_FAULT(
        schema, member->name, "%s is given twice, first in line %" PRIu32 ": keep one",
        ration_words_quote(member->name->text, member->name->size, quote), before->name->line);
    return true;
}

void ration_settings_read(struct ration_schema *schema, const struct ration_node *section)
{
    struct ration_policy *policy = schema->policy;

    if (ration_node_is_blank(section))
        return;
    if (section->kind != RATION_NODE_MAPPING) {
        RATION_SCHEMA_FAULT(
            schema, section,
            "server is a mapping of settings (http: 127.0.0.1:8429), and this is %s",
            ration_node_kind_text(section));
        return;
    }
    if (section->count > RATION_POLICY_SETTINGS_MAX) {
        RATION_SCHEMA_FAULT(schema, section, "server has at most %d settings (got %zu)",
                            RATION_POLICY_SETTINGS_MAX, section->count);
        return;
    }
    policy->settings =
        ration_arena_take(&policy->arena, section->count, sizeof(policy->settings[0]));
    if (!policy->settings)
        return;
    for (const struct ration_node *member = section->first; member; member = member->next) {
        if (check_name(schema, member->name) && !is_repeated(schema, section, member))
            read_setting(schema, member, &policy->settings[policy->setting_count++]);
    }
}
