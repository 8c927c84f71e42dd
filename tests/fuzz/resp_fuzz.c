/*
 * A stream of requests, split where the first bytes say. Whole and in pieces it has the same requests; the parser reads
 * nothing beyond the given bytes; each reply to them is one well-formed value.
 *
 *     first byte: which limits; second: the distance between splits; the rest is the stream
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "codec/resp/cl_throttle.h"
#include "codec/resp/commands.h"
#include "codec/resp/resp_request.h"
#include "support/resp_check.h"
#include "support/resp_limits.h"

#define CHECK(condition)  \
    do {                  \
        if (!(condition)) \
            abort();      \
    } while (0)

#define OUTPUT_MAX (1024 * 1024)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const struct ration_resp_limits narrow = {
    .arguments_max = 6, .argument_bytes_max = 20, .request_bytes_max = 100, .inline_bytes_max = 40};

static const struct ration_resp_limits *const choices[] = {
    &resp_limits_default, &ration_resp_limits_unauthenticated, &narrow};

static struct ration_resp_request whole, cut;

/* Reads size bytes from memory of exactly that size, which the caller frees. */
static enum ration_resp_result read_copy(const struct ration_resp_limits *limits,
                                         const uint8_t *data, size_t size,
                                         struct ration_resp_request *request, char **out_copy)
{
    *out_copy = malloc(size);
    if (size > 0)
        memcpy(*out_copy, data, size);
    return ration_resp_read(limits, *out_copy, size, request);
}

static void check_within(const struct ration_resp_limits *limits, const char *bytes, size_t size)
{
    CHECK(whole.argument_count > 0 && whole.argument_count <= limits->arguments_max);
    CHECK(whole.consumed_bytes > 0 && whole.consumed_bytes <= size);
    for (size_t i = 0; i < whole.argument_count; i++) {
        const char *argument = whole.arguments[i].bytes;
        CHECK(argument >= bytes && argument <= bytes + whole.consumed_bytes);
        CHECK(whole.arguments[i].size <= (size_t)(bytes + whole.consumed_bytes - argument));
        CHECK(whole.arguments[i].size <= limits->argument_bytes_max);
    }
}

static void check_same(enum ration_resp_result result)
{
    if (result == RATION_RESP_WRONG) {
        CHECK(!strcmp(whole.error, cut.error));
        return;
    }
    CHECK(whole.consumed_bytes == cut.consumed_bytes);
    if (result == RATION_RESP_NOTHING)
        return;
    CHECK(whole.argument_count == cut.argument_count);
    for (size_t i = 0; i < whole.argument_count; i++) {
        CHECK(whole.arguments[i].size == cut.arguments[i].size);
        CHECK(!memcmp(whole.arguments[i].bytes, cut.arguments[i].bytes, cut.arguments[i].size));
    }
}

/* The same request in pieces: MORE until it is complete, then the same result. */
static void check_pieces(const struct ration_resp_limits *limits, const uint8_t *data, size_t size,
                         size_t step, enum ration_resp_result expected)
{
    for (size_t have = 0;; have += step) {
        char *copy;
        size_t given = have < size ? have : size;
        enum ration_resp_result result = read_copy(limits, data, given, &cut, &copy);
        if (result == RATION_RESP_MORE) {
            CHECK(cut.needed_bytes > given && cut.needed_bytes <= limits->request_bytes_max);
            if (expected == RATION_RESP_REQUEST)
                CHECK(cut.needed_bytes <= whole.consumed_bytes);
            free(copy);
            CHECK(given < size || expected == RATION_RESP_MORE);
            if (given == size)
                return;
            continue;
        }
        CHECK(result == expected);
        check_same(result);
        free(copy);
        return;
    }
}

static void check_answer(struct ration_output *output, int version)
{
    CHECK(!output->is_failed);
    CHECK(resp_check(output->bytes, output->size, version));
    ration_output_reset(output);
}

static void answer_throttle(struct ration_output *output, enum ration_resp_version version)
{
    struct ration_cl_throttle throttle;
    struct ration_limit limit;
    char error[RATION_CL_THROTTLE_ERROR_SIZE];
    struct ration_bucket bucket = {{0}};
    for (int is_gcra = 0; is_gcra < 2; is_gcra++) {
        bool is_read =
            is_gcra
                ? ration_cl_throttle_parse_gcra(whole.arguments, whole.argument_count, &throttle,
                                                error)
                : ration_cl_throttle_parse(whole.arguments, whole.argument_count, &throttle, error);
        if (!is_read || !ration_cl_throttle_make_limit(&throttle, &limit, error)) {
            CHECK(memchr(error, '\0', sizeof(error)));
            ration_resp_write_error(output, error);
        } else {
            struct ration_decision decision =
                ration_bucket_take(&bucket, &limit, throttle.quantity, RATION_NS_PER_SECOND);
            ration_cl_throttle_write(output, &decision);
        }
        check_answer(output, (int)version);
    }
}

static void answer(enum ration_resp_version version)
{
    struct ration_output output;
    ration_output_init(&output, OUTPUT_MAX);
    const struct ration_key *words = whole.arguments;
    answer_throttle(&output, version);
    ration_commands_write_unknown(&output, words, whole.argument_count);
    check_answer(&output, (int)version);
    ration_commands_write_info(&output, version, words, whole.argument_count);
    check_answer(&output, (int)version);
    ration_commands_write_docs(&output, version, words, whole.argument_count);
    check_answer(&output, (int)version);
    ration_commands_write_unknown_subcommand(&output, &ration_commands[0], &words[0]);
    check_answer(&output, (int)version);
    ration_resp_write_verbatim(&output, version, words[0].bytes, words[0].size);
    check_answer(&output, (int)version);
    ration_output_done(&output);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 2)
        return 0;
    const struct ration_resp_limits *limits = choices[data[0] % 3];
    size_t step = (size_t)data[1] % 64 + 1;
    data += 2;
    size -= 2;
    for (;;) {
        char *copy;
        enum ration_resp_result result = read_copy(limits, data, size, &whole, &copy);
        if (result == RATION_RESP_REQUEST) {
            check_within(limits, copy, size);
            answer(RATION_RESP2);
            answer(RATION_RESP3);
        }
        check_pieces(limits, data, size, step, result);
        free(copy);
        if (result == RATION_RESP_MORE || result == RATION_RESP_WRONG)
            return 0;
        CHECK(whole.consumed_bytes > 0 && whole.consumed_bytes <= size);
        data += whole.consumed_bytes;
        size -= whole.consumed_bytes;
    }
}
