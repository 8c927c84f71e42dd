/*
 * Any bytes as a limit. A limit that parses must print, parse back to an equal limit and print the same text; for any
 * other text the output must be unchanged, and the error must have a position and a reason.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "ration/limit.h"
#include "support/limits_equal.h"

#define PATTERN 0xA5

/* Aborts in every build, so that a release build finds what a debug build does. */
#define CHECK(condition)  \
    do {                  \
        if (!(condition)) \
            abort();      \
    } while (0)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_round_trip(const struct ration_limit *limit)
{
    char text[RATION_LIMIT_TEXT_SIZE], again[RATION_LIMIT_TEXT_SIZE];
    struct ration_limit back;
    CHECK(ration_limit_print(limit, text, sizeof(text)) == RATION_OK);
    CHECK(ration_limit_parse(text, &back, NULL) == RATION_OK);
    CHECK(limits_equal(limit, &back));
    CHECK(ration_limit_print(&back, again, sizeof(again)) == RATION_OK);
    CHECK(strcmp(text, again) == 0);
}

static void check_refusal(size_t size, ration_status status, const struct ration_limit *limit,
                          const struct ration_error *error)
{
    struct ration_limit untouched;
    memset(&untouched, PATTERN, sizeof(untouched));
    CHECK(memcmp(limit, &untouched, sizeof(untouched)) == 0);
    CHECK(status == RATION_EINVAL || status == RATION_ERANGE);
    CHECK(error->status == status);
    CHECK(error->offset <= size);
    const char *end = memchr(error->message, '\0', sizeof(error->message));
    CHECK(end && end > error->message);
    for (const char *at = error->message; at < end; at++)
        CHECK(*at >= 0x20 && *at < 0x7F);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct ration_limit limit, unexplained;
    struct ration_error error;
    memset(&limit, PATTERN, sizeof(limit));
    memset(&error, PATTERN, sizeof(error));
    const char *text = (const char *)data;
    ration_status status = ration_limit_parse_bytes(text, size, &limit, &error);
    if (status == RATION_OK)
        check_round_trip(&limit);
    else
        check_refusal(size, status, &limit, &error);
    CHECK(ration_limit_parse_bytes(text, size, &unexplained, NULL) == status);
    return 0;
}
