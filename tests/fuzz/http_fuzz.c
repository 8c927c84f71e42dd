/*
 * Any bytes as a stream of HTTP requests, split at positions that the first bytes choose. Split or whole it gives the same
 * requests and ends in the same way; a refused stream has a status and a reason.
 */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "codec/http/http_answer.h"
#include "codec/http/http_request.h"

/* Aborts in every build, so that a release build finds what a debug build does. */
#define CHECK(condition)  \
    do {                  \
        if (!(condition)) \
            abort();      \
    } while (0)

#define CUTS_SIZE 4

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Small, so that the bounds are reached. */
static const struct ration_http_limits limits = {
    .head_bytes_max = 600, .body_bytes_max = 300, .target_bytes_max = 100, .headers_max = 12};

/* A hash of all results of a stream, in order. */
struct outcome {
    uint64_t hash;
    size_t request_count;
    enum ration_http_result result;
    unsigned status;
};

static void add(struct outcome *outcome, const void *bytes, size_t size)
{
    const unsigned char *at = bytes;
    for (size_t i = 0; i < size; i++)
        outcome->hash = (outcome->hash ^ at[i]) * UINT64_C(0x100000001B3);
    outcome->hash = (outcome->hash ^ size) * UINT64_C(0x100000001B3);
}

static void add_slice(struct outcome *outcome, const struct ration_key *slice, const char *bytes,
                      size_t size)
{
    const char *at = slice->bytes;
    /* In the buffer, or a text of the program's own: nothing else. */
    CHECK(slice->size <= 1 || (at >= bytes && at + slice->size <= bytes + size));
    add(outcome, slice->bytes, slice->size);
}

static void add_request(struct outcome *outcome, const struct ration_http_request *request,
                        const char *bytes, size_t size)
{
    CHECK(request->consumed_bytes > 0 && request->consumed_bytes <= size);
    CHECK(request->header_count <= limits.headers_max);
    CHECK(request->body.size <= limits.body_bytes_max);
    CHECK(request->path.size > 0 && request->method.size > 0);
    CHECK(!request->has_unread_body || !request->keep_alive);
    add_slice(outcome, &request->method, bytes, size);
    add_slice(outcome, &request->target, bytes, size);
    add_slice(outcome, &request->path, bytes, size);
    add_slice(outcome, &request->query, bytes, size);
    add_slice(outcome, &request->host, bytes, size);
    add_slice(outcome, &request->body, bytes, size);
    for (size_t i = 0; i < request->header_count; i++) {
        add_slice(outcome, &request->headers[i].name, bytes, size);
        add_slice(outcome, &request->headers[i].value, bytes, size);
    }
    add(outcome, &request->consumed_bytes, sizeof(request->consumed_bytes));
    add(outcome,
        (const char[]){request->keep_alive, request->has_unread_body, request->expects_continue,
                       (char)request->minor_version},
        4);
    outcome->request_count++;
}

/* cuts[i % CUTS_SIZE] + 1 bytes at a time; NULL: all at once. Each piece is in memory of its own. */
static struct outcome read_stream(const uint8_t *stream, size_t size, const uint8_t *cuts)
{
    struct outcome outcome = {.result = RATION_HTTP_MORE};
    struct ration_http_progress progress = {0};
    struct ration_http_request request;
    size_t given = 0, kept = 0, turn = 0;
    char *buffer = NULL;
    bool is_last = false;
    while (given < size && !is_last) {
        size_t piece = cuts ? (size_t)cuts[turn++ % CUTS_SIZE] % 64 + 1 : size;
        piece = piece < size - given ? piece : size - given;
        char *moved = malloc(kept + piece);
        CHECK(moved);
        if (kept > 0)
            memcpy(moved, buffer, kept);
        memcpy(moved + kept, stream + given, piece);
        free(buffer);
        buffer = moved;
        kept += piece;
        given += piece;
        while (!is_last && kept > 0) {
            outcome.result = ration_http_read(&limits, &progress, buffer, kept, &request);
            if (outcome.result != RATION_HTTP_REQUEST)
                break;
            add_request(&outcome, &request, buffer, kept);
            kept -= request.consumed_bytes;
            memmove(buffer, buffer + request.consumed_bytes, kept);
            is_last = !request.keep_alive;
        }
        CHECK(kept <= ration_http_bytes_max(&limits) + piece);
        is_last |= outcome.result == RATION_HTTP_WRONG;
    }
    free(buffer);
    outcome.status = progress.status;
    if (outcome.result == RATION_HTTP_WRONG)
        CHECK(progress.reason && progress.reason[0] && ration_http_status_text(progress.status));
    return outcome;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < CUTS_SIZE)
        return 0;
    struct outcome whole = read_stream(data + CUTS_SIZE, size - CUTS_SIZE, NULL);
    struct outcome cut = read_stream(data + CUTS_SIZE, size - CUTS_SIZE, data);
    struct outcome bytes = read_stream(data + CUTS_SIZE, size - CUTS_SIZE, (const uint8_t[4]){0});
    CHECK(whole.hash == cut.hash && whole.request_count == cut.request_count);
    CHECK(whole.result == cut.result && whole.status == cut.status);
    CHECK(whole.hash == bytes.hash && whole.request_count == bytes.request_count);
    CHECK(whole.result == bytes.result && whole.status == bytes.status);
    return 0;
}
