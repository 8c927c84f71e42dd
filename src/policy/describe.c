/* describe: describes conditions in words. */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/text.h"
#include "policy/policy_internal.h"

/* The number of values of a condition that are listed; of the others only the count is given. */
#define VALUES_SHOWN_MAX 4

struct line {
    char *buffer;
    size_t size;
    size_t used; /* may exceed size: then the text was truncated */
};

__attribute__((format(printf, 2, 3))) static void append_text(struct line *line, const char *format,
                                                              ...)
{
    va_list arguments;
    size_t room = line->used < line->size ? line->size - line->used : 0;

    va_start(arguments, format);
    line->used +=
        (size_t)vsnprintf(room ? line->buffer + line->used : NULL, room, format, arguments);
    va_end(arguments);
}

static void mark_truncation(struct line *line)
{
    static const char ellipsis[] = "...";

    if (line->used >= line->size && line->size >= sizeof(ellipsis))
        memcpy(line->buffer + line->size - sizeof(ellipsis), ellipsis, sizeof(ellipsis));
}

/* The verb for comparing with a pattern. */
static const char *comparison_verb(const struct ration_pattern *pattern, bool is_negated)
{
    switch (pattern->kind) {
    case RATION_PATTERN_PREFIX:
        return is_negated ? "does not start with" : "starts with";
    case RATION_PATTERN_GLOB:
        return is_negated ? "is not like" : "is like";
    case RATION_PATTERN_NETWORK:
        return is_negated ? "is not in" : "is in";
    default:
        return is_negated ? "is not" : "is";
    }
}

static void append_value(struct line *line, const struct ration_pattern *pattern)
{
    char network[RATION_NETWORK_TEXT_SIZE], quote[RATION_TEXT_QUOTE_SIZE];

    if (pattern->kind == RATION_PATTERN_NETWORK)
        (void)ration_address_network_print(&pattern->network, network);
    append_text(line, " %s",
                pattern->kind == RATION_PATTERN_NETWORK ? network
                : pattern->size == 0                    ? "\"\""
                                     : ration_text_quote(pattern->bytes, pattern->size, quote));
}

/* {glob: "*"} matches any value. */
static bool matches_any(const struct ration_pattern *pattern)
{
    return pattern->kind == RATION_PATTERN_PREFIX && pattern->size == 0;
}

/* Example: "path is /login or /signin or starts with /api/". */
static void append_term(struct line *line, const struct ration_policy *policy,
                        const struct ration_term *term)
{
    append_text(line, "%s", policy->names[term->name_index].bytes);
    if (term->pattern_count == 1 && matches_any(&term->patterns[0])) {
        append_text(line, term->is_negated ? " is absent" : " is given");
        return;
    }
    for (uint32_t i = 0; i < term->pattern_count && i < VALUES_SHOWN_MAX; i++) {
        const struct ration_pattern *pattern = &term->patterns[i];
        bool has_verb = i == 0 || pattern->kind != pattern[-1].kind;

        if (i > 0) /* "is not a or b and does not start with c" */
            append_text(line, term->is_negated && has_verb ? " and" : " or");
        if (has_verb)
            append_text(line, " %s", comparison_verb(pattern, term->is_negated));
        append_value(line, pattern);
    }
    if (term->pattern_count > VALUES_SHOWN_MAX)
        append_text(line, " and %u more", (unsigned)(term->pattern_count - VALUES_SHOWN_MAX));
}

const char *ration_policy_describe(const ration_policy *policy, size_t limit_index, char *buffer,
                                   size_t buffer_size)
{
    struct line line = {buffer, buffer_size, 0};
    const struct ration_policy_rule *rule;

    buffer[0] = '\0';
    if (limit_index >= policy->limit_count)
        return buffer;
    rule = ration_policy_limit_rule(policy, limit_index);
    for (size_t i = 0; i < rule->term_count; i++) {
        append_text(&line, "%s", i > 0 ? ", " : "");
        append_term(&line, policy, &rule->terms[i]);
    }
    for (size_t i = 0; i < rule->needed_count; i++)
        append_text(&line, "%s%s is given", i + rule->term_count > 0 ? ", " : "",
                    policy->names[rule->needed[i]].bytes);
    if (rule->term_count + rule->needed_count == 0)
        append_text(&line, "every request");
    mark_truncation(&line);
    return buffer;
}

static void append_failure(struct line *line, const struct ration_policy *policy,
                           const struct ration_policy_request *request,
                           const struct ration_term *term)
{
    char quote[RATION_TEXT_QUOTE_SIZE];
    const char *name = policy->names[term->name_index].bytes;
    const struct ration_key *value = request->values[term->name_index];

    append_text(line, "it requires that ");
    append_term(line, policy, term);
    if (value)
        append_text(line, ", and %s is %s", name,
                    value->size ? ration_text_quote(value->bytes, value->size, quote) : "\"\"");
    else
        append_text(line, ", and there is no %s", name);
}

ration_status ration_policy_explain(const ration_policy *policy, size_t limit_index,
                                    const struct ration_attribute *attributes,
                                    size_t attribute_count, char *buffer, size_t buffer_size)
{
    struct line line = {buffer, buffer_size, 0};
    struct ration_policy_request request;
    ration_status status;

    if (limit_index >= policy->limit_count)
        return RATION_EINVAL;
    request.work = NULL;
    status = ration_policy_request_read(policy, attributes, attribute_count, &request);
    if (status != RATION_OK)
        return status;
    const struct ration_policy_rule *rule = ration_policy_limit_rule(policy, limit_index);
    size_t failed = ration_policy_request_fails(&request, rule);
    buffer[0] = '\0';
    if (failed < rule->term_count)
        append_failure(&line, policy, &request, &rule->terms[failed]);
    else if (failed < (size_t)rule->term_count + rule->needed_count)
        append_text(&line, "there is no %s, which its key needs",
                    policy->names[rule->needed[failed - rule->term_count]].bytes);
    mark_truncation(&line);
    return RATION_OK;
}
