#include "support/unit.h"

#include <stdio.h>
#include <string.h>

#include "limiter/log_ring.h"
#include "redis/log_codec.h"
#include "support/guard.h"

#define COUNT_OF(array) (sizeof(array) / sizeof((array)[0]))

static struct ration_limit limit_of(const char *text)
{
    struct ration_limit limit;

    assert_int_equal(ration_limit_parse(text, &limit, NULL), RATION_OK);
    return limit;
}

static void moments_are_read_in_any_order(void **state)
{
    static const char text[] = "1 5 1 2 0 2 2 999999999 1 l";
    static const uint64_t moments[] = {0, 0, 1000000005, 2000000000, 2000000000, 2999999999};
    static const uint64_t order[] = {0, 5, 2, 3, 4, 1, 5, 4, 3, 2, 1, 0, 3, 3, 2, 5};
    struct ration_limit limit = limit_of("6/10s sliding_log");
    struct ration_bucket_state any = {.limit = &limit};
    struct ration_redis_log_codec runs;
    size_t size;

    (void)state;
    assert_true(ration_redis_log_codec_read(text, strlen(text), &runs, &any, &size));
    assert_int_equal(size, strlen(text) - 1);
    assert_int_equal(any.state.log.newest_ns, 2999999999);
    for (size_t i = 0; i < COUNT_OF(order); i++)
        assert_int_equal(ration_log_ring_moment(&any, order[i]), moments[order[i]]);
    assert_int_equal(ration_log_ring_remaining(&any, 2000000000), 5);
}

static void what_is_written_is_read_back(void **state)
{
    static const char text[] = "1 5 1 2 0 2 2 999999999 1";
    struct ration_limit limit = limit_of("6/10s sliding_log");
    struct ration_bucket_state any = {.limit = &limit};
    struct ration_redis_log_codec runs;
    struct ration_output output;
    char whole[64];
    size_t size;

    (void)state;
    snprintf(whole, sizeof(whole), "%s x", text);
    assert_true(ration_redis_log_codec_read(whole, strlen(whole), &runs, &any, &size));
    ration_output_init(&output, 1000);
    ration_redis_log_codec_write(&any, &output);
    assert_int_equal(output.size, strlen(text));
    assert_memory_equal(output.bytes, text, output.size);
    ration_output_done(&output);
}

static void a_full_log_has_a_run_of_nothing(void **state)
{
    struct ration_limit limit = limit_of("6/10s sliding_log");
    struct ration_bucket_state any = {.limit = &limit};
    struct ration_redis_log_codec runs;
    struct ration_output output;
    size_t size;

    (void)state;
    assert_true(ration_redis_log_codec_read("0 0 0 l", 7, &runs, &any, &size));
    assert_int_equal(ration_log_ring_remaining(&any, 0), 6);
    ration_output_init(&output, 1000);
    ration_redis_log_codec_write(&any, &output);
    assert_memory_equal(output.bytes, "0 0 0", 5);
    ration_output_done(&output);
}

static void a_log_that_begins_empty_has_one_run(void **state)
{
    struct ration_limit limit = limit_of("6/10s sliding_log start 2");
    struct ration_bucket_state any = {.limit = &limit};
    struct ration_redis_log_codec runs;

    (void)state;
    any = ration_bucket_state_start(&any, 5);
    ration_redis_log_codec_begin(&runs, &any);
    assert_int_equal(ration_log_ring_remaining(&any, 5), 2);
    assert_int_equal(ration_log_ring_take(&any, 3, 5).wait_ns, 10 * RATION_NS_PER_SECOND);
    assert_int_equal(ration_log_ring_remaining(&any, 5 + 10 * RATION_NS_PER_SECOND), 6);
}

/* Each of them at the end of a page, so that reading beyond it is noticed. */
static void other_texts_are_none(void **state)
{
    static const char *const texts[] = {
        "",
        "l6/10e9",
        "1",
        "1 2",
        "1 2 3",
        "1 2 3 ",
        "1 2 l",
        "1 2 3 4 l",
        "1 1000000000 1 l",
        "1 2 7 l",                          /* more than the limit has */
        "1 2 4 1 3 4 l",                    /* the same, together */
        "2 0 1 1 0 1 l",                    /* out of order */
        "99999999999999999999 0 1 l",       /* more than 64 bits */
        "18446744073709551615 0 1 l",       /* more than a moment */
        "1 0 18446744073709551615 l",       /* more than there is */
        "1 0 1 1 0 18446744073709551615 l", /* the same, wrapping */
    };
    struct ration_limit limit = limit_of("6/10s sliding_log");

    (void)state;
    for (size_t i = 0; i < COUNT_OF(texts); i++) {
        char *text = guard - strlen(texts[i]);
        struct ration_bucket_state any = {.limit = &limit};
        struct ration_redis_log_codec runs;
        size_t size;

        memcpy(text, texts[i], strlen(texts[i]));
        if (ration_redis_log_codec_read(text, strlen(texts[i]), &runs, &any, &size))
            fail_msg("%s was read", texts[i]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(moments_are_read_in_any_order),
        cmocka_unit_test(what_is_written_is_read_back),
        cmocka_unit_test(a_full_log_has_a_run_of_nothing),
        cmocka_unit_test(a_log_that_begins_empty_has_one_run),
        cmocka_unit_test(other_texts_are_none),
    };
    return cmocka_run_group_tests_name("redis_runs", tests, guard_map, guard_unmap);
}
