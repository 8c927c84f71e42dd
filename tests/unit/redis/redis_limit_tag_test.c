#include "support/unit.h"

#include <string.h>

#include "redis/limit_tag.h"
#include "support/limits_equal.h"

#define COUNT_OF(array) (sizeof(array) / sizeof((array)[0]))

static void limits_are_reported_and_read_back(void **state)
{
    static const struct {
        const char *limit;
        const char *shape;
    } rows[] = {
        {"10/min", " t10/60e9"},
        {"10/min burst 20", " t10/60e9/20"},
        {"1000000/s burst 5", " t1e6/1e9/5"},
        {"7 per 13ns", " t7/13"},
        {"4 per 10s refill interval burst 9", " i4/10e9/9"},
        {"2/s leaky_queue burst 3", " q2/1e9/3"},
        {"3/s burst 2 reserve 100/h burst 5", " r3/1e9/2+100/3600e9/5"},
        {"5/s fixed_window", " f5/1e9"},
        {"4000000000 per 5000d sliding_window", " s4e9/432e15"},
        {"100 per 10s sliding_log", " l100/10e9"},
        {"1/year burst 2 start empty name x", " t1/31536e12/2"},
    };

    (void)state;
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct ration_limit limit, back;
        struct ration_output text;

        assert_int_equal(ration_limit_parse(rows[i].limit, &limit, NULL), RATION_OK);
        ration_output_init(&text, 1000);
        ration_redis_limit_tag_write(&limit, false, &text);
        assert_int_equal(text.size, strlen(rows[i].shape));
        assert_memory_equal(text.bytes, rows[i].shape, text.size);
        assert_true(ration_redis_limit_tag_read(text.bytes + 1, text.size - 1, &back));
        back.start = limit.start;
        back.start_tokens = limit.start_tokens;
        memcpy(back.name, limit.name, sizeof(back.name));
        assert_true(limits_equal(&back, &limit));
        ration_output_done(&text);
    }
}

static void a_limit_of_a_request_is_any(void **state)
{
    struct ration_limit limit;
    struct ration_output text;

    (void)state;
    assert_int_equal(ration_limit_per_second(5, &limit), RATION_OK);
    ration_output_init(&text, 1000);
    ration_redis_limit_tag_write(&limit, true, &text);
    assert_int_equal(text.size, 2);
    assert_memory_equal(text.bytes, " -", 2);
    ration_output_done(&text);
}

static void other_texts_are_no_limits(void **state)
{
    static const char *const texts[] = {
        "",
        "-",
        "t",
        "t10",
        "t10/",
        "t/60e9",
        "x10/1",
        "t10/60e9/",
        "t10/60e99",
        "t10/60e9 ",
        "t10/60e9+1/1",
        "t10/1e9/99999999999999999999",
        "r3/1",
        "r3/1e9+",
        "t0/1e9",
        "t1/0",
        "t10/1e9/1/1",
        "t10/1e",
        "t0e91794866809/1e9", /* not a zero after another for a minute */
        "T10/1",
        "10/1e9",
        "t-1/1e9",
        "t1e1e1/1",
        "tt10/1e9",
        "r3/1e9/2+100/3600e9/5/6",
    };

    (void)state;
    for (size_t i = 0; i < COUNT_OF(texts); i++) {
        struct ration_limit limit;

        if (ration_redis_limit_tag_read(texts[i], strlen(texts[i]), &limit))
            fail_msg("'%s' was read as a limit", texts[i]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(limits_are_reported_and_read_back),
        cmocka_unit_test(a_limit_of_a_request_is_any),
        cmocka_unit_test(other_texts_are_no_limits),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
