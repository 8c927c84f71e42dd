#include "support/unit.h"

#include <string.h>

#include "redis/url.h"

#define COUNT_OF(array) (sizeof(array) / sizeof((array)[0]))

struct row {
    const char *text;
    enum ration_redis_kind kind;
    const char *user, *password, *master, *unix_path, *sentinel_user, *sentinel_password;
    unsigned database;
    uint32_t address_count;
    struct ration_redis_address addresses[3];
};

static void urls_are_read(void **state)
{
    static const struct row rows[] = {
        {"redis://localhost", .address_count = 1, .addresses = {{"localhost", 6379}}},
        {"redis://h:1/", .address_count = 1, .addresses = {{"h", 1}}},
        {"redis://:s%40%2F@[::1]:65535/3", .password = "s@/", .database = 3, .address_count = 1,
         .addresses = {{"::1", 65535}}},
        {"redis://u:p@h", .user = "u", .password = "p", .address_count = 1,
         .addresses = {{"h", 6379}}},
        {"unix:/run/redis?db=9", .unix_path = "/run/redis", .database = 9},
        {"unix:///run/redis", .unix_path = "///run/redis"},
        {"unix://u%3A:p%40@/run/a@b?db=9", .unix_path = "/run/a@b", .user = "u:", .password = "p@",
         .database = 9},
        {"unix:/run/a@b", .unix_path = "/run/a@b"},
        {"redis+sentinel://a/main?sentinel=:s", .kind = RATION_REDIS_SENTINEL, .master = "main",
         .sentinel_password = "s", .address_count = 1, .addresses = {{"a", 26379}}},
        {"redis+sentinel://u:p@a/main/4?sentinel=v:q%2F/", .kind = RATION_REDIS_SENTINEL,
         .user = "u", .password = "p", .sentinel_user = "v", .sentinel_password = "q//",
         .master = "main", .database = 4, .address_count = 1, .addresses = {{"a", 26379}}},
        {"redis+sentinel://a/main", .kind = RATION_REDIS_SENTINEL, .master = "main",
         .address_count = 1, .addresses = {{"a", 26379}}},
        {"redis+sentinel://u:p@a:1,[2001:db8::1]:2,c/my%2Fmaster/7", .kind = RATION_REDIS_SENTINEL,
         .user = "u", .password = "p", .master = "my/master", .database = 7, .address_count = 3,
         .addresses = {{"a", 1}, {"2001:db8::1", 2}, {"c", 26379}}},
        {"redis+sentinel://a/main/", .kind = RATION_REDIS_SENTINEL, .master = "main",
         .address_count = 1, .addresses = {{"a", 26379}}},
        {"redis+cluster://a:7000,b,c:7002", .kind = RATION_REDIS_CLUSTER, .address_count = 3,
         .addresses = {{"a", 7000}, {"b", 6379}, {"c", 7002}}},
        {"redis+cluster://:secret@a/", .kind = RATION_REDIS_CLUSTER, .password = "secret",
         .address_count = 1, .addresses = {{"a", 6379}}},
    };

    (void)state;
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        const struct row *row = &rows[i];
        struct ration_redis_url url;
        struct ration_error error;

        if (ration_redis_url_parse(row->text, &url, &error) != RATION_OK)
            fail_msg("%s: %s", row->text, error.message);
        assert_int_equal(url.kind, row->kind);
        assert_string_equal(url.user, row->user != NULL ? row->user : "");
        assert_string_equal(url.password, row->password != NULL ? row->password : "");
        assert_string_equal(url.sentinel_user,
                            row->sentinel_user != NULL ? row->sentinel_user : "");
        assert_string_equal(url.sentinel_password,
                            row->sentinel_password != NULL ? row->sentinel_password : "");
        assert_string_equal(url.master, row->master != NULL ? row->master : "");
        assert_string_equal(url.unix_path, row->unix_path != NULL ? row->unix_path : "");
        assert_int_equal(url.database, row->database);
        assert_int_equal(url.address_count, row->address_count);
        for (uint32_t a = 0; a < url.address_count; a++) {
            assert_string_equal(url.addresses[a].host, row->addresses[a].host);
            assert_int_equal(url.addresses[a].port, row->addresses[a].port);
        }
    }
}

static void errors_say_what_would_be_right(void **state)
{
    static const struct {
        const char *text, *message;
    } rows[] = {
        {"", "write redis://"},
        {"http://h", "write redis://"},
        {"redis:/h", "write redis://"},
        {"rediss://h", "stunnel"},
        {"redis://", "there is no host"},
        {"redis://h:", "a port is a number from 1 to 65535"},
        {"redis://h:0", "a port is a number from 1 to 65535"},
        {"redis://h:65536", "a port is a number from 1 to 65535"},
        {"redis://h/x", "the number of a database"},
        {"redis://user@h", "expected user:password or :password before @"},
        {"redis://:%zz@h", "expected user:password or :password before @"},
        {"redis://[::1]x", "expected :port or nothing after ]"},
        {"redis://[::1", "begins with [ ends with ]"},
        {"redis://a,b", "redis+cluster:// or redis+sentinel://"},
        {"unix:relative", "an absolute path"},
        {"unix:/path?x=1", "expected db="},
        {"unix://user@/path", "expected user:password or :password before @"},
        {"unix://u:p@path", "an absolute path"},
        {"redis+sentinel://a/main?x", "expected sentinel="},
        {"redis+sentinel://a/main?sentinel=s",
         "expected user:password or :password after ?sentinel="},
        {"redis+sentinel://a?sentinel=:s", "and the name of the master"},
        {"redis://h?db=3", "write the number of the database after /"},
        {"redis+sentinel://a:1", "and the name of the master"},
        {"redis+sentinel://a:1/", "and the name of the master"},
        {"redis+sentinel://a:1//3", "and the name of the master"},
        {"redis+sentinel://a:1/main/x", "the number of a database"},
        {"redis+sentinel:///main", "there is no host"},
        {"redis+sentinel://a,,b/main", "there is no host"},
        {"redis+cluster://a,", "there is no host"},
        {"redis+cluster://a/0", "a cluster has no databases"},
        {"redis+cluster://1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17", "more than 16 addresses"},
    };

    (void)state;
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct ration_redis_url url, untouched;
        struct ration_error error;

        memset(&url, 0xa5, sizeof(url));
        untouched = url;
        assert_int_equal(ration_redis_url_parse(rows[i].text, &url, &error), RATION_EINVAL);
        if (strstr(error.message, rows[i].message) == NULL)
            fail_msg("%s: %s", rows[i].text, error.message);
        assert_memory_equal(&url, &untouched, sizeof(url));
        assert_int_equal(ration_redis_url_parse(rows[i].text, &url, NULL), RATION_EINVAL);
    }
}

static void texts_are_bounded(void **state)
{
    char text[600] = "redis+sentinel://h/";
    struct ration_redis_url url;

    (void)state;
    memset(text + strlen(text), 'm', RATION_REDIS_TEXT_MAX);
    assert_int_equal(ration_redis_url_parse(text, &url, NULL), RATION_OK);
    assert_int_equal(strlen(url.master), RATION_REDIS_TEXT_MAX);
    strcat(text, "m");
    assert_int_equal(ration_redis_url_parse(text, &url, NULL), RATION_EINVAL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(urls_are_read),
        cmocka_unit_test(errors_say_what_would_be_right),
        cmocka_unit_test(texts_are_bounded),
    };
    return cmocka_run_group_tests_name("redis_url", tests, NULL, NULL);
}
