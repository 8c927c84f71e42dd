/* Addresses to listen on: correct text, and the errors for wrong text. */
#include "server/net/endpoint.h"

#include <string.h>

#include "support/unit.h"

static void endpoints_are_printed_as_they_were_parsed(void **unused)
{
    static const struct {
        const char *text;
        const char *printed;
    } rows[] = {
        {"127.0.0.1:8429", "127.0.0.1:8429"},
        {"8429", "127.0.0.1:8429"},
        {"localhost:80", "127.0.0.1:80"},
        {"0.0.0.0:0", "0.0.0.0:0"},
        {"[::1]:65535", "[::1]:65535"},
        {"[2001:DB8::0:1]:1", "[2001:db8::1]:1"},
        {"*:8429", "[::]:8429"},
        {":8429", "[::]:8429"},
        {"[::ffff:1.2.3.4]:5", "1.2.3.4:5"},
        {"unix:/run/x.sock", "unix:/run/x.sock"},
        {"/run/x.sock", "unix:/run/x.sock"},
        {"@name", "unix:@name"},
        {"unix:@name", "unix:@name"},
        {"unix:relative", "unix:relative"},
    };

    (void)unused;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct ration_endpoint endpoint;
        char printed[RATION_ENDPOINT_TEXT_SIZE];

        assert_int_equal(ration_endpoint_parse(rows[i].text, &endpoint, NULL), RATION_OK);
        ration_endpoint_print(&endpoint, printed);
        assert_string_equal(printed, rows[i].printed);
        assert_int_equal(endpoint.every, rows[i].text[0] == '*' || rows[i].text[0] == ':');
    }
}

static void an_error_says_how_to_fix_the_text(void **unused)
{
    static const struct {
        const char *text;
        const char *reason;
    } rows[] = {
        {"", "has no port"},
        {"127.0.0.1", "has no port"},
        {"127.0.0.1:", "has no port"},
        {"127.0.0.1:65536", "has no port from 0 to 65535"},
        {"127.0.0.1:-1", "has no port"},
        {"127.0.0.1:0x10", "has no port"},
        {"127.0.0.1:999999999999", "has no port"},
        {"example.com:80", "names are not resolved): write 127.0.0.1:80, [::1]:80 or *:80"},
        {"127.1:80", "not an IP address"},
        {"::1:80", "not an IP address"},
        {"[::1:80", "not an IP address"},
        {"[127.0.0.1:80", "not an IP address"},
        {"[]:80", "not an IP address"},
        {"unix:", "needs a path"},
        {"/", "needs a path"},
        {"@", "needs a path"},
    };

    (void)unused;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct ration_endpoint endpoint = {.address_size = 77};
        struct ration_error error = {.message = ""};

        assert_int_equal(ration_endpoint_parse(rows[i].text, &endpoint, &error), RATION_EINVAL);
        assert_int_equal(endpoint.address_size, 77);
        if (strstr(error.message, rows[i].reason) == NULL)
            fail_msg("'%s': '%s' does not say '%s'", rows[i].text, error.message, rows[i].reason);
    }
}

static void the_length_of_a_path_is_bounded(void **unused)
{
    char text[200] = "/";
    struct ration_endpoint endpoint;
    char printed[RATION_ENDPOINT_TEXT_SIZE];

    (void)unused;
    memset(text + 1, 'x', 106);
    assert_int_equal(ration_endpoint_parse(text, &endpoint, NULL), RATION_OK);
    ration_endpoint_print(&endpoint, printed);
    assert_string_equal(printed + strlen("unix:"), text);
    text[107] = 'x';
    assert_int_equal(ration_endpoint_parse(text, &endpoint, NULL), RATION_EINVAL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(endpoints_are_printed_as_they_were_parsed),
        cmocka_unit_test(an_error_says_how_to_fix_the_text),
        cmocka_unit_test(the_length_of_a_path_is_bounded),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
