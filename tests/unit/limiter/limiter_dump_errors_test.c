/*
 * Invalid, damaged, inconsistent and unsuitable dumps: refused with a reason, and nothing is loaded.
 */
#include "base/wall.h"
#include "support/saved_dump.h"
#include "support/subjects.h"

#define SECOND RATION_NS_PER_SECOND
#define NOW_NS (100 * SECOND)

uint64_t ration_wall_now(void)
{
    return 1700000000 * SECOND;
}

static struct ration_manual_clock manual = {NOW_NS};
static struct ration_clock manual_clock;
static struct ration_rule rules[SUBJECT_RULES_MAX];
static struct ration_limiter_options options;
static ration_limiter *limiter;

static const struct subject small = {.rules = {"3/s burst 7 start 3", "9/min sliding_log"}};

/* Keys in debt: up to 16 have a place, the others share one. */
static ration_limiter *crowd(uint64_t key_count)
{
    ration_limiter *crowded = subject_create(&options);
    struct subject_key key;

    for (uint64_t i = 0; i < key_count; i++)
        ration_limiter_charge(crowded, subject_request(&key, i), 1, NOW_NS);
    return crowded;
}

static struct saved_bytes dump_of_all_kinds(void)
{
    ration_limiter *crowded = crowd(20);
    struct saved_bytes dump = saved_dump(crowded, NOW_NS);

    ration_limiter_free(crowded);
    return dump;
}

static int begin(void **state)
{
    (void)state;
    manual_clock = ration_clock_manual(&manual);
    options = subject_options(&small, rules, &manual_clock);
    options.keys_max = 1;
    limiter = crowd(12);
    return 0;
}

static int end(void **state)
{
    (void)state;
    ration_limiter_free(limiter);
    return 0;
}

/* Must be refused, with a message, and with nothing written. */
static void refuse(const struct ration_limiter_options *wanted, struct saved_bytes *dump,
                   ration_status status, const char *part)
{
    ration_limiter *untouched = (ration_limiter *)&manual;
    ration_limiter *loaded = untouched;
    struct ration_error error = {.message = ""};
    ration_status got = saved_load(wanted, dump, &loaded, &error);

    if (got != status || error.status != status || strstr(error.message, part) == NULL)
        fail_msg("%s: \"%s\", wanted %s with \"%s\"", ration_status_name(got), error.message,
                 ration_status_name(status), part);
    assert_ptr_equal(loaded, untouched);
    assert_int_equal(saved_load(wanted, dump, &loaded, NULL), status);
}

static void every_byte_that_is_changed_is_noticed(void **state)
{
    struct saved_bytes dump = dump_of_all_kinds();

    (void)state;
    for (size_t i = 0; i < dump.size; i++)
        for (unsigned change = 1; change < 256; change = change << 1 | (i & 1)) {
            dump.data[i] = (uint8_t)(dump.data[i] ^ change);
            refuse(&options, &dump, RATION_EINVAL, "the dump cannot be loaded: it");
            dump.data[i] = (uint8_t)(dump.data[i] ^ change);
        }
    free(dump.data);
}

static void every_end_that_comes_too_early_is_noticed(void **state)
{
    struct saved_bytes dump = dump_of_all_kinds();
    size_t size = dump.size;

    (void)state;
    for (dump.size = 0; dump.size < size; dump.size++)
        refuse(&options, &dump, RATION_EINVAL, "it is truncated");
    free(dump.data);
}

/* Whole, byte by byte, and with more behind it that is not read. */
static void bytes_may_come_in_any_pieces(void **state)
{
    struct saved_bytes dump = saved_dump(limiter, NOW_NS);
    size_t size = dump.size;

    (void)state;
    saved_add(&dump, "more", 4);
    for (dump.piece_max = 0; dump.piece_max < 40; dump.piece_max++) {
        ration_limiter *loaded = NULL;

        assert_int_equal(saved_load(&options, &dump, &loaded, NULL), RATION_OK);
        assert_int_equal(dump.at, size);
        assert_int_equal(subjects_differ(limiter, NOW_NS, loaded, NOW_NS, 30), 0);
        ration_limiter_free(loaded);
    }
    free(dump.data);
}

/* One number of a dump is changed, and the checksums are correct. */
static void refuse_number(size_t at, size_t size, uint64_t number, const char *part)
{
    struct saved_bytes dump = saved_dump(limiter, NOW_NS);
    struct saved_bytes payload = saved_unwrap(&dump), lie;

    saved_set_number(payload.data + at, size, number);
    lie = saved_wrap(payload.data, payload.size);
    refuse(&options, &lie, RATION_EINVAL, part);
    free(dump.data);
    free(payload.data);
    free(lie.data);
}

#define RECORD_AT (SAVED_RULE_AT + 2 * SAVED_RULE_SIZE)
#define STATE_AT  (RECORD_AT + SAVED_RECORD_SIZE)

static void what_makes_no_sense_is_refused(void **state)
{
    const char *limit = "one of its limits is not valid";
    const char *sets = "its number of sets does not fit its number of keys";

    (void)state;
    refuse_number(SAVED_LIMITERS_AT, 4, 0, "it has no limiters, or too many");
    refuse_number(SAVED_LIMITERS_AT, 4, UINT32_MAX, "it has no limiters, or too many");
    refuse_number(SAVED_KEYS_MAX_AT, 8, 0, sets);
    refuse_number(SAVED_KEYS_MAX_AT, 8, UINT64_MAX, sets);
    refuse_number(SAVED_KEYS_MAX_AT, 8, 1000, sets);
    refuse_number(SAVED_SETS_AT, 4, 0, sets);
    refuse_number(SAVED_SETS_AT, 4, 1, sets);
    refuse_number(SAVED_SETS_AT, 4, UINT32_MAX, sets);
    refuse_number(SAVED_RULES_AT, 4, 0, "has no rules, or too many");
    refuse_number(SAVED_RULES_AT, 4, 1u << 31, "has no rules, or too many");
    refuse_number(SAVED_RULE_AT, 4, 0, limit);     /* algorithm */
    refuse_number(SAVED_RULE_AT, 4, 77, limit);    /* algorithm */
    refuse_number(SAVED_RULE_AT + 4, 4, 2, limit); /* refill */
    for (size_t at = 8; at <= 24; at += 8)         /* tokens, period, burst */
        refuse_number(SAVED_RULE_AT + at, 8, 0, limit);
    for (size_t at = 8; at <= 64; at += 8) /* and the start, the reserve, what is remembered */
        refuse_number(SAVED_RULE_AT + at, 8, UINT64_MAX, limit);
    refuse_number(RECORD_AT, 2, 0, "a record of an unknown kind");
    refuse_number(RECORD_AT, 2, 5, "a record of an unknown kind");
    refuse_number(RECORD_AT + 2, 2, 1, "a limiter that it does not contain");
    refuse_number(RECORD_AT + 4, 4, 2, "a set that its limiter does not have");
    refuse_number(RECORD_AT + 8, 8, 0, "a key with an invalid tag");
    refuse_number(RECORD_AT + 8, 8, UINT64_C(1) << 44, "a key with an invalid tag");
    refuse_number(STATE_AT, 8, UINT64_C(1) << 60, "a time that is too long");
    refuse_number(STATE_AT + 8, 4, 1 << 20, "a fraction of a nanosecond that is too large");
    refuse_number(STATE_AT + 12, 8, UINT64_MAX, "a time that is too long"); /* remembered */
    refuse_number(STATE_AT + 20, 4, 10, "a log with too many tokens");
    refuse_number(STATE_AT + 20, 4, UINT32_MAX, "a log with too many tokens");
    refuse_number(STATE_AT + 24, 8, UINT64_MAX, "a time that is too long");
}

/* Many keys for one set, an end that is not, and too few records. */
static void what_does_not_add_up_is_refused(void **state)
{
    struct saved_bytes dump = saved_dump(limiter, NOW_NS);
    struct saved_bytes payload = saved_unwrap(&dump), lie = {0}, wrapped;
    size_t record_size = SAVED_RECORD_SIZE + 20 + 24;

    (void)state;
    saved_add(&lie, payload.data, RECORD_AT);
    for (uint64_t i = 0; i < 9; i++) {
        saved_add(&lie, payload.data + RECORD_AT, record_size);
        saved_set_number(lie.data + lie.size - record_size + 8, 8, 1000 + i);
    }
    wrapped = saved_wrap(lie.data, lie.size);
    refuse(&options, &wrapped, RATION_EINVAL, "more keys for a set than the set has slots");
    free(wrapped.data);
    free(lie.data);

    saved_set_number(payload.data + payload.size - 8, 8, 7);
    wrapped = saved_wrap(payload.data, payload.size);
    refuse(&options, &wrapped, RATION_EINVAL, "records are missing");
    free(wrapped.data);

    memset(&lie, 0, sizeof(lie));
    saved_add(&lie, payload.data, RECORD_AT);
    saved_add(&lie, payload.data + payload.size - SAVED_RECORD_SIZE, SAVED_RECORD_SIZE);
    saved_set_number(lie.data + lie.size - 8, 8, 0);
    saved_add(&lie, "", 1);
    wrapped = saved_wrap(lie.data, lie.size);
    refuse(&options, &wrapped, RATION_EINVAL, "it has bytes after its end");
    free(wrapped.data);
    free(lie.data);
    free(payload.data);
    free(dump.data);
}

static void what_is_of_another_limiter_is_refused(void **state)
{
    struct saved_bytes dump = saved_dump(limiter, NOW_NS);
    struct saved_bytes payload = saved_unwrap(&dump), wrapped;
    struct ration_limiter_options wanted = options;
    struct ration_rule other[SUBJECT_RULES_MAX];

    (void)state;
    memcpy(other, rules, sizeof(other));
    wanted.rules = other;
    wanted.rule_count = 1;
    refuse(&wanted, &dump, RATION_EUNSUPPORTED, "the dumped limiter has 2 rules (got 1)");
    wanted.rule_count = 2;
    ration_limit_parse("9/s sliding_window", &other[1].limit, NULL);
    refuse(&wanted, &dump, RATION_EUNSUPPORTED,
           "rule 1: the limit is of another kind than the dumped one");
    other[1] = rules[1];
    wanted.keys_max = 2;
    refuse(&wanted, &dump, RATION_EUNSUPPORTED, "the dumped limiter has keys_max 1");
    wanted.keys_max = 0;
    wanted.bytes_max = 4096;
    refuse(&wanted, &dump, RATION_EUNSUPPORTED, "bytes_max is too small for the dump's table");
    wanted.bytes_max = 0;
    wanted.trusts_keys = 1;
    refuse(&wanted, &dump, RATION_EUNSUPPORTED, "trusts_keys is not the same as");
    wanted.trusts_keys = 0;
    wanted.struct_size = 0;
    refuse(&wanted, &dump, RATION_EINVAL, "struct_size");
    refuse(NULL, &dump, RATION_EINVAL, "struct_size");
    wanted.struct_size = sizeof(wanted);
    wanted.rules = NULL;
    refuse(&wanted, &dump, RATION_EINVAL, "rule");
    wanted.rules = other;
    wanted.top_keys = UINT32_MAX;
    refuse(&wanted, &dump, RATION_EINVAL, "top_keys");

    saved_set_number(payload.data + SAVED_HASH_KIND_AT, 4, 99);
    wrapped = saved_wrap(payload.data, payload.size);
    refuse(&options, &wrapped, RATION_EUNSUPPORTED, "this machine cannot compute the hash");
    free(wrapped.data);
    free(payload.data);
    free(dump.data);
}

/* Fails at a chosen call. */
struct failing {
    struct saved_bytes bytes;
    size_t calls_left;
};

static ration_status failing_write(void *context, const void *data, size_t size)
{
    struct failing *failing = context;

    if (failing->calls_left-- == 0)
        return RATION_ESTORE;
    return saved_write(&failing->bytes, data, size);
}

static ration_status failing_read(void *context, void *data, size_t size, size_t *out_size)
{
    struct failing *failing = context;

    if (failing->calls_left-- == 0)
        return RATION_ESTORE;
    return saved_read(&failing->bytes, data, size, out_size);
}

static void each_write_and_read_may_fail(void **state)
{
    struct saved_bytes dump = saved_dump(limiter, NOW_NS);
    ration_limiter *loaded = NULL;
    struct ration_error error;
    size_t count = 0;

    (void)state;
    for (;; count++) {
        struct failing failing = {.calls_left = count};
        ration_status status = ration_limiter_dump(limiter, NOW_NS, failing_write, &failing);

        free(failing.bytes.data);
        if (status == RATION_OK)
            break;
        assert_int_equal(status, RATION_ESTORE);
    }
    assert_int_equal(count, 2); /* the prelude, a chunk */
    for (count = 0;; count++) {
        struct failing failing = {.bytes = dump, .calls_left = count};
        ration_status status =
            ration_limiter_load(&options, failing_read, &failing, &loaded, &error);

        if (status == RATION_OK)
            break;
        assert_int_equal(status, RATION_ESTORE);
        assert_string_equal(error.message, "the dump cannot be loaded: it could not be read");
        assert_null(loaded);
    }
    ration_limiter_free(loaded);
    free(dump.data);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_byte_that_is_changed_is_noticed),
        cmocka_unit_test(every_end_that_comes_too_early_is_noticed),
        cmocka_unit_test(bytes_may_come_in_any_pieces),
        cmocka_unit_test(what_makes_no_sense_is_refused),
        cmocka_unit_test(what_does_not_add_up_is_refused),
        cmocka_unit_test(what_is_of_another_limiter_is_refused),
        cmocka_unit_test(each_write_and_read_may_fail),
    };

    return cmocka_run_group_tests(tests, begin, end);
}
