#include "server/limit_name.h"

#include <stdio.h>
#include <string.h>

#include "base/words.h"

/* Names that are listed, and those among which a near one is looked for, which is slow. */
#define LISTED_MAX 8
#define NEAR_MAX   256

/* A part of what names there are. */
struct known {
    const char *names[NEAR_MAX];
    size_t name_count;
    size_t all_count;
};

static bool is_same(const char *known, const struct ration_key *name)
{
    return strlen(known) == name->size && memcmp(known, name->bytes, name->size) == 0;
}

static void add(struct known *known, const char *name)
{
    if (known->name_count < NEAR_MAX)
        known->names[known->name_count++] = name;
    known->all_count++;
}

/* "login, api and 12 more". */
static void list(const struct known *known, char *text, size_t text_size)
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

static void refuse(const struct known *known, const struct ration_key *name,
                   char reason[RATION_LIMIT_NAME_TEXT_SIZE])
{
    char quote[RATION_WORDS_QUOTE_SIZE];
    char names[LISTED_MAX * (RATION_LIMIT_NAME_MAX + sizeof(" and ")) + 32] = "";
    const char *near =
        ration_words_nearest(name->bytes, name->size, known->names, known->name_count);

    if (near == NULL)
        list(known, names, sizeof(names));
    snprintf(reason, RATION_LIMIT_NAME_TEXT_SIZE, "there is no limit '%s': %s%s%s",
             ration_words_quote(name->bytes, name->size, quote),
             near != NULL ? "did you mean " : "limits are ", near != NULL ? near : names,
             near != NULL ? "?" : "");
}

const char *ration_limit_name_find(const struct ration_visit *visit, enum ration_limit_names among,
                                   const struct ration_key *name,
                                   char reason[RATION_LIMIT_NAME_TEXT_SIZE])
{
    const ration_policy *policy = ration_gate_policy(visit);
    struct known known = {.name_count = 0};

    for (size_t i = 0; i < ration_policy_limit_count(policy); i++) {
        const char *of_policy = ration_policy_limit_at(policy, i)->limit.name;

        if (is_same(of_policy, name))
            return of_policy;
        add(&known, of_policy);
    }
    if (among == RATION_LIMIT_NAMES_ALL) {
        if (is_same(RATION_POLICY_THROTTLE, name))
            return RATION_POLICY_THROTTLE;
        add(&known, RATION_POLICY_THROTTLE);
    }
    refuse(&known, name, reason);
    return NULL;
}
