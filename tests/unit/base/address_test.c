#include "support/unit.h"

#include <arpa/inet.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "base/address.h"
#include "support/guard.h"

#define COUNT_OF(array) (sizeof(array) / sizeof((array)[0]))

/* Places text before the guard page, so that a read beyond it crashes. */
static const char *lay(const char *text, size_t size)
{
    return memcpy(guard - size, text, size);
}

typedef bool parse_address(const char *text, size_t size, struct ration_address *out_address);

/* The printed form of parsed text; NULL for text that is refused, which leaves the output unchanged. */
static void check_reads(parse_address *parse, const char *text, size_t size, const char *printed)
{
    struct ration_address address, untouched;
    char buffer[RATION_ADDRESS_TEXT_SIZE];
    memset(&address, 0xa5, sizeof(address));
    memset(&untouched, 0xa5, sizeof(untouched));
    bool is_read = parse(lay(text, size), size, &address);
    if (is_read != (printed != NULL))
        fail_msg("'%.*s' was %s", (int)size, text, is_read ? "read" : "refused");
    if (!printed) {
        assert_memory_equal(&address, &untouched, sizeof(address));
        return;
    }
    assert_int_equal(ration_address_print(&address, buffer), strlen(printed));
    assert_string_equal(buffer, printed);
}

struct row {
    const char *text;
    const char *printed;
};

static const struct row bare_rows[] = {
    {"0.0.0.0", "0.0.0.0"},
    {"192.0.2.1", "192.0.2.1"},
    {"255.255.255.255", "255.255.255.255"},
    {"10.20.30.99", "10.20.30.99"},
    {"::", "::"},
    {"::1", "::1"},
    {"1::", "1::"},
    {"2001:DB8:0:0:1:0:0:1", "2001:db8::1:0:0:1"},
    {"2001:db8:0:0:0:1:0:0", "2001:db8::1:0:0"},
    {"2001:db8:0:1:1:1:1:1", "2001:db8:0:1:1:1:1:1"},
    {"2001:db8::1:1:1:1:1", "2001:db8:0:1:1:1:1:1"},
    {"1:2:3:4:5:6:7::", "1:2:3:4:5:6:7:0"},
    {"::2:3:4:5:6:7:8", "0:2:3:4:5:6:7:8"},
    {"0001:0020:0300:4000::", "1:20:300:4000::"},
    {"ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff", "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff"},
    {"0:0:0:0:0:0:0:0", "::"},
    {"0:0:0:1:0:0:0:0", "0:0:0:1::"},
    {"::1:2", "::1:2"},
    {"::ff:ffff", "::ff:ffff"},
    {"::100:0", "1.0.0.0"},
    {"64:ff9b::192.0.2.1", "192.0.2.1"},
    {"64:ff9b::127.0.0.1", "64:ff9b::7f00:1"}, /* not this host, which is trusted */
    {"::127.0.0.1", "::7f00:1"},
    {"::ffff:127.0.0.1", "127.0.0.1"},
    {"1:2:3:4:5:6:1.2.3.4", "1:2:3:4:5:6:102:304"},
    {"::1.2.3.4", "1.2.3.4"},
    {"::ffff:192.0.2.1", "192.0.2.1"},
    {"::FFFF:c000:201", "192.0.2.1"},
    {"0:0:0:0:0:ffff:192.0.2.1", "192.0.2.1"},
    {"::fffe:192.0.2.1", "::fffe:c000:201"},
    {"::ffff:0:192.0.2.1", "::ffff:0:c000:201"},
    {"1::ffff:192.0.2.1", "1::ffff:c000:201"},
    {"fe80::1%eth0", "fe80::1"},
    {"fe80::1%a-b_c.1~", "fe80::1"},
    {"", NULL},
    {" ", NULL},
    {".", NULL},
    {":", NULL},
    {":::", NULL},
    {"::1:", NULL},
    {":1::", NULL},
    {"1:", NULL},
    {"1", NULL},
    {"10.1", NULL},
    {"10.0.1", NULL},
    {"10.0.0.1.", NULL},
    {".10.0.0.1", NULL},
    {"10..0.1", NULL},
    {"10.0.0.1.1", NULL},
    {"10.0.0.256", NULL},
    {"10.0.0.999999999999999999999", NULL},
    {"010.0.0.1", NULL},
    {"10.0.0.00", NULL},
    {"0x7f.0.0.1", NULL},
    {"0x7f000001", NULL},
    {"2130706433", NULL},
    {"+1.2.3.4", NULL},
    {"1.2.3.-4", NULL},
    {" 1.2.3.4", NULL},
    {"1.2.3.4 ", NULL},
    {"1.2.3.4:80", NULL},
    {"1.2.3.4%eth0", NULL},
    {"1.2.3.a", NULL},
    {"a.b.c.d", NULL},
    {"[::1]", NULL},
    {"::1/128", NULL},
    {"1::2::3", NULL},
    {"::1::", NULL},
    {"1:2:3:4:5:6:7", NULL},
    {"1:2:3:4:5:6:7:8:9", NULL},
    {"1:2:3:4:5:6:7:8::", NULL},
    {"::1:2:3:4:5:6:7:8", NULL},
    {"1:2:3:4::5:6:7:8", NULL},
    {"00001::", NULL},
    {"12345::", NULL},
    {"g::", NULL},
    {"::1.2.3", NULL},
    {"::1.2.3.4.5", NULL},
    {"::01.2.3.4", NULL},
    {"::a.2.3.4", NULL},
    {"::1.2.3.4:5", NULL},
    {"1:2:3:4:5:6:7:1.2.3.4", NULL},
    {"1.2.3.4::", NULL},
    {"fe80::1%", NULL},
    {"fe80::1%eth 0", NULL},
    {"fe80::1%eth%0", NULL},
    {"%eth0", NULL},
};

static void bare_addresses(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT_OF(bare_rows); i++)
        check_reads(ration_address_parse, bare_rows[i].text, strlen(bare_rows[i].text),
                    bare_rows[i].printed);
    check_reads(ration_address_parse, "1.2.3.4\0", 8, NULL);
    check_reads(ration_address_parse, "1.2\0.3.4", 8, NULL);
    check_reads(ration_address_parse, "::\0001", 4, NULL);
    check_reads(ration_address_parse, "::1%\0", 5, NULL);
}

static void zones_are_bounded(void **state)
{
    (void)state;
    char text[128] = "fe80::1%";
    size_t begin = strlen(text);
    memset(text + begin, 'x', 65);
    check_reads(ration_address_parse, text, begin + 64, "fe80::1");
    check_reads(ration_address_parse, text, begin + 65, NULL);
}

/* inet_pton() is as strict, if given no zone and no zero byte. */
static void reads_what_the_c_library_reads(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT_OF(bare_rows); i++) {
        uint8_t bytes[16];
        const char *text = bare_rows[i].text;
        if (strchr(text, '%'))
            continue;
        bool is_read =
            inet_pton(AF_INET, text, bytes) == 1 || inet_pton(AF_INET6, text, bytes) == 1;
        if (is_read != (bare_rows[i].printed != NULL))
            fail_msg("'%s': the C library says %d", text, is_read);
    }
}

static void forwarded_nodes(void **state)
{
    (void)state;
    static const struct row rows[] = {
        {"192.0.2.1", "192.0.2.1"},
        {"192.0.2.1:0", "192.0.2.1"},
        {"192.0.2.1:65535", "192.0.2.1"},
        {"192.0.2.1:_hidden", "192.0.2.1"},
        {"2001:db8::1", "2001:db8::1"},
        {"[2001:db8::1]", "2001:db8::1"},
        {"[2001:db8::1]:443", "2001:db8::1"},
        {"[2001:db8::1]:_a.b-c", "2001:db8::1"},
        {"[fe80::1%eth0]:443", "fe80::1"},
        {"[::ffff:192.0.2.1]:443", "192.0.2.1"},
        {"::ffff:192.0.2.1", "192.0.2.1"},
        {"", NULL},
        {"[", NULL},
        {"]", NULL},
        {"[]", NULL},
        {"[]:80", NULL},
        {"[:]", NULL},
        {"[::1", NULL},
        {"::1]", NULL},
        {"[::1]]", NULL},
        {"[::1]80", NULL},
        {"[::1]:", NULL},
        {"[::1]:65536", NULL},
        {"[::1]:080", NULL},
        {"[::1]: 80", NULL},
        {"[::1]:80 ", NULL},
        {"[::1]:_", NULL},
        {"[::1]:http", NULL},
        {"[192.0.2.1]", NULL},
        {"[192.0.2.1]:80", NULL},
        {"[192.0.2.1:80]", NULL},
        {"192.0.2.1:", NULL},
        {"192.0.2.1:65536", NULL},
        {"192.0.2.1:80:80", NULL},
        {"192.0.2:80", NULL},
        {"unknown", NULL},
        {"_hidden", NULL},
        {"localhost:80", NULL},
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++)
        check_reads(ration_address_parse_node, rows[i].text, strlen(rows[i].text), rows[i].printed);
    check_reads(ration_address_parse_node, "192.0.2.1:8\0", 12, NULL);
}

static void networks(void **state)
{
    (void)state;
    static const struct network_row {
        const char *text;
        const char *printed; /* NULL: refused, for the reason below */
        const char *reason;
    } rows[] = {
        {"10.0.0.0/8", "10.0.0.0/8", NULL},
        {"0.0.0.0/0", "0.0.0.0/0", NULL},
        {"192.0.2.1", "192.0.2.1/32", NULL},
        {"192.0.2.1/32", "192.0.2.1/32", NULL},
        {"192.0.2.128/25", "192.0.2.128/25", NULL},
        {"::/0", "::/0", NULL},
        {"::1", "::1/128", NULL},
        {"2001:db8::/32", "2001:db8::/32", NULL},
        {"2001:db8:8000::/33", "2001:db8:8000::/33", NULL},
        {"::ffff:10.0.0.0/104", "10.0.0.0/8", NULL},
        {"::ffff:0:0/96", "0.0.0.0/0", NULL},
        {"::ffff:10.0.0.1", "10.0.0.1/32", NULL},
        {"10.0.0.1/8", NULL, "the address has bits beyond the first 8: write 10.0.0.0/8"},
        {"10.0.0.1/0", NULL, "the address has bits beyond the first 0: write 0.0.0.0/0"},
        {"2001:db8::1/64", NULL, "the address has bits beyond the first 64: write 2001:db8::/64"},
        {"::ffff:10.0.0.1/104", NULL, "the address has bits beyond the first 8: write 10.0.0.0/8"},
        {"::ffff:0:0/95", NULL, "the address has bits beyond the first 95: write ::fffe:0:0/95"},
        {"10.0.0.0/33", NULL, "expected after the /: a number from 0 to 32"},
        {"10.0.0.0/", NULL, "expected after the /: a number from 0 to 32"},
        {"10.0.0.0/08", NULL, "expected after the /: a number from 0 to 32"},
        {"10.0.0.0/-1", NULL, "expected after the /: a number from 0 to 32"},
        {"10.0.0.0/8/8", NULL, "expected after the /: a number from 0 to 32"},
        {"10.0.0.0/255.0.0.0", NULL, "expected after the /: a number from 0 to 32"},
        {"64:ff9b::/96", NULL,
         "64:ff9b::/96 is all of IPv4, since an address in it counts as its IPv4 address: write "
         "the "
         "IPv4 network"},
        {"64:ff9b::/95", "64:ff9b::/95", NULL},
        {"::/96", "::/96", NULL},
        {"::/129", NULL, "expected after the /: a number from 0 to 128"},
        {"10/8", NULL, "not an address"},
        {"/8", NULL, "not an address"},
        {"", NULL, "not an address"},
        {"fe80::1%eth0", NULL, "not an address"},
        {"[::]/0", NULL, "not an address"},
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct ration_network network, untouched;
        char buffer[RATION_NETWORK_TEXT_SIZE];
        const char *reason = NULL;
        size_t size = strlen(rows[i].text);
        memset(&network, 0xa5, sizeof(network));
        memset(&untouched, 0xa5, sizeof(untouched));
        bool is_read =
            ration_address_network_parse(lay(rows[i].text, size), size, &network, &reason);
        if (is_read != (rows[i].printed != NULL))
            fail_msg("'%s': %s", rows[i].text, is_read ? "read" : reason);
        assert_int_equal(ration_address_network_parse(rows[i].text, size, &untouched, NULL),
                         is_read);
        if (is_read) {
            assert_null(reason);
            assert_int_equal(ration_address_network_print(&network, buffer),
                             strlen(rows[i].printed));
            assert_string_equal(buffer, rows[i].printed);
        } else {
            assert_memory_equal(&network, &untouched, sizeof(network));
            assert_memory_equal(reason, rows[i].reason, strlen(rows[i].reason));
        }
    }
}

static struct ration_address address_of(const char *text)
{
    struct ration_address address;
    assert_true(ration_address_parse(text, strlen(text), &address));
    return address;
}

static void what_networks_contain(void **state)
{
    (void)state;
    static const struct {
        const char *network, *address;
        bool contains;
    } rows[] = {
        {"10.0.0.0/8", "10.255.255.255", true},
        {"10.0.0.0/8", "11.0.0.0", false},
        {"10.0.0.0/8", "9.255.255.255", false},
        {"10.0.0.0/8", "::ffff:10.1.2.3", true},
        {"10.0.0.0/8", "::a00:0", true},
        {"10.0.0.0/8", "64:ff9b::a00:1", true},
        {"10.0.0.0/8", "64:ff9b:1::a00:1", false},
        {"::a00:0/104", "10.1.2.3", true},
        {"64:ff9b::a00:0/104", "10.1.2.3", true},
        {"10.0.0.0/8", "a00::", false},
        {"192.0.2.128/25", "192.0.2.128", true},
        {"192.0.2.128/25", "192.0.2.127", false},
        {"192.0.2.1", "192.0.2.1", true},
        {"192.0.2.1", "192.0.2.0", false},
        {"0.0.0.0/0", "255.1.2.3", true},
        {"0.0.0.0/0", "::1", false},
        {"::/0", "ffff::", true},
        {"::/0", "10.0.0.1", false},
        {"::ffff:0:0/96", "10.0.0.1", true},
        {"2001:db8::/33", "2001:db8:7fff:ffff::", true},
        {"2001:db8::/33", "2001:db8:8000::", false},
        {"::1", "::1", true},
        {"::1", "::", false},
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct ration_network network;
        struct ration_address address = address_of(rows[i].address);
        assert_true(
            ration_address_network_parse(rows[i].network, strlen(rows[i].network), &network, NULL));
        if (ration_address_network_contains(&network, &address) != rows[i].contains)
            fail_msg("%s in %s", rows[i].address, rows[i].network);
    }
}

/* Bit by bit, as a mask is defined. */
static void masks(void **state)
{
    (void)state;
    static const char *const texts[] = {"255.255.255.255",
                                        "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff"};
    for (size_t i = 0; i < COUNT_OF(texts); i++) {
        for (unsigned bits = 0; bits <= 130; bits++) {
            struct ration_address whole = address_of(texts[i]), masked = whole;
            ration_address_mask(&masked, bits);
            assert_int_equal(masked.family, whole.family);
            for (unsigned bit = 0; bit < 128; bit++) {
                unsigned had = whole.bytes[bit / 8] >> (7 - bit % 8) & 1;
                unsigned has = masked.bytes[bit / 8] >> (7 - bit % 8) & 1;
                assert_int_equal(has, bit < bits ? had : 0);
            }
        }
    }
}

/* The peer of a connection is the same host as the text of its address in a header. */
static void peers_are_read_as_text_is(void **state)
{
    struct sockaddr_storage peer;
    char text[INET6_ADDRSTRLEN];
    (void)state;

    for (size_t i = 0; i < COUNT_OF(bare_rows); i++) {
        struct sockaddr_in *in = (struct sockaddr_in *)&peer;
        struct sockaddr_in6 *in6 = (struct sockaddr_in6 *)&peer;
        struct ration_address from_text, from_socket;

        memset(&peer, 0xa5, sizeof(peer));
        if (bare_rows[i].printed == NULL || strchr(bare_rows[i].text, '%') != NULL)
            continue; /* a zone is no part of the address in a socket's */
        snprintf(text, sizeof(text), "%s", bare_rows[i].text);
        peer.ss_family = strchr(text, ':') != NULL ? AF_INET6 : AF_INET;
        assert_int_equal(
            inet_pton(peer.ss_family, text,
                      peer.ss_family == AF_INET6 ? (void *)&in6->sin6_addr : (void *)&in->sin_addr),
            1);
        from_text = address_of(text);
        from_socket = ration_address_of_socket(&peer);
        if (memcmp(&from_text, &from_socket, sizeof(from_text)) != 0)
            fail_msg("%s is another host as a peer", text);
    }
    peer.ss_family = AF_UNIX;
    assert_int_equal(ration_address_of_socket(&peer).family, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bare_addresses),
        cmocka_unit_test(zones_are_bounded),
        cmocka_unit_test(reads_what_the_c_library_reads),
        cmocka_unit_test(forwarded_nodes),
        cmocka_unit_test(networks),
        cmocka_unit_test(what_networks_contain),
        cmocka_unit_test(masks),
        cmocka_unit_test(peers_are_read_as_text_is),
    };
    return cmocka_run_group_tests_name("address", tests, guard_map, guard_unmap);
}
