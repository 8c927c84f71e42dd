/*
 * Any bytes as the body of a check. Each check of an accepted body can be read, within its bounds; a refused body has an
 * error with text that can be sent.
 */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "codec/http/check_json.h"
#include "codec/http/problem.h"
#include "support/json_complete.h"

/* Aborts in every build, so that a release build finds what a debug build does. */
#define CHECK(condition)  \
    do {                  \
        if (!(condition)) \
            abort();      \
    } while (0)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Reads every byte, so that a sanitizer notices an invalid one. */
static volatile unsigned char seen;

static void touch(const struct ration_key *slice)
{
    for (size_t i = 0; i < slice->size; i++)
        seen = ((const unsigned char *)slice->bytes)[i];
}

static void check_read(const ration_checks *checks, enum ration_check_kind kind)
{
    size_t count = ration_check_json_count(checks);
    CHECK(count >= 1 && count <= RATION_CHECKS_MAX);
    CHECK(ration_check_json_is_batch(checks) || count == 1);
    for (size_t i = 0; i < count; i++) {
        struct ration_check_room room;
        struct ration_check_request check;
        ration_check_json_get(checks, i, &room, &check);
        CHECK(check.kind == kind || (kind == RATION_CHECK_TAKE && check.kind == RATION_CHECK_PEEK));
        CHECK(check.attribute_count <= RATION_ATTRIBUTES_MAX);
        CHECK(check.tokens <= INT64_MAX && check.block_ns <= RATION_FILL_NS_MAX);
        CHECK((kind == RATION_CHECK_BLOCK) == (check.block_ns > 0));
        CHECK(check.has_limit == check.has_key || kind == RATION_CHECK_RESET);
        CHECK(!check.has_key || check.attribute_count == 0);
        CHECK(!check.has_limit_name || (!check.has_key && kind >= RATION_CHECK_REFUND));
        if (check.has_limit_name)
            touch(&check.limit_name);
        for (size_t j = 0; j < check.attribute_count; j++) {
            touch(&check.attributes[j].name);
            touch(&check.attributes[j].value);
        }
        if (check.has_key)
            touch(&check.key);
    }
}

static void check_refusal(const struct ration_check_error *error)
{
    struct ration_output output;
    struct ration_json json;
    CHECK(memchr(error->pointer, '\0', sizeof(error->pointer)));
    CHECK(memchr(error->message, '\0', sizeof(error->message)) && error->message[0]);
    ration_output_init(&output, 8192);
    ration_json_init(&json, &output);
    ration_problem_write(&json, &(struct ration_problem){400, error->message, error->pointer});
    CHECK(json_is_complete(&json) && !output.is_failed);
    ration_output_done(&output);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    ration_checks *checks = NULL;
    struct ration_check_error error;
    if (size == 0)
        return 0;
    enum ration_check_kind kind = (enum ration_check_kind)(data[0] % 5);
    memset(&error, 0xA5, sizeof(error));
    if (ration_check_json_read(kind, (const char *)data + 1, size - 1, &checks, &error)) {
        check_read(checks, kind);
        ration_check_json_free(checks);
    } else {
        CHECK(!checks);
        check_refusal(&error);
    }
    return 0;
}
