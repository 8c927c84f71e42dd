/*
 * Rows for the client's address: the headers, the peer, and the resulting client. Proxies in 10.0.0.0/8 and fd00::/8 are
 * trusted. Each value is placed right before an inaccessible page.
 */
#include "codec/http/forwarded.h"

#include <string.h>

#include "support/guard.h"
#include "support/unit.h"

#define COUNT_OF(array) (sizeof(array) / sizeof((array)[0]))
#define LINES_MAX       3

#define FOR  RATION_FORWARDED_FOR
#define RFC  RATION_FORWARDED_RFC
#define REAL RATION_FORWARDED_REAL

static struct ration_network proxies[2];

static const char *const names[] = {"none", "x-forwarded-for", "forwarded", "x-real-ip"};

static void check(enum ration_forwarded_header header, bool is_one_hop, const char *peer_text,
                  const char *const lines[LINES_MAX], const char *expected)
{
    struct ration_forwarded_trust trust = {.header = header,
                                           .proxies = proxies,
                                           .proxy_count = COUNT_OF(proxies),
                                           .is_one_hop = is_one_hop};
    struct ration_http_header headers[2 * LINES_MAX + 1];
    size_t count = 0;
    struct ration_address peer, client;
    char text[RATION_ADDRESS_TEXT_SIZE];
    assert_true(ration_address_parse(peer_text, strlen(peer_text), &peer));
    for (size_t i = 0; i < LINES_MAX && lines[i]; i++) {
        size_t size = strlen(lines[i]);
        const char *value = i == 0 ? memcpy(guard - size, lines[i], size) : lines[i];
        headers[count++] =
            (struct ration_http_header){{names[header], strlen(names[header])}, {value, size}};
        headers[count++] =
            (struct ration_http_header){RATION_KEY("x-forwarded-fo"), RATION_KEY("7.7.7.7")};
    }
    client = ration_forwarded_client(&trust, &peer, headers, count);
    ration_address_print(&client, text);
    if (strcmp(text, expected) != 0)
        fail_msg("%s: %s from %s: %s, not %s", names[header], lines[0], peer_text, text, expected);
}

struct row {
    enum ration_forwarded_header header;
    const char *peer;
    const char *line;
    const char *expected;
};

static void check_rows(const struct row *rows, size_t count, bool is_one_hop)
{
    for (size_t i = 0; i < count; i++)
        check(rows[i].header, is_one_hop, rows[i].peer,
              (const char *const[LINES_MAX]){rows[i].line}, rows[i].expected);
}

static void lists_of_addresses(void **state)
{
    (void)state;
    static const struct row rows[] = {
        {FOR, "10.0.0.1", "1.2.3.4", "1.2.3.4"},
        {FOR, "10.0.0.1", "6.6.6.6, 1.2.3.4, 10.1.1.1", "1.2.3.4"},
        {FOR, "10.0.0.1", "10.2.2.2, 10.1.1.1", "10.2.2.2"},
        {FOR, "10.0.0.1", "garbage, 10.1.1.1", "10.1.1.1"},
        {FOR, "10.0.0.1", "[2001:db8::1]:443, 10.1.1.1", "2001:db8::1"},
        {FOR, "10.0.0.1", "1.2.3.4:5678", "1.2.3.4"},
        {FOR, "10.0.0.1", "2001:db8::1", "2001:db8::1"},
        {FOR, "10.0.0.1", "::ffff:1.2.3.4", "1.2.3.4"},
        {FOR, "10.0.0.1", "1.2.3.4,10.1.1.1", "1.2.3.4"},
        {FOR, "10.0.0.1", "1.2.3.4\t,  10.1.1.1 ", "1.2.3.4"},
        {FOR, "10.0.0.1", ",1.2.3.4, ,10.1.1.1,", "1.2.3.4"},
        {FOR, "10.0.0.1", "", "10.0.0.1"},
        {FOR, "10.0.0.1", ",", "10.0.0.1"},
        {FOR, "10.0.0.1", "garbage", "10.0.0.1"},
        {FOR, "10.0.0.1", "1.2.3.4 5.6.7.8", "10.0.0.1"},
        {FOR, "10.0.0.1", "1.2.3.4, 010.1.1.1", "10.0.0.1"},
        {FOR, "10.0.0.1", "unknown, 10.1.1.1", "10.1.1.1"},
        {FOR, "fd00::1", "1.2.3.4, fd00::2", "1.2.3.4"},
        /* An untrusted peer is the client. */
        {FOR, "9.9.9.9", "1.2.3.4", "9.9.9.9"},
        {FOR, "9.9.9.9", "1.2.3.4, 10.1.1.1", "9.9.9.9"},
    };
    check_rows(rows, COUNT_OF(rows), false);
}

static void one_hop(void **state)
{
    (void)state;
    static const struct row rows[] = {
        {FOR, "10.0.0.1", "1.2.3.4", "1.2.3.4"},
        {FOR, "10.0.0.1", "6.6.6.6, 1.2.3.4, 10.1.1.1", "10.1.1.1"},
        {FOR, "10.0.0.1", "10.2.2.2, 10.1.1.1", "10.1.1.1"},
        {FOR, "10.0.0.1", "garbage, 10.1.1.1", "10.1.1.1"},
        {FOR, "10.0.0.1", "[2001:db8::1]:443, 10.1.1.1", "10.1.1.1"},
        {FOR, "10.0.0.1", "1.2.3.4:5678", "1.2.3.4"},
        {FOR, "9.9.9.9", "1.2.3.4", "9.9.9.9"},
    };
    check_rows(rows, COUNT_OF(rows), true);
}

static void forwarded_elements(void **state)
{
    (void)state;
    static const struct row rows[] = {
        {RFC, "10.0.0.1", "for=1.2.3.4", "1.2.3.4"},
        {RFC, "10.0.0.1", "For=\"1.2.3.4\"", "1.2.3.4"},
        {RFC, "10.0.0.1", "for=\"[2001:db8::1]:4711\";proto=https;by=203.0.113.43, for=10.0.0.1",
         "2001:db8::1"},
        {RFC, "10.0.0.1", "for=6.6.6.6, for=1.2.3.4, for=10.1.1.1", "1.2.3.4"},
        {RFC, "10.0.0.1", "proto=http;for=1.2.3.4;host=h , by=x; for=10.1.1.1", "1.2.3.4"},
        {RFC, "10.0.0.1", "for=1.2.3.4:80", "1.2.3.4"},
        {RFC, "10.0.0.1", "for=[2001:db8::1]", "2001:db8::1"},
        {RFC, "10.0.0.1", "for=\"1.2.3.4:_x\"", "1.2.3.4"},
        {RFC, "10.0.0.1", "for=\"1\\.2.3.4\"", "1.2.3.4"},
        {RFC, "10.0.0.1", "for=1.2.3.4,,for=10.1.1.1,", "1.2.3.4"},
        /* The search ends at an element that is not an address. */
        {RFC, "10.0.0.1", "for=1.2.3.4, for=unknown, for=10.1.1.1", "10.1.1.1"},
        {RFC, "10.0.0.1", "for=1.2.3.4, for=_hidden, for=10.1.1.1", "10.1.1.1"},
        {RFC, "10.0.0.1", "for=1.2.3.4, proto=http", "10.0.0.1"},
        {RFC, "10.0.0.1", "for=1.2.3.4, for=10.1.1.1;for=10.1.1.2", "10.0.0.1"},
        {RFC, "10.0.0.1", "for=\"\";for=1.2.3.4", "10.0.0.1"},
        {RFC, "10.0.0.1", "for=1.2.3.4, nonsense", "10.0.0.1"},
        {RFC, "10.0.0.1", "for=1.2.3.4, for=", "10.0.0.1"},
        {RFC, "10.0.0.1", "for=1.2.3.4, for=10.1.1.1 x", "10.0.0.1"},
        {RFC, "10.0.0.1", "for=1.2.3.4, =10.1.1.1", "10.0.0.1"},
        /* A comma, or a whole element, that a client has quoted. */
        {RFC, "10.0.0.1", "for=1.2.3.4;host=\"x, for=6.6.6.6\"", "1.2.3.4"},
        {RFC, "10.0.0.1", "for=1.2.3.4;host=\"x\\\", for=6.6.6.6\"", "1.2.3.4"},
        {RFC, "10.0.0.1", "x \"a, for=6.6.6.6\", for=10.1.1.1", "10.1.1.1"},
        /* Unterminated quotes: a client uses them to hide what the proxy appends. */
        {RFC, "10.0.0.1", "for=6.6.6.6;host=\", for=1.2.3.4", "1.2.3.4"},
        {RFC, "10.0.0.1", "for=\", for=1.2.3.4", "1.2.3.4"},
        {RFC, "10.0.0.1", "for=\"\\, for=1.2.3.4;host=\"h\"", "1.2.3.4"},
        {RFC, "10.0.0.1", "for=\"x, for=\"[2001:db8::1]:80\";by=\"a,b\"", "2001:db8::1"},
        {RFC, "10.0.0.1", "\", for=6.6.6.6\", for=1.2.3.4, for=\"10.1.1.1\"", "1.2.3.4"},
        {RFC, "10.0.0.1", "for=\", for=1.2.3.4, for=10.1.1.1;by=\"\\\\\"", "1.2.3.4"},
        {RFC, "10.0.0.1", "for=6.6.6.6, for=1.2.3.4\"", "10.0.0.1"},
        {RFC, "10.0.0.1", "for=6.6.6.6;host=\"\\", "10.0.0.1"},
        {RFC, "10.0.0.1",
         "for=\"1.2.3."
         "4aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa\"",
         "10.0.0.1"},
        {RFC, "9.9.9.9", "for=1.2.3.4", "9.9.9.9"},
    };
    check_rows(rows, COUNT_OF(rows), false);
}

static void one_real_address(void **state)
{
    (void)state;
    static const struct row rows[] = {
        {REAL, "10.0.0.1", "1.2.3.4", "1.2.3.4"},
        {REAL, "10.0.0.1", "10.1.1.1", "10.1.1.1"},
        {REAL, "10.0.0.1", "1.2.3.4, 5.6.7.8", "10.0.0.1"},
        {REAL, "10.0.0.1", "", "10.0.0.1"},
        {REAL, "9.9.9.9", "1.2.3.4", "9.9.9.9"},
        {RATION_FORWARDED_NONE, "10.0.0.1", "1.2.3.4", "10.0.0.1"},
    };
    check_rows(rows, COUNT_OF(rows), false);
    check(REAL, false, "10.0.0.1", (const char *const[LINES_MAX]){"1.2.3.4", "1.2.3.4"},
          "10.0.0.1");
}

static void lines_are_one_list(void **state)
{
    (void)state;
    static const struct {
        enum ration_forwarded_header header;
        const char *lines[LINES_MAX];
        const char *expected;
    } rows[] = {
        {FOR, {"6.6.6.6", "1.2.3.4, 10.2.2.2", "10.1.1.1"}, "1.2.3.4"},
        {FOR, {"1.2.3.4", "garbage", "10.1.1.1"}, "10.1.1.1"},
        {FOR, {"1.2.3.4", "", "10.1.1.1"}, "1.2.3.4"},
        {RFC, {"for=6.6.6.6", "for=1.2.3.4", "for=10.1.1.1"}, "1.2.3.4"},
        {RFC, {"for=6.6.6.6", "for=\"1.2.3.4", "for=10.1.1.1"}, "10.1.1.1"},
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++)
        check(rows[i].header, false, "10.0.0.1", rows[i].lines, rows[i].expected);
}

/* A header that is not configured may be set by the client. */
static void only_the_configured_header_counts(void **state)
{
    (void)state;
    const struct ration_http_header headers[] = {
        {RATION_KEY("forwarded"), RATION_KEY("for=6.6.6.6")},
        {RATION_KEY("x-real-ip"), RATION_KEY("6.6.6.6")},
    };
    struct ration_forwarded_trust trust = {
        .header = FOR, .proxies = proxies, .proxy_count = COUNT_OF(proxies)};
    struct ration_address peer = proxies[0].base;
    struct ration_address client = ration_forwarded_client(&trust, &peer, headers, 2);
    assert_memory_equal(&client, &peer, sizeof(peer));
}

static void peers_on_unix_sockets(void **state)
{
    (void)state;
    const struct ration_http_header header = {RATION_KEY("x-forwarded-for"), RATION_KEY("1.2.3.4")};
    struct ration_forwarded_trust trust = {.header = FOR};
    const struct ration_address peer = {.family = 0};
    assert_int_equal(ration_forwarded_client(&trust, &peer, &header, 1).family, 0);
    trust.trusts_unix = true;
    assert_int_equal(ration_forwarded_client(&trust, &peer, &header, 1).family, 4);
}

static void hops_are_bounded(void **state)
{
    (void)state;
    char list[4096] = "1.2.3.4", elements[4096] = "for=1.2.3.4";
    for (int i = 1; i < RATION_FORWARDED_HOPS_MAX; i++) {
        strcat(list, ",10.1.1.1");
        strcat(elements, ",for=10.1.1.1");
    }
    check(FOR, false, "10.0.0.1", (const char *const[LINES_MAX]){list}, "1.2.3.4");
    check(RFC, false, "10.0.0.1", (const char *const[LINES_MAX]){elements}, "1.2.3.4");
    strcat(list, ",10.1.1.1");
    strcat(elements, ",for=10.1.1.1");
    check(FOR, false, "10.0.0.1", (const char *const[LINES_MAX]){list}, "10.1.1.1");
    check(RFC, false, "10.0.0.1", (const char *const[LINES_MAX]){elements}, "10.1.1.1");
}

static int setup(void **state)
{
    return !ration_address_network_parse("10.0.0.0/8", 10, &proxies[0], NULL) ||
           !ration_address_network_parse("fd00::/8", 8, &proxies[1], NULL) || guard_map(state);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lists_of_addresses),
        cmocka_unit_test(one_hop),
        cmocka_unit_test(forwarded_elements),
        cmocka_unit_test(one_real_address),
        cmocka_unit_test(lines_are_one_list),
        cmocka_unit_test(only_the_configured_header_counts),
        cmocka_unit_test(peers_on_unix_sockets),
        cmocka_unit_test(hops_are_bounded),
    };
    return cmocka_run_group_tests_name("forwarded", tests, setup, guard_unmap);
}
