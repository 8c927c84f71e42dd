/* policy_settings: copies the section server: of a policy, as it is written. */
#include "policy/schema.h"

#include <inttypes.h>
#include <string.h>

#include "base/text.h"

static bool copy_value(struct ration_schema *schema, const struct ration_document_node *node,
                       struct ration_policy_value *out_value)
{
    if (node->kind != RATION_DOCUMENT_NODE_SCALAR) {
        RATION_SCHEMA_ERROR(schema, node,
                            "a setting is a value or a list of values, and this is %s",
                            ration_document_node_kind_text(node));
        return false;
    }
    *out_value = (struct ration_policy_value){
        ration_arena_copy(&schema->policy->arena, node->text, node->size), node->size, node->line,
        node->column};
    return out_value->text != NULL;
}

static void read_setting(struct ration_schema *schema, const struct ration_document_node *node,
                         struct ration_policy_setting *setting)
{
    struct ration_arena *arena = &schema->policy->arena;
    bool is_list = node->kind == RATION_DOCUMENT_NODE_LIST;
    struct ration_policy_value *values =
        ration_arena_take(arena, is_list ? node->count : 1, sizeof(values[0]));

    setting->name = ration_arena_copy(arena, node->name->text, node->name->size);
    setting->line = node->name->line;
    setting->column = node->name->column;
    setting->is_list = is_list;
    setting->values = values;
    if (!values || !setting->name)
        return;
    for (const struct ration_document_node *value = is_list ? node->first : node; value;
         value = is_list ? value->next : NULL)
        setting->value_count += copy_value(schema, value, &values[setting->value_count]);
}

/* Names are returned as C strings, so they must not contain zero bytes. */
static bool check_name(struct ration_schema *schema, const struct ration_document_node *name)
{
    size_t i = 0;

    while (i < name->size && name->text[i] > ' ' && name->text[i] <= '~')
        i++;
    if (i > 0 && i == name->size)
        return true;
    RATION_SCHEMA_ERROR(schema, name, "the name of a setting is printable ASCII without blanks");
    return false;
}

static bool is_repeated(struct ration_schema *schema, const struct ration_document_node *section,
                        const struct ration_document_node *member)
{
    const struct ration_document_node *earlier = section->first;

    while (earlier != member &&
           (earlier->name->size != member->name->size ||
            memcmp(earlier->name->text, member->name->text, earlier->name->size) != 0))
        earlier = earlier->next;
    if (earlier == member)
        return false;
    char quote[RATION_TEXT_QUOTE_SIZE];
    RATION_SCHEMA_ERROR(
        schema, member->name, "%s is given twice, first in line %" PRIu32 ": keep one",
        ration_text_quote(member->name->text, member->name->size, quote), earlier->name->line);
    return true;
}

void ration_policy_settings_read(struct ration_schema *schema,
                                 const struct ration_document_node *section)
{
    struct ration_policy *policy = schema->policy;

    if (ration_document_node_is_blank(section))
        return;
    if (section->kind != RATION_DOCUMENT_NODE_MAPPING) {
        RATION_SCHEMA_ERROR(
            schema, section,
            "server is a mapping of settings (http: 127.0.0.1:8429), and this is %s",
            ration_document_node_kind_text(section));
        return;
    }
    if (section->count > RATION_POLICY_SETTINGS_MAX) {
        RATION_SCHEMA_ERROR(schema, section, "server has at most %d settings (got %zu)",
                            RATION_POLICY_SETTINGS_MAX, section->count);
        return;
    }
    policy->settings =
        ration_arena_take(&policy->arena, section->count, sizeof(policy->settings[0]));
    if (!policy->settings)
        return;
    for (const struct ration_document_node *member = section->first; member;
         member = member->next) {
        if (check_name(schema, member->name) && !is_repeated(schema, section, member))
            read_setting(schema, member, &policy->settings[policy->setting_count++]);
    }
}
