/*
 * Any bytes as a policy. A policy that is accepted must match requests and describe itself; one that is refused must give
 * the position and the reason of each error, in order, and leave the output unchanged.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "ration/policy.h"

/* Aborts in every build, so that a release build finds what a debug build does. */
#define CHECK(condition)  \
    do {                  \
        if (!(condition)) \
            abort();      \
    } while (0)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct reported {
    size_t count;
    uint32_t line;
};

static void check_error(void *context, const struct ration_policy_error *error)
{
    struct reported *reported = context;

    CHECK(error->line >= reported->line && error->line > 0 && error->column > 0);
    CHECK(error->message[0]);
    for (const char *at = error->message; *at; at++)
        CHECK(*at >= 0x20 && *at < 0x7F);
    reported->line = error->line;
    reported->count++;
}

/* A match and the explanations of the limits agree. */
static void check_limit(const ration_policy *policy, size_t index,
                        const struct ration_attribute *request, size_t count, bool applies)
{
    char text[64], room[256];
    struct ration_key key;
    uint64_t cost;

    CHECK(ration_policy_explain(policy, index, request, count, text, sizeof(text)) == RATION_OK);
    CHECK((text[0] == '\0') == applies);
    ration_policy_describe(policy, index, text, sizeof(text));
    CHECK(text[0] && strlen(text) < sizeof(text));
    if (ration_policy_key(policy, index, request, count, room, sizeof(room), &key) == RATION_OK)
        CHECK(key.size <= RATION_KEY_SIZE_MAX);
    (void)ration_policy_cost(policy, index, request, count, 1, &cost);
}

static void check_request(const ration_policy *policy, const struct ration_attribute *request,
                          size_t count)
{
    struct ration_policy_match match;

    if (ration_policy_find_matches(policy, request, count, &match) != RATION_OK)
        return;
    CHECK(match.limit_count <= RATION_POLICY_MATCHES_MAX);
    if (match.verdict != RATION_POLICY_LIMITS)
        return;
    for (size_t i = 0, next = 0; i < ration_policy_limit_count(policy); i++) {
        bool applies = next < match.limit_count && match.limits[next] == i;
        next += applies;
        check_limit(policy, i, request, count, applies);
    }
}

/* Requests from the bytes themselves, because parts of a policy are likely to match. */
static void check_policy(const ration_policy *policy, const char *text, size_t size)
{
    static const char *const names[] = {"path", "ip", "user", "method", "plan"};
    struct ration_attribute request[5];

    check_request(policy, NULL, 0);
    for (size_t i = 0; i < 5; i++) {
        size_t begin = size * i / 5, end = begin;
        while (end < size && strchr(" \n,]}[{'\":", text[end]) == NULL)
            end++;
        request[i] =
            (struct ration_attribute){{names[i], strlen(names[i])}, {text + begin, end - begin}};
    }
    check_request(policy, request, 5);
    request[1].value = RATION_KEY("10.1.2.3");
    check_request(policy, request, 5);
    request[1].value = RATION_KEY("2001:db8::1");
    check_request(policy, request, 2);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct reported reported = {0};
    ration_policy *policy = NULL;
    ration_status status =
        ration_policy_parse((const char *)data, size, check_error, &reported, &policy);

    if (status == RATION_OK) {
        CHECK(policy && reported.count == 0);
        check_policy(policy, (const char *)data, size);
    } else {
        CHECK(status == RATION_EINVAL && !policy);
        CHECK(reported.count >= 1 && reported.count <= RATION_POLICY_ERRORS_MAX + 1);
    }
    ration_policy_free(policy);
    return 0;
}
