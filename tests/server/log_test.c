/* Log lines: one per call, bounded, and text from outside cannot look like the server's own. */
#include "support/unit.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "server/ops/log.h"

#define WALL_NS 1794837421123999999ull /* 2026-11-16T13:57:01.123Z */
#define TIME    "2026-11-16T13:57:01.123Z"

static const char *compose(bool is_json, const char *message, const struct ration_log_field *fields,
                           size_t field_count)
{
    static char buffer[RATION_LOG_LINE_MAX + 1];
    size_t size = ration_log_compose(is_json, WALL_NS, RATION_LOG_WARNING, message, fields,
                                     field_count, buffer);

    assert_in_range(size, 1, RATION_LOG_LINE_MAX);
    buffer[size] = '\0';
    assert_int_equal(strlen(buffer), size);
    assert_ptr_equal(strchr(buffer, '\n'), buffer + size - 1); /* one line */
    return buffer;
}

static void lines_have_time_level_and_message(void **state)
{
    (void)state;
    assert_string_equal(compose(false, "it's \"here\"", NULL, 0), TIME " warning it's \"here\"\n");
    assert_string_equal(compose(true, "it's \"here\"", NULL, 0),
                        "{\"time\":\"" TIME
                        "\",\"level\":\"warning\",\"message\":\"it's \\\"here\\\"\"}\n");
}

static void bytes_from_outside_are_escaped(void **state)
{
    static const char key[] = "a\"b\\c\n\x1b[2J\0\xff";
    const struct ration_log_field field = {"key", key, sizeof(key) - 1};

    (void)state;
    assert_string_equal(compose(false, "denied", &field, 1),
                        TIME " warning denied key=\"a\\\"b\\\\c\\x0a\\x1b[2J\\x00\\xff\"\n");
    assert_string_equal(compose(true, "denied", &field, 1),
                        "{\"time\":\"" TIME "\",\"level\":\"warning\",\"message\":\"denied\","
                        "\"key\":\"a\\\"b\\\\c\\u000a\\u001b[2J\\u0000\\u00ff\"}\n");
    assert_string_equal(compose(false, "two\nlines", NULL, 0), TIME " warning two\\x0alines\n");
}

static void values_are_truncated(void **state)
{
    char key[RATION_LOG_VALUE_MAX + 1], wanted[256];
    struct ration_log_field field = {"key", key, RATION_LOG_VALUE_MAX};

    (void)state;
    memset(key, 'k', sizeof(key));
    snprintf(wanted, sizeof(wanted), TIME " warning m key=\"%.*s\"\n", RATION_LOG_VALUE_MAX, key);
    assert_string_equal(compose(false, "m", &field, 1), wanted);
    field.size++;
    snprintf(wanted, sizeof(wanted), TIME " warning m key=\"%.*s...\"\n", RATION_LOG_VALUE_MAX,
             key);
    assert_string_equal(compose(false, "m", &field, 1), wanted);
}

/* If text does not fit, JSON stays valid and a line stays one line. */
static void long_lines_stay_valid(void **state)
{
    static char message[2 * RATION_LOG_LINE_MAX];
    char key[RATION_LOG_VALUE_MAX];
    struct ration_log_field fields[RATION_LOG_FIELDS_MAX + 1];

    (void)state;
    memset(key, '\n', sizeof(key));
    for (size_t i = 0; i < sizeof(fields) / sizeof(fields[0]); i++)
        fields[i] = (struct ration_log_field){"key", key, sizeof(key)};
    for (size_t size = 0; size < sizeof(message); size += 7) {
        const char *line;

        memset(message, size % 2 ? 'm' : '\t', size);
        message[size] = '\0';
        line = compose(true, message, fields, sizeof(fields) / sizeof(fields[0]));
        assert_string_equal(line + strlen(line) - 3, "\"}\n");
        compose(false, message, fields, sizeof(fields) / sizeof(fields[0]));
    }
}

static size_t drain(int file, char *buffer, size_t size)
{
    size_t used = 0;
    ssize_t got;

    while ((got = read(file, buffer + used, size - used - 1)) > 0)
        used += (size_t)got;
    buffer[used] = '\0';
    return used;
}

/* If no reader reads the pipe, lines are dropped without waiting; their count is reported later. */
static void a_slow_reader_loses_lines(void **state)
{
    static char received[1 << 20];
    int pipes[2];
    char filler[4096] = {0};

    (void)state;
    assert_int_equal(pipe2(pipes, O_CLOEXEC), 0);
    fcntl(pipes[0], F_SETFL, O_NONBLOCK);
    fcntl(pipes[1], F_SETFL, O_NONBLOCK);
    while (write(pipes[1], filler, sizeof(filler)) > 0)
        ;
    fcntl(pipes[1], F_SETFL, 0); /* a write would block now */
    ration_log_open(pipes[1], false, RATION_LOG_INFO);
    ration_log(RATION_LOG_INFO, "lost one");
    ration_log(RATION_LOG_INFO, "lost two");
    drain(pipes[0], received, sizeof(received));
    ration_log(RATION_LOG_INFO, "seen");
    drain(pipes[0], received, sizeof(received));
    assert_non_null(strstr(received, "warning 2 log lines were lost: "));
    assert_non_null(strstr(received, "info seen\n"));
    assert_null(strstr(received, "lost one"));
    ration_log(RATION_LOG_INFO, "again");
    drain(pipes[0], received, sizeof(received));
    assert_null(strstr(received, "were lost"));
    ration_log_open(2, false, RATION_LOG_INFO);
    close(pipes[0]);
    close(pipes[1]);
}

/* Lines that clients can cause are bounded, and the number of omitted lines is reported. */
static void repeated_lines_are_bounded_and_counted(void **state)
{
    struct ration_log_bound bound = {"tests", .burst_lines = 3, .lines_per_second = 2};
    uint64_t now_ns = 7 * RATION_NS_PER_SECOND;
    unsigned allowed_count = 0;

    (void)state;
    for (int i = 0; i < 1000; i++)
        allowed_count += ration_log_bound_allows(&bound, now_ns);
    assert_int_equal(allowed_count, 3);
    assert_int_equal(bound.suppressed_count, 997);
    for (int i = 0; i < 1000; i++) /* for ten seconds */
        allowed_count += ration_log_bound_allows(&bound, now_ns += 10000000);
    assert_int_equal(allowed_count, 3 + 20);
    assert_int_equal(bound.suppressed_count, 997 + 980);
}

static void the_number_of_omitted_lines_is_reported(void **state)
{
    struct ration_log_bound bound = {"tests", .burst_lines = 2, .lines_per_second = 1};
    char text[4096];
    int pipes[2];
    ssize_t size;

    (void)state;
    assert_int_equal(pipe2(pipes, O_NONBLOCK), 0);
    ration_log_open(pipes[1], false, RATION_LOG_INFO);
    for (int i = 0; i < 50; i++)
        ration_log_bounded(&bound, RATION_LOG_INFO, NULL, 0, "line %d", i);
    ration_log_bound_report(&bound);
    ration_log_bound_report(&bound); /* once */
    ration_log_open(STDERR_FILENO, false, RATION_LOG_INFO);
    size = read(pipes[0], text, sizeof(text) - 1);
    assert_true(size > 0);
    text[size] = '\0';
    assert_non_null(strstr(text, "info line 0\n"));
    assert_non_null(strstr(text, "info line 1\n"));
    assert_null(strstr(text, "line 49"));
    assert_non_null(strstr(
        text, "lines about tests were not logged: the limit is 2 at once and 1 per second\n"));
    assert_null(strstr(strstr(text, "were not logged") + 1, "were not logged"));
    close(pipes[0]);
    close(pipes[1]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lines_have_time_level_and_message),
        cmocka_unit_test(bytes_from_outside_are_escaped),
        cmocka_unit_test(values_are_truncated),
        cmocka_unit_test(long_lines_stay_valid),
        cmocka_unit_test(a_slow_reader_loses_lines),
        cmocka_unit_test(repeated_lines_are_bounded_and_counted),
        cmocka_unit_test(the_number_of_omitted_lines_is_reported),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
