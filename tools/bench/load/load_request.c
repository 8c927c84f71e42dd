#include "load/load_request.h"

#include <stdio.h>
#include <string.h>

#define BLANKS           " \t"
#define IP_NUMBERS       156u /* the numbers from 100 to 255 */
#define IP_NUMBER_LOWEST 100u

/* Filling -------------------------------------------------------------------------------- */

static const char digit_pairs[] = "00010203040506070809"
                                  "10111213141516171819"
                                  "20212223242526272829"
                                  "30313233343536373839"
                                  "40414243444546474849"
                                  "50515253545556575859"
                                  "60616263646566676869"
                                  "70717273747576777879"
                                  "80818283848586878889"
                                  "90919293949596979899";

static void fill_key(uint64_t key_index, char *hole)
{
    for (int at = LOAD_KEY_DIGITS - 2; at >= 0; at -= 2) {
        memcpy(hole + at, digit_pairs + key_index % 100 * 2, 2);
        key_index /= 100;
    }
}

static void fill_ip(uint64_t key_index, char *hole)
{
    for (int at = LOAD_IP_SIZE - 3; at >= 0; at -= 4) {
        uint64_t number = IP_NUMBER_LOWEST + key_index % IP_NUMBERS;

        hole[at] = (char)('0' + number / 100);
        memcpy(hole + at + 1, digit_pairs + number % 100 * 2, 2);
        if (at > 0)
            hole[at - 1] = '.';
        key_index /= IP_NUMBERS;
    }
}

void load_request_fill(enum load_hole_kind kind, uint64_t key_index, char *hole)
{
    if (kind == LOAD_HOLE_KEY)
        fill_key(key_index, hole);
    else
        fill_ip(key_index, hole);
}

/* Building ------------------------------------------------------------------------------- */

static bool append_bytes(struct load_request *request, const char *bytes, size_t size,
                         struct load_error *error)
{
    if (size > sizeof(request->bytes) - request->size)
        return load_fail(error, "a request has at most %d bytes", LOAD_REQUEST_SIZE_MAX);
    memcpy(request->bytes + request->size, bytes, size);
    request->size += size;
    return true;
}

static bool append_text(struct load_request *request, const char *text, struct load_error *error)
{
    return append_bytes(request, text, strlen(text), error);
}

static bool append_hole(struct load_request *request, enum load_hole_kind kind,
                        struct load_error *error)
{
    char room[LOAD_IP_SIZE];
    size_t offset = request->size;

    if (request->hole_count == LOAD_HOLES_MAX)
        return load_fail(error, "a request names its key at most %d times", LOAD_HOLES_MAX);
    load_request_fill(kind, 0, room);
    if (!append_bytes(request, room, kind == LOAD_HOLE_KEY ? LOAD_KEY_DIGITS : LOAD_IP_SIZE, error))
        return false;
    request->holes[request->hole_count++] = (struct load_hole){kind, offset};
    return true;
}

static bool starts_with(const char *text, size_t size, const char *word)
{
    return size >= strlen(word) && memcmp(text, word, strlen(word)) == 0;
}

/* Appends text of a given size and replaces the placeholders in braces. */
static bool append_with_holes(struct load_request *request, const char *text, size_t size,
                              const char *sha, struct load_error *error)
{
    for (size_t at = 0; at < size;) {
        bool fits;

        if (starts_with(text + at, size - at, "{key}")) {
            fits = append_hole(request, LOAD_HOLE_KEY, error);
            at += strlen("{key}");
        } else if (starts_with(text + at, size - at, "{ip}")) {
            fits = append_hole(request, LOAD_HOLE_IP, error);
            at += strlen("{ip}");
        } else if (starts_with(text + at, size - at, "{sha}") && sha != NULL) {
            fits = append_text(request, sha, error);
            at += strlen("{sha}");
        } else {
            fits = append_bytes(request, text + at, 1, error);
            at++;
        }
        if (!fits)
            return false;
    }
    return true;
}

/* The size of such a text after replacement. */
static size_t size_with_holes(const char *text, size_t size, const char *sha)
{
    struct load_request scratch = {0};
    struct load_error ignored;

    return append_with_holes(&scratch, text, size, sha, &ignored) ? scratch.size : size;
}

/* Redis ---------------------------------------------------------------------------------- */

static size_t word_size(const char *text)
{
    return strcspn(text, BLANKS);
}

static uint32_t word_count(const char *text)
{
    uint32_t count = 0;

    for (text += strspn(text, BLANKS); *text != '\0'; text += strspn(text, BLANKS)) {
        text += word_size(text);
        count++;
    }
    return count;
}

bool load_request_resp(const char *command, const char *sha, struct load_request *out_request,
                       struct load_error *error)
{
    char head[32];
    uint32_t count = word_count(command);

    if (count < 1 || count > LOAD_ARGUMENTS_MAX)
        return load_fail(error, "a command has 1 to %d words (got %u)", LOAD_ARGUMENTS_MAX, count);
    out_request->size = 0;
    out_request->hole_count = 0;
    snprintf(head, sizeof(head), "*%u\r\n", count);
    if (!append_text(out_request, head, error))
        return false;
    for (command += strspn(command, BLANKS); *command != '\0'; command += strspn(command, BLANKS)) {
        size_t size = word_size(command);

        snprintf(head, sizeof(head), "$%zu\r\n", size_with_holes(command, size, sha));
        if (!append_text(out_request, head, error) ||
            !append_with_holes(out_request, command, size, sha, error) ||
            !append_text(out_request, "\r\n", error))
            return false;
        command += size;
    }
    return true;
}

/* HTTP ----------------------------------------------------------------------------------- */

/* Text in the headers must not contain a line end. */
static bool is_one_line(const char *text)
{
    return strpbrk(text, "\r\n") == NULL;
}

static bool append_headers(struct load_request *request, const struct load_http_parts *parts,
                           struct load_error *error)
{
    for (uint32_t i = 0; i < parts->header_count; i++) {
        const char *header = parts->headers[i];

        if (!is_one_line(header) || strchr(header, ':') == NULL)
            return load_fail(error, "a header is written \"Name: value\" (got '%s')", header);
        if (!append_with_holes(request, header, strlen(header), NULL, error) ||
            !append_text(request, "\r\n", error))
            return false;
    }
    return true;
}

bool load_request_http(const struct load_http_parts *parts, struct load_request *out_request,
                       struct load_error *error)
{
    char length[64] = "";
    size_t path_size = strlen(parts->path);
    size_t body_size = parts->body != NULL ? strlen(parts->body) : 0;

    if (parts->path[0] != '/' || strpbrk(parts->path, " \t\r\n") != NULL)
        return load_fail(error, "a path begins with / and has no blanks (got '%s')", parts->path);
    out_request->size = 0;
    out_request->hole_count = 0;
    if (parts->body != NULL)
        snprintf(length, sizeof(length), "Content-Length: %zu\r\n",
                 size_with_holes(parts->body, body_size, NULL));
    return append_text(out_request, parts->body != NULL ? "POST " : "GET ", error) &&
           append_with_holes(out_request, parts->path, path_size, NULL, error) &&
           append_text(out_request, " HTTP/1.1\r\nHost: ", error) &&
           append_text(out_request, parts->host, error) &&
           append_text(out_request, "\r\n", error) && append_headers(out_request, parts, error) &&
           append_text(out_request, length, error) && append_text(out_request, "\r\n", error) &&
           (parts->body == NULL ||
            append_with_holes(out_request, parts->body, body_size, NULL, error));
}
