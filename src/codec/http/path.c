#include "codec/http/path.h"

#include <stdbool.h>
#include <string.h>

#include "base/text.h"

/* The state of normalizing a path in place; the output is never longer than the input. */
struct path_state {
    char *path;
    size_t written; /* bytes written */
    size_t segment; /* start of the last segment, counting escaped slashes as separators too */
    bool has_escaped_slash;
    bool is_ambiguous;
};

/* Which kinds of segments a path has. */
struct segments {
    bool has_dot;   /* . */
    bool has_up;    /* .. */
    bool has_empty; /* an empty segment between two slashes */
};

static bool is_segment(const char *segment, size_t size, const char *dots)
{
    return size == strlen(dots) && memcmp(segment, dots, size) == 0;
}

static bool is_dots(const char *segment, size_t size)
{
    return is_segment(segment, size, ".") || is_segment(segment, size, "..");
}

/*
 * Reads one byte of the path, possibly escaped (%2F), and sets is_ambiguous if services disagree
 * about that byte: Node and Windows read a backslash as a slash, C ends a path at an escaped zero
 * byte, Node drops tabs. Returns where to continue.
 */
static size_t read_byte(struct path_state *path_state, size_t from, size_t size, char *out_byte,
                        bool *out_is_escaped)
{
    const char *path = path_state->path;
    int high = size - from > 2 && path[from] == '%' ? ration_text_hex(path[from + 1]) : -1;
    int low = high >= 0 ? ration_text_hex(path[from + 2]) : -1;
    unsigned char byte = (unsigned char)path[from];

    if (low >= 0)
        byte = (unsigned char)(high * 16 + low);
    path_state->is_ambiguous |=
        byte < ' ' || byte == 0x7f || byte == '\\' || (byte == ' ' && low < 0);
    *out_byte = (char)byte;
    *out_is_escaped = low >= 0;
    return from + (low >= 0 ? 3 : 1);
}

/*
 * Skips ;name=value up to the end of the segment. Returns where to continue. An escaped slash in a
 * parameter is a separator for services that do not support parameters: /x;%2F../login is /login in
 * nginx.
 */
static size_t skip_parameters(struct path_state *path_state, size_t from, size_t size)
{
    path_state->is_ambiguous |=
        is_dots(path_state->path + path_state->segment, path_state->written - path_state->segment);
    while (from < size && !memchr("/?#", path_state->path[from], 3)) {
        char byte;
        bool is_escaped;

        from = read_byte(path_state, from, size, &byte, &is_escaped);
        path_state->is_ambiguous |= byte == '/';
    }
    return from;
}

/* Decodes escapes and removes parameters, up to the query. */
static void decode_path(struct path_state *path_state, size_t size)
{
    char *path = path_state->path;

    for (size_t from = 0; from < size && path[from] != '?' && path[from] != '#';) {
        char byte;
        bool is_escaped;

        if (path[from] == ';') {
            from = skip_parameters(path_state, from, size);
            continue;
        }
        from = read_byte(path_state, from, size, &byte, &is_escaped);
        path[path_state->written++] = byte;
        path_state->has_escaped_slash |= is_escaped && byte == '/';
        if (byte == '/')
            path_state->segment = path_state->written;
    }
}

/* Returns the offset of the path: after http://host, if the target has it. */
static size_t authority_size(const char *target, size_t size)
{
    const char *mark = size > 0 && target[0] != '/' ? memmem(target, size, "://", 3) : NULL;
    size_t at = mark != NULL ? (size_t)(mark + 3 - target) : 0;

    while (mark != NULL && at < size && !memchr("/?#\\", target[at], 4))
        at++;
    return at;
}

/* Removes the last segment that was written; the result ends with a slash. */
static size_t remove_last_segment(const char *path, size_t written)
{
    if (written > 1)
        written--; /* the slash that ends the segment */
    while (written > 1 && path[written - 1] != '/')
        written--;
    return written;
}

/*
 * Removes dot segments and empty segments. path begins with a slash; each segment is written with
 * the slash after it.
 */
static size_t resolve_dot_segments(char *path, size_t size, struct segments *out_segments)
{
    size_t written = 1;
    size_t from = 1;

    while (from < size) {
        size_t end = from;

        while (end < size && path[end] != '/')
            end++;
        if (end == from) {
            out_segments->has_empty = true;
        } else if (is_segment(path + from, end - from, ".")) {
            out_segments->has_dot = true;
        } else if (is_segment(path + from, end - from, "..")) {
            out_segments->has_up = true;
            written = remove_last_segment(path, written);
        } else {
            memmove(path + written, path + from, end - from);
            written += end - from;
            if (end < size)
                path[written++] = '/';
        }
        from = end + 1;
    }
    return written;
}

bool ration_path_normalize(char *target, size_t size, struct ration_key *out_path)
{
    size_t skipped = authority_size(target, size);
    struct path_state path_state = {.path = target + skipped};
    struct segments segments = {0};

    decode_path(&path_state, size - skipped);
    size = path_state.written;
    if (size > 0 && path_state.path[0] == '/')
        size = resolve_dot_segments(path_state.path, size, &segments);
    if (path_state.is_ambiguous || (segments.has_up && segments.has_empty) ||
        (path_state.has_escaped_slash && (segments.has_dot || segments.has_up)))
        return false;
    *out_path = size > 0 ? (struct ration_key){path_state.path, size} : RATION_KEY("/");
    return true;
}
