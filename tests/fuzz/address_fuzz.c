/*
 * Any bytes as an address, a forwarded node and a network. What parses prints, and parses back to the same value; what
 * the C library accepts is accepted; a network contains its base, and no mask removes the base.
 */
#include <arpa/inet.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/address.h"

/* Aborts in every build, so that a release build finds what a debug build does. */
#define CHECK(condition)  \
    do {                  \
        if (!(condition)) \
            abort();      \
    } while (0)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_address(const struct ration_address *address)
{
    char text[RATION_ADDRESS_TEXT_SIZE];
    struct ration_address back;
    uint8_t bytes[16];
    size_t size = ration_address_print(address, text);
    CHECK(size == strlen(text) && size < sizeof(text));
    CHECK(ration_address_parse(text, size, &back));
    CHECK(back.family == address->family && !memcmp(back.bytes, address->bytes, sizeof(bytes)));
    CHECK(inet_pton(address->family == 4 ? AF_INET : AF_INET6, text, bytes) == 1);
    CHECK(!memcmp(bytes, address->bytes, address->family == 4 ? 4 : 16));
}

/* The C library parses terminated text without zones, and is as strict. */
static void check_against_library(const char *text, size_t size, bool is_read)
{
    char copy[128];
    uint8_t bytes[16];
    if (size >= sizeof(copy) || memchr(text, '\0', size) || memchr(text, '%', size))
        return;
    memcpy(copy, text, size);
    copy[size] = '\0';
    CHECK(is_read ==
          (inet_pton(AF_INET, copy, bytes) == 1 || inet_pton(AF_INET6, copy, bytes) == 1));
}

static void check_network(const struct ration_network *network)
{
    char text[RATION_NETWORK_TEXT_SIZE];
    struct ration_network back;
    size_t size = ration_address_network_print(network, text);
    CHECK(size == strlen(text) && size < sizeof(text));
    CHECK(ration_address_network_parse(text, size, &back, NULL));
    CHECK(back.bits == network->bits && back.base.family == network->base.family);
    CHECK(!memcmp(back.base.bytes, network->base.bytes, sizeof(back.base.bytes)));
    CHECK(ration_address_network_contains(network, &network->base));
    struct ration_address other = network->base;
    unsigned bits = network->base.family == 4 ? 32 : 128;
    for (unsigned bit = 0; bit < bits; bit++) {
        other.bytes[bit / 8] ^= (uint8_t)(0x80 >> bit % 8);
        CHECK(ration_address_network_contains(network, &other) == (bit >= network->bits));
        other.bytes[bit / 8] ^= (uint8_t)(0x80 >> bit % 8);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct ration_address address, node;
    struct ration_network network;
    const char *reason = NULL;
    if (size == 0)
        return 0;
    char *text = malloc(size); /* of exactly this size, so that a read beyond it is noticed */
    memcpy(text, data, size);
    bool is_address = ration_address_parse(text, size, &address);
    if (is_address)
        check_address(&address);
    check_against_library(text, size, is_address);
    if (ration_address_parse_node(text, size, &node))
        check_address(&node);
    else
        CHECK(!is_address);
    if (ration_address_network_parse(text, size, &network, &reason))
        check_network(&network);
    else
        CHECK(reason && strlen(reason) > 0 && strlen(reason) < 200);
    free(text);
    return 0;
}
