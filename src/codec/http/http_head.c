/*
 * The lines of the headers are checked one by one as they arrive. http-parser then parses the headers
 * as a whole. Input that it accepts but another parser might read differently is refused afterwards. Debian builds
 * http-parser without its strict mode, so this code does not rely on it.
 */
#include "codec/http/http_head.h"

#include <http_parser.h>
#include <string.h>

#include "base/text.h"

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

/* Whether all bytes are printable ASCII without blanks. */
static bool is_graphic(const char *bytes, size_t size)
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

#define METHOD_SIZE_MAX        32
#define LENGTH_DIGITS_MAX      15
#define VERSION_SIZE           8 /* HTTP/1.1 */
#define STATUS_BAD             400
#define STATUS_TOO_LARGE       413
#define STATUS_TARGET_LONG     414
#define STATUS_EXPECTATION     417
#define STATUS_HEADERS_LARGE   431
#define STATUS_NOT_IMPLEMENTED 501
#define STATUS_VERSION         505

static const char *refuse_with(uint16_t *out_status, uint16_t status, const char *reason)
{
    *out_status = status;
    return reason;
}

static bool is_upper_case(const char *bytes, size_t size)
{
    for (size_t i = 0; i < size; i++) {
        if (bytes[i] >= 'a' && bytes[i] <= 'z')
            return false;
    }
    return true;
}

static bool is_digit(char byte)
{
    return byte >= '0' && byte <= '9';
}

static const char *check_version(const char *version, size_t size, uint16_t *out_status)
{
    if (size != VERSION_SIZE || memcmp(version, "HTTP/", 5) != 0 || !is_digit(version[5]) ||
        version[6] != '.' || !is_digit(version[7]))
        return refuse_with(out_status, STATUS_BAD, "the request line must end in HTTP/1.1");
    if (version[5] != '1' || version[7] > '1')
        return refuse_with(out_status, STATUS_VERSION, "only HTTP/1.0 and HTTP/1.1 are supported");
    return NULL;
}

const char *ration_http_request_line_error(const char *line, size_t size, size_t target_bytes_max,
                                           uint16_t *out_status)
{
    const char *end = line + size;
    const char *method_end = memchr(line, ' ', size);
    if (!method_end || !ration_http_is_token(line, (size_t)(method_end - line)) ||
        !is_upper_case(line, (size_t)(method_end - line)))
        return refuse_with(out_status, STATUS_BAD,
                           "a request begins with a method in capitals, one space and a path");
    if (method_end - line > METHOD_SIZE_MAX)
        return refuse_with(out_status, STATUS_NOT_IMPLEMENTED, "unknown method");
    const char *target = method_end + 1;
    const char *target_end = memchr(target, ' ', (size_t)(end - target));
    if (!target_end)
        return refuse_with(out_status, STATUS_BAD,
                           "the request line has no version: write GET / HTTP/1.1");
    if ((size_t)(target_end - target) > target_bytes_max)
        return refuse_with(out_status, STATUS_TARGET_LONG, "the path is too long");
    if (!is_graphic(target, (size_t)(target_end - target)) ||
        memchr(target, '#', (size_t)(target_end - target)))
        return refuse_with(out_status, STATUS_BAD,
                           "the path is missing, or has a byte that must be written as %HH");
    return check_version(target_end + 1, (size_t)(end - target_end) - 1, out_status);
}

/* Filled by the callbacks of http-parser. */
struct head {
    const struct ration_http_limits *limits;
    struct ration_http_request *request;
    bool is_complete;
    bool has_too_many;
};

static int on_target(http_parser *parser, const char *at, size_t size)
{
    struct head *head = parser->data;
    head->request->target = (struct ration_key){at, size};
    return 0;
}

static int on_name(http_parser *parser, const char *at, size_t size)
{
    struct head *head = parser->data;
    struct ration_http_request *request = head->request;
    head->has_too_many = request->header_count >= head->limits->headers_max ||
                         request->header_count >= RATION_HTTP_HEADERS_MAX;
    if (head->has_too_many)
        return -1;
    request->headers[request->header_count].name = (struct ration_key){at, size};
    return 0;
}

static int on_value(http_parser *parser, const char *at, size_t size)
{
    struct head *head = parser->data;
    struct ration_http_request *request = head->request;
    while (size > 0 && ration_text_is_blank(at[size - 1]))
        size--;
    request->headers[request->header_count++].value = (struct ration_key){at, size};
    return 0;
}

static int on_complete(http_parser *parser)
{
    struct head *head = parser->data;
    struct ration_http_request *request = head->request;
    request->minor_version = parser->http_minor;
    request->keep_alive = http_should_keep_alive(parser) && !(parser->flags & F_CONNECTION_CLOSE);
    head->is_complete = true;
    return 1; /* http-parser must not read the body */
}

static const http_parser_settings settings = {
    .on_url = on_target,
    .on_header_field = on_name,
    .on_header_value = on_value,
    .on_headers_complete = on_complete,
};

static enum ration_http_result refuse_parser_error(struct ration_http_progress *progress,
                                                   enum http_errno number)
{
    switch (number) {
    case HPE_INVALID_METHOD:
        return ration_http_refuse(progress, STATUS_NOT_IMPLEMENTED, "unknown method");
    case HPE_HEADER_OVERFLOW:
        return ration_http_refuse(progress, STATUS_HEADERS_LARGE, "the headers are too large");
    case HPE_INVALID_TRANSFER_ENCODING:
        return ration_http_refuse(progress, STATUS_NOT_IMPLEMENTED,
                                  "Transfer-Encoding must be chunked and nothing else");
    case HPE_INVALID_CONTENT_LENGTH:
        return ration_http_refuse(progress, STATUS_BAD,
                                  "Content-Length must be one number in decimal digits");
    case HPE_UNEXPECTED_CONTENT_LENGTH:
        return ration_http_refuse(
            progress, STATUS_BAD,
            "Content-Length is given twice, or together with Transfer-Encoding");
    case HPE_OK: /* the headers ended without being complete */
    case HPE_PAUSED:
        return ration_http_refuse(progress, STATUS_BAD, "the headers cannot be read");
    default:
        return ration_http_refuse(progress, STATUS_BAD, http_errno_description(number));
    }
}

static void lower_names(char *bytes, struct ration_http_request *request)
{
    for (size_t i = 0; i < request->header_count; i++) {
        char *name = bytes + ((const char *)request->headers[i].name.bytes - bytes);
        for (size_t at = 0; at < request->headers[i].name.size; at++)
            name[at] = ration_text_lower(name[at]);
    }
}

/*
 * The headers that determine where the request ends and which host it is for; each may occur once.
 * http-parser refuses some of these cases too, but the end of a request must not depend on one
 * check.
 */
struct framing_headers {
    const struct ration_key *length;
    const struct ration_key *encoding;
    const struct ration_key *host;
    const struct ration_key *expect;
};

static const char *set_once(const struct ration_key **out_header, const struct ration_key *value,
                            const char *reason_of_two)
{
    if (*out_header)
        return reason_of_two;
    *out_header = value;
    return NULL;
}

static const char *find_framing(const struct ration_http_request *request,
                                struct framing_headers *found)
{
    const char *reason = NULL;
    for (size_t i = 0; i < request->header_count && !reason; i++) {
        const struct ration_http_header *header = &request->headers[i];
        if (ration_http_is(&header->name, "content-length"))
            reason = set_once(&found->length, &header->value, "Content-Length is given twice");
        else if (ration_http_is(&header->name, "transfer-encoding"))
            reason = set_once(&found->encoding, &header->value, "Transfer-Encoding is given twice");
        else if (ration_http_is(&header->name, "host"))
            reason = set_once(&found->host, &header->value, "Host is given twice");
        else if (ration_http_is(&header->name, "expect"))
            reason = set_once(&found->expect, &header->value, "Expect is given twice");
    }
    if (!reason && found->length && found->encoding)
        reason = "Content-Length and Transfer-Encoding are given together";
    return reason;
}

static bool read_length(const struct ration_key *value, uint64_t *out_length)
{
    const char *digits = value->bytes;
    uint64_t length = 0;
    if (value->size == 0 || value->size > LENGTH_DIGITS_MAX)
        return false;
    for (size_t i = 0; i < value->size; i++) {
        if (!is_digit(digits[i]))
            return false;
        length = length * 10 + (uint64_t)(digits[i] - '0');
    }
    *out_length = length;
    return true;
}

static bool has_no_body_to_wait_for(const struct ration_http_request *request)
{
    return ration_http_is(&request->method, "GET") || ration_http_is(&request->method, "HEAD");
}

static bool set_framing(const struct ration_http_limits *limits,
                        const struct framing_headers *found, struct ration_http_progress *progress,
                        struct ration_http_request *request)
{
    uint64_t length = 0;
    if (found->length && !read_length(found->length, &length))
        return refuse_parser_error(progress, HPE_INVALID_CONTENT_LENGTH), false;
    if (found->encoding && request->minor_version == 0)
        return ration_http_refuse(progress, STATUS_BAD, "HTTP/1.0 has no Transfer-Encoding"), false;
    if (found->encoding && !ration_http_is_any_case(found->encoding, "chunked"))
        return refuse_parser_error(progress, HPE_INVALID_TRANSFER_ENCODING), false;
    progress->framing = RATION_HTTP_NO_BODY;
    request->has_unread_body = has_no_body_to_wait_for(request) && (length > 0 || found->encoding);
    if (request->has_unread_body) {
        request->keep_alive = false;
        return true;
    }
    if (length > limits->body_bytes_max)
        return ration_http_refuse(progress, STATUS_TOO_LARGE, "the body is too large"), false;
    if (found->encoding)
        progress->framing = RATION_HTTP_CHUNKED;
    else if (length > 0) {
        progress->framing = RATION_HTTP_LENGTH;
        progress->body_bytes = (uint32_t)length;
    }
    return true;
}

static bool set_expectation(const struct framing_headers *found,
                            struct ration_http_progress *progress,
                            struct ration_http_request *request)
{
    request->expects_continue = false;
    if (!found->expect || request->minor_version == 0)
        return true;
    if (!ration_http_is_any_case(found->expect, "100-continue"))
        return ration_http_refuse(progress, STATUS_EXPECTATION,
                                  "Expect must be 100-continue or absent"),
               false;
    request->expects_continue = true;
    return true;
}

/* Refuses bytes that cannot occur in a name, an address or a port. */
static bool is_host(const struct ration_key *host)
{
    static const char marks[] = "-._~%!$&'()*+,;=:[]";
    const char *bytes = host->bytes;
    for (size_t i = 0; i < host->size; i++) {
        char lower = ration_text_lower(bytes[i]);
        if (!is_digit(lower) && !(lower >= 'a' && lower <= 'z') &&
            !memchr(marks, lower, sizeof(marks) - 1))
            return false;
    }
    return true;
}

static bool equals_any_case(const struct ration_key *a, const struct ration_key *b)
{
    const char *left = a->bytes, *right = b->bytes;
    if (a->size != b->size)
        return false;
    for (size_t i = 0; i < a->size; i++) {
        if (ration_text_lower(left[i]) != ration_text_lower(right[i]))
            return false;
    }
    return true;
}

static const struct ration_key root_path = {"/", 1};

/*
 * Removes http://host from a target. The host must equal that of the Host header, if there is one.
 */
static const char *take_authority(struct ration_key *rest, const struct ration_key *host_header,
                                  struct ration_http_request *request)
{
    static const char scheme[] = "http://";
    const char *at = rest->bytes, *end = at + rest->size;
    if (rest->size < sizeof(scheme) ||
        !ration_http_is_any_case(&(struct ration_key){at, sizeof(scheme) - 1}, scheme))
        return "the path must begin with a slash";
    at += sizeof(scheme) - 1;
    struct ration_key authority = {at, 0};
    while (at < end && *at != '/' && *at != '?')
        at++;
    authority.size = (size_t)(at - (const char *)authority.bytes);
    if (authority.size == 0 || !is_host(&authority))
        return "the host in the path cannot be read";
    if (host_header && !equals_any_case(&authority, host_header))
        return "the host in the path differs from the Host header";
    request->host = authority;
    *rest = (struct ration_key){at, (size_t)(end - at)};
    return NULL;
}

static const char *split_target(const struct framing_headers *found,
                                struct ration_http_request *request)
{
    struct ration_key rest = request->target;
    const char *bytes = rest.bytes, *reason;
    if (rest.size == 1 && bytes[0] == '*') {
        request->path = rest;
        return ration_http_is(&request->method, "OPTIONS")
                   ? NULL
                   : "the path * can only be used with OPTIONS";
    }
    if (bytes[0] != '/' && (reason = take_authority(&rest, found->host, request)) != NULL)
        return reason;
    bytes = rest.bytes;
    const char *mark = rest.size ? memchr(bytes, '?', rest.size) : NULL;
    size_t path_size = mark ? (size_t)(mark - bytes) : rest.size;
    request->path = path_size ? (struct ration_key){bytes, path_size} : root_path;
    if (mark)
        request->query = (struct ration_key){mark + 1, rest.size - path_size - 1};
    return NULL;
}

static const char *set_host_and_path(const struct framing_headers *found,
                                     struct ration_http_request *request)
{
    if (!found->host && request->minor_version == 1)
        return "HTTP/1.1 needs a Host header";
    if (found->host && !is_host(found->host))
        return "Host contains an invalid byte";
    if (found->host)
        request->host = *found->host;
    return split_target(found, request);
}

static void init_request(struct ration_http_request *request, const char *bytes, size_t size)
{
    static const struct ration_key nothing = {"", 0};
    const char *method_end = memchr(bytes, ' ', size); /* the request line has been checked */
    request->method = (struct ration_key){bytes, (size_t)(method_end - bytes)};
    request->target = request->path = request->query = request->host = request->body = nothing;
    request->header_count = 0;
}

bool ration_http_head_parse(const struct ration_http_limits *limits,
                            struct ration_http_progress *progress, char *bytes,
                            struct ration_http_request *request)
{
    struct head head = {.limits = limits, .request = request};
    struct framing_headers found = {0};
    http_parser parser;

    init_request(request, bytes, progress->head_bytes);
    if (ration_http_is(&request->method, "CONNECT"))
        return ration_http_refuse(progress, STATUS_NOT_IMPLEMENTED,
                                  "CONNECT is not supported: this is not a proxy"),
               false;
    http_parser_init(&parser, HTTP_REQUEST);
    parser.data = &head;
    size_t parsed = http_parser_execute(&parser, &settings, bytes, progress->head_bytes);
    if (head.has_too_many)
        return ration_http_refuse(progress, STATUS_HEADERS_LARGE, "there are too many headers"),
               false;
    /* Each line after the request line is a header, except the last, which is empty. */
    if (!head.is_complete || parsed != progress->head_bytes ||
        request->header_count + 2 != progress->line_count)
        return refuse_parser_error(progress, HTTP_PARSER_ERRNO(&parser)), false;
    lower_names(bytes, request);
    const char *reason = find_framing(request, &found);
    if (!reason)
        reason = set_host_and_path(&found, request);
    if (reason)
        return ration_http_refuse(progress, STATUS_BAD, reason), false;
    return set_framing(limits, &found, progress, request) &&
           set_expectation(&found, progress, request);
}
