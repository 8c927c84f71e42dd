#include "base/address.h"

#include <netinet/in.h>
#include <stdio.h>
#include <string.h>

#define V4_BYTES     4
#define V6_BYTES     16
#define V6_GROUPS    8
#define GROUP_DIGITS 4
#define OCTET_DIGITS 3
#define PORT_MAX     65535
#define ZONE_MAX     64
#define NO_GAP       V6_GROUPS

/* Prefixes of IPv4 addresses in IPv6. */
#define PREFIX_BYTES 12
static const uint8_t mapped[PREFIX_BYTES] = {[10] = 0xff, [11] = 0xff};
static const uint8_t nat64[PREFIX_BYTES] = {0x00, 0x64, 0xff, 0x9b};
static const uint8_t compatible[PREFIX_BYTES] = {0};

static bool is_digit(char byte)
{
    return byte >= '0' && byte <= '9';
}

/* Returns -1 for any other byte. */
static int hex_value(char byte)
{
    if (is_digit(byte))
        return byte - '0';
    byte = (char)(byte | 0x20);
    return byte >= 'a' && byte <= 'f' ? byte - 'a' + 10 : -1;
}

/* Parses a decimal number without leading zeros that is all of text. */
static bool parse_number(const char *text, size_t size, unsigned max, unsigned *out_number)
{
    unsigned number = 0;
    if (size == 0 || (text[0] == '0' && size > 1))
        return false;
    for (size_t i = 0; i < size; i++) {
        if (!is_digit(text[i]))
            return false;
        number = number * 10 + (unsigned)(text[i] - '0');
        if (number > max)
            return false;
    }
    *out_number = number;
    return true;
}

/* Parses one of the four numbers, without leading zeros. Returns its end, or NULL on error. */
static inline const char *read_octet(const char *text, const char *end, uint8_t *out_byte)
{
    const char *at = text;
    unsigned value = 0;
    for (; at < end && at - text < OCTET_DIGITS && is_digit(*at); at++)
        value = value * 10 + (unsigned)(*at - '0');
    if (at == text || value > 255 || (*text == '0' && at - text > 1))
        return NULL;
    *out_byte = (uint8_t)value;
    return at;
}

static bool parse_v4(const char *text, size_t size, uint8_t out_bytes[V4_BYTES])
{
    const char *end = text + size;
    for (int i = 0; i < V4_BYTES; i++) {
        if (i > 0 && (text == end || *text++ != '.'))
            return false;
        text = read_octet(text, end, &out_bytes[i]);
        if (!text)
            return false;
    }
    return text == end;
}

/* The groups read so far, and the group before which "::" was. */
struct groups {
    uint8_t bytes[V6_BYTES];
    size_t count;
    size_t gap; /* NO_GAP if there was none */
};

/*
 * Parses one group, or the dotted IPv4 address that ends the text. Returns its end, or NULL on
 * error.
 */
static const char *read_group(const char *text, const char *end, struct groups *groups)
{
    const char *at = text;
    unsigned value = 0;
    uint8_t *bytes = groups->bytes + 2 * groups->count;
    for (; at < end && at - text < GROUP_DIGITS && hex_value(*at) >= 0; at++)
        value = value << 4 | (unsigned)hex_value(*at);
    if (at < end && *at == '.') {
        if (groups->count > V6_GROUPS - 2 || !parse_v4(text, (size_t)(end - text), bytes))
            return NULL;
        groups->count += 2;
        return end;
    }
    if (at == text)
        return NULL;
    bytes[0] = (uint8_t)(value >> 8);
    bytes[1] = (uint8_t)value;
    groups->count++;
    return at;
}

static bool read_groups(const char *text, const char *end, struct groups *groups)
{
    if (end - text >= 2 && text[0] == ':' && text[1] == ':') {
        groups->gap = 0;
        text += 2;
    }
    while (text < end) {
        if (groups->count == V6_GROUPS)
            return false;
        text = read_group(text, end, groups);
        if (!text || text == end)
            return text != NULL;
        if (*text++ != ':' || text == end)
            return false;
        if (*text == ':') {
            if (groups->gap != NO_GAP)
                return false;
            groups->gap = groups->count;
            text++;
        }
    }
    return groups->gap != NO_GAP;
}

static bool parse_v6(const char *text, size_t size, uint8_t out_bytes[V6_BYTES])
{
    struct groups groups = {.gap = NO_GAP};
    if (!read_groups(text, text + size, &groups))
        return false;
    if ((groups.count == V6_GROUPS) != (groups.gap == NO_GAP)) /* "::" is at least one group */
        return false;
    size_t head = groups.gap == NO_GAP ? V6_BYTES : 2 * groups.gap;
    size_t tail = 2 * groups.count - head;
    memset(out_bytes, 0, V6_BYTES);
    memcpy(out_bytes, groups.bytes, head);
    memcpy(out_bytes + V6_BYTES - tail, groups.bytes + head, tail);
    return true;
}

/* Parses an address as written: IPv4 in IPv6 is not converted, and a zone is an error. */
static bool parse_plain(const char *text, size_t size, struct ration_address *out_address)
{
    struct ration_address address = {.family = 4};
    if (!parse_v4(text, size, address.bytes)) {
        address.family = 6;
        if (!parse_v6(text, size, address.bytes))
            return false;
    }
    *out_address = address;
    return true;
}

/* Returns whether the last four bytes of an IPv6 address are an IPv4 address of the same host. */
static bool is_v4_in_v6(const struct ration_address *address)
{
    const uint8_t *bytes = address->bytes;

    if (address->family != 6)
        return false;
    if (!memcmp(bytes, mapped, PREFIX_BYTES))
        return true;
    /* 127.0.0.0/8 is this host, which is trusted; an address that arrives in IPv6 packets is not */
    if (bytes[PREFIX_BYTES] == 127)
        return false;
    return !memcmp(bytes, nat64, PREFIX_BYTES) ||
           /* 0.0.0.0/8 is not used by hosts: :: and ::1 are not IPv4 addresses */
           (!memcmp(bytes, compatible, PREFIX_BYTES) && bytes[PREFIX_BYTES] != 0);
}

static void convert_to_v4(struct ration_address *address)
{
    struct ration_address converted = {.family = 4};
    memcpy(converted.bytes, address->bytes + PREFIX_BYTES, V4_BYTES);
    *address = converted;
}

/* Returns whether text is a valid name of a zone or of an obfuscated port. */
static bool is_name(const char *text, size_t size)
{
    if (size == 0 || size > ZONE_MAX)
        return false;
    for (size_t i = 0; i < size; i++) {
        char lower = (char)(text[i] | 0x20);
        if (!is_digit(text[i]) && !(lower >= 'a' && lower <= 'z') && text[i] != '-' &&
            text[i] != '.' && text[i] != '_' && text[i] != '~')
            return false;
    }
    return true;
}

/* Returns the size of text without its zone; 0 if the zone is invalid. */
static size_t size_without_zone(const char *text, size_t size)
{
    const char *zone = memchr(text, '%', size);
    if (!zone)
        return size;
    size_t begin = (size_t)(zone - text);
    return is_name(zone + 1, size - begin - 1) ? begin : 0;
}

bool ration_address_parse(const char *text, size_t size, struct ration_address *out_address)
{
    struct ration_address address = {.family = 4};
    if (size == 0)
        return false;
    if (parse_v4(text, size, address.bytes)) {
        *out_address = address;
        return true;
    }
    address.family = 6;
    if (!parse_v6(text, size_without_zone(text, size), address.bytes))
        return false;
    if (is_v4_in_v6(&address))
        convert_to_v4(&address);
    *out_address = address;
    return true;
}

/* Accepts nothing, or a colon and a port. */
static bool is_port(const char *text, size_t size)
{
    unsigned port;
    if (size == 0)
        return true;
    if (text[0] != ':' || size == 1)
        return false;
    return parse_number(text + 1, size - 1, PORT_MAX, &port) ||
           (text[1] == '_' && is_name(text + 2, size - 2));
}

bool ration_address_parse_node(const char *text, size_t size, struct ration_address *out_address)
{
    if (size == 0)
        return false;
    if (text[0] == '[') {
        const char *close = memchr(text, ']', size);
        size_t inner = close ? (size_t)(close - text) - 1 : 0;
        return close && memchr(text, ':', inner + 1) && is_port(close + 1, size - inner - 2) &&
               ration_address_parse(text + 1, inner, out_address);
    }
    const char *colon = memchr(text, ':', size);
    if (!colon || !memchr(text, '.', (size_t)(colon - text))) /* ::ffff:192.0.2.1 is bare */
        return ration_address_parse(text, size, out_address);
    size_t before = (size_t)(colon - text);
    return is_port(colon, size - before) && ration_address_parse(text, before, out_address);
}

struct ration_address ration_address_of_socket(const struct sockaddr_storage *peer)
{
    struct ration_address address = {0};

    if (peer->ss_family == AF_INET) {
        address.family = 4;
        memcpy(address.bytes, &((const struct sockaddr_in *)peer)->sin_addr, V4_BYTES);
    } else if (peer->ss_family == AF_INET6) {
        address.family = 6;
        memcpy(address.bytes, &((const struct sockaddr_in6 *)peer)->sin6_addr, V6_BYTES);
        if (is_v4_in_v6(&address))
            convert_to_v4(&address);
    }
    return address;
}

static char *print_number(unsigned number, char *out)
{
    if (number >= 100)
        *out++ = (char)('0' + number / 100);
    if (number >= 10)
        *out++ = (char)('0' + number / 10 % 10);
    *out++ = (char)('0' + number % 10);
    return out;
}

static char *print_v4(const uint8_t *bytes, char *out)
{
    for (int i = 0; i < V4_BYTES; i++) {
        if (i > 0)
            *out++ = '.';
        out = print_number(bytes[i], out);
    }
    return out;
}

static unsigned group_at(const uint8_t *bytes, size_t index)
{
    return (unsigned)bytes[2 * index] << 8 | bytes[2 * index + 1];
}

static char *print_group(unsigned group, char *out)
{
    static const char hex[] = "0123456789abcdef";
    for (int shift = 12; shift > 0; shift -= 4) {
        if (group >> shift)
            *out++ = hex[group >> shift & 15];
    }
    *out++ = hex[group & 15];
    return out;
}

/*
 * The longest run of zero groups, the first of equals; a single zero does not count (RFC 5952,
 * 4.2).
 */
static size_t longest_gap(const uint8_t *bytes, size_t *out_begin)
{
    size_t best = 1, run = 0;
    *out_begin = NO_GAP;
    for (size_t i = 0; i < V6_GROUPS; i++) {
        run = group_at(bytes, i) == 0 ? run + 1 : 0;
        if (run > best) {
            best = run;
            *out_begin = i + 1 - run;
        }
    }
    return *out_begin == NO_GAP ? 0 : best;
}

static char *print_v6(const uint8_t *bytes, char *out)
{
    size_t gap_begin, gap = longest_gap(bytes, &gap_begin);
    for (size_t i = 0; i < V6_GROUPS; i++) {
        if (i == gap_begin) {
            *out++ = ':';
            *out++ = ':';
            i += gap - 1;
            continue;
        }
        if (i > 0 && i != gap_begin + gap)
            *out++ = ':';
        out = print_group(group_at(bytes, i), out);
    }
    return out;
}

size_t ration_address_print(const struct ration_address *address,
                            char buffer[RATION_ADDRESS_TEXT_SIZE])
{
    char *end =
        address->family == 4 ? print_v4(address->bytes, buffer) : print_v6(address->bytes, buffer);
    *end = '\0';
    return (size_t)(end - buffer);
}

static unsigned bits_of(const struct ration_address *address)
{
    return address->family == 4 ? 8 * V4_BYTES : 8 * V6_BYTES;
}

void ration_address_mask(struct ration_address *address, unsigned bits)
{
    if (bits >= bits_of(address))
        return;
    size_t whole = bits / 8;
    address->bytes[whole] &= (uint8_t)(0xff00 >> bits % 8);
    memset(address->bytes + whole + 1, 0, sizeof(address->bytes) - whole - 1);
}

static bool equal_bytes(const struct ration_address *a, const struct ration_address *b)
{
    return !memcmp(a->bytes, b->bytes, sizeof(a->bytes));
}

static bool fail_with_reason(const char **out_reason, const char *reason)
{
    if (out_reason)
        *out_reason = reason;
    return false;
}

/* The reason names the network that contains the address. */
static bool fail_host_bits(const struct ration_network *network, const char **out_reason)
{
    static _Thread_local char reason[RATION_NETWORK_TEXT_SIZE + 80];
    char text[RATION_NETWORK_TEXT_SIZE];
    ration_address_network_print(network, text);
    snprintf(reason, sizeof(reason), "the address has bits beyond the first %u: write %s",
             network->bits, text);
    return fail_with_reason(out_reason, reason);
}

/* Converts a network within IPv4 in IPv6 to IPv4; a wider network is left alone. */
static void convert_network_to_v4(struct ration_network *network)
{
    if (network->bits < 8 * PREFIX_BYTES || !is_v4_in_v6(&network->base))
        return;
    convert_to_v4(&network->base);
    network->bits = (uint8_t)(network->bits - 8 * PREFIX_BYTES);
}

static bool is_all_of_nat64(const struct ration_network *network)
{
    return network->base.family == 6 && network->bits == 8 * PREFIX_BYTES &&
           !memcmp(network->base.bytes, nat64, PREFIX_BYTES);
}

bool ration_address_network_parse(const char *text, size_t size, struct ration_network *out_network,
                                  const char **out_reason)
{
    struct ration_network network;
    struct ration_address given;
    const char *slash = size ? memchr(text, '/', size) : NULL;
    size_t address_size = slash ? (size_t)(slash - text) : size;
    if (address_size == 0 || !parse_plain(text, address_size, &given))
        return fail_with_reason(
            out_reason, "not an address: write a network such as 192.0.2.0/24 or 2001:db8::/32");
    unsigned bits = bits_of(&given);
    if (slash && !parse_number(slash + 1, size - address_size - 1, bits, &bits))
        return fail_with_reason(out_reason, given.family == 4
                                                ? "expected after the /: a number from 0 to 32"
                                                : "expected after the /: a number from 0 to 128");
    network.base = given;
    network.bits = (uint8_t)bits;
    ration_address_mask(&network.base, bits);
    bool has_host_bits = !equal_bytes(&network.base, &given);
    if (is_all_of_nat64(&network))
        return fail_with_reason(out_reason,
                                "64:ff9b::/96 is all of IPv4, since an address in it counts as its "
                                "IPv4 address: write the IPv4 network");
    convert_network_to_v4(&network);
    if (has_host_bits)
        return fail_host_bits(&network, out_reason);
    *out_network = network;
    return true;
}

bool ration_address_network_contains(const struct ration_network *network,
                                     const struct ration_address *address)
{
    struct ration_address masked = *address;
    if (network->base.family != address->family)
        return false;
    ration_address_mask(&masked, network->bits);
    return equal_bytes(&masked, &network->base);
}

size_t ration_address_network_print(const struct ration_network *network,
                                    char buffer[RATION_NETWORK_TEXT_SIZE])
{
    size_t size = ration_address_print(&network->base, buffer);
    buffer[size++] = '/';
    char *end = print_number(network->bits, buffer + size);
    *end = '\0';
    return (size_t)(end - buffer);
}
