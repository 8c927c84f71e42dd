/*
 * http_attributes: what a check has to say about a request and its query does not, from headers and the
 * address of the client. Each attribute is brought to one way to write it; what can be read in more than
 * one way is an error, since the service behind might read it the other way.
 */
#include <stdio.h>
#include <string.h>

#include "proto/host.h"
#include "proto/http_lines.h"
#include "proto/path.h"
#include "server/http_desk.h"

#define HEADER_PREFIX "header."

static bool has_attribute(const struct ration_asked *asked, const char *name)
{
    for (size_t i = 0; i < asked->attribute_count; i++)
        if (ration_http_is(&asked->attributes[i].name, name))
            return true;
    return false;
}

/*
 * An attribute more, unless the query gave it. False: there is no room. It must not be left out then: a
 * limit by this attribute would not hold.
 */
static bool add(struct ration_asked *asked, struct ration_check_room *room, const char *name,
                struct ration_key value)
{
    if (has_attribute(asked, name))
        return true;
    if (asked->attribute_count == RATION_ATTRIBUTES_MAX)
        return false;
    room->attributes[asked->attribute_count++] =
        (struct ration_attribute){{name, strlen(name)}, value};
    asked->attributes = room->attributes;
    return true;
}

/* In capitals. False: it is no method. */
static bool normalize_method(char *method, size_t size, struct ration_key *out_method)
{
    if (!ration_http_is_token(method, size))
        return false;
    for (size_t i = 0; i < size; i++)
        if (method[i] >= 'a' && method[i] <= 'z')
            method[i] = (char)(method[i] - 'a' + 'A');
    *out_method = (struct ration_key){method, size};
    return true;
}

typedef bool normalize_fn(char *bytes, size_t size, struct ration_key *out_value);

enum { METHOD, PATH, HOST, DERIVED_COUNT };

/* Attributes that proxies report in headers, each brought to one way to write it. */
static const struct derived {
    const char *name;
    normalize_fn *normalize;
    const char *reason; /* why it is not one */
} derived[DERIVED_COUNT] = {
    [METHOD] =
        {"method", normalize_method,
         "The method in X-Forwarded-Method or X-Original-Method is not a method such as GET."},
    [PATH] = {"path", ration_path_normalize,
              "The path can be read in more than one way: it has .. beside an empty segment (//), "
              ".. or . beside an escaped slash (%2F) or a parameter (;x), an escaped slash in a "
              "parameter, a backslash, a blank that is not escaped, or a control character."},
    [HOST] = {"host", ration_host_normalize,
              "X-Forwarded-Host is not one host name or address, with or without a port."},
};

/* The headers that they are taken from. Two for one attribute mean the same. */
static const struct source {
    struct ration_key header;
    size_t derived_index;
} sources[] = {
    {{"x-forwarded-method", sizeof("x-forwarded-method") - 1}, METHOD},
    {{"x-original-method", sizeof("x-original-method") - 1}, METHOD},
    {{"x-forwarded-uri", sizeof("x-forwarded-uri") - 1}, PATH},
    {{"x-original-uri", sizeof("x-original-uri") - 1}, PATH},
    {{"x-forwarded-host", sizeof("x-forwarded-host") - 1}, HOST},
};

#define SOURCE_COUNT (sizeof(sources) / sizeof(sources[0]))

/* What one pass over the headers found. */
struct found {
    const struct ration_key *values[DERIVED_COUNT]; /* NULL: there is no such header */
    bool is_used[RATION_HTTP_HEADERS_MAX];          /* by the policy, as header.<name> */
};

static const char too_many[] =
    "A request has at most 64 attributes, with those that come from headers and the address.";

/* Returns why that cannot be done; NULL: it was. */
static const char *add_derived(const struct found *found, size_t index, struct ration_asked *asked,
                               struct ration_check_room *room)
{
    const struct ration_key *header = found->values[index];
    struct ration_key value;

    if (header == NULL || has_attribute(asked, derived[index].name))
        return NULL;
    if (!derived[index].normalize((char *)(uintptr_t)header->bytes, header->size, &value))
        return derived[index].reason;
    return add(asked, room, derived[index].name, value) ? NULL : too_many;
}

static bool add_address(struct ration_http_desk *desk, struct ration_asked *asked,
                        struct ration_check_room *room)
{
    struct ration_address client;

    if (has_attribute(asked, "ip"))
        return true;
    client = ration_forwarded_client(&desk->service->settings->trust,
                                     ration_connection_peer(desk->connection),
                                     desk->request.headers, desk->request.header_count);
    return client.family == 0 ||
           add(asked, room, "ip",
               (struct ration_key){desk->ip, ration_address_print(&client, desk->ip)});
}

/* The attribute that each header would be; empty where its name is too long for one. */
static void name_headers(struct ration_http_desk *desk)
{
    for (size_t i = 0; i < desk->request.header_count; i++) {
        const struct ration_key *header = &desk->request.headers[i].name;
        size_t prefix_size = sizeof(HEADER_PREFIX) - 1;
        char *name = desk->header_names[i];

        name[0] = '\0';
        if (header->size + prefix_size > RATION_ATTRIBUTE_NAME_MAX ||
            (desk->has_secret && ration_http_is(header, "authorization"))) /* it is the proxy's */
            continue;
        memcpy(name, HEADER_PREFIX, prefix_size);
        memcpy(name + prefix_size, header->bytes, header->size);
        name[prefix_size + header->size] = '\0';
    }
}

/*
 * Headers that the policy looks at, and only those: a client may send as many others as it likes, and
 * must not be able to push one out that a limit needs.
 */
static bool add_headers(struct ration_http_desk *desk, const struct found *found,
                        struct ration_asked *asked, struct ration_check_room *room)
{
    for (size_t i = 0; i < desk->request.header_count; i++)
        if (found->is_used[i] &&
            !add(asked, room, desk->header_names[i], desk->request.headers[i].value))
            return false;
    return true;
}

/* Whether two names are the same where a service reads _ as -, as CGI, WSGI and Rack do. */
static bool is_alike(const struct ration_key *a, const struct ration_key *b)
{
    const char *left = a->bytes, *right = b->bytes;

    if (a->size != b->size)
        return false;
    for (size_t i = 0; i < a->size; i++)
        if (left[i] != right[i] && !(strchr("-_", left[i]) && strchr("-_", right[i])))
            return false;
    return true;
}

/* Whether the policy uses the header under its name with - for _. */
static bool is_other_spelling(const struct ration_http_desk *desk, const ration_policy *policy,
                              size_t index)
{
    char name[RATION_ATTRIBUTE_NAME_MAX + 1];
    const struct ration_key *header = &desk->request.headers[index].name;

    if (memchr(header->bytes, '_', header->size) == NULL)
        return false;
    snprintf(name, sizeof(name), "%s", desk->header_names[index]);
    for (char *at = strchr(name, '_'); at != NULL; at = strchr(at, '_'))
        *at = '-';
    return ration_policy_uses(policy, name);
}

/* Whether a header of the same name comes before this one. */
static bool is_repeated(const struct ration_http_desk *desk, size_t index)
{
    for (size_t i = 0; i < index; i++)
        if (is_alike(&desk->request.headers[i].name, &desk->request.headers[index].name))
            return true;
    return false;
}

/* Notes a header that describes the request. */
static const char *note_source(const struct ration_http_header *header, struct found *found)
{
    for (size_t i = 0; i < SOURCE_COUNT; i++) {
        const struct ration_key **value = &found->values[sources[i].derived_index];

        if (header->name.size != sources[i].header.size ||
            memcmp(header->name.bytes, sources[i].header.bytes, header->name.size) != 0)
            continue;
        if (*value != NULL && ((*value)->size != header->value.size ||
                               memcmp((*value)->bytes, header->value.bytes, header->value.size)))
            return "Two of X-Forwarded-Method, X-Original-Method, X-Forwarded-Uri, X-Original-URI "
                   "and X-Forwarded-Host say different things: the proxy must drop what the client "
                   "sent.";
        *value = &header->value;
    }
    return NULL;
}

/*
 * Finds the headers that attributes are taken from. Returns why they do not say clearly what the request
 * is; NULL: they do. If ration read the first of two and the service the last, a client could be two at once.
 */
static const char *find_headers(struct ration_http_desk *desk, const ration_policy *policy,
                                struct found *found)
{
    const char *reason = NULL;

    memset(found->values, 0, sizeof(found->values));
    name_headers(desk);
    for (size_t i = 0; reason == NULL && i < desk->request.header_count; i++) {
        const char *name = desk->header_names[i];

        reason = note_source(&desk->request.headers[i], found);
        found->is_used[i] = name[0] != '\0' && ration_policy_uses(policy, name);
        if (found->is_used[i] && is_repeated(desk, i))
            reason = "A header that the policy uses was sent twice.";
        else if (!found->is_used[i] && is_other_spelling(desk, policy, i))
            reason =
                "A header that the policy uses was sent with _ for -, which some services take "
                "for the same header.";
    }
    return reason;
}

const char *ration_http_add_attributes(struct ration_http_desk *desk, const ration_policy *policy,
                                       struct ration_asked *asked, struct ration_check_room *room)
{
    struct found found;
    const char *reason = find_headers(desk, policy, &found);

    for (size_t i = 0; reason == NULL && i < DERIVED_COUNT; i++)
        reason = add_derived(&found, i, asked, room);
    if (reason == NULL &&
        (!add_address(desk, asked, room) || !add_headers(desk, &found, asked, room)))
        reason = too_many;
    return reason;
}
