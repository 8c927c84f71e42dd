#include "support/unit.h"

#include <ctype.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "codec/resp/commands.h"
#include "support/guard.h"
#include "support/resp_check.h"

#define COUNT_OF(array) (sizeof(array) / sizeof((array)[0]))

#define BYTES_MAX (1024 * 1024)

static struct ration_output output;

static int make_output(void **state)
{
    ration_output_init(&output, BYTES_MAX);
    return guard_map(state);
}

static int free_output(void **state)
{
    ration_output_done(&output);
    return guard_unmap(state);
}

static void check(const char *expected, int version)
{
    assert_false(output.is_failed);
    if (output.size != strlen(expected) || memcmp(output.bytes, expected, output.size) != 0)
        fail_msg("'%.*s' and not '%s'", (int)output.size, output.bytes, expected);
    assert_true(resp_check(output.bytes, output.size, version));
    ration_output_reset(&output);
}

static const struct ration_command *find(const char *name)
{
    size_t size = strlen(name);
    return ration_commands_find(memcpy(guard - size, name, size), size);
}

static void every_command_is_found_in_any_case(void **state)
{
    (void)state;
    for (int i = 0; i < RATION_COMMAND_COUNT; i++) {
        const struct ration_command *command = &ration_commands[i];
        char name[64] = "";
        assert_int_equal((int)command->id, i);
        assert_int_equal(command->name_size, strlen(command->name));
        memcpy(name, command->name, command->name_size);
        assert_ptr_equal(find(name), command);
        for (size_t at = 0; at < command->name_size; at++) {
            assert_int_equal(tolower(name[at]), name[at]);
            if (at % 2)
                name[at] = (char)toupper(name[at]);
        }
        assert_ptr_equal(find(name), command);
        name[command->name_size] = 'x';
        assert_null(find(name));
        name[command->name_size - 1] = '\0';
        assert_null(find(name));
    }
    assert_null(find(""));
    assert_null(find("cl\016throttle")); /* a dot but for one bit */
    assert_null(find("get"));
    assert_ptr_equal(find("RATION.RESET"), &ration_commands[RATION_COMMAND_RESET_KEY]);
    assert_ptr_equal(find("RESET"), &ration_commands[RATION_COMMAND_RESET]);
}

static void how_many_words_fit(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        size_t min, max; /* max 0: any number */
    } rows[] = {
        {"cl.throttle", 1, 0}, /* says it in its own words */
        {"gcra", 5, 0},          {"ration.check", 1, 0},  {"ration.peek", 1, 0},
        {"ration.refund", 1, 0}, {"ration.reset", 3, 0},  {"ration.block", 5, 0},
        {"ration.top", 1, 0},    {"ration.limits", 1, 1}, {"ration.reload", 1, 1},
        {"ration.clock", 2, 0},  {"del", 2, 0},           {"hello", 1, 0},
        {"auth", 2, 0},          {"client", 2, 0},        {"command", 1, 0},
        {"info", 1, 0},          {"config", 2, 0},        {"select", 2, 2},
        {"ping", 1, 0},          {"echo", 2, 2},          {"reset", 1, 1},
        {"multi", 1, 1},         {"exec", 1, 1},          {"discard", 1, 1},
        {"quit", 1, 0},          {"time", 1, 1},          {"dbsize", 1, 1},
        {"ration.flush", 2, 2},
    };
    assert_int_equal(COUNT_OF(rows), RATION_COMMAND_COUNT);
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        for (size_t count = 1; count < 10; count++)
            assert_int_equal(ration_commands_fits(find(rows[i].name), count),
                             count >= rows[i].min && (!rows[i].max || count <= rows[i].max));
    }
}

/* What Redis 7.0.15 writes of a command of the same kind. */
static void info_of_one(void **state)
{
    (void)state;
    static const struct ration_key names[] = {RATION_KEY("CL.THROTTLE"), RATION_KEY("nope")};
    static const char throttle[] =
        "*2\r\n*10\r\n$11\r\ncl.throttle\r\n:-5\r\n*2\r\n+write\r\n+fast\r\n:1\r\n:1\r\n:1\r\n"
        "*2\r\n+@write\r\n+@fast\r\n*0\r\n*0\r\n*0\r\n";
    char expected[512];
    for (int version = 2; version <= 3; version++) {
        ration_commands_write_info(&output, (enum ration_resp_version)version, names, 2);
        strcpy(expected, throttle);
        strcat(expected, version == 2 ? "$-1\r\n" : "_\r\n");
        check(expected, version);
    }
    static const struct ration_key ping[] = {RATION_KEY("ping")};
    ration_commands_write_info(&output, RATION_RESP2, ping, 1);
    check("*1\r\n*10\r\n$4\r\nping\r\n:-1\r\n*1\r\n+fast\r\n:0\r\n:0\r\n:0\r\n"
          "*2\r\n+@fast\r\n+@connection\r\n*0\r\n*0\r\n*0\r\n",
          2);
    ration_commands_write_info(&output, RATION_RESP2, NULL, 0);
    check("*0\r\n", 2);
}

static void docs_of_one(void **state)
{
    (void)state;
    static const struct ration_key ping[] = {RATION_KEY("PING"), RATION_KEY("nope")};
    ration_commands_write_docs(&output, RATION_RESP2, ping, 2);
    check("*2\r\n$4\r\nping\r\n*10\r\n$7\r\nsummary\r\n$15\r\nPing the server\r\n$5\r\nsince\r\n"
          "$5\r\n0.1.0\r\n$5\r\ngroup\r\n$10\r\nconnection\r\n$10\r\ncomplexity\r\n$4\r\nO(1)\r\n"
          "$9\r\narguments\r\n*1\r\n*6\r\n$4\r\nname\r\n$7\r\nmessage\r\n$4\r\ntype\r\n$6\r\n"
          "string\r\n$5\r\nflags\r\n*1\r\n+optional\r\n",
          2);
    static const struct ration_key top[] = {RATION_KEY("ration.reset")};
    ration_commands_write_docs(&output, RATION_RESP3, top, 1);
    check("%1\r\n$12\r\nration.reset\r\n%5\r\n$7\r\nsummary\r\n$31\r\nRefill the buckets of a "
          "request\r\n$5\r\nsince\r\n$5\r\n0.1.0\r\n$5\r\ngroup\r\n$6\r\nmodule\r\n$10\r\n"
          "complexity\r\n$32\r\nO(N) in the limits of the policy\r\n$9\r\narguments\r\n*2\r\n"
          "%4\r\n$4\r\nname\r\n$5\r\nlimit\r\n$4\r\ntype\r\n$6\r\nstring\r\n$5\r\ntoken\r\n$"
          "5\r\nLIMIT\r\n"
          "$5\r\nflags\r\n*1\r\n+optional\r\n"
          "%4\r\n$4\r\nname\r\n$4\r\ndata\r\n$4\r\ntype\r\n$5\r\nblock\r\n$5\r\nflags\r\n*1\r\n"
          "+multiple\r\n$9\r\narguments\r\n*2\r\n%2\r\n$4\r\nname\r\n$9\r\nattribute\r\n$4\r\n"
          "type\r\n$6\r\nstring\r\n%2\r\n$4\r\nname\r\n$5\r\nvalue\r\n$4\r\ntype\r\n$6\r\n"
          "string\r\n",
          3);
    ration_commands_write_docs(&output, RATION_RESP3, &ping[1], 1);
    check("%0\r\n", 3);
}

static size_t count_of(const char *text)
{
    size_t count = 0, size = strlen(text);
    for (size_t i = 0; i + size <= output.size; i++)
        count += !memcmp(output.bytes + i, text, size);
    return count;
}

static void all_of_them(void **state)
{
    (void)state;
    for (int version = 2; version <= 3; version++) {
        ration_commands_write_docs(&output, (enum ration_resp_version)version, NULL, 0);
        assert_true(resp_check(output.bytes, output.size, version));
        assert_int_equal(count_of("\r\nsummary\r\n"), RATION_COMMAND_COUNT);
        ration_output_reset(&output);
    }
    ration_commands_write_all(&output);
    assert_true(resp_check(output.bytes, output.size, 2));
    assert_int_equal(count_of("*10\r\n$"), RATION_COMMAND_COUNT);
    ration_output_reset(&output);
    ration_commands_write_list(&output);
    assert_true(resp_check(output.bytes, output.size, 2));
    assert_memory_equal(output.bytes, "*29\r\n$11\r\ncl.throttle\r\n", 23);
    ration_output_reset(&output);
    ration_commands_write_count(&output);
    check(":29\r\n", 2);
}

/* The texts were taken from Redis 7.0.15. */
static void errors(void **state)
{
    (void)state;
    static const struct ration_key words[] = {RATION_KEY("FOO"), RATION_KEY("a\nb"),
                                              RATION_KEY("cc")};
    ration_commands_write_unknown(&output, words, 1);
    check("-ERR unknown command 'FOO', with args beginning with: \r\n", 2);
    ration_commands_write_unknown(&output, words, 3);
    check("-ERR unknown command 'FOO', with args beginning with: 'a b' 'cc' \r\n", 2);
    static const struct ration_key empty[] = {{"", 0}, RATION_KEY("x")};
    ration_commands_write_unknown(&output, empty, 2);
    check("-ERR unknown command '', with args beginning with: 'x' \r\n", 2);
    ration_commands_write_arity(&output, "client|setname");
    check("-ERR wrong number of arguments for 'client|setname' command\r\n", 2);
    ration_commands_write_unknown_subcommand(&output, find("client"), &words[0]);
    check("-ERR unknown subcommand 'FOO'. Try CLIENT HELP.\r\n", 2);
    ration_commands_write_hello_option(&output, &words[2]);
    check("-ERR Syntax error in HELLO option 'cc'\r\n", 2);
}

static void errors_repeat_so_much(void **state)
{
    (void)state;
    char name[200], argument[61], expected[600];
    memset(name, 'F', sizeof(name));
    memset(argument, 'a', sizeof(argument));
    struct ration_key words[] = {
        {name, sizeof(name)}, {argument, 60}, {argument, 60}, {argument, 60}, RATION_KEY("d")};
    ration_commands_write_unknown(&output, words, 5);
    snprintf(expected, sizeof(expected),
             "-ERR unknown command '%.128s', with args beginning with: '%.60s' '%.60s' 'aa' \r\n",
             name, argument, argument);
    check(expected, 2);
    ration_commands_write_unknown_subcommand(&output, find("config"), &words[0]);
    snprintf(expected, sizeof(expected), "-ERR unknown subcommand '%.128s'. Try CONFIG HELP.\r\n",
             name);
    check(expected, 2);
}

static void requests_of_http(void **state)
{
    (void)state;
    assert_true(ration_commands_is_http(&RATION_KEY("POST")));
    assert_true(ration_commands_is_http(&RATION_KEY("Host:")));
    assert_false(ration_commands_is_http(&RATION_KEY("Host")));
    assert_false(ration_commands_is_http(&RATION_KEY("GET")));
    assert_false(ration_commands_is_http(&RATION_KEY("")));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_command_is_found_in_any_case),
        cmocka_unit_test(how_many_words_fit),
        cmocka_unit_test(info_of_one),
        cmocka_unit_test(docs_of_one),
        cmocka_unit_test(all_of_them),
        cmocka_unit_test(errors),
        cmocka_unit_test(errors_repeat_so_much),
        cmocka_unit_test(requests_of_http),
    };
    return cmocka_run_group_tests_name("commands", tests, make_output, free_output);
}
