#include "server/ops/limit_name.h"

#include <stdio.h>
#include <string.h>

#include "base/text.h"

/* Names listed in an error, and names searched for a similar one, which is slow. */
#define LISTED_MAX  8
#define NEAREST_MAX 256

/* The known names: all are counted, the first NEAREST_MAX are stored. */
struct known_names {
    const char *names[NEAREST_MAX];
    size_t name_count;
    size_t all_count;
};

static bool names_match(const char *known, const struct ration_key *name)
{
    return strlen(known) == name->size && memcmp(known, name->bytes, name->size) == 0;
}

static void add_name(struct known_names *known, const char *name)
{
    if (known->name_count < NEAREST_MAX)
        known->names[known->name_count++] = name;
    known->all_count++;
}

/* "login, api and 12 more". */
static void list_names(const struct known_names *known, char *text, size_t text_size)
{
    size_t shown = known->name_count < LISTED_MAX ? known->name_count : LISTED_MAX;
    size_t used = 0;

    for (size_t i = 0; i < shown; i++) {
        bool is_last = i + 1 == known->all_count;

        used += (size_t)snprintf(text + used, text_size - used, "%s%s",
                                 i == 0    ? ""
                                 : is_last ? " and "
                                           : ", ",
                                 known->names[i]);
    }
    if (shown < known->all_count)
        snprintf(text + used, text_size - used, " and %zu more", known->all_count - shown);
}

static void describe_unknown(const struct known_names *known, const struct ration_key *name,
                             char reason[RATION_LIMIT_NAME_TEXT_SIZE])
{
    char quote[RATION_TEXT_QUOTE_SIZE];
    char names[LISTED_MAX * (RATION_LIMIT_NAME_MAX + sizeof(" and ")) + 32] = "";
    const char *nearest =
        ration_text_nearest(name->bytes, name->size, known->names, known->name_count);

    if (nearest == NULL)
        list_names(known, names, sizeof(names));
    snprintf(reason, RATION_LIMIT_NAME_TEXT_SIZE, "there is no limit '%s': %s%s%s",
             ration_text_quote(name->bytes, name->size, quote),
             nearest != NULL ? "did you mean " : "limits are ", nearest != NULL ? nearest : names,
             nearest != NULL ? "?" : "");
}

const char *ration_limit_name_find(const struct ration_engine_guard *guard,
                                   enum ration_limit_names among, const struct ration_key *name,
                                   char reason[RATION_LIMIT_NAME_TEXT_SIZE])
{
    const ration_policy *policy = ration_engine_policy(guard);
    struct known_names known = {.name_count = 0};

    for (size_t i = 0; i < ration_policy_limit_count(policy); i++) {
        const char *policy_name = ration_policy_limit_at(policy, i)->limit.name;

        if (names_match(policy_name, name))
            return policy_name;
        add_name(&known, policy_name);
    }
    if (among == RATION_LIMIT_NAMES_ALL) {
        if (names_match(RATION_POLICY_INLINE, name))
            return RATION_POLICY_INLINE;
        add_name(&known, RATION_POLICY_INLINE);
    }
    describe_unknown(&known, name, reason);
    return NULL;
}

void ration_limit_list_get(const struct ration_engine_guard *guard, size_t limit_index,
                           struct ration_admin_limit *out_limit)
{
    const ration_policy *policy = ration_engine_policy(guard);
    const struct ration_policy_limit *limit = ration_policy_limit_at(policy, limit_index);
    struct ration_limit unnamed = limit->limit;
    struct ration_limiter_report report;

    ration_limiter_read_report(ration_engine_limiter(guard, limit_index), &report);
    *out_limit = (struct ration_admin_limit){
        .limit = limit,
        .tokens = limit->limit.tokens,
        .period_ns = limit->limit.period_ns,
        .burst = limit->limit.burst,
        .keys_max = limit->keys_max,
        .keys = report.limiter.created - report.limiter.reclaimed,
        .allowed = report.rules[0].allowed,
        .denied = report.rules[0].denied,
        .never = report.rules[0].never,
        .near_limit = report.rules[0].near_limit,
        .shadow_denied = report.rules[0].shadow_denied,
        .overflow = report.limiter.overflow_shared + report.limiter.overflow_deny +
                    report.limiter.overflow_allow,
    };
    unnamed.name[0] = '\0';
    (void)ration_limit_print(&unnamed, out_limit->text, sizeof(out_limit->text));
    ration_policy_describe(policy, limit_index, out_limit->match, sizeof(out_limit->match));
}
