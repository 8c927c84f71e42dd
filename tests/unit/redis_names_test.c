#include "support/unit.h"

#include <string.h>

#include "redis/ask.h"

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
        struct ration_redis_names names = {"ration", rows[i].tag};
        struct ration_key key = {rows[i].key, strlen(rows[i].key)};
        struct ration_redis_words words;

        ration_redis_words_init(&words);
        ration_redis_name_write(&names, &key, rows[i].limit, &words);
        assert_int_equal(ration_redis_word_size(&words, 0), strlen(rows[i].name));
        assert_memory_equal(ration_redis_word_at(&words, 0), rows[i].name, strlen(rows[i].name));
        ration_redis_words_done(&words);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(buckets_have_names_of_their_own)};

    return cmocka_run_group_tests_name("redis_names", tests, NULL, NULL);
}
