/*
 * Any bytes as a dump. The first byte chooses the limiter, and whether the rest is the dump itself or the contents of its
 * chunks, which then get correct checksums. A refused dump has a reason; a loaded one can be walked, dumped and loaded
 * again without a change.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/wall.h"
#include "ration/ration.h"
#include "support/saved_dump.h"

/* Aborts in every build, so that a release build finds what a debug build does. */
#define CHECK(condition)  \
    do {                  \
        if (!(condition)) \
            abort();      \
    } while (0)

#define RULES_MAX 2
#define NOW_NS    (1000 * RATION_NS_PER_SECOND)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const char *const rows[][RULES_MAX] = {
    {"3/s burst 7"},
    {"3/s burst 7 start 2", "9/min sliding_log"},
    {"9/s fixed_window", "5/s burst 12 refill interval"},
    {"9/s sliding_window start empty", "3/s burst 4 reserve 7/min"},
    {"2M/s burst 3M refill interval", "4/s leaky_queue"},
};

#define ROW_COUNT (sizeof(rows) / sizeof(rows[0]))

uint64_t ration_wall_now(void)
{
    return NOW_NS;
}

static ration_status load(const struct ration_limiter_options *options, struct saved_bytes *dump,
                          ration_limiter **out_limiter)
{
    struct ration_error error;
    ration_status status;

    memset(&error, 0xA5, sizeof(error));
    dump->at = 0;
    status = ration_limiter_load(options, saved_read, dump, out_limiter, &error);
    if (status != RATION_OK)
        CHECK(error.status == status && error.message[0] != 0 &&
              memchr(error.message, 0, sizeof(error.message)) != NULL);
    return status;
}

static void walk(ration_limiter *limiter)
{
    struct ration_scan_item items[8];
    struct ration_decision decision;
    uint64_t cursor = 0;

    do {
        size_t count = ration_limiter_scan(limiter, &cursor, items, 8, NOW_NS);

        for (size_t i = 0; i < count; i++)
            CHECK(items[i].full_after_ns > 0);
    } while (cursor != 0);
    for (char key = 'a'; key <= 'z'; key++) {
        const struct ration_key request = {&key, 1};

        CHECK(ration_limiter_take(limiter, &request, 1, NOW_NS, &decision, NULL) == RATION_OK);
    }
}

static void check(const struct ration_limiter_options *options, struct saved_bytes *dump)
{
    ration_limiter *limiter = NULL, *again = NULL;
    struct saved_bytes second, third;

    if (load(options, dump, &limiter) != RATION_OK) {
        CHECK(limiter == NULL);
        return;
    }
    second = saved_dump(limiter, NOW_NS);
    CHECK(load(options, &second, &again) == RATION_OK);
    third = saved_dump(again, NOW_NS);
    CHECK(second.size == third.size && memcmp(second.data, third.data, third.size) == 0);
    walk(again);
    free(second.data);
    free(third.data);
    ration_limiter_free(limiter);
    ration_limiter_free(again);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct ration_manual_clock manual = {NOW_NS};
    struct ration_clock clock = ration_clock_manual(&manual);
    struct ration_rule rules[RULES_MAX] = {0};
    struct ration_limiter_options options = {.struct_size = sizeof(options),
                                             .rules = rules,
                                             .bytes_max = 1 << 20,
                                             .clock = &clock,
                                             .threads_max = 1};
    struct saved_bytes dump = {0};

    if (size == 0)
        return 0;
    for (const char *const *row = rows[data[0] % 16 % ROW_COUNT];
         options.rule_count < RULES_MAX && row[options.rule_count] != NULL; options.rule_count++)
        CHECK(ration_limit_parse(row[options.rule_count], &rules[options.rule_count].limit, NULL) ==
              RATION_OK);
    if (data[0] & 0x80)
        saved_add(&dump, data + 1, size - 1);
    else
        dump = saved_wrap(data + 1, size - 1);
    check(&options, &dump);
    free(dump.data);
    return 0;
}
