/*
 * written: an output for a test, and what was written to it as text.
 */
#ifndef RATION_TESTS_WRITTEN_H
#define RATION_TESTS_WRITTEN_H

#include "base/output.h"
#include "codec/json/json_write.h"
#include "support/unit.h"

#define WRITTEN_BYTES_MAX 65536

static struct ration_output written;
static struct ration_json written_json;

static int written_init(void **state)
{
    (void)state;
    ration_output_init(&written, WRITTEN_BYTES_MAX);
    ration_json_init(&written_json, &written);
    return 0;
}

static int written_done(void **state)
{
    (void)state;
    ration_output_done(&written);
    return 0;
}

/* Compares all that was written since the last call, and starts again. */
static inline void assert_written(const char *expected)
{
    assert_false(written.is_failed);
    ration_output_append_byte(&written, '\0');
    assert_string_equal(written.bytes, expected);
    ration_output_reset(&written);
    ration_json_init(&written_json, &written);
}

#endif
