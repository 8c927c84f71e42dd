/*
 * Any bytes as lists of addresses: lines of a header, separated by line feeds. The client is the peer or an address in
 * the lines. Addresses to the left of an untrusted one are ignored, so text inserted before the lines does not change
 * the result once an untrusted address was found.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "codec/http/forwarded.h"
#include "codec/http/query.h"

/* Aborts in every build, so that a release build finds what a debug build does. */
#define CHECK(condition)  \
    do {                  \
        if (!(condition)) \
            abort();      \
    } while (0)

#define LINES_MAX 8

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static struct ration_network network(const char *text)
{
    struct ration_network parsed;
    CHECK(ration_address_network_parse(text, strlen(text), &parsed, NULL));
    return parsed;
}

static bool equal(const struct ration_address *a, const struct ration_address *b)
{
    return a->family == b->family && memcmp(a->bytes, b->bytes, sizeof(a->bytes)) == 0;
}

static const char *const names[] = {"none", "x-forwarded-for", "forwarded", "x-real-ip"};

static void check(enum ration_forwarded_header header, const uint8_t *text, size_t size)
{
    struct ration_network proxies[] = {network("10.0.0.0/8"), network("fd00::/8")};
    struct ration_forwarded_trust trust = {.header = header, .proxies = proxies, .proxy_count = 2};
    struct ration_address peer = network("10.0.0.1").base, stranger = network("9.9.9.9").base;
    struct ration_http_header headers[LINES_MAX + 1];
    const struct ration_key name = {names[header], strlen(names[header])};
    size_t count = 1;
    headers[0] = (struct ration_http_header){
        name, header == RATION_FORWARDED_RFC ? RATION_KEY("for=6.6.6.6") : RATION_KEY("6.6.6.6")};
    for (size_t at = 0; at <= size && count <= LINES_MAX; count++) {
        const uint8_t *end = at < size ? memchr(text + at, '\n', size - at) : NULL;
        size_t line_size = (end ? (size_t)(end - text) : size) - at;
        headers[count] = (struct ration_http_header){name, {text + at, line_size}};
        at += line_size + 1;
    }

    struct ration_address client = ration_forwarded_client(&trust, &peer, headers + 1, count - 1);
    CHECK(client.family == 4 || client.family == 6);
    struct ration_address again =
        ration_forwarded_client(&trust, &stranger, headers + 1, count - 1);
    CHECK(equal(&again, &stranger));
    if (header == RATION_FORWARDED_REAL)
        return;
    again = ration_forwarded_client(&trust, &peer, headers, count);
    bool is_trusted = ration_address_network_contains(&proxies[0], &client) ||
                      ration_address_network_contains(&proxies[1], &client);
    CHECK(is_trusted || equal(&again, &client));
    trust.is_one_hop = true;
    ration_forwarded_client(&trust, &peer, headers, count);
}

/* The same bytes as a query string: it is decoded in place, and does not get longer. */
static void check_query(const uint8_t *text, size_t size)
{
    struct ration_attribute attributes[RATION_ATTRIBUTES_MAX];
    struct ration_error error;
    size_t count;
    char *query = malloc(size + 1);
    CHECK(query);
    memcpy(query, text, size);
    if (ration_query_read(query, size, attributes, RATION_ATTRIBUTES_MAX, &count, &error) ==
        RATION_OK) {
        size_t used = 0;
        CHECK(count <= RATION_ATTRIBUTES_MAX);
        for (size_t i = 0; i < count; i++)
            used += attributes[i].name.size + attributes[i].value.size;
        CHECK(used <= size);
    } else
        CHECK(error.offset <= size && error.message[0]);
    free(query);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size == 0)
        return 0;
    enum ration_forwarded_header header = (enum ration_forwarded_header)(data[0] % 4);
    if (header == RATION_FORWARDED_NONE)
        check_query(data + 1, size - 1);
    else
        check(header, data + 1, size - 1);
    return 0;
}
