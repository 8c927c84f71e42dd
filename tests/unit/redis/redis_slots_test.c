#include "support/unit.h"

#include <string.h>

#include "redis/nodes.h"
#include "redis/take_request.h"

#define COUNT_OF(array) (sizeof(array) / sizeof((array)[0]))

static void slots_are_those_of_redis(void **state)
{
    static const struct {
        const char *key;
        uint16_t slot;
    } rows[] = {
        {"", 0},
        {"123456789", 0x31c3},
        {"foo", 12182},
        {"user1000", 3443},
        {"{user1000}.following", 3443},
        {"u1", 4574},
        {"rl:{u1}:s", 4574},
        {"rl:{u1}:m", 4574},
        {"foo{}{bar}", 8363},
        {"foo{{bar}}zap", 4015},
        {"foo{bar}{zap}", 5061},
    };

    (void)state;
    for (size_t i = 0; i < COUNT_OF(rows); i++)
        assert_int_equal(ration_redis_slot(rows[i].key, strlen(rows[i].key)), rows[i].slot);
    assert_int_equal(ration_redis_slot("a{", 2), ration_redis_slot("a{}", 2));
    assert_int_equal(ration_redis_slot("{u1}x", 4), 4574);
    assert_int_not_equal(ration_redis_slot("{u1}x", 3), 4574);
}

/* All limits of one key are in one slot, whatever its bytes: no bytes, braces, escapes. */
static void limits_of_a_key_share_a_slot(void **state)
{
    static const struct ration_redis_names names = {.prefix = "ration"};
    static const struct ration_key keys[] = {{"", 0},    {"a", 1},   {"{", 1},     {"}", 1},
                                             {"{}", 2},  {"%", 1},   {"a{b}c", 5}, {"\0", 1},
                                             {"%7B", 3}, {"}{x}", 4}};
    struct ration_redis_argv words;

    (void)state;
    ration_redis_argv_init(&words);
    for (size_t i = 0; i < COUNT_OF(keys); i++) {
        uint16_t slots[2];

        ration_redis_argv_reset(&words);
        ration_redis_name_write(&names, &keys[i], "one", &words);
        ration_redis_name_write(&names, &keys[i], "other", &words);
        for (size_t k = 0; k < 2; k++)
            slots[k] = ration_redis_slot(ration_redis_argv_at(&words, k),
                                         ration_redis_argv_size(&words, k));
        if (slots[0] != slots[1])
            fail_msg("key %zu: %.*s", i, (int)ration_redis_argv_size(&words, 0),
                     ration_redis_argv_at(&words, 0));
    }
    ration_redis_argv_done(&words);
}

static void redirects_are_read(void **state)
{
    static const struct {
        const char *error;
        bool is_ask;
        uint16_t slot;
        const char *host; /* NULL: it is none */
        unsigned port;
    } rows[] = {
        {"MOVED 3999 10.0.0.5:6381", false, 3999, "10.0.0.5", 6381},
        {"ASK 16383 10.0.0.5:65535", true, 16383, "10.0.0.5", 65535},
        {"MOVED 0 :6381", false, 0, "", 6381},
        {"MOVED 1 2001:db8::1:6381", false, 1, "2001:db8::1", 6381},
        {"MOVED 16384 h:1", .host = NULL},
        {"MOVED h:1", .host = NULL},
        {"MOVED 1 h", .host = NULL},
        {"MOVED 1 h:", .host = NULL},
        {"MOVED 1 h:0", .host = NULL},
        {"MOVED 1 h:65536", .host = NULL},
        {"MOVED 1 h:1 x", .host = NULL},
        {"MOVED 99999999999999999999 h:1", .host = NULL},
        {"MOVED", .host = NULL},
        {"ASKING 1 h:1", .host = NULL},
        {"TRYAGAIN Multiple keys request during rehashing of slot", .host = NULL},
        {"", .host = NULL},
    };

    (void)state;
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct ration_redis_redirect redirect;
        bool is_read = ration_redis_redirect_read(rows[i].error, &redirect);

        if (is_read != (rows[i].host != NULL))
            fail_msg("'%s' is %s", rows[i].error, is_read ? "read" : "refused");
        if (!is_read)
            continue;
        assert_int_equal(redirect.is_ask, rows[i].is_ask);
        assert_int_equal(redirect.slot, rows[i].slot);
        assert_string_equal(redirect.address.host, rows[i].host);
        assert_int_equal(redirect.address.port, rows[i].port);
    }
}

static void long_hosts_are_refused(void **state)
{
    char error[400] = "MOVED 1 ";
    struct ration_redis_redirect redirect;

    (void)state;
    memset(error + strlen(error), 'h', RATION_REDIS_TEXT_MAX + 1);
    strcat(error, ":1");
    assert_false(ration_redis_redirect_read(error, &redirect));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(slots_are_those_of_redis),
        cmocka_unit_test(limits_of_a_key_share_a_slot),
        cmocka_unit_test(redirects_are_read),
        cmocka_unit_test(long_hosts_are_refused),
    };
    return cmocka_run_group_tests_name("redis_slots", tests, NULL, NULL);
}
