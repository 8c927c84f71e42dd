#include "unit/api/guard_page.h"

#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

#define REGION_COUNT 128
#define REGION_SIZE  ((size_t)1 << 17)

static char *regions; /* each followed by a page that cannot be touched */
static size_t used_count;

static size_t page_size(void)
{
    return (size_t)sysconf(_SC_PAGESIZE);
}

static int map_regions(void **state)
{
    size_t stride = REGION_SIZE + page_size();

    (void)state;
    regions = mmap(NULL, REGION_COUNT * stride, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
                   -1, 0);
    if (regions == MAP_FAILED)
        return -1;
    for (size_t i = 0; i < REGION_COUNT; i++)
        if (mprotect(regions + i * stride + REGION_SIZE, page_size(), PROT_NONE) != 0)
            return -1;
    return 0;
}

static int unmap_regions(void **state)
{
    (void)state;
    return munmap(regions, REGION_COUNT * (REGION_SIZE + page_size()));
}

void *guarded(size_t size)
{
    char *end = regions + used_count++ * (REGION_SIZE + page_size()) + REGION_SIZE;

    if (used_count > REGION_COUNT || size > REGION_SIZE)
        fail_msg("a row needs more than %d regions of %zu bytes", REGION_COUNT, REGION_SIZE);
    return memset(end - size, 0, size);
}

void *guarded_copy(const void *bytes, size_t size)
{
    return memcpy(guarded(size), bytes, size);
}

struct ration_key *guarded_key(const char *text)
{
    size_t size = strlen(text);

    return GUARDED_VALUE(struct ration_key, .bytes = guarded_copy(text, size), .size = size);
}

struct ration_limit *guarded_limit(const char *text)
{
    struct ration_limit *limit = GUARDED(struct ration_limit);

    assert_int_equal(ration_limit_parse(guarded_copy(text, strlen(text) + 1), limit, NULL),
                     RATION_OK);
    return limit;
}

ration_status guard_write(void *context, const void *bytes, size_t size)
{
    struct guard_file *file = context;

    if (size > sizeof(file->bytes) - file->size)
        return RATION_ENOSPC;
    memcpy(file->bytes + file->size, bytes, size);
    file->size += size;
    return RATION_OK;
}

ration_status guard_read(void *context, void *bytes, size_t size, size_t *out_size)
{
    struct guard_file *file = context;
    size_t left = file->size - file->at;

    *out_size = size < left ? size : left;
    memcpy(bytes, file->bytes + file->at, *out_size);
    file->at += *out_size;
    return RATION_OK;
}

/* --- clocks, names, limits --- */

static void names(void)
{
    assert_string_equal(ration_status_name(RATION_EINVAL), "RATION_EINVAL");
    assert_string_equal(ration_status_name((ration_status)99), "RATION_UNKNOWN");
    assert_non_null(ration_status_text((ration_status)99));
    assert_string_equal(ration_decision_verdict_name((enum ration_verdict)99), "unknown");
    assert_string_equal(ration_clock_kind_name((enum ration_clock_kind)99), "unknown");
    assert_string_equal(ration_engine_change_name((enum ration_engine_change)99), "unknown");
    assert_non_null(ration_version());
}

static void clocks(void)
{
    struct ration_manual_clock *manual = GUARDED(struct ration_manual_clock);
    struct ration_clock clock = ration_clock_manual(manual);

    ration_clock_manual_set(manual, 5);
    ration_clock_manual_advance(manual, 2);
    assert_int_equal(clock.now_ns(clock.context), 7);
    assert_non_null(ration_clock_monotonic().now_ns);
    assert_non_null(ration_clock_boottime().now_ns);
    assert_non_null(ration_clock_coarse().now_ns);
    assert_non_null(ration_clock_tsc().now_ns);
    (void)ration_clock_tsc_error();
    assert_true(ration_clock_default_now() > 0);
}

static void limits_from_specs(void)
{
    struct ration_limit *limit = GUARDED(struct ration_limit);
    struct ration_error *error = GUARDED(struct ration_error);
    const struct ration_limit_spec *fast =
        GUARDED_VALUE(struct ration_limit_spec, .tokens = 10, .period_ns = 1);
    const struct ration_limit_spec *named = GUARDED_VALUE(
        struct ration_limit_spec, .tokens = 1, .period_ns = 1, .name = GUARDED_TEXT("login"));

    assert_int_equal(ration_limit_make(named, limit, error), RATION_OK);
    assert_int_equal(ration_limit_make(fast, limit, error), RATION_ERANGE);
    assert_true(ration_limit_find_nearest(fast).count > 0);
    assert_int_equal(ration_limit_per(5, 10, limit), RATION_OK);
    assert_int_equal(ration_limit_per_second(5, limit), RATION_OK);
    assert_int_equal(ration_limit_per_minute(5, limit), RATION_OK);
    assert_int_equal(ration_limit_per_hour(5, limit), RATION_OK);
}

static void limits_as_text(void)
{
    static const char *const texts[] = {"10/s",
                                        "20 per 100ms burst 100",
                                        "1/h start empty",
                                        "",
                                        "10/ns",
                                        "10/s burst 20 reserve 100/h burst 500",
                                        "10/s name",
                                        "10",
                                        "10/s name 0123456789"};
    char printed[RATION_LIMIT_TEXT_SIZE];

    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
        size_t size = strlen(texts[i]);
        const char *terminated = guarded_copy(texts[i], size + 1);
        const char *bare = guarded_copy(texts[i], size);
        struct ration_limit *limit = GUARDED(struct ration_limit);
        struct ration_error *error = GUARDED(struct ration_error);
        ration_status status = ration_limit_parse(terminated, limit, error);

        assert_int_equal(ration_limit_parse_bytes(bare, size, limit, error), status);
    }
    assert_int_equal(ration_limit_parse_bytes(NULL, 0, GUARDED(struct ration_limit), NULL),
                     RATION_EINVAL);

    struct ration_limit *limit = guarded_limit("10/s burst 20 name a");

    assert_int_equal(ration_limit_print(limit, printed, sizeof(printed)), RATION_OK);
    assert_true(ration_limit_fill_ns(limit) > 0);
    for (size_t size = 0; size <= strlen(printed) + 1; size++) /* each too small, then enough */
        assert_int_equal(ration_limit_print(limit, guarded(size), size),
                         size > strlen(printed) ? RATION_OK : RATION_ENOSPC);
    assert_int_equal(ration_limit_print(GUARDED(struct ration_limit), printed, sizeof(printed)),
                     RATION_EINVAL);
}

static void retries(void)
{
    struct ration_retry *retry = GUARDED(struct ration_retry);
    struct ration_decision *denied =
        GUARDED_VALUE(struct ration_decision, .verdict = RATION_DENY, .retry_after_ns = 9);

    assert_int_equal(ration_retry_init(retry, (enum ration_jitter)9, 1, 2, 3), RATION_EINVAL);
    assert_int_equal(ration_retry_init(retry, RATION_JITTER_FULL, 1, 2, 3), RATION_OK);
    assert_true(ration_retry_next(retry, denied) >= 9);
}

/* --- buckets --- */

static void buckets(void)
{
    static const char *const texts[] = {"5/s", "5/s refill interval", "5/s leaky_queue",
                                        "5/s fixed_window", "5/s sliding_window"};

    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
        struct ration_bucket *bucket = GUARDED(struct ration_bucket);
        const struct ration_limit *limit = guarded_limit(texts[i]);
        struct ration_decision *decision = GUARDED(struct ration_decision);
        struct ration_bucket_reservation *reservation = GUARDED(struct ration_bucket_reservation);

        assert_true(ration_bucket_fits(limit));
        assert_int_equal(ration_bucket_init(bucket, limit, 0), RATION_OK);
        assert_true(ration_bucket_allow(bucket, limit));
        ration_bucket_set(bucket, limit, 5, 0);
        assert_true(ration_bucket_allow_at(bucket, limit, 1, 0));
        assert_int_equal(ration_bucket_take(bucket, limit, 9, 0).verdict, RATION_NEVER);
        assert_int_equal(ration_bucket_peek(bucket, limit, 1, 0).verdict, RATION_ALLOW);
        assert_true(ration_bucket_take_up_to(bucket, limit, 2, 0, decision) > 0);
        ration_bucket_refund(bucket, limit, 1, 0);
        ration_bucket_charge(bucket, limit, 1, 0);
        (void)ration_bucket_block_until(bucket, limit, 1);
        ration_bucket_set(bucket, limit, 5, 0);
        for (int k = 0; k < 2; k++)
            if (ration_bucket_reserve(bucket, limit, 1, 0, 0, reservation).verdict ==
                RATION_ALLOW) {
                assert_int_equal(k == 0 ? ration_bucket_settle(bucket, limit, reservation, 1, 0)
                                        : ration_bucket_cancel(bucket, limit, reservation, 0),
                                 RATION_OK);
            }
        assert_int_equal(ration_bucket_change(bucket, limit, limit, RATION_CHANGE_KEEP, 0),
                         RATION_OK);
        assert_int_equal(ration_bucket_change(bucket, limit, limit, RATION_CHANGE_RESET, 0),
                         RATION_OK);
        assert_int_equal(ration_bucket_change(bucket, limit, limit, (enum ration_change)2, 0),
                         RATION_EINVAL);
        used_count = 0;
    }
}

/* --- limiters --- */

/* The key is the four bytes of the request: less than a struct ration_key has. */
static ration_status key_of_four_bytes(void *context, const void *request, char *room,
                                       struct ration_key *out_key)
{
    (void)context;
    memcpy(room, request, sizeof(uint32_t));
    *out_key = (struct ration_key){room, sizeof(uint32_t)};
    return RATION_OK;
}

/* Options of a limiter of these limits, all of which end at a guard page. */
static struct ration_limiter_options *limiter_options(const char *text, const char *other,
                                                      ration_key_func *key_func)
{
    struct ration_rule *rules = GUARDED_ARRAY(struct ration_rule, other != NULL ? 2 : 1);

    rules[0].limit = *guarded_limit(text);
    if (other != NULL)
        rules[1].limit = *guarded_limit(other);
    return GUARDED_VALUE(struct ration_limiter_options,
                         .struct_size = sizeof(struct ration_limiter_options), .rules = rules,
                         .rule_count = other != NULL ? 2 : 1, .keys_max = 100, .key_func = key_func,
                         .name = GUARDED_TEXT("guarded"), .top_keys = key_func != NULL ? 4 : 0);
}

static void take_in_every_way(ration_limiter *limiter, const void *request)
{
    size_t rule_count = ration_limiter_rule_count(limiter);
    struct ration_decision *decision = GUARDED(struct ration_decision);
    struct ration_decision *details = GUARDED_ARRAY(struct ration_decision, rule_count);
    uint64_t *granted = GUARDED(uint64_t);
    uint64_t now_ns = ration_limiter_now(limiter);

    for (int i = 0; i < 2; i++) /* a new key, and one that is there */
        for (uint64_t cost = 0; cost < 3; cost++) {
            (void)ration_limiter_allow(limiter, request);
            (void)ration_limiter_allow_at(limiter, request, cost, now_ns);
            assert_int_equal(ration_limiter_take(limiter, request, cost, now_ns, decision, details),
                             RATION_OK);
            assert_int_equal(ration_limiter_peek(limiter, request, cost, now_ns, decision, details),
                             RATION_OK);
            assert_int_equal(
                ration_limiter_take_up_to(limiter, request, cost, now_ns, granted, decision),
                RATION_OK);
        }
}

static void change_in_every_way(ration_limiter *limiter, const void *request)
{
    uint64_t now_ns = ration_limiter_now(limiter);

    assert_int_equal(ration_limiter_refund(limiter, request, 1, now_ns), RATION_OK);
    assert_int_equal(ration_limiter_charge(limiter, request, 1, now_ns), RATION_OK);
    (void)ration_limiter_block_until(limiter, request, now_ns + 1, now_ns);
    assert_int_equal(ration_limiter_reset(limiter, request, now_ns), RATION_OK);
    if (ration_limiter_rule_count(limiter) == 1) {
        struct ration_rule *rule = GUARDED(struct ration_rule);

        assert_int_equal(ration_limiter_rule(limiter, 0, rule), RATION_OK);
        assert_int_equal(ration_limiter_refund_as(limiter, request, &rule->limit, 1, now_ns),
                         RATION_OK);
    }
}

static void wait_in_every_way(ration_limiter *limiter, const void *request)
{
    struct ration_decision *decision = GUARDED(struct ration_decision);
    struct ration_reservation *reservation = GUARDED(struct ration_reservation);
    struct ration_canceller *canceller = GUARDED(struct ration_canceller);
    struct ration_pending *pending = GUARDED(struct ration_pending);
    uint64_t now_ns = ration_limiter_now(limiter);

    assert_int_equal(ration_limiter_reserve(limiter, request, 1, 0, now_ns, decision, reservation),
                     RATION_OK);
    if (decision->verdict == RATION_ALLOW)
        assert_int_equal(ration_limiter_settle(limiter, reservation, 1, now_ns), RATION_OK);
    assert_int_equal(ration_limiter_reserve(limiter, request, 1, 0, now_ns, decision, reservation),
                     RATION_OK);
    if (decision->verdict == RATION_ALLOW)
        assert_int_equal(ration_limiter_cancel(limiter, reservation, now_ns), RATION_OK);
    (void)ration_limiter_begin(limiter, request, 1, now_ns, pending, decision);
    ration_limiter_cancel_wait(canceller);
    (void)ration_limiter_wait(limiter, request, 1, now_ns, canceller, decision);
}

static void batches(ration_limiter *limiter, const void *request)
{
    struct ration_batch_item *items = GUARDED_ARRAY(struct ration_batch_item, 3);
    struct ration_decision *decision = GUARDED(struct ration_decision);

    for (int i = 0; i < 2; i++) {
        for (int k = 0; k < 3; k++)
            items[k] = (struct ration_batch_item){.request = request, .cost_tokens = 1};
        items[2].decision = i > 0 ? decision : NULL;
        (void)ration_limiter_take_batch(limiter, items, 3, ration_limiter_now(limiter));
        assert_int_equal(items[2].status, RATION_OK);
    }
}

static void read_in_every_way(ration_limiter *limiter)
{
    struct ration_top_keys_stats *stats = GUARDED(struct ration_top_keys_stats);
    struct ration_top_key *keys = GUARDED_ARRAY(struct ration_top_key, 2);
    struct ration_scan_item *items = GUARDED_ARRAY(struct ration_scan_item, 2);
    uint64_t *cursor = GUARDED(uint64_t);

    ration_limiter_read_report(limiter, GUARDED(struct ration_limiter_report));
    (void)ration_limiter_top_keys(limiter, RATION_TOP_DENIED, keys, 2, stats);
    (void)ration_limiter_top_keys(limiter, RATION_TOP_COST, keys, 2, stats);
    assert_int_equal(ration_limiter_top_keys(limiter, (enum ration_top)2, keys, 2, stats), 0);
    do
        (void)ration_limiter_scan(limiter, cursor, items, 2, ration_limiter_now(limiter));
    while (*cursor != 0);
    (void)ration_limiter_count(limiter, ration_limiter_now(limiter));
    assert_string_equal(ration_limiter_name(limiter), "guarded");
    assert_true(ration_limiter_bytes(limiter) > 0);
}

static void change_dump_and_load(ration_limiter *limiter, struct ration_limiter_options *options)
{
    static struct guard_file file;
    struct ration_error *error = GUARDED(struct ration_error);
    ration_limiter **loaded = GUARDED(ration_limiter *);

    assert_int_equal(ration_limiter_change(limiter, options->rules, options->rule_count,
                                           RATION_CHANGE_KEEP, error),
                     RATION_OK);
    assert_int_equal(ration_limiter_change(limiter, options->rules, options->rule_count,
                                           (enum ration_change)7, error),
                     RATION_EINVAL);
    file.size = file.at = 0;
    assert_int_equal(ration_limiter_dump(limiter, ration_limiter_now(limiter), guard_write, &file),
                     RATION_OK);
    assert_int_equal(ration_limiter_load(options, guard_read, &file, loaded, error), RATION_OK);
    ration_limiter_free(*loaded);
}

static void limiter_of(const char *text, const char *other, ration_key_func *key_func,
                       const void *(*make_request)(unsigned))
{
    struct ration_limiter_options *options = limiter_options(text, other, key_func);
    ration_limiter **limiter = GUARDED(ration_limiter *);
    size_t before = used_count;

    assert_int_equal(ration_limiter_create(options, limiter, GUARDED(struct ration_error)),
                     RATION_OK);
    for (unsigned i = 0; i < 40; i++, used_count = before + 1) {
        const void *request = make_request(i);

        take_in_every_way(*limiter, request);
        change_in_every_way(*limiter, request);
        wait_in_every_way(*limiter, request);
        batches(*limiter, request);
    }
    read_in_every_way(*limiter);
    change_dump_and_load(*limiter, options);
    ration_limiter_free(*limiter);
    used_count = 0;
}

/* Keys of 1 to 40 bytes: the hash reads them by chunks of its own. */
static const void *key_of_size(unsigned index)
{
    char text[64];

    memset(text, 'k', sizeof(text));
    text[index + 1] = '\0';
    return guarded_key(text);
}

static const void *four_bytes(unsigned index)
{
    return GUARDED_VALUE(uint32_t, index);
}

static void limiters(void)
{
    static const char *const texts[] = {"50/s", "50/s sliding_window", "50/s sliding_log",
                                        "50/s burst 9 reserve 9/s", "50/s start empty"};

    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
        limiter_of(texts[i], NULL, NULL, key_of_size);
        limiter_of(texts[i], "90/s", NULL, key_of_size);
        limiter_of(texts[i], NULL, key_of_four_bytes, four_bytes);
        limiter_of(texts[i], "90/s", key_of_four_bytes, four_bytes);
    }
}

static void simple_limiter(void)
{
    ration_limiter **limiter = GUARDED(ration_limiter *);

    assert_int_equal(ration_limiter_create_simple(GUARDED_TEXT("5/s burst"), 9, limiter,
                                                  GUARDED(struct ration_error)),
                     RATION_EINVAL);
    assert_int_equal(
        ration_limiter_create_simple(GUARDED_TEXT("5/s"), 9, limiter, GUARDED(struct ration_error)),
        RATION_OK);
    ration_limiter_free(*limiter);
}

/* --- stacks --- */

static ration_stack *create_stack(struct ration_stack_options *options)
{
    ration_stack **stack = GUARDED(ration_stack *);

    assert_int_equal(ration_stack_create(options, stack, GUARDED(struct ration_error)), RATION_OK);
    return *stack;
}

static void take_from_stack(ration_stack *stack, const void *request)
{
    struct ration_decision *decision = GUARDED(struct ration_decision);
    struct ration_decision *details = GUARDED_ARRAY(struct ration_decision, 4);
    struct ration_reservation *reservation = GUARDED(struct ration_reservation);
    uint64_t now_ns = ration_stack_now(stack);
    struct ration_stack_request *asks = GUARDED_ARRAY(struct ration_stack_request, 2);

    asks[0] = (struct ration_stack_request){0, request, 1};
    asks[1] = (struct ration_stack_request){1, request, 1};
    (void)ration_stack_allow(stack, request);
    (void)ration_stack_allow_at(stack, request, 1, now_ns);
    assert_int_equal(ration_stack_take(stack, request, 1, now_ns, decision, details), RATION_OK);
    assert_int_equal(ration_stack_peek(stack, request, 1, now_ns, decision, details), RATION_OK);
    assert_int_equal(ration_stack_take_all(stack, asks, 2, now_ns, decision), RATION_OK);
    assert_int_equal(ration_stack_reserve(stack, request, 1, 0, now_ns, decision, reservation),
                     RATION_OK);
    assert_int_equal(ration_stack_settle(stack, reservation, 0, now_ns), RATION_OK);
    assert_int_equal(ration_stack_reserve(stack, request, 1, 0, now_ns, decision, reservation),
                     RATION_OK);
    assert_int_equal(ration_stack_cancel(stack, reservation, now_ns), RATION_OK);
}

static void stacks(void)
{
    static struct guard_file file;
    struct ration_limiter_options *limiters = GUARDED_ARRAY(struct ration_limiter_options, 2);
    struct ration_stack_options *options = GUARDED_VALUE(
        struct ration_stack_options, .struct_size = sizeof(struct ration_stack_options),
        .limiters = limiters, .limiter_count = 2, .limiters_max = 3, .spare_bytes = 1 << 20);
    size_t *index = GUARDED(size_t);
    ration_stack **loaded = GUARDED(ration_stack *);
    ration_stack *stack;

    limiters[0] = *limiter_options("50/s", "90/s", key_of_four_bytes);
    limiters[1] = *limiter_options("50/s", "90/s sliding_log", key_of_four_bytes);
    stack = create_stack(options);
    take_from_stack(stack, four_bytes(1));
    file.size = file.at = 0;
    assert_int_equal(ration_stack_dump(stack, ration_stack_now(stack), guard_write, &file),
                     RATION_OK);
    assert_int_equal(
        ration_stack_load(options, guard_read, &file, loaded, GUARDED(struct ration_error)),
        RATION_OK);
    ration_stack_free(*loaded);
    assert_int_equal(ration_stack_add(stack, limiter_options("9/s", NULL, key_of_four_bytes), index,
                                      GUARDED(struct ration_error)),
                     RATION_OK);
    assert_int_equal(ration_stack_limiter_count(stack), 3);
    take_in_every_way(ration_stack_limiter(stack, *index), four_bytes(1));
    assert_int_equal(ration_stack_replace(stack, GUARDED_VALUE(size_t, 2), 1, false,
                                          limiter_options("8/s", NULL, key_of_four_bytes), index,
                                          GUARDED(struct ration_error)),
                     RATION_OK);
    take_in_every_way(ration_stack_limiter(stack, *index), four_bytes(1));
    assert_true(ration_stack_bytes(stack) > 0);
    ration_stack_free(stack);
}

static const struct guard_row rows[] = {
    {"ration_status_name ration_status_text ration_decision_verdict_name ration_clock_kind_name "
     "ration_engine_change_name ration_version",
     names},
    {"ration_clock_monotonic ration_clock_boottime ration_clock_coarse ration_clock_tsc "
     "ration_clock_tsc_error ration_clock_manual ration_clock_manual_set "
     "ration_clock_manual_advance ration_clock_default_now",
     clocks},
    {"ration_limit_make ration_limit_find_nearest ration_limit_per ration_limit_per_second "
     "ration_limit_per_minute ration_limit_per_hour",
     limits_from_specs},
    {"ration_limit_parse ration_limit_parse_bytes ration_limit_print ration_limit_fill_ns",
     limits_as_text},
    {"ration_retry_init ration_retry_next", retries},
    {"ration_bucket_fits ration_bucket_init ration_bucket_allow ration_bucket_allow_at "
     "ration_bucket_take ration_bucket_peek ration_bucket_take_up_to ration_bucket_refund "
     "ration_bucket_charge ration_bucket_set ration_bucket_block_until ration_bucket_reserve "
     "ration_bucket_settle ration_bucket_cancel ration_bucket_change",
     buckets},
    {"ration_limiter_create_simple", simple_limiter},
    {"ration_limiter_create ration_limiter_free ration_limiter_now ration_limiter_allow "
     "ration_limiter_allow_at ration_limiter_take ration_limiter_peek ration_limiter_take_up_to "
     "ration_limiter_refund ration_limiter_refund_as ration_limiter_charge ration_limiter_reset "
     "ration_limiter_block_until ration_limiter_take_batch ration_limiter_reserve "
     "ration_limiter_settle ration_limiter_cancel ration_limiter_begin ration_limiter_wait "
     "ration_limiter_cancel_wait ration_limiter_change ration_limiter_read_report "
     "ration_limiter_top_keys "
     "ration_limiter_scan ration_limiter_count ration_limiter_rule ration_limiter_rule_count "
     "ration_limiter_name "
     "ration_limiter_bytes ration_limiter_dump ration_limiter_load",
     limiters},
    {"ration_stack_create ration_stack_free ration_stack_add ration_stack_replace "
     "ration_stack_limiter_count "
     "ration_stack_limiter ration_stack_bytes ration_stack_allow ration_stack_allow_at "
     "ration_stack_take ration_stack_peek ration_stack_take_all ration_stack_reserve "
     "ration_stack_settle ration_stack_cancel ration_stack_now ration_stack_dump "
     "ration_stack_load",
     stacks},
};

static void run_rows(const struct guard_row *first, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        used_count = 0;
        first[i].run();
    }
}

static void no_call_touches_a_byte_beyond_what_it_is_given(void **state)
{
    (void)state;
    run_rows(rows, sizeof(rows) / sizeof(rows[0]));
    run_rows(guard_policy_rows, guard_policy_row_count);
}

int main(int argument_count, char **arguments)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(no_call_touches_a_byte_beyond_what_it_is_given)};

    if (argument_count == 2 && strcmp(arguments[1], "--names") == 0) {
        for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
            puts(rows[i].names);
        for (size_t i = 0; i < guard_policy_row_count; i++)
            puts(guard_policy_rows[i].names);
        return 0;
    }
    return cmocka_run_group_tests(tests, map_regions, unmap_regions);
}
