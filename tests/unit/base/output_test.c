#include "support/unit.h"

#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/output.h"

static bool no_memory;

void *__real_realloc(void *memory, size_t size);
void *__wrap_realloc(void *memory, size_t size);

void *__wrap_realloc(void *memory, size_t size)
{
    return no_memory ? NULL : __real_realloc(memory, size);
}

static void check_number(uint64_t number)
{
    char expected[64];
    struct ration_output output;
    ration_output_init(&output, 100);
    ration_output_append_u64(&output, number);
    ration_output_append_byte(&output, ' ');
    assert_true(ration_output_reserve(&output, RATION_OUTPUT_NUMBER_SIZE));
    char *end = ration_output_put_i64((int64_t)number, output.bytes + output.size);
    output.size = (size_t)(end - output.bytes);
    snprintf(expected, sizeof(expected), "%" PRIu64 " %" PRId64, number, (int64_t)number);
    assert_int_equal(output.size, strlen(expected));
    assert_memory_equal(output.bytes, expected, output.size);
    ration_output_done(&output);
}

static void numbers(void **state)
{
    (void)state;
    for (uint64_t number = 0; number < 100000; number++)
        check_number(number);
    for (uint64_t power = 1; power < UINT64_MAX / 10; power *= 10) {
        check_number(power * 10 - 1);
        check_number(power * 10);
        check_number(power * 10 + 1);
    }
    for (int bit = 0; bit < 64; bit++) {
        check_number((UINT64_C(1) << bit) - 1);
        check_number(UINT64_C(1) << bit);
        check_number(-(UINT64_C(1) << bit));
    }
    check_number(UINT64_MAX);
}

/* For each maximum and size of piece: as many whole pieces as fit, then failed for good. */
static void never_more_than_the_maximum(void **state)
{
    (void)state;
    for (size_t bytes_max = 0; bytes_max < 5000; bytes_max += 97) {
        for (size_t piece = 1; piece < 3000; piece = piece * 3 + 1) {
            static const char zeros[3000];
            struct ration_output output;
            ration_output_init(&output, bytes_max);
            size_t fit = bytes_max / piece;
            for (size_t i = 0; i < fit; i++) {
                ration_output_append(&output, zeros, piece);
                assert_false(output.is_failed);
                assert_true(output.allocated_bytes <= bytes_max);
            }
            ration_output_append(&output, zeros, piece);
            assert_true(output.is_failed);
            assert_int_equal(output.size, fit * piece);
            ration_output_append_byte(&output, 'x'); /* would fit */
            ration_output_append_u64(&output, 1);
            ration_output_append_text(&output, "x");
            assert_true(output.is_failed);
            assert_int_equal(output.size, fit * piece);
            ration_output_done(&output);
        }
    }
}

static void sizes_that_overflow_fail(void **state)
{
    (void)state;
    struct ration_output output;
    ration_output_init(&output, SIZE_MAX);
    ration_output_append_text(&output, "abc");
    assert_false(ration_output_reserve(&output, SIZE_MAX));
    assert_true(output.is_failed);
    ration_output_done(&output);
}

static void without_memory_it_fails_and_keeps_what_it_has(void **state)
{
    (void)state;
    struct ration_output output;
    ration_output_init(&output, 100000);
    ration_output_append_text(&output, "abc");
    no_memory = true;
    assert_false(ration_output_reserve(&output, 5000));
    no_memory = false;
    assert_true(output.is_failed);
    assert_memory_equal(output.bytes, "abc", 3);
    ration_output_append_byte(&output, 'd');
    assert_int_equal(output.size, 3);
    ration_output_reset(&output);
    ration_output_append_byte(&output, 'd');
    assert_false(output.is_failed);
    assert_memory_equal(output.bytes, "d", 1);
    ration_output_done(&output);
}

static void a_rewind_makes_room_again(void **state)
{
    struct ration_output output;
    char large[200] = {0};

    (void)state;
    ration_output_init(&output, 100);
    ration_output_append_text(&output, "first ");
    ration_output_append_text(&output, "second");
    ration_output_append(&output, large, sizeof(large));
    assert_true(output.is_failed);
    ration_output_rewind(&output, 6);
    assert_false(output.is_failed);
    ration_output_append_text(&output, "third");
    assert_false(output.is_failed);
    assert_int_equal(output.size, 11);
    assert_memory_equal(output.bytes, "first third", 11);
    ration_output_append(&output, large, 90); /* the maximum still holds */
    assert_true(output.is_failed);
    ration_output_rewind(&output, 0);
    ration_output_append(&output, large, 100);
    assert_false(output.is_failed);
    ration_output_done(&output);
}

static void a_reset_keeps_little_memory(void **state)
{
    (void)state;
    struct ration_output output;
    ration_output_init(&output, 10 * RATION_OUTPUT_KEEP_BYTES);
    assert_true(ration_output_reserve(&output, RATION_OUTPUT_KEEP_BYTES));
    const char *kept = output.bytes;
    ration_output_reset(&output);
    assert_ptr_equal(output.bytes, kept);
    assert_true(ration_output_reserve(&output, RATION_OUTPUT_KEEP_BYTES + 1));
    ration_output_reset(&output);
    assert_null(output.bytes);
    ration_output_append_text(&output, "again");
    assert_memory_equal(output.bytes, "again", 5);
    ration_output_done(&output);
    ration_output_done(&output);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(numbers),
        cmocka_unit_test(never_more_than_the_maximum),
        cmocka_unit_test(sizes_that_overflow_fail),
        cmocka_unit_test(without_memory_it_fails_and_keeps_what_it_has),
        cmocka_unit_test(a_rewind_makes_room_again),
        cmocka_unit_test(a_reset_keeps_little_memory),
    };
    return cmocka_run_group_tests_name("output", tests, NULL, NULL);
}
