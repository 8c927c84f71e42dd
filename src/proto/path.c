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
    bool has_dots_with_parameters;
};

static bool is_segment(const char *segment, size_t size, const char *dots)
{
    return size == strlen(dots) && memcmp(segment, dots, size) == 0;
}

static bool is_dots(const char *segment, size_t size)
{
    return is_segment(segment, size, ".") || is_segment(segment, size, "..");
}

/* Skips ;name=value up to the end of the segment. Returns where to continue. */
static size_t skip_parameters(struct reading *reading, size_t from, size_t size)
{
    reading->has_dots_with_parameters |=
        is_dots(reading->path + reading->segment, reading->to - reading->segment);
    while (from < size && !memchr("/?#", reading->path[from], 3))
        from++;
    return from;
}

/* Escapes decoded and parameters dropped, from the start up to the query. */
static void decode(struct reading *reading, size_t size)
{
    char *path = reading->path;

    for (size_t from = 0; from < size && path[from] != '?' && path[from] != '#';) {
        int high = size - from > 2 && path[from] == '%' ? ration_words_hex(path[from + 1]) : -1;
        int low = high >= 0 ? ration_words_hex(path[from + 2]) : -1;
        char byte = path[from];

        if (low >= 0)
            byte = (char)(high << 4 | low);
        if (low < 0 && byte == ';') {
            from = skip_parameters(reading, from, size);
            continue;
        }
        from += low >= 0 ? 3 : 1;
        path[reading->to++] = byte;
        reading->has_escaped_slash |= low >= 0 && byte == '/';
        if (byte == '/')
            reading->segment = reading->to;
    }
}

/* Where the path begins: behind http://host, if that is there. */
static size_t authority_size(const char *target, size_t size)
{
    const char *mark = size > 0 && target[0] != '/' ? memmem(target, size, "://", 3) : NULL;
    const char *slash;

    if (mark == NULL)
        return 0;
    slash = memchr(mark + 3, '/', size - (size_t)(mark + 3 - target));
    return slash != NULL ? (size_t)(slash - target) : size;
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

/*
 * path begins with a slash. Segments are written behind each other, each with the slash that ends it.
 * *out_has_dots: one of them was . or .. .
 */
static size_t resolve(char *path, size_t size, bool *out_has_dots)
{
    size_t to = 1;
    size_t from = 1;

    *out_has_dots = false;
    while (from < size) {
        size_t end = from;

        while (end < size && path[end] != '/')
            end++;
        *out_has_dots |= is_dots(path + from, end - from);
        if (is_segment(path + from, end - from, "..")) {
            to = step_up(path, to);
        } else if (end > from && !is_segment(path + from, end - from, ".")) {
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
    bool has_dots = false;

    decode(&reading, size - skipped);
    size = reading.to;
    if (size > 0 && reading.path[0] == '/')
        size = resolve(reading.path, size, &has_dots);
    if (reading.has_dots_with_parameters || (reading.has_escaped_slash && has_dots))
        return false;
    *out_path = size > 0 ? (struct ration_key){reading.path, size} : RATION_KEY("/");
    return true;
}
