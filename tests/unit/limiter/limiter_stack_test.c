/*
 * Several limiters decide together: all are charged or none, whatever the order, and the answer names the limiter whose
 * limit decided.
 */
#include <pthread.h>
#include <unistd.h>

#include "unit/limiter/limiter_kit.h"

enum { ALL, TENANT, EACH, LIMITER_COUNT };

static const struct ration_key all = {"all", 3}, tenant = {"tenant", 6}, alice = {"alice", 5},
                               bob = {"bob", 3};

/* One request that every limiter has a key of. */
struct request {
    struct ration_key keys[LIMITER_COUNT];
};

static const struct request by_alice = {{{"all", 3}, {"tenant", 6}, {"alice", 5}}};

static ration_status key_func(void *context, const void *request, char *room,
                              struct ration_key *out_key)
{
    (void)room;
    *out_key = ((const struct request *)request)->keys[*(const int *)context];
    return RATION_OK;
}

struct stack_kit {
    struct kit kits[RATION_CALL_KEYS_MAX];
    struct ration_limiter_options limiters[RATION_CALL_KEYS_MAX];
    struct ration_stack_options options;
    ration_stack *stack;
};

/* A limiter each, with one rule each. */
static void plan(struct stack_kit *kit, const char *const *texts)
{
    static const int indexes[] = {ALL, TENANT, EACH};

    memset(kit, 0, sizeof(*kit));
    kit->options = (struct ration_stack_options){.struct_size = sizeof(kit->options),
                                                 .limiters = kit->limiters,
                                                 .clock = &kit->kits[0].clock};
    for (size_t i = 0; texts[i] != NULL; i++) {
        KIT_PLAN(&kit->kits[i], texts[i]);
        if (i < LIMITER_COUNT) {
            kit->kits[i].options.key_context = (void *)(uintptr_t)&indexes[i];
            kit->kits[i].options.key_func = key_func;
        }
        kit->limiters[i] = kit->kits[i].options;
        kit->options.limiter_count = i + 1;
    }
}

static void open_stack(struct stack_kit *kit)
{
    struct ration_error error = {.message = ""};

    if (ration_stack_create(&kit->options, &kit->stack, &error) != RATION_OK)
        fail_msg("%s", error.message);
}

static struct ration_decision take_all(struct stack_kit *kit,
                                       const struct ration_stack_request *asks, size_t count)
{
    struct ration_decision decision;

    assert_int_equal(
        ration_stack_take_all(kit->stack, asks, count, ration_stack_now(kit->stack), &decision),
        RATION_OK);
    return decision;
}

/* What is left of a key; requests of limiters with a key_func are made of it alone. */
static uint64_t left(struct stack_kit *kit, size_t index, struct ration_key key)
{
    struct request request = {{key, key, key}};
    struct ration_decision decision;

    assert_int_equal(ration_limiter_peek(ration_stack_limiter(kit->stack, index), &request, 0,
                                         ration_stack_now(kit->stack), &decision, NULL),
                     RATION_OK);
    return decision.remaining;
}

static void all_are_charged_or_none_and_the_answer_says_who(void **state)
{
    struct ration_decision got, details[LIMITER_COUNT];
    struct stack_kit kit;

    (void)state;
    plan(&kit, KIT_TEXTS("100/h", "20/h", "10/h"));
    open_stack(&kit);
    for (int i = 0; i < 3; i++)
        assert_int_equal(ration_stack_take(kit.stack, &by_alice, 3, KIT_NOW_NS, &got, details),
                         RATION_OK);
    assert_answer(got, RATION_ALLOW, 1, 0);
    assert_int_equal(got.limiter_index, EACH);
    assert_int_equal(details[ALL].remaining, 91);
    assert_int_equal(details[TENANT].remaining, 11);

    ration_stack_take(kit.stack, &by_alice, 2, KIT_NOW_NS, &got, details);
    assert_answer(got, RATION_DENY, 1, 360 * SECOND);
    assert_int_equal(got.limiter_index, EACH);
    assert_int_equal(details[ALL].verdict, RATION_ALLOW);
    assert_int_equal(left(&kit, ALL, all), 91);
    assert_int_equal(left(&kit, TENANT, tenant), 11);

    ration_stack_peek(kit.stack, &by_alice, 15, KIT_NOW_NS, &got, details);
    assert_int_equal(got.verdict, RATION_NEVER); /* beats the tenant's DENY */
    assert_int_equal(details[TENANT].verdict, RATION_DENY);
    assert_true(ration_stack_allow_at(kit.stack, &by_alice, 1, KIT_NOW_NS));
    assert_false(ration_stack_allow(kit.stack, &by_alice));
    kit.kits[0].manual.ns += 360 * SECOND - 1; /* R4 */
    assert_false(ration_stack_allow(kit.stack, &by_alice));
    kit.kits[0].manual.ns += 1;
    assert_true(ration_stack_allow(kit.stack, &by_alice));
    ration_stack_free(kit.stack);
}

static void the_same_bucket_listed_twice_is_charged_the_sum(void **state)
{
    struct request a = {{all, tenant, alice}}, b = {{all, tenant, bob}};
    struct ration_stack_request asks[] = {{ALL, &a, 1}, {EACH, &a, 2}, {ALL, &b, 3}, {EACH, &a, 4}};
    struct ration_stack_request huge[] = {{ALL, &a, UINT64_MAX}, {ALL, &b, UINT64_MAX}};
    struct stack_kit kit;

    (void)state;
    plan(&kit, KIT_TEXTS("100/h", "20/h", "10/h"));
    open_stack(&kit);
    assert_answer(take_all(&kit, asks, 4), RATION_ALLOW, 4, 0);
    assert_int_equal(left(&kit, ALL, all), 96);
    assert_int_equal(left(&kit, EACH, alice), 4);
    assert_int_equal(left(&kit, TENANT, tenant), 20);               /* not asked */
    assert_int_equal(take_all(&kit, asks, 4).verdict, RATION_DENY); /* 2 would do, 2 + 4 not */
    assert_int_equal(left(&kit, ALL, all), 96);
    assert_int_equal(left(&kit, EACH, alice), 4);
    assert_int_equal(take_all(&kit, huge, 2).verdict, RATION_NEVER); /* the sum does not wrap */
    asks[1].cost_tokens = 7;                                         /* 7 + 4 of 10 */
    assert_int_equal(take_all(&kit, asks, 4).verdict, RATION_NEVER);
    ration_stack_free(kit.stack);
}

static void too_many_keys_are_refused(void **state)
{
    struct ration_decision got, untouched;
    struct ration_stack_request asks[RATION_STACK_REQUESTS_MAX + 1];
    struct request requests[RATION_STACK_REQUESTS_MAX + 1];
    struct kit_room rooms[RATION_STACK_REQUESTS_MAX + 1];
    struct stack_kit kit;

    (void)state;
    plan(&kit, KIT_TEXTS("100/h", "20/h"));
    open_stack(&kit);
    memset(&untouched, 0x5a, sizeof(untouched));
    got = untouched;
    for (uint64_t i = 0; i <= RATION_STACK_REQUESTS_MAX; i++) {
        requests[i].keys[ALL] = requests[i].keys[TENANT] = kit_numbered(&rooms[i], i);
        asks[i] = (struct ration_stack_request){ALL, &requests[i], 1};
    }
    for (size_t count = RATION_CALL_KEYS_MAX + 1; count <= RATION_STACK_REQUESTS_MAX + 1; count++)
        assert_int_equal(ration_stack_take_all(kit.stack, asks, count, KIT_NOW_NS, &got),
                         RATION_EINVAL);
    assert_int_equal(ration_stack_take_all(kit.stack, asks, 0, KIT_NOW_NS, &got), RATION_EINVAL);
    assert_int_equal(ration_stack_take_all(kit.stack, asks, SIZE_MAX, KIT_NOW_NS, &got),
                     RATION_EINVAL);
    asks[0].limiter_index = 2;
    assert_int_equal(ration_stack_take_all(kit.stack, asks, 1, KIT_NOW_NS, &got), RATION_EINVAL);
    assert_same_decision(got, untouched);
    asks[0].limiter_index = ALL;
    assert_int_equal(left(&kit, ALL, requests[0].keys[ALL]), 100); /* nothing was taken */
    assert_answer(take_all(&kit, asks, RATION_CALL_KEYS_MAX), RATION_ALLOW, 99, 0);
    for (size_t i = RATION_CALL_KEYS_MAX; i < RATION_STACK_REQUESTS_MAX; i++)
        asks[i].request = &requests[i % RATION_CALL_KEYS_MAX]; /* 32 asks of 16 keys */
    assert_answer(take_all(&kit, asks, RATION_STACK_REQUESTS_MAX), RATION_ALLOW, 97, 0);
    ration_stack_free(kit.stack);
}

static void a_reservation_goes_at_once_and_is_settled_everywhere(void **state)
{
    struct ration_reservation reservation, untouched;
    struct ration_decision got;
    struct stack_kit kit;

    (void)state;
    plan(&kit, KIT_TEXTS("100/h", "20/h", "10/h"));
    open_stack(&kit);
    ration_stack_reserve(kit.stack, &by_alice, 8, 0, KIT_NOW_NS, &got, &reservation);
    assert_int_equal(got.verdict, RATION_ALLOW);
    assert_int_equal(reservation.ready_at_ns, KIT_NOW_NS);
    assert_int_equal(left(&kit, ALL, all), 92);
    assert_int_equal(ration_stack_settle(kit.stack, &reservation, 3, KIT_NOW_NS), RATION_OK);
    assert_int_equal(ration_stack_settle(kit.stack, &reservation, 3, KIT_NOW_NS), RATION_ECLOSED);
    assert_int_equal(ration_stack_cancel(kit.stack, &reservation, KIT_NOW_NS), RATION_ECLOSED);
    assert_int_equal(left(&kit, ALL, all), 97);
    assert_int_equal(left(&kit, TENANT, tenant), 17);
    assert_int_equal(left(&kit, EACH, alice), 7);

    ration_stack_reserve(kit.stack, &by_alice, 7, 0, KIT_NOW_NS, &got, &reservation);
    assert_int_equal(ration_stack_cancel(kit.stack, &reservation, KIT_NOW_NS), RATION_OK);
    assert_int_equal(left(&kit, ALL, all), 97);
    assert_int_equal(left(&kit, EACH, alice), 7);
    ration_stack_reserve(kit.stack, &by_alice, 7, 0, KIT_NOW_NS, &got, &reservation);
    ration_stack_settle(kit.stack, &reservation, 12, KIT_NOW_NS); /* more than reserved */
    assert_int_equal(left(&kit, ALL, all), 85);
    assert_int_equal(left(&kit, TENANT, tenant), 5);

    memset(&untouched, 0x5a, sizeof(untouched));
    reservation = untouched;
    ration_stack_reserve(kit.stack, &by_alice, 1, RATION_FOREVER, KIT_NOW_NS, &got, &reservation);
    assert_answer(got, RATION_DENY, 0, 6 * 360 * SECOND); /* whatever one would wait */
    assert_memory_equal(&reservation, &untouched, sizeof(reservation));
    assert_int_equal(left(&kit, ALL, all), 85);
    ration_stack_free(kit.stack);
}

/* Two threads that take the same two keys in opposite orders both make progress, R2. */
struct pair {
    struct stack_kit kit;
    unsigned reservation;
    uint64_t allowed_count;
};

static void *take_in_order(void *context)
{
    struct pair *pair = context;
    struct request a = {{all, tenant, alice}}, b = {{all, tenant, bob}};
    struct ration_stack_request asks[] = {{EACH, &a, 1}, {EACH, &b, 1}, {ALL, &a, 1}};
    struct ration_stack_request back[] = {{ALL, &a, 1}, {EACH, &b, 1}, {EACH, &a, 1}};
    unsigned mine = __atomic_fetch_add(&pair->reservation, 1, __ATOMIC_RELAXED);

    for (int i = 0; i < 200000 / KIT_SHARE; i++) {
        struct ration_decision decision;

        ration_stack_take_all(pair->kit.stack, mine == 0 ? asks : back, 3, KIT_NOW_NS, &decision);
        if (decision.verdict == RATION_ALLOW)
            __atomic_add_fetch(&pair->allowed_count, 1, __ATOMIC_RELAXED);
    }
    return NULL;
}

static void opposite_orders_make_progress_and_get_the_burst(void **state)
{
    struct pair pair = {.reservation = 0};
    pthread_t threads[2];
    uint64_t burst = 100000 / KIT_SHARE;
    char text[64];

    (void)state;
    snprintf(text, sizeof(text), "1/h burst %llu", (unsigned long long)burst);
    plan(&pair.kit, KIT_TEXTS("1/h burst 130k", "1/h", text));
    open_stack(&pair.kit);
    for (int i = 0; i < 2; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, take_in_order, &pair), 0);
    for (int i = 0; i < 2; i++)
        pthread_join(threads[i], NULL);
    assert_int_equal(pair.allowed_count, burst);
    assert_int_equal(left(&pair.kit, ALL, all), 130000 - burst);
    assert_int_equal(left(&pair.kit, EACH, alice), 0);
    assert_int_equal(left(&pair.kit, EACH, bob), 0);
    ration_stack_free(pair.kit.stack);
}

/* One more limiter, whose requests are keys. */
static size_t add(struct stack_kit *kit, const char *text, ration_status status)
{
    struct ration_rule rule = {.limit = kit_limit(text)};
    struct ration_limiter_options options = {
        .struct_size = sizeof(options), .rules = &rule, .rule_count = 1, .keys_max = 1000};
    struct ration_error error;
    size_t index = SIZE_MAX;

    assert_int_equal(ration_stack_add(kit->stack, &options, &index, &error), status);
    return index;
}

static void limiters_are_added_and_decided_with_the_others(void **state)
{
    struct ration_stack_request asks[RATION_CALL_KEYS_MAX + 1];
    struct request request = {{all, tenant, alice}};
    struct ration_key key = RATION_KEY("k");
    struct ration_decision got;
    struct stack_kit kit;

    (void)state;
    plan(&kit, KIT_TEXTS("100/h", "20/h"));
    kit.options.limiters_max = 202;
    kit.options.spare_bytes = 200 * 96 * 1024;
    open_stack(&kit);
    for (size_t i = 2; i < 202; i++)
        assert_int_equal(add(&kit, i % 2 == 0 ? "10/h" : "5/h", RATION_OK), i);
    assert_int_equal(ration_stack_limiter_count(kit.stack), 202);
    assert_int_equal(add(&kit, "1/h", RATION_ENOMEM), SIZE_MAX);
    assert_int_equal(ration_stack_take(kit.stack, &request, 1, KIT_NOW_NS, &got, NULL),
                     RATION_EINVAL); /* more than one call can ask */

    asks[0] = (struct ration_stack_request){ALL, &request, 1};
    for (size_t i = 1; i <= RATION_CALL_KEYS_MAX; i++)
        asks[i] = (struct ration_stack_request){200 - 2 * i, &key, 1};
    asks[1].limiter_index = 201; /* of 5 */
    for (uint64_t i = 5; i-- > 0;)
        assert_answer(take_all(&kit, asks, RATION_CALL_KEYS_MAX), RATION_ALLOW, i, 0);
    got = take_all(&kit, asks, RATION_CALL_KEYS_MAX);
    assert_int_equal(got.verdict, RATION_DENY);
    assert_int_equal(got.limiter_index, 201);
    assert_int_equal(left(&kit, ALL, all), 95);
    ration_stack_free(kit.stack);
}

static void a_limiter_without_room_changes_nothing(void **state)
{
    struct ration_key key = RATION_KEY("k");
    struct ration_stack_request ask;
    struct stack_kit kit;
    size_t index;

    (void)state;
    plan(&kit, KIT_TEXTS("100/h"));
    kit.options.limiters_max = 10;
    kit.options.spare_bytes = 96 * 1024; /* for one of 1000 keys */
    open_stack(&kit);
    index = add(&kit, "3/h", RATION_OK);
    assert_int_equal(add(&kit, "3/h", RATION_ENOMEM), SIZE_MAX);
    assert_int_equal(ration_stack_limiter_count(kit.stack), 2);
    ask = (struct ration_stack_request){index, &key, 3};
    assert_answer(take_all(&kit, &ask, 1), RATION_ALLOW, 0, 0);
    ration_stack_free(kit.stack);
}

static void a_queue_is_asked_by_itself(void **state)
{
    struct ration_key key = RATION_KEY("k");
    struct request request = {{all, tenant, alice}};
    struct ration_decision got;
    struct stack_kit kit;

    (void)state;
    plan(&kit, KIT_TEXTS("100/h"));
    kit.options.limiters_max = 2;
    kit.options.spare_bytes = 96 * 1024;
    open_stack(&kit);

    struct ration_stack_request asks[] = {
        {add(&kit, "1/s leaky_queue burst 3", RATION_OK), &key, 1}, {ALL, &request, 1}};

    assert_int_equal(ration_stack_take_all(kit.stack, asks, 2, KIT_NOW_NS, &got),
                     RATION_EUNSUPPORTED);
    assert_int_equal(left(&kit, ALL, all), 100);
    assert_int_equal(take_all(&kit, asks, 1).delay_ns, 0);
    assert_int_equal(take_all(&kit, asks, 1).delay_ns, SECOND);
    ration_stack_free(kit.stack);
}

static long resident_pages(void)
{
    FILE *file = fopen("/proc/self/statm", "r");
    long mapped = 0, resident = 0;

    assert_non_null(file);
    assert_int_equal(fscanf(file, "%ld %ld", &mapped, &resident), 2);
    fclose(file);
    return resident;
}

/* Prefaulted are the tables, not the room for those to come. */
static void spare_room_is_not_touched(void **state)
{
    long before, page = sysconf(_SC_PAGESIZE);
    struct stack_kit kit;

    (void)state;
    plan(&kit, KIT_TEXTS("100/h"));
    kit.limiters[0].keys_max = 300000; /* some 19 MB */
    kit.options.limiters_max = 10;
    kit.options.spare_bytes = (size_t)1 << 30;
    kit.options.is_prefaulted = 1;
    before = resident_pages();
    open_stack(&kit);
    assert_in_range((resident_pages() - before) * page, 10 << 20, 512 << 20);
    before = resident_pages();
    add(&kit, "3/h", RATION_OK);
    assert_in_range((resident_pages() - before) * page, 32 << 10, 64 << 20);
    ration_stack_free(kit.stack);
}

static void refuse(struct stack_kit *kit, ration_status status, const char *part)
{
    ration_stack *untouched = (ration_stack *)(void *)kit;
    ration_stack *stack = untouched;
    struct ration_error error = {.message = ""};

    assert_int_equal(ration_stack_create(&kit->options, &stack, &error), status);
    assert_int_equal(error.status, status);
    if (strstr(error.message, part) == NULL)
        fail_msg("\"%s\", wanted \"%s\"", error.message, part);
    assert_ptr_equal(stack, untouched);
    assert_int_equal(ration_stack_create(&kit->options, &stack, NULL), status);
}

static void wrong_stacks_are_refused(void **state)
{
    struct stack_kit kit;
    struct ration_rule queue = {.limit = kit_limit("1/s leaky_queue")};
    struct ration_error error;

    (void)state;
    plan(&kit, KIT_TEXTS("1/h", "2/h"));
    kit.options.struct_size--;
    refuse(&kit, RATION_EINVAL, "struct_size");
    kit.options.struct_size++;
    kit.options.limiter_count = 0;
    refuse(&kit, RATION_EINVAL, "at least one limiter");
    kit.options.limiter_count = RATION_STACK_MAX + 1;
    refuse(&kit, RATION_EINVAL, "at most 16384 limiters");
    kit.options.limiter_count = 2;
    kit.options.limiters_max = RATION_STACK_MAX + 1;
    refuse(&kit, RATION_EINVAL, "at most 16384 limiters");
    kit.options.limiters_max = 1;
    refuse(&kit, RATION_EINVAL, "at least limiter_count");
    kit.options.limiters_max = 0;
    kit.options.limiter_count = 2;
    kit.limiters[1].keys_max = 0;
    kit.limiters[1].bytes_max = 1 << 20;
    refuse(&kit, RATION_EINVAL, "needs keys_max");
    kit.limiters[1].keys_max = 10;
    kit.options.threads_max = 513;
    refuse(&kit, RATION_EINVAL, "threads_max");
    plan(&kit, KIT_TEXTS("1/h", "2/h", "3/h"));
    for (size_t i = 0; i < 3; i++) {
        kit.limiters[i].rule_count = 5 + i / 2; /* 5, 5 and 6 are 16 */
        for (size_t r = 1; r < RATION_RULES_MAX; r++)
            kit.kits[i].rules[r] = kit.kits[i].rules[0];
    }
    open_stack(&kit);
    ration_stack_free(kit.stack);
    kit.limiters[1].rule_count = 6;
    refuse(&kit, RATION_EINVAL, "at most 16 rules");
    plan(&kit, KIT_TEXTS("1/h", "2/h leaky_queue"));
    refuse(&kit, RATION_EUNSUPPORTED, "is a queue");
    plan(&kit, KIT_TEXTS("1/h", "2/h"));
    open_stack(&kit);
    assert_int_equal(ration_limiter_change(ration_stack_limiter(kit.stack, 1), &queue, 1,
                                           RATION_CHANGE_KEEP, &error),
                     RATION_EUNSUPPORTED);
    assert_null(ration_stack_limiter(kit.stack, 2));
    ration_limiter_free(ration_stack_limiter(kit.stack, 0)); /* not its own: nothing happens */
    assert_int_equal(left(&kit, ALL, all), 1);
    assert_true(ration_stack_bytes(kit.stack) >
                2 * ration_limiter_bytes(ration_stack_limiter(kit.stack, 0)));
    ration_stack_free(kit.stack);
    ration_stack_free(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_are_charged_or_none_and_the_answer_says_who),
        cmocka_unit_test(the_same_bucket_listed_twice_is_charged_the_sum),
        cmocka_unit_test(too_many_keys_are_refused),
        cmocka_unit_test(a_reservation_goes_at_once_and_is_settled_everywhere),
        cmocka_unit_test(opposite_orders_make_progress_and_get_the_burst),
        cmocka_unit_test(limiters_are_added_and_decided_with_the_others),
        cmocka_unit_test(a_limiter_without_room_changes_nothing),
        cmocka_unit_test(a_queue_is_asked_by_itself),
        cmocka_unit_test(spare_room_is_not_touched),
        cmocka_unit_test(wrong_stacks_are_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
