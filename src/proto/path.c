#include "proto/path.h"

#include <stdbool.h>
#include <string.h>

#include "base/words.h"

/* A path as it is read; what is written is never longer than what was read. */
struct reading {
    char *path;
    size_t to;      /* bytes written */
    size_t segment; /* where the last segment begins, as far as slashes were not escaped */
    bool has_escaped_slash;
    bool is_ambiguous;
};

/* What a path consists of. */
struct segments {
    bool has_dot;   /* . */
    bool has_up;    /* .. */
    bool has_empty; /* between two slashes */
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
 * Reads one byte of the path, or one that is escaped (%2F), and marks the path as ambiguous if
 * services disagree about that byte: Node and Windows read a backslash as a slash, C ends a path at an
 * escaped zero byte, Node drops tabs. Returns where to continue.
 */
static size_t read_byte(struct reading *reading, size_t from, size_t size, char *out_byte,
                        bool *out_is_escaped)
{
    const char *path = reading->path;
    int high = size - from > 2 && path[from] == '%' ? ration_words_hex(path[from + 1]) : -1;
    int low = high >= 0 ? ration_words_hex(path[from + 2]) : -1;
    unsigned char byte = (unsigned char)path[from];

    if (low >= 0)
        byte = (unsigned char)(high * 16 + low);
    reading->is_ambiguous |= byte < ' ' || byte == 0x7f || byte == '\\' || (byte == ' ' && low < 0);
    *out_byte = (char)byte;
    *out_is_escaped = low >= 0;
    return from + (low >= 0 ? 3 : 1);
}

/*
 * Skips ;name=value up to the end of the segment. Returns where to continue. An escaped slash in it is a
 * slash where parameters mean nothing: /x;%2F../login is /login in nginx.
 */
static size_t skip_parameters(struct reading *reading, size_t from, size_t size)
{
    reading->is_ambiguous |=
        is_dots(reading->path + reading->segment, reading->to - reading->segment);
    while (from < size && !memchr("/?#", reading->path[from], 3)) {
        char byte;
        bool is_escaped;

        from = read_byte(reading, from, size, &byte, &is_escaped);
        reading->is_ambiguous |= byte == '/';
    }
    return from;
}

/* Escapes decoded and parameters dropped, from the start up to the query. */
static void decode(struct reading *reading, size_t size)
{
    char *path = reading->path;

    for (size_t from = 0; from < size && path[from] != '?' && path[from] != '#';) {
        char byte;
        bool is_escaped;

        if (path[from] == ';') {
            from = skip_parameters(reading, from, size);
            continue;
        }
        from = read_byte(reading, from, size, &byte, &is_escaped);
        path[reading->to++] = byte;
        reading->has_escaped_slash |= is_escaped && byte == '/';
        if (byte == '/')
            reading->segment = reading->to;
    }
}

/* Where the path begins: behind http://host, if that is there. */
static size_t authority_size(const char *target, size_t size)
{
    const char *mark = size > 0 && target[0] != '/' ? memmem(target, size, "://", 3) : NULL;
    size_t at = mark != NULL ? (size_t)(mark + 3 - target) : 0;

    while (mark != NULL && at < size && !memchr("/?#\\", target[at], 4))
        at++;
    return at;
}

/* Goes back behind the slash before the last segment that was written. */
static size_t step_up(const char *path, size_t to)
{
    if (to > 1)
        to--; /* the slash at its end */
    while (to > 1 && path[to - 1] != '/')
        to--;
    return to;
}

/* path begins with a slash. Segments are written behind each other, each with the slash that ends it. */
static size_t resolve(char *path, size_t size, struct segments *out_segments)
{
    size_t to = 1;
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
            to = step_up(path, to);
        } else {
            memmove(path + to, path + from, end - from);
            to += end - from;
            if (end < size)
                path[to++] = '/';
        }
        from = end + 1;
    }
    return to;
}

bool ration_path_normalize(char *target, size_t size, struct ration_key *out_path)
{
    size_t skipped = authority_size(target, size);
    struct reading reading = {.path = target + skipped};
    struct segments segments = {0};

    decode(&reading, size - skipped);
    size = reading.to;
    if (size > 0 && reading.path[0] == '/')
        size = resolve(reading.path, size, &segments);
    if (reading.is_ambiguous || (segments.has_up && segments.has_empty) ||
        (reading.has_escaped_slash && (segments.has_dot || segments.has_up)))
        return false;
    *out_path = size > 0 ? (struct ration_key){reading.path, size} : RATION_KEY("/");
    return true;
}
