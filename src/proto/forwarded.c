#include "proto/forwarded.h"

#include <string.h>

#include "base/words.h"

/* The longest text of an address with a port that is read. */
#define NODE_SIZE_MAX 80

static const char *const header_names[] = {
    [RATION_FORWARDED_NONE] = "none",
    [RATION_FORWARDED_FOR] = "x-forwarded-for",
    [RATION_FORWARDED_RFC] = "forwarded",
    [RATION_FORWARDED_REAL] = "x-real-ip",
};

bool ration_forwarded_header_parse(const char *name, size_t size,
                                   enum ration_forwarded_header *out_header)
{
    const struct ration_key slice = {name, size};
    for (int header = RATION_FORWARDED_NONE; header <= RATION_FORWARDED_REAL; header++) {
        if (ration_http_is_any_case(&slice, header_names[header])) {
            *out_header = (enum ration_forwarded_header)header;
            return true;
        }
    }
    return false;
}

static bool is_trusted(const struct ration_forwarded_trust *trust,
                       const struct ration_address *address)
{
    if (address->family == 0)
        return trust->trusts_unix;
    for (size_t i = 0; i < trust->proxy_count; i++) {
        if (ration_network_contains(&trust->proxies[i], address))
            return true;
    }
    return false;
}

/* Where a walk is. */
struct walk {
    const struct ration_forwarded_trust *trust;
    struct ration_address current;
    size_t hops_left;
};

/* Goes on to the next address, if there is one. Whether the one after it is asked for. */
static bool step(struct walk *walk, bool is_address, const struct ration_address *address)
{
    if (!is_address)
        return false;
    walk->current = *address;
    walk->hops_left--;
    return walk->hops_left > 0 && !walk->trust->is_one_hop &&
           is_trusted(walk->trust, &walk->current);
}

static bool step_to_node(struct walk *walk, const char *text, size_t size)
{
    struct ration_address address;
    bool is_address = ration_address_parse_node(text, size, &address);
    return step(walk, is_address, &address);
}

static bool is_blank(char byte)
{
    return byte == ' ' || byte == '\t';
}

static void trim(const char **text, size_t *size)
{
    while (*size > 0 && is_blank(**text))
        (*text)++, (*size)--;
    while (*size > 0 && is_blank((*text)[*size - 1]))
        (*size)--;
}

/* X-Forwarded-For: addresses between commas. Empty places are nobody's. */
static bool walk_plain(struct walk *walk, const char *line, size_t size)
{
    for (size_t end = size;;) {
        size_t begin = end;
        while (begin > 0 && line[begin - 1] != ',')
            begin--;
        const char *text = line + begin;
        size_t text_size = end - begin;
        trim(&text, &text_size);
        if (text_size > 0 && !step_to_node(walk, text, text_size))
            return false;
        if (begin == 0)
            return true;
        end = begin - 1;
    }
}

/* One element of Forwarded: for, if it is there, once, and can be held. */
struct element {
    char node[NODE_SIZE_MAX];
    size_t node_size;
    bool has_for;
    bool is_bad;
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

static bool take(struct reader *reader, char byte)
{
    if (reader->at == reader->end || *reader->at != byte)
        return false;
    reader->at++;
    return true;
}

static void keep(struct element *element, bool is_for, char byte)
{
    if (!is_for)
        return;
    if (element->node_size == NODE_SIZE_MAX)
        element->is_bad = true;
    else
        element->node[element->node_size++] = byte;
}

/* A value in quotes. false: the quotes do not end. */
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
        keep(element, is_for, byte);
    }
    return false;
}

/*
 * A value without quotes. RFC 7239 wants quotes around a colon; who leaves them off means the same,
 * so all up to the next separator is the value.
 */
static void read_bare(struct reader *reader, struct element *element, bool is_for)
{
    while (reader->at < reader->end && !memchr(",; \t\"=", *reader->at, 6))
        keep(element, is_for, *reader->at++);
}

static struct ration_key read_name(struct reader *reader)
{
    const char *begin = reader->at;
    while (reader->at < reader->end && !memchr(",;= \t\"", *reader->at, 6))
        reader->at++;
    return (struct ration_key){begin, (size_t)(reader->at - begin)};
}

/* name=value. false: quotes do not end. */
static bool read_pair(struct reader *reader, struct element *element)
{
    struct ration_key name = read_name(reader);
    bool is_for = ration_http_is_any_case(&name, "for");
    if (name.size == 0 || !take(reader, '=')) {
        element->is_bad = true;
        return true;
    }
    if (is_for && element->has_for)
        element->is_bad = true;
    element->has_for |= is_for;
    if (take(reader, '"'))
        return read_quoted(reader, element, is_for);
    read_bare(reader, element, is_for);
    return true;
}

/* Passes what cannot be read, up to where the element ends. */
static bool skip_to_comma(struct reader *reader, struct element *element)
{
    element->is_bad = true;
    while (reader->at < reader->end && *reader->at != ',') {
        if (*reader->at++ == '"' && !read_quoted(reader, element, false))
            return false;
    }
    return true;
}

/* Reads up to a comma or the end. false: quotes do not end. */
static bool read_element(struct reader *reader, struct element *element)
{
    *element = (struct element){.is_bad = false};
    for (;;) {
        skip_blanks(reader);
        if (reader->at < reader->end && *reader->at != ';' && *reader->at != ',' &&
            !read_pair(reader, element))
            return false;
        skip_blanks(reader);
        if (reader->at == reader->end || *reader->at == ',')
            return true;
        if (!take(reader, ';'))
            return skip_to_comma(reader, element);
    }
}

static bool is_empty_element(const char *begin, const char *end)
{
    size_t size = (size_t)(end - begin);
    trim(&begin, &size);
    return size == 0;
}

/* Whether the byte at index is escaped: an odd number of backslashes stands before it. */
static bool is_escaped(const char *line, size_t index)
{
    size_t begin = index;
    while (begin > 0 && line[begin - 1] == '\\')
        begin--;
    return (index - begin) % 2 == 1;
}

/*
 * Where the last element of line begins. Quotes are followed from the right: what a proxy appended has
 * both of its quotes, so a quote that a client left open does not reach into it.
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

/* Forwarded: elements between commas. One that cannot be read ends the walk. */
static bool walk_rfc(struct walk *walk, const char *line, size_t size)
{
    for (;;) {
        size_t begin = find_last_element(line, size);
        struct reader reader = {line + begin, line + size};
        struct element element;
        if (!is_empty_element(reader.at, reader.end) &&
            /* Without for, "unknown" and "_hidden" are no addresses either. */
            (!read_element(&reader, &element) || reader.at != reader.end || element.is_bad ||
             !element.has_for || !step_to_node(walk, element.node, element.node_size)))
            return false;
        if (begin == 0)
            return true;
        size = begin - 1;
    }
}

static const struct ration_http_header *only_header(const struct ration_http_header *headers,
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

/* Several lines are one list, in order. */
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
        only_header(headers, header_count, header_names[RATION_FORWARDED_REAL]);
    if (real)
        step_to_node(&walk, real->value.bytes, real->value.size);
    return walk.current;
}
