#include "proto/path.h"

#include <stdbool.h>
#include <string.h>

#include "base/words.h"

/* Escapes decoded, from the start up to the query. Returns the new size. */
static size_t decode(char *path, size_t size)
{
    size_t to = 0;

    for (size_t from = 0; from < size && path[from] != '?' && path[from] != '#'; from++) {
        int high = size - from > 2 && path[from] == '%' ? ration_words_hex(path[from + 1]) : -1;
        int low = high >= 0 ? ration_words_hex(path[from + 2]) : -1;

        if (low >= 0) {
            path[to++] = (char)(high << 4 | low);
            from += 2;
        } else {
            path[to++] = path[from];
        }
    }
    return to;
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

static bool is_segment(const char *segment, size_t size, const char *dots)
{
    return size == strlen(dots) && memcmp(segment, dots, size) == 0;
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
static size_t resolve(char *path, size_t size)
{
    size_t to = 1;
    size_t from = 1;

    while (from < size) {
        size_t end = from;

        while (end < size && path[end] != '/')
            end++;
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

struct ration_key ration_path_normalize(char *target, size_t size)
{
    size_t skipped = authority_size(target, size);
    char *path = target + skipped;

    size = decode(path, size - skipped);
    if (size == 0)
        return RATION_KEY("/");
    if (path[0] == '/')
        size = resolve(path, size);
    return (struct ration_key){path, size};
}
