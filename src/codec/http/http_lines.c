#include "codec/http/http_lines.h"

#include <string.h>

static const bool token_bytes[256] = {
    ['0' ... '9'] = true, ['A' ... 'Z'] = true, ['a' ... 'z'] = true,

    ['!'] = true,         ['#'] = true,         ['$'] = true,         ['%'] = true, ['&'] = true,
    ['\''] = true,        ['*'] = true,         ['+'] = true,         ['-'] = true, ['.'] = true,
    ['^'] = true,         ['_'] = true,         ['`'] = true,         ['|'] = true, ['~'] = true,
};

/* The number of bytes at the beginning that may occur in tokens. */
static size_t token_size(const char *bytes, size_t size)
{
    size_t count = 0;
    while (count < size && token_bytes[(unsigned char)bytes[count]])
        count++;
    return count;
}

bool ration_http_is_token(const char *bytes, size_t size)
{
    return size > 0 && token_size(bytes, size) == size;
}

bool ration_http_is_graphic(const char *bytes, size_t size)
{
    for (size_t i = 0; i < size; i++) {
        if ((unsigned char)bytes[i] <= ' ' || (unsigned char)bytes[i] > '~')
            return false;
    }
    return size > 0;
}

/* Bytes above ASCII are obsolete (obs-text), but harmless, and real clients send them. */
static bool is_value(const char *bytes, size_t size)
{
    for (size_t i = 0; i < size; i++) {
        unsigned char byte = (unsigned char)bytes[i];
        if ((byte < ' ' && byte != '\t') || byte == 0x7F)
            return false;
    }
    return true;
}

const char *ration_http_line_error(const char *line, size_t size)
{
    size_t name_size = token_size(line, size);
    if (name_size == size)
        return "a header needs a colon";
    if (name_size == 0 && (line[0] == ' ' || line[0] == '\t'))
        return "a header is folded over two lines";
    if (line[name_size] == ' ' || line[name_size] == '\t')
        return "there is a blank before a header's colon";
    if (name_size == 0 || line[name_size] != ':')
        return "the name of a header contains an invalid byte";
    line += name_size + 1;
    size -= name_size + 1;
    return is_value(line, size) ? NULL : "a header's value has a control byte";
}

enum ration_http_result ration_http_refuse(struct ration_http_progress *progress, uint16_t status,
                                           const char *reason)
{
    progress->phase = RATION_HTTP_REFUSED;
    progress->status = status;
    progress->reason = reason;
    progress->wants_continue = false;
    return RATION_HTTP_WRONG;
}

enum ration_http_line ration_http_line_find(struct ration_http_progress *progress,
                                            const char *bytes, size_t size, size_t size_max,
                                            size_t *out_size)
{
    size_t start = progress->line_start, scan_start = progress->scanned_bytes;
    const char *line_feed =
        scan_start < size ? memchr(bytes + scan_start, '\n', size - scan_start) : NULL;
    size_t end = line_feed ? (size_t)(line_feed - bytes) : size;
    /* Checked first, because the rest of the line may not have arrived yet. */
    if (end > start + size_max + 1)
        return RATION_HTTP_LINE_LONG;
    if (!line_feed) {
        progress->scanned_bytes = (uint32_t)size;
        return RATION_HTTP_LINE_MORE;
    }
    if (end == start || bytes[end - 1] != '\r')
        return RATION_HTTP_LINE_BARE;
    progress->scanned_bytes = (uint32_t)end + 1;
    *out_size = end - 1 - start;
    return RATION_HTTP_LINE;
}

void ration_http_line_pass(struct ration_http_progress *progress)
{
    progress->line_start = progress->scanned_bytes;
    progress->line_count++;
}
