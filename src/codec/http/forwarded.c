#include "codec/http/forwarded.h"

#include <string.h>

#include "base/text.h"

/* The longest address with a port that is parsed. */
#define NODE_SIZE_MAX 80

static const char *const header_names[] = {
    [RATION_FORWARDED_NONE] = "none",
    [RATION_FORWARDED_FOR] = "x-forwarded-for",
    [RATION_FORWARDED_RFC] = "forwarded",
    [RATION_FORWARDED_REAL] = "x-real-ip",
};

static bool is_trusted(const struct ration_forwarded_trust *trust,
                       const struct ration_address *address)
{
    if (address->family == 0)
        return trust->trusts_unix;
    for (size_t i = 0; i < trust->proxy_count; i++) {
        if (ration_address_network_contains(&trust->proxies[i], address))
            return true;
    }
    return false;
}

/* The state of a search from right to left. */
struct walk {
    const struct ration_forwarded_trust *trust;
    struct ration_address current;
    size_t hops_left;
};

/*
 * Advances to the next address, if it is valid. Returns whether to continue with the one after it.
 */
static bool advance_to_address(struct walk *walk, bool is_address,
                               const struct ration_address *address)
{
    if (!is_address)
        return false;
    walk->current = *address;
    walk->hops_left--;
    return walk->hops_left > 0 && !walk->trust->is_one_hop &&
           is_trusted(walk->trust, &walk->current);
}

static bool advance_to_node(struct walk *walk, const char *text, size_t size)
{
    struct ration_address address;
    bool is_address = ration_address_parse_node(text, size, &address);
    return advance_to_address(walk, is_address, &address);
}

static bool is_blank(char byte)
{
    return byte == ' ' || byte == '\t';
}

static void trim_blanks(const char **text, size_t *size)
{
    while (*size > 0 && is_blank(**text))
        (*text)++, (*size)--;
    while (*size > 0 && is_blank((*text)[*size - 1]))
        (*size)--;
}

/* X-Forwarded-For: addresses separated by commas. Empty elements are skipped. */
static bool walk_plain(struct walk *walk, const char *line, size_t size)
{
    for (size_t end = size;;) {
        size_t begin = end;
        while (begin > 0 && line[begin - 1] != ',')
            begin--;
        const char *text = line + begin;
        size_t text_size = end - begin;
        trim_blanks(&text, &text_size);
        if (text_size > 0 && !advance_to_node(walk, text, text_size))
            return false;
        if (begin == 0)
            return true;
        end = begin - 1;
    }
}

/* One element of Forwarded. It is valid if for= occurs once and fits in node. */
struct element {
    char node[NODE_SIZE_MAX];
    size_t node_size;
    bool has_for;
    bool is_invalid;
};

struct reader {
    const char *at;
    const char *end;
};

static void skip_blanks(struct reader *reader)
{
    while (reader->at < reader->end && is_blank(*reader->at))
        reader->at++;
}

static bool accept_byte(struct reader *reader, char byte)
{
    if (reader->at == reader->end || *reader->at != byte)
        return false;
    reader->at++;
    return true;
}

static void append_if_for(struct element *element, bool is_for, char byte)
{
    if (!is_for)
        return;
    if (element->node_size == NODE_SIZE_MAX)
        element->is_invalid = true;
    else
        element->node[element->node_size++] = byte;
}

/* Reads a quoted value. Returns false if the closing quote is missing. */
static bool read_quoted(struct reader *reader, struct element *element, bool is_for)
{
    while (reader->at < reader->end) {
        char byte = *reader->at++;
        if (byte == '"')
            return true;
        if (byte == '\\') {
            if (reader->at == reader->end)
                return false;
            byte = *reader->at++;
        }
        append_if_for(element, is_for, byte);
    }
    return false;
}

/*
 * Reads a value without quotes. RFC 7239 requires quotes around a colon, but some senders omit
 * them, so the value extends to the next separator.
 */
static void read_bare(struct reader *reader, struct element *element, bool is_for)
{
    while (reader->at < reader->end && !memchr(",; \t\"=", *reader->at, 6))
        append_if_for(element, is_for, *reader->at++);
}

static struct ration_key read_name(struct reader *reader)
{
    const char *begin = reader->at;
    while (reader->at < reader->end && !memchr(",;= \t\"", *reader->at, 6))
        reader->at++;
    return (struct ration_key){begin, (size_t)(reader->at - begin)};
}

/* Reads name=value. Returns false if a closing quote is missing. */
static bool read_pair(struct reader *reader, struct element *element)
{
    struct ration_key name = read_name(reader);
    bool is_for = ration_http_is_any_case(&name, "for");
    if (name.size == 0 || !accept_byte(reader, '=')) {
        element->is_invalid = true;
        return true;
    }
    if (is_for && element->has_for)
        element->is_invalid = true;
    element->has_for |= is_for;
    if (accept_byte(reader, '"'))
        return read_quoted(reader, element, is_for);
    read_bare(reader, element, is_for);
    return true;
}

/* Skips text that cannot be parsed, up to the end of the element. */
static bool skip_to_comma(struct reader *reader, struct element *element)
{
    element->is_invalid = true;
    while (reader->at < reader->end && *reader->at != ',') {
        if (*reader->at++ == '"' && !read_quoted(reader, element, false))
            return false;
    }
    return true;
}

/* Reads up to a comma or the end. Returns false if a closing quote is missing. */
static bool read_element(struct reader *reader, struct element *element)
{
    *element = (struct element){.is_invalid = false};
    for (;;) {
        skip_blanks(reader);
        if (reader->at < reader->end && *reader->at != ';' && *reader->at != ',' &&
            !read_pair(reader, element))
            return false;
        skip_blanks(reader);
        if (reader->at == reader->end || *reader->at == ',')
            return true;
        if (!accept_byte(reader, ';'))
            return skip_to_comma(reader, element);
    }
}

static bool is_empty_element(const char *begin, const char *end)
{
    size_t size = (size_t)(end - begin);
    trim_blanks(&begin, &size);
    return size == 0;
}

/* Whether the byte at index is escaped: an odd number of backslashes precedes it. */
static bool is_escaped(const char *line, size_t index)
{
    size_t begin = index;
    while (begin > 0 && line[begin - 1] == '\\')
        begin--;
    return (index - begin) % 2 == 1;
}

/*
 * Returns where the last element of line begins. Quotes are matched from the right: an element
 * appended by a proxy has both of its quotes, so an unclosed quote of a client does not extend into
 * it.
 */
static size_t find_last_element(const char *line, size_t size)
{
    bool is_quoted = false;
    for (; size > 0; size--) {
        char byte = line[size - 1];
        if (byte == '"' && !(is_quoted && is_escaped(line, size - 1)))
            is_quoted = !is_quoted;
        else if (byte == ',' && !is_quoted)
            return size;
    }
    return 0;
}

/* Forwarded: elements separated by commas. An element that cannot be parsed stops the search. */
static bool walk_rfc(struct walk *walk, const char *line, size_t size)
{
    for (;;) {
        size_t begin = find_last_element(line, size);
        struct reader reader = {line + begin, line + size};
        struct element element;
        if (!is_empty_element(reader.at, reader.end) &&
            /* An element without for=, or with "unknown" or "_hidden", has no address either. */
            (!read_element(&reader, &element) || reader.at != reader.end || element.is_invalid ||
             !element.has_for || !advance_to_node(walk, element.node, element.node_size)))
            return false;
        if (begin == 0)
            return true;
        size = begin - 1;
    }
}

static const struct ration_http_header *find_single_header(const struct ration_http_header *headers,
                                                           size_t header_count, const char *name)
{
    const struct ration_http_header *found = NULL;
    for (size_t i = 0; i < header_count; i++) {
        if (!ration_http_is(&headers[i].name, name))
            continue;
        if (found)
            return NULL;
        found = &headers[i];
    }
    return found;
}

/* Several header lines form one list, in order. */
static void walk_lines(struct walk *walk, const struct ration_http_header *headers,
                       size_t header_count)
{
    const char *name = header_names[walk->trust->header];
    for (size_t i = header_count; i > 0; i--) {
        const struct ration_key *value = &headers[i - 1].value;
        if (!ration_http_is(&headers[i - 1].name, name))
            continue;
        if (walk->trust->header == RATION_FORWARDED_RFC
                ? !walk_rfc(walk, value->bytes, value->size)
                : !walk_plain(walk, value->bytes, value->size))
            return;
    }
}

struct ration_address ration_forwarded_client(const struct ration_forwarded_trust *trust,
                                              const struct ration_address *peer,
                                              const struct ration_http_header *headers,
                                              size_t header_count)
{
    struct walk walk = {trust, *peer, RATION_FORWARDED_HOPS_MAX};
    if (trust->header == RATION_FORWARDED_NONE || !is_trusted(trust, peer))
        return *peer;
    if (trust->header != RATION_FORWARDED_REAL) {
        walk_lines(&walk, headers, header_count);
        return walk.current;
    }
    const struct ration_http_header *real =
        find_single_header(headers, header_count, header_names[RATION_FORWARDED_REAL]);
    if (real)
        advance_to_node(&walk, real->value.bytes, real->value.size);
    return walk.current;
}
