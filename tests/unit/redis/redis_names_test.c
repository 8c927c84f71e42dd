#include "support/unit.h"

#include <stdio.h>
#include <string.h>

#include "base/hash_blake2b.h"
#include "redis/take_request.h"

#define COUNT_OF(array) (sizeof(array) / sizeof((array)[0]))

static void buckets_have_names_of_their_own(void **state)
{
    static const struct {
        const char *tag, *key, *limit, *name;
    } rows[] = {
        {NULL, "192.0.2.7", "login", "ration:{192.0.2.7}:login"},
        {NULL, "", "all", "ration:{%}:all"},
        {NULL, "%", "all", "ration:{%25}:all"},
        {NULL, "a}b{", "l", "ration:{a%7Db%7B}:l"},
        {"ration", "b:c", "a", "ration:{ration}:a:b:c"},
        {"ration", "c", "a:b", "ration:{ration}:a%3Ab:c"},
        {"ration", "c", "a%3Ab", "ration:{ration}:a%253Ab:c"},
    };

    (void)state;
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct ration_redis_names names = {"ration", rows[i].tag, NULL};
        struct ration_key key = {rows[i].key, strlen(rows[i].key)};
        struct ration_redis_argv words;

        ration_redis_argv_init(&words);
        ration_redis_name_write(&names, &key, rows[i].limit, &words);
        assert_int_equal(ration_redis_argv_size(&words, 0), strlen(rows[i].name));
        assert_memory_equal(ration_redis_argv_at(&words, 0), rows[i].name, strlen(rows[i].name));
        ration_redis_argv_done(&words);
    }
}

struct name {
    char text[1024];
    size_t size;
};

static struct name name_of(const struct ration_redis_names *names, const void *bytes, size_t size)
{
    struct ration_key key = {bytes, size};
    struct ration_redis_argv words;
    struct name name;

    ration_redis_argv_init(&words);
    ration_redis_name_write(names, &key, "login", &words);
    name.size = ration_redis_argv_size(&words, 0);
    assert_true(name.size < sizeof(name.text));
    memcpy(name.text, ration_redis_argv_at(&words, 0), name.size);
    name.text[name.size] = '\0';
    ration_redis_argv_done(&words);
    return name;
}

/* A client chooses its keys: whatever their size, a name has a longest one. */
static void long_keys_are_hashed(void **state)
{
    static const uint8_t secret[RATION_BLAKE2B_SIZE] = {1, 2, 3};
    static const struct ration_redis_names plain = {.prefix = "ration"};
    static const struct ration_redis_names tagged = {.prefix = "ration", .tag = "ration"};
    static const struct ration_redis_names keyed = {.prefix = "ration", .secret = secret};
    static char key[RATION_KEY_SIZE_MAX];
    struct name name;

    (void)state;
    memset(key, 'k', sizeof(key));
    name = name_of(&plain, key, RATION_REDIS_KEY_PLAIN_MAX); /* as it is, up to there */
    assert_int_equal(name.size, strlen("ration:{}:login") + RATION_REDIS_KEY_PLAIN_MAX);
    assert_memory_equal(name.text + strlen("ration:{"), key, RATION_REDIS_KEY_PLAIN_MAX);
    /* python3 -c 'import hashlib; print(hashlib.blake2b(b"k" * 129, digest_size=32).hexdigest())' */
    name = name_of(&plain, key, RATION_REDIS_KEY_PLAIN_MAX + 1);
    assert_string_equal(
        name.text,
        "ration:{%h776d92f093f7e4810c504976de44505c7591dba8d38b255b81282be40c9004a0}:login");
    name = name_of(&tagged, key, RATION_REDIS_KEY_PLAIN_MAX + 1);
    assert_string_equal(
        name.text,
        "ration:{ration}:login:%h776d92f093f7e4810c504976de44505c7591dba8d38b255b81282be40c9004a0");
    /* the same with key=bytes([1, 2, 3] + [0] * 29) */
    name = name_of(&keyed, key, RATION_REDIS_KEY_PLAIN_MAX + 1);
    assert_string_equal(
        name.text,
        "ration:{%h320f832274b189dbadf67f625f8a2b47c58206afe36131b4f212a57f3bd2f1d1}:login");
    for (size_t size = RATION_REDIS_KEY_PLAIN_MAX + 1; size <= sizeof(key); size += 977)
        assert_int_equal(name_of(&plain, key, size).size, strlen("ration:{%h}:login") + 64);
    memset(key, '{', sizeof(key)); /* three bytes each, as far as they are escaped */
    for (size_t size = 0; size <= sizeof(key); size += 13)
        assert_true(name_of(&plain, key, size).size <=
                    strlen("ration:{}:login") + 3 * RATION_REDIS_KEY_PLAIN_MAX);
}

/* Every byte of a long key counts, and what a short key says is no hash. */
static void long_keys_have_names_of_their_own(void **state)
{
    static const struct ration_redis_names names = {.prefix = "ration"};
    char key[300], short_key[80];
    struct name name, other;

    (void)state;
    memset(key, 'k', sizeof(key));
    name = name_of(&names, key, sizeof(key));
    for (size_t i = 0; i < sizeof(key); i++) {
        key[i] ^= 1;
        other = name_of(&names, key, sizeof(key));
        assert_string_not_equal(name.text, other.text);
        key[i] ^= 1;
    }
    snprintf(short_key, sizeof(short_key), "%.66s", strchr(name.text, '{') + 1); /* %h and digits */
    other = name_of(&names, short_key, 66);
    assert_string_not_equal(name.text, other.text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(buckets_have_names_of_their_own),
        cmocka_unit_test(long_keys_are_hashed),
        cmocka_unit_test(long_keys_have_names_of_their_own),
    };

    return cmocka_run_group_tests_name("redis_names", tests, NULL, NULL);
}
