/*
 * policy_kit: short ways to write policies and requests in tests.
 */
#ifndef RATION_TESTS_POLICY_KIT_H
#define RATION_TESTS_POLICY_KIT_H

#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ration/policy.h"
#include "support/unit.h"

#define COUNT_OF(array) (sizeof(array) / sizeof((array)[0]))

/* A request of the attributes given: REQUEST("path", "/x", "ip", "::1"). */
struct kit_request {
    struct ration_attribute attributes[RATION_ATTRIBUTES_MAX + 1];
    size_t count;
};

static inline struct kit_request kit_request(const char *const *words, size_t word_count)
{
    struct kit_request request = {.count = word_count / 2};

    for (size_t i = 0; i < request.count; i++)
        request.attributes[i] = (struct ration_attribute){
            {words[2 * i], strlen(words[2 * i])}, {words[2 * i + 1], strlen(words[2 * i + 1])}};
    return request;
}

#define REQUEST(...) \
    kit_request((const char *const[]){__VA_ARGS__}, COUNT_OF(((const char *const[]){__VA_ARGS__})))

static inline void kit_print_error(void *context, const struct ration_policy_error *error)
{
    (void)context;
    print_error("%" PRIu32 ":%" PRIu32 ": %s\n", error->line, error->column, error->message);
}

/* A policy that must be right. */
static inline ration_policy *kit_policy(const char *text)
{
    ration_policy *policy = NULL;

    assert_int_equal(ration_policy_parse(text, strlen(text), kit_print_error, NULL, &policy),
                     RATION_OK);
    assert_non_null(policy);
    return policy;
}

/* The names of the limits that apply, "login,api"; "exempt 0", "banned 0" or "error". */
static inline const char *kit_match(const ration_policy *policy, struct kit_request request)
{
    static char text[RATION_POLICY_MATCHES_MAX * (RATION_LIMIT_NAME_MAX + 1) + 1];
    struct ration_policy_match match;
    size_t used = 0;

    if (ration_policy_find_matches(policy, request.attributes, request.count, &match) != RATION_OK)
        return "error";
    text[0] = '\0';
    if (match.verdict != RATION_POLICY_LIMITS) {
        assert_int_equal(match.limit_count, 0);
        snprintf(text, sizeof(text), "%s %u",
                 match.verdict == RATION_POLICY_BANNED ? "banned" : "exempt",
                 (unsigned)match.item_index);
    }
    for (size_t i = 0; i < match.limit_count; i++)
        used += (size_t)snprintf(text + used, sizeof(text) - used, "%s%s", i > 0 ? "," : "",
                                 ration_policy_limit_at(policy, match.limits[i])->limit.name);
    return text;
}

#endif
