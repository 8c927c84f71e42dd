/* attribute: maps the names of attributes to small numbers when a policy is loaded. */
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/text.h"
#include "policy/schema.h"

static const char header_prefix[] = "header.";

/* Returns the offset of the first byte that is not allowed in a name, or size. */
static size_t find_invalid_byte(const char *name, size_t size, bool *out_is_upper)
{
    size_t header_size = strlen(header_prefix);
    bool is_header = size > header_size && memcmp(name, header_prefix, header_size) == 0;

    *out_is_upper = false;
    for (size_t i = 0; i < size; i++) {
        bool is_upper = is_header && name[i] != ration_text_lower(name[i]);
        if (is_upper || name[i] <= ' ' || name[i] > '~') {
            *out_is_upper = is_upper;
            return i;
        }
    }
    return size;
}

/* Fields of a check request that are not attributes, in any of the protocols. */
static bool is_reserved(const char *name, size_t size)
{
    static const char *const words[] = {"cost", "peek", "key", "limit", "deny_status"};

    for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++)
        if (strlen(words[i]) == size && memcmp(words[i], name, size) == 0)
            return true;
    return false;
}

/*
 * False, with an error recorded, if the name is that of a header with _ in it. CGI, WSGI and Rack
 * treat _ and - as the same, so a limit keyed by x_api_key would not apply to X-Api-Key, which such
 * a service accepts as well.
 */
static bool is_header_without_underscore(struct ration_schema *schema,
                                         const struct ration_document_node *node)
{
    char name[RATION_ATTRIBUTE_NAME_MAX + 1];

    if (strncmp(node->text, header_prefix, strlen(header_prefix)) != 0 ||
        strchr(node->text, '_') == NULL)
        return true;
    snprintf(name, sizeof(name), "%s", node->text);
    for (char *underscore = strchr(name, '_'); underscore != NULL;
         underscore = strchr(underscore, '_'))
        *underscore = '-';
    RATION_SCHEMA_ERROR(schema, node,
                        "did you mean %s? Write - instead of _ in the name of a header, because "
                        "many services treat both as the same (got %s)",
                        name, node->text);
    return false;
}

/* A well-known name in another spelling would be an attribute that no client sends. */
static bool is_well_spelled(struct ration_schema *schema, const struct ration_document_node *node)
{
    static const char *const known[] = {"method", "path", "host", "ip", "user", "plan"};

    if (node->size > 8 && memcmp(node->text, "headers.", 8) == 0) {
        RATION_SCHEMA_ERROR(schema, node, "a header is header.%s (got %s)", node->text + 8,
                            node->text);
        return false;
    }
    if (!is_header_without_underscore(schema, node))
        return false;
    for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++) {
        if (strlen(known[i]) != node->size || memcmp(known[i], node->text, node->size) == 0 ||
            strncasecmp(known[i], node->text, node->size) != 0)
            continue;
        RATION_SCHEMA_ERROR(schema, node, "did you mean %s? (got %s)", known[i], node->text);
        return false;
    }
    return true;
}

static bool check_name(struct ration_schema *schema, const struct ration_document_node *node)
{
    bool is_upper;
    size_t invalid_offset;

    if (!ration_schema_text(schema, node, "the name of an attribute"))
        return false;
    if (ration_document_node_is_null(node)) {
        RATION_SCHEMA_ERROR(schema, node,
                            "%s is not an attribute: leave it out, or put quotes around its name",
                            node->text);
        return false;
    }
    if (node->size > RATION_ATTRIBUTE_NAME_MAX) {
        RATION_SCHEMA_ERROR(schema, node, "the name of an attribute has at most %d bytes (got %zu)",
                            RATION_ATTRIBUTE_NAME_MAX, node->size);
        return false;
    }
    invalid_offset = find_invalid_byte(node->text, node->size, &is_upper);
    if (invalid_offset == node->size && !is_well_spelled(schema, node))
        return false;
    if (invalid_offset == node->size && is_reserved(node->text, node->size)) {
        RATION_SCHEMA_ERROR(
            schema, node,
            "%s is a reserved field of check requests; give the attribute another name",
            node->text);
        return false;
    }
    if (invalid_offset == node->size)
        return true;
    ration_schema_error(schema, node, invalid_offset,
                        is_upper ? "write the names of header fields in lower case"
                                 : "the name of an attribute is printable ASCII without blanks");
    return false;
}

static bool add_name(struct ration_schema *schema, const struct ration_document_node *node)
{
    struct ration_policy *policy = schema->policy;
    char *bytes;

    if (policy->name_count == RATION_POLICY_NAMES_MAX) {
        RATION_SCHEMA_ERROR(schema, node, "a policy names at most %d different attributes",
                            RATION_POLICY_NAMES_MAX);
        return false;
    }
    bytes = ration_arena_copy(&policy->arena, node->text, node->size);
    if (!bytes)
        return false;
    if (ration_document_node_is(node, "ip"))
        policy->ip_name = (uint16_t)policy->name_count;
    policy->names[policy->name_count++] = (struct ration_policy_name){bytes, node->size};
    return true;
}

bool ration_schema_attribute(struct ration_schema *schema, const struct ration_document_node *node,
                             uint16_t *out_name_index)
{
    struct ration_policy *policy = schema->policy;
    size_t i = 0;

    if (!check_name(schema, node))
        return false;
    while (i < policy->name_count && !ration_document_node_is(node, policy->names[i].bytes))
        i++;
    if (i == policy->name_count && !add_name(schema, node))
        return false;
    *out_name_index = (uint16_t)i;
    return true;
}
