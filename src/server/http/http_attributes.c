/*
 * http_attributes: attributes of a checked request that its query does not have, from headers and the client's
 * address. Each attribute is normalized; a value that can be read in more than one way is an error, since the
 * service behind the proxy might read it the other way.
 */
#include <stdio.h>
#include <string.h>

#include "codec/http/host.h"
#include "codec/http/http_head.h"
#include "codec/http/path.h"
#include "server/http/http_worker.h"

#define HEADER_PREFIX "header."

static bool has_attribute(const struct ration_check_request *request, const char *name)
{
    for (size_t i = 0; i < request->attribute_count; i++)
        if (ration_http_is(&request->attributes[i].name, name))
            return true;
    return false;
}

/*
 * Adds an attribute, unless the query has it. False: there are too many attributes. The caller must not omit it
 * then: a limit by this attribute would not be enforced.
 */
static bool add_attribute(struct ration_check_request *request, struct ration_check_room *room,
                          const char *name, struct ration_key value)
{
    if (has_attribute(request, name))
        return true;
    if (request->attribute_count == RATION_ATTRIBUTES_MAX)
        return false;
    room->attributes[request->attribute_count++] =
        (struct ration_attribute){{name, strlen(name)}, value};
    request->attributes = room->attributes;
    return true;
}

/* Converts a method to upper case. False: it is not a method. */
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

/* Attributes that proxies report in headers, and how each is normalized. */
static const struct derived {
    const char *name;
    normalize_fn *normalize;
    const char *reason; /* the error if normalize() fails */
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

/* The headers that hold these attributes. Two headers for one attribute are synonyms. */
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

/* The result of one pass over the headers. */
struct headers {
    const struct ration_key *values[DERIVED_COUNT]; /* NULL: no such header */
    bool is_used[RATION_HTTP_HEADERS_MAX];          /* by the policy, as header.<name> */
};

static const char too_many[] =
    "A request has at most 64 attributes, with those that come from headers and the address.";

/* Returns NULL, or why the attribute could not be added. */
static const char *add_derived(const struct headers *headers, size_t index,
                               struct ration_check_request *request, struct ration_check_room *room)
{
    const struct ration_key *header = headers->values[index];
    struct ration_key value;

    if (header == NULL || has_attribute(request, derived[index].name))
        return NULL;
    if (!derived[index].normalize((char *)(uintptr_t)header->bytes, header->size, &value))
        return derived[index].reason;
    return add_attribute(request, room, derived[index].name, value) ? NULL : too_many;
}

static bool add_address(struct ration_http_worker *worker, struct ration_check_request *request,
                        struct ration_check_room *room)
{
    struct ration_address client;

    if (has_attribute(request, "ip"))
        return true;
    client = ration_forwarded_client(&worker->service->settings->trust,
                                     ration_connection_peer(worker->connection),
                                     worker->request.headers, worker->request.header_count);
    return client.family == 0 ||
           add_attribute(
               request, room, "ip",
               (struct ration_key){worker->ip, ration_address_print(&client, worker->ip)});
}

/* Writes the attribute name of each header; empty if it is too long, or if the header holds a secret of the server. */
static void name_headers(struct ration_http_worker *worker)
{
    for (size_t i = 0; i < worker->request.header_count; i++) {
        const struct ration_key *header = &worker->request.headers[i].name;
        size_t prefix_size = sizeof(HEADER_PREFIX) - 1;
        char *name = worker->header_names[i];

        name[0] = '\0';
        if (header->size + prefix_size > RATION_ATTRIBUTE_NAME_MAX ||
            (worker->has_secret &&
             ration_http_is(header, "authorization"))) /* the proxy's own secret */
            continue;
        memcpy(name, HEADER_PREFIX, prefix_size);
        memcpy(name + prefix_size, header->bytes, header->size);
        name[prefix_size + header->size] = '\0';
    }
}

/*
 * Adds only the headers that the policy uses: a client may send any number of others, and must not be able to
 * displace one that a limit needs.
 */
static bool add_headers(struct ration_http_worker *worker, const struct headers *headers,
                        struct ration_check_request *request, struct ration_check_room *room)
{
    for (size_t i = 0; i < worker->request.header_count; i++)
        if (headers->is_used[i] && !add_attribute(request, room, worker->header_names[i],
                                                  worker->request.headers[i].value))
            return false;
    return true;
}

/* Whether two names are the same to a service that treats _ as -, as CGI, WSGI and Rack do. */
static bool names_are_alike(const struct ration_key *a, const struct ration_key *b)
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
static bool is_other_spelling(const struct ration_http_worker *worker, const ration_policy *policy,
                              size_t index)
{
    char name[RATION_ATTRIBUTE_NAME_MAX + 1];
    const struct ration_key *header = &worker->request.headers[index].name;

    if (memchr(header->bytes, '_', header->size) == NULL)
        return false;
    snprintf(name, sizeof(name), "%s", worker->header_names[index]);
    for (char *at = strchr(name, '_'); at != NULL; at = strchr(at, '_'))
        *at = '-';
    return ration_policy_uses(policy, name);
}

/* Whether an earlier header has the same name. */
static bool is_repeated(const struct ration_http_worker *worker, size_t index)
{
    for (size_t i = 0; i < index; i++)
        if (names_are_alike(&worker->request.headers[i].name, &worker->request.headers[index].name))
            return true;
    return false;
}

/* Records the value of a header that holds an attribute. Returns an error if a synonym has another value. */
static const char *record_source(const struct ration_http_header *header, struct headers *headers)
{
    for (size_t i = 0; i < SOURCE_COUNT; i++) {
        const struct ration_key **value = &headers->values[sources[i].derived_index];

        if (header->name.size != sources[i].header.size ||
            memcmp(header->name.bytes, sources[i].header.bytes, header->name.size) != 0)
            continue;
        if (*value != NULL &&
            ((*value)->size != header->value.size ||
             memcmp((*value)->bytes, header->value.bytes, header->value.size) != 0))
            return "Two of X-Forwarded-Method, X-Original-Method, X-Forwarded-Uri, X-Original-URI "
                   "and X-Forwarded-Host have different values: the proxy must drop what the "
                   "client "
                   "sent.";
        *value = &header->value;
    }
    return NULL;
}

/*
 * Finds the headers that attributes are taken from. Returns NULL, or why they are ambiguous. If ration read the
 * first of two headers and the service the last, a client could send one value to each.
 */
static const char *find_headers(struct ration_http_worker *worker, const ration_policy *policy,
                                struct headers *headers)
{
    const char *reason = NULL;

    memset(headers->values, 0, sizeof(headers->values));
    name_headers(worker);
    for (size_t i = 0; reason == NULL && i < worker->request.header_count; i++) {
        const char *name = worker->header_names[i];

        reason = record_source(&worker->request.headers[i], headers);
        headers->is_used[i] = name[0] != '\0' && ration_policy_uses(policy, name);
        if (headers->is_used[i] && is_repeated(worker, i))
            reason = "A header that the policy uses was sent twice.";
        else if (!headers->is_used[i] && is_other_spelling(worker, policy, i))
            reason =
                "A header that the policy uses was sent with _ for -, which some services take "
                "for the same header.";
    }
    return reason;
}

const char *ration_http_add_attributes(struct ration_http_worker *worker,
                                       const ration_policy *policy,
                                       struct ration_check_request *request,
                                       struct ration_check_room *room)
{
    struct headers headers;
    const char *reason = find_headers(worker, policy, &headers);

    for (size_t i = 0; reason == NULL && i < DERIVED_COUNT; i++)
        reason = add_derived(&headers, i, request, room);
    if (reason == NULL &&
        (!add_address(worker, request, room) || !add_headers(worker, &headers, request, room)))
        reason = too_many;
    return reason;
}
