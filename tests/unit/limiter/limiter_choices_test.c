/*
 * Limits among which a function chooses: each has a bucket of its own for every key, unless the rule declares them one
 * budget.
 */
#include "unit/limiter/limiter_kit.h"

enum { READ, WRITE, CHOICE_COUNT };

static struct ration_limit limits[CHOICE_COUNT + 1]; /* one more, which is not declared */

struct request {
    const char *user;
    int kind; /* an index of the limits above; -1: the rule does not apply */
};

static ration_status key_by_user(void *context, const void *request, char *room,
                                 struct ration_key *out_key)
{
    (void)context, (void)room;
    *out_key = kit_key(((const struct request *)request)->user);
    return RATION_OK;
}

static const struct ration_limit *choose_by_kind(void *context, const void *request,
                                                 uint64_t *cost_tokens)
{
    int kind = ((const struct request *)request)->kind;

    (void)context, (void)cost_tokens;
    return kind < 0 ? NULL : &limits[kind];
}

static const struct request read_of_ann = {"ann", READ}, write_of_ann = {"ann", WRITE};

/* A limiter whose first rule chooses from these; a second rule, if any, applies always. */
static void plan(struct kit *kit, const char *read, const char *write, const char *always)
{
    limits[READ] = kit_limit(read);
    limits[WRITE] = kit_limit(write);
    limits[CHOICE_COUNT] = kit_limit("7/s");
    KIT_PLAN(kit, read, always != NULL ? always : read);
    kit->options.rule_count = always != NULL ? 2 : 1;
    kit->options.key_func = key_by_user;
    kit->rules[0] = (struct ration_rule){
        .choose = choose_by_kind, .limits = limits, .limit_count = CHOICE_COUNT};
}

static void begin(struct kit *kit, const char *read, const char *write, const char *always)
{
    plan(kit, read, write, always);
    kit_open(kit);
}

static struct ration_decision take(struct kit *kit, const struct request *request, uint64_t cost)
{
    struct ration_decision decision;

    assert_int_equal(
        ration_limiter_take(kit->limiter, request, cost, kit->manual.ns, &decision, NULL),
        RATION_OK);
    return decision;
}

static uint64_t left(struct kit *kit, const struct request *request)
{
    return take(kit, request, 0).remaining;
}

static uint64_t allowed_of(struct kit *kit, const struct request *request, int count)
{
    uint64_t allowed = 0;

    for (int i = 0; i < count; i++)
        allowed += ration_limiter_allow_at(kit->limiter, request, 1, kit->manual.ns);
    return allowed;
}

/* The defect: all of them shared a bucket, so that no write passed after 50 reads. */
static void reads_leave_writes_alone(void **state)
{
    static const char *const pairs[][2] = {{"50/s", "10/s"},
                                           {"50/s sliding_window", "10/s sliding_window"},
                                           {"50/s fixed_window", "10/s burst 10"},
                                           {"50/s sliding_log", "10/s refill interval"},
                                           {"50/s burst 30 reserve 20/min", "10/s leaky_queue"}};

    (void)state;
    for (size_t i = 0; i < KIT_COUNT_OF(pairs); i++)
        for (int has_more = 0; has_more < 2; has_more++) {
            struct kit kit;

            begin(&kit, pairs[i][0], pairs[i][1], has_more ? "1000/h" : NULL);
            assert_int_equal(allowed_of(&kit, &read_of_ann, 60), 50);
            assert_int_equal(allowed_of(&kit, &write_of_ann, 60), 10);
            assert_int_equal(allowed_of(&kit, &read_of_ann, 60), 0);
            assert_int_equal(allowed_of(&kit, &(struct request){"bob", WRITE}, 60), 10);
            assert_int_equal(allowed_of(&kit, &(struct request){"bob", READ}, 60), 50);
            kit_end(&kit);
        }
}

static void each_is_reported_and_counted_by_its_own_index(void **state)
{
    struct ration_decision got, details[3];
    struct ration_limiter_report report;
    struct ration_rule rule;
    struct ration_scan_item items[8];
    uint64_t cursor = 0;
    struct kit kit;

    (void)state;
    begin(&kit, "50/h name read", "10/h name write", "1000/h name all");
    assert_int_equal(ration_limiter_rule_count(kit.limiter), 3);
    assert_int_equal(ration_limiter_rule(kit.limiter, 1, &rule), RATION_OK);
    assert_string_equal(rule.limit.name, "write");
    assert_int_equal(ration_limiter_rule(kit.limiter, 2, &rule), RATION_OK);
    assert_string_equal(rule.limit.name, "all");

    take(&kit, &read_of_ann, 5);
    assert_int_equal(ration_limiter_take(kit.limiter, &write_of_ann, 3, KIT_NOW_NS, &got, details),
                     RATION_OK);
    assert_int_equal(got.limit_index, 1);
    assert_int_equal(details[0].limit, 0); /* does not apply */
    assert_int_equal(details[1].remaining, 7);
    assert_int_equal(details[2].remaining, 992);
    assert_int_equal(take(&kit, &write_of_ann, 8).verdict, RATION_DENY);
    ration_limiter_read_report(kit.limiter, &report);
    assert_int_equal(report.rule_count, 3);
    assert_int_equal(report.rules[0].allowed_tokens, 5);
    assert_int_equal(report.rules[1].allowed_tokens, 3);
    assert_int_equal(report.rules[1].denied, 1);
    assert_int_equal(report.rules[2].allowed_tokens, 8);

    size_t count = 0; /* one key, with a bucket for each limit */
    do
        count += ration_limiter_scan(kit.limiter, &cursor, items + count, 8 - count, KIT_NOW_NS);
    while (cursor != 0);
    assert_int_equal(count, 1);
    assert_int_equal(items[0].rule_count, 3);
    assert_int_equal(items[0].remaining[0], 45);
    assert_int_equal(items[0].remaining[1], 7);
    kit_end(&kit);
}

static void refunds_and_charges_reach_the_chosen_one(void **state)
{
    struct kit kit;

    (void)state;
    begin(&kit, "50/h", "10/h", NULL);
    take(&kit, &read_of_ann, 5);
    take(&kit, &write_of_ann, 5);
    assert_int_equal(ration_limiter_refund(kit.limiter, &write_of_ann, 2, KIT_NOW_NS), RATION_OK);
    assert_int_equal(left(&kit, &read_of_ann), 45);
    assert_int_equal(left(&kit, &write_of_ann), 7);
    assert_int_equal(ration_limiter_charge(kit.limiter, &read_of_ann, 100, KIT_NOW_NS), RATION_OK);
    assert_int_equal(left(&kit, &read_of_ann), 0);
    assert_int_equal(left(&kit, &write_of_ann), 7);
    kit_end(&kit);
}

/* A block applies to the key, not to one kind of its requests. */
static void resets_and_blocks_reach_all_of_them(void **state)
{
    struct kit kit;

    (void)state;
    begin(&kit, "50/h", "10/h", NULL);
    take(&kit, &read_of_ann, 5);
    take(&kit, &write_of_ann, 5);
    assert_int_equal(ration_limiter_block_until(kit.limiter, &write_of_ann,
                                                KIT_NOW_NS + 60 * SECOND, KIT_NOW_NS),
                     RATION_OK);
    assert_int_equal(take(&kit, &read_of_ann, 1).retry_after_ns, 60 * SECOND);
    assert_int_equal(take(&kit, &write_of_ann, 1).retry_after_ns, 60 * SECOND);
    assert_int_equal(ration_limiter_reset(kit.limiter, &read_of_ann, KIT_NOW_NS), RATION_OK);
    assert_int_equal(left(&kit, &read_of_ann), 50);
    assert_int_equal(left(&kit, &write_of_ann), 10);
    assert_int_equal(ration_limiter_block_until(kit.limiter, &(struct request){"ann", -1},
                                                KIT_NOW_NS + SECOND, KIT_NOW_NS),
                     RATION_EUNSUPPORTED);
    kit_end(&kit);

    /* one of them cannot hold a block: such requests would pass */
    begin(&kit, "50/h", "10/h sliding_window", NULL);
    assert_int_equal(
        ration_limiter_block_until(kit.limiter, &read_of_ann, KIT_NOW_NS + SECOND, KIT_NOW_NS),
        RATION_EUNSUPPORTED);
    assert_int_equal(take(&kit, &read_of_ann, 1).verdict, RATION_ALLOW);
    kit_end(&kit);
    begin(&kit, "50/h", "10/h sliding_window",
          "1000/h"); /* the second rule can, for all requests */
    assert_int_equal(
        ration_limiter_block_until(kit.limiter, &read_of_ann, KIT_NOW_NS + SECOND, KIT_NOW_NS),
        RATION_OK);
    assert_int_equal(take(&kit, &write_of_ann, 1).verdict, RATION_DENY);
    kit_end(&kit);
}

static void reservations_come_back_to_their_own(void **state)
{
    struct ration_decision got;
    struct ration_reservation reservation;
    struct kit kit;

    (void)state;
    begin(&kit, "50/h", "10/h", "1000/h");
    assert_int_equal(
        ration_limiter_reserve(kit.limiter, &write_of_ann, 10, 0, KIT_NOW_NS, &got, &reservation),
        RATION_OK);
    assert_int_equal(left(&kit, &write_of_ann), 0);
    assert_int_equal(left(&kit, &read_of_ann), 50);
    assert_int_equal(ration_limiter_settle(kit.limiter, &reservation, 4, KIT_NOW_NS), RATION_OK);
    assert_int_equal(left(&kit, &write_of_ann), 6);
    assert_int_equal(left(&kit, &read_of_ann), 50);
    kit_end(&kit);
}

static void batches_and_stacks_choose_too(void **state)
{
    struct ration_batch_item items[4] = {{.request = &read_of_ann, .cost_tokens = 50},
                                         {.request = &write_of_ann, .cost_tokens = 10},
                                         {.request = &read_of_ann, .cost_tokens = 1},
                                         {.request = &write_of_ann, .cost_tokens = 1}};
    struct ration_stack_request asks[] = {
        {0, &read_of_ann, 5}, {0, &write_of_ann, 3}, {0, &read_of_ann, 5}};
    struct ration_decision decision, details[4];
    struct ration_stack_options options = {.struct_size = sizeof(options), .limiter_count = 1};
    ration_stack *stack;
    struct kit kit;

    (void)state;
    begin(&kit, "50/h", "10/h", NULL);
    assert_int_equal(ration_limiter_take_batch(kit.limiter, items, 4, KIT_NOW_NS), 2);
    assert_int_equal(items[3].verdict, RATION_DENY);
    kit_end(&kit);

    plan(&kit, "50/h", "10/h", "1000/h");
    options.limiters = &kit.options;
    options.clock = &kit.clock;
    assert_int_equal(ration_stack_create(&options, &stack, NULL), RATION_OK);
    assert_int_equal(ration_stack_take_all(stack, asks, 3, KIT_NOW_NS, &decision), RATION_OK);
    assert_int_equal(ration_stack_peek(stack, &read_of_ann, 0, KIT_NOW_NS, &decision, details),
                     RATION_OK);
    assert_int_equal(details[0].remaining, 40); /* one key, whichever limits its requests have */
    assert_int_equal(details[2].remaining, 1000 - 13);
    assert_int_equal(ration_stack_peek(stack, &write_of_ann, 0, KIT_NOW_NS, &decision, details),
                     RATION_OK);
    assert_int_equal(details[1].remaining, 7);
    ration_stack_free(stack);
}

struct file {
    char bytes[4096];
    size_t size, at;
};

static ration_status write_file(void *context, const void *bytes, size_t size)
{
    struct file *file = context;

    memcpy(file->bytes + file->size, bytes, size);
    file->size += size;
    return RATION_OK;
}

static ration_status read_file(void *context, void *bytes, size_t size, size_t *out_size)
{
    struct file *file = context;

    *out_size = size < file->size - file->at ? size : file->size - file->at;
    memcpy(bytes, file->bytes + file->at, *out_size);
    file->at += *out_size;
    return RATION_OK;
}

static void a_dump_and_a_change_keep_each(void **state)
{
    struct file file = {.size = 0};
    struct kit kit;

    (void)state;
    begin(&kit, "50/h", "10/h", "1000/h");
    take(&kit, &read_of_ann, 5);
    take(&kit, &write_of_ann, 5);
    assert_int_equal(ration_limiter_dump(kit.limiter, KIT_NOW_NS, write_file, &file), RATION_OK);
    kit_end(&kit);
    assert_int_equal(ration_limiter_load(&kit.options, read_file, &file, &kit.limiter, NULL),
                     RATION_OK);
    assert_int_equal(left(&kit, &read_of_ann), 45);
    assert_int_equal(left(&kit, &write_of_ann), 5);

    limits[WRITE] = kit_limit("100/h");
    assert_int_equal(ration_limiter_change(kit.limiter, kit.rules, 2, RATION_CHANGE_KEEP, NULL),
                     RATION_OK);
    assert_int_equal(left(&kit, &read_of_ann), 45);
    assert_int_equal(left(&kit, &write_of_ann), 5);
    kit_pass(&kit, 36 * SECOND);
    assert_int_equal(left(&kit, &write_of_ann), 6);
    kit.rules[0].limit_count = 1; /* as many as before */
    assert_int_equal(ration_limiter_change(kit.limiter, kit.rules, 2, RATION_CHANGE_KEEP, NULL),
                     RATION_EUNSUPPORTED);
    kit_end(&kit);
}

static void what_was_not_declared_is_refused(void **state)
{
    struct ration_decision got;
    struct ration_error error;
    struct kit kit;

    (void)state;
    begin(&kit, "50/h", "10/h", NULL);
    assert_int_equal(ration_limiter_take(kit.limiter, &(struct request){"ann", CHOICE_COUNT}, 1,
                                         KIT_NOW_NS, &got, NULL),
                     RATION_EUNSUPPORTED);
    assert_int_equal(kit_report(&kit).rules[0].errors, 1);
    assert_int_equal(left(&kit, &read_of_ann), 50);
    kit_end(&kit);

    plan(&kit, "50/h", "10/h",
         NULL); /* a function without a declaration: the rule's own limit only */
    kit.rules[0] = (struct ration_rule){.limit = limits[READ], .choose = choose_by_kind};
    kit_open(&kit);
    assert_int_equal(take(&kit, &read_of_ann, 1).remaining, 49);
    assert_int_equal(ration_limiter_take(kit.limiter, &write_of_ann, 1, KIT_NOW_NS, &got, NULL),
                     RATION_EUNSUPPORTED);
    kit_end(&kit);

    struct ration_limit many[RATION_RULES_MAX + 1];

    for (size_t i = 0; i <= RATION_RULES_MAX; i++)
        many[i] = limits[READ];

    const struct ration_rule wrong[] = {
        {.limit = limits[READ], .limits = limits, .limit_count = 2}, /* no function */
        {.limit = limits[READ], .is_one_budget = 1},
        {.choose = choose_by_kind, .limit_count = 2},
        {.choose = choose_by_kind, .limits = limits, .limit_count = 2, .is_one_budget = 1},
        {.choose = choose_by_kind, .limits = many, .limit_count = RATION_RULES_MAX + 1},
        {.choose = choose_by_kind, .limits = many, .limit_count = SIZE_MAX}};

    for (size_t i = 0; i < KIT_COUNT_OF(wrong); i++) {
        kit.options.rules = &wrong[i];
        error.message[0] = '\0';
        assert_int_equal(ration_limiter_create(&kit.options, &kit.limiter, &error), RATION_EINVAL);
        assert_true(strlen(error.message) > 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reads_leave_writes_alone),
        cmocka_unit_test(each_is_reported_and_counted_by_its_own_index),
        cmocka_unit_test(refunds_and_charges_reach_the_chosen_one),
        cmocka_unit_test(resets_and_blocks_reach_all_of_them),
        cmocka_unit_test(reservations_come_back_to_their_own),
        cmocka_unit_test(batches_and_stacks_choose_too),
        cmocka_unit_test(a_dump_and_a_change_keep_each),
        cmocka_unit_test(what_was_not_declared_is_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
