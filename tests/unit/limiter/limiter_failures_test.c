/*
 * Each allocation fails in turn: RATION_ENOMEM with a reason, nothing written, nothing leaked.
 */
#include "support/saved_dump.h"
#include "unit/limiter/limiter_allocations.h"
#include "unit/limiter/limiter_kit.h"

/* Repeats, with each allocation failing in turn, until none fails. Returns how many failed. */
typedef ration_status attempt(void *context, void **out_object, struct ration_error *error);

static uint64_t refuse_each(attempt *try, void *context, void **out_object)
{
    static char nothing;
    int64_t live_count = allocations.live_count;

    for (uint64_t refused = 1;; refused++) {
        struct ration_error error = {.message = ""};
        ration_status status;

        *out_object = &nothing;
        allocations.call_count = 0;
        allocations.fails_at = refused;
        status = try(context, out_object, &error);
        allocations.fails_at = 0;
        if (status == RATION_OK) {
            assert_true(allocations.call_count < refused);
            return refused - 1;
        }
        assert_int_equal(status, RATION_ENOMEM);
        assert_int_equal(error.status, RATION_ENOMEM);
        assert_true(strlen(error.message) > 10);
        assert_ptr_equal(*out_object, &nothing);
        assert_int_equal(allocations.live_count, live_count);
    }
}

static ration_status create_limiter(void *context, void **out_object, struct ration_error *error)
{
    return ration_limiter_create(context, (ration_limiter **)out_object, error);
}

static void plan_all(struct kit *kit, size_t rule_count)
{
    KIT_PLAN(kit, "10/s", "20/min sliding_log");
    kit->options.rule_count = rule_count;
    kit->options.is_prefaulted = 1;
    kit->options.top_keys = 10;
    kit->options.sample_latency = 1;
}

static void a_limiter_without_memory_is_not_made(void **state)
{
    (void)state;
    for (size_t rule_count = 1; rule_count <= 2; rule_count++)
        for (uint32_t is_shared = 0; is_shared <= 1; is_shared++) {
            struct kit kit;
            void *limiter;

            plan_all(&kit, rule_count);
            kit.options.is_shared_by_forks = is_shared;
            /* rules, limiter, secret, store, table, its pages, where it counts from, counts, the top keys' secret */
            assert_int_equal(refuse_each(create_limiter, &kit.options, &limiter), 9);
            kit.limiter = limiter;
            assert_int_equal(kit_take(&kit, "k", 1).verdict, RATION_ALLOW);
            kit_end(&kit);
            assert_int_equal(allocations.live_count, 0);
        }
}

static void a_limiter_of_large_pages_makes_do_with_small_ones(void **state)
{
    struct kit kit;
    uint64_t call_count;

    (void)state;
    KIT_PLAN(&kit, "10/s");
    kit.options.keys_max = 200000;
    kit.options.uses_huge_pages = 1;
    allocations.call_count = 0;
    kit_open(&kit);
    call_count = allocations.call_count;
    kit_end(&kit);
    mappings.is_populate_unknown = true; /* madvise() fails; the memory is granted */
    allocations.call_count = 0;
    kit_open(&kit);
    mappings.is_populate_unknown = false;
    assert_int_equal(allocations.call_count, call_count);
    kit_end(&kit);
    assert_int_equal(allocations.live_count, 0);
}

static ration_status create_stack(void *context, void **out_object, struct ration_error *error)
{
    return ration_stack_create(context, (ration_stack **)out_object, error);
}

static void a_stack_without_memory_is_not_made(void **state)
{
    struct kit kits[3];
    struct ration_limiter_options limiters[3];
    struct ration_stack_options options = {.struct_size = sizeof(options),
                                           .limiters = limiters,
                                           .limiter_count = 3,
                                           .is_prefaulted = 1};
    struct ration_key key = RATION_KEY("k");
    void *stack;

    (void)state;
    for (size_t i = 0; i < 3; i++) {
        plan_all(&kits[i], 1 + i % 2);
        limiters[i] = kits[i].options;
    }
    options.clock = &kits[0].clock;
    /* the stack, its list, 2 rooms, 3 rules, secret, store, table, pages, where it
       counts from, and of each the limiter,
       counts and a secret */
    assert_int_equal(refuse_each(create_stack, &options, &stack), 21);
    assert_true(ration_stack_allow(stack, &key));
    ration_stack_free(stack);
    assert_int_equal(allocations.live_count, 0);
}

/* A refusal for another reason leaks nothing either. */
static void wrong_options_leak_nothing(void **state)
{
    struct kit kit;
    struct ration_limiter_options limiters[3];
    struct ration_stack_options options = {
        .struct_size = sizeof(options), .limiters = limiters, .limiter_count = 3};
    ration_limiter *limiter = NULL;
    ration_stack *stack = NULL;

    (void)state;
    plan_all(&kit, 2);
    for (size_t i = 0; i < 3; i++)
        limiters[i] = kit.options;
    limiters[2].top_keys = UINT32_MAX;
    assert_int_equal(ration_stack_create(&options, &stack, NULL), RATION_EINVAL);
    limiters[2].top_keys = 0;
    limiters[2].keys_max = 0;
    assert_int_equal(ration_stack_create(&options, &stack, NULL), RATION_EINVAL);
    limiters[2].keys_max = 10;
    options.threads_max = 1000;
    assert_int_equal(ration_stack_create(&options, &stack, NULL), RATION_EINVAL);
    kit.options.top_keys = UINT32_MAX;
    assert_int_equal(ration_limiter_create(&kit.options, &limiter, NULL), RATION_EINVAL);
    kit.options.top_keys = 0;
    kit.options.bytes_max = 1;
    assert_int_equal(ration_limiter_create(&kit.options, &limiter, NULL), RATION_EINVAL);
    kit.options.bytes_max = 0;
    kit.options.threads_max = 1000;
    assert_int_equal(ration_limiter_create(&kit.options, &limiter, NULL), RATION_EINVAL);
    assert_null(limiter);
    assert_null(stack);
    assert_int_equal(allocations.live_count, 0);
}

/* A change takes no memory, so none can be missing. */
static void a_change_needs_no_memory(void **state)
{
    struct kit kit;

    (void)state;
    plan_all(&kit, 2);
    kit_open(&kit);
    kit_take(&kit, "k", 3);
    allocations.call_count = 0;
    allocations.fails_at = 1;
    for (int i = 0; i < 40; i++)
        assert_int_equal(ration_limiter_change(kit.limiter, kit.rules, 2, RATION_CHANGE_KEEP, NULL),
                         RATION_OK);
    assert_int_equal(allocations.call_count, 0);
    allocations.fails_at = 0;
    assert_int_equal(kit_left(&kit, "k"), 7);
    kit_end(&kit);
}

static void top_keys_without_memory_are_none(void **state)
{
    struct ration_top_key keys[4], untouched[4];
    struct ration_top_keys_stats stats, untouched_stats;
    struct kit kit;
    int64_t live_count;

    (void)state;
    plan_all(&kit, 1);
    kit_open(&kit);
    for (int i = 0; i < 20; i++)
        kit_take(&kit, "k", 1);
    memset(untouched, 0x5a, sizeof(untouched));
    memset(&untouched_stats, 0x5a, sizeof(untouched_stats));
    memcpy(keys, untouched, sizeof(keys));
    stats = untouched_stats;
    live_count = allocations.live_count;
    allocations.call_count = 0;
    allocations.fails_at = 1;
    assert_int_equal(ration_limiter_top_keys(kit.limiter, RATION_TOP_DENIED, keys, 4, &stats), 0);
    assert_int_equal(allocations.call_count, 1);
    allocations.fails_at = 0;
    assert_memory_equal(keys, untouched, sizeof(keys));
    assert_memory_equal(&stats, &untouched_stats, sizeof(stats));
    assert_int_equal(ration_limiter_top_keys(kit.limiter, RATION_TOP_DENIED, keys, 4, &stats), 1);
    assert_int_equal(allocations.live_count, live_count);
    kit_end(&kit);
}

struct load {
    struct kit kit;
    struct saved_bytes dump;
};

static ration_status load_limiter(void *context, void **out_object, struct ration_error *error)
{
    struct load *load = context;

    return saved_load(&load->kit.options, &load->dump, (ration_limiter **)out_object, error);
}

static ration_status write_nothing(void *context, const void *data, size_t size)
{
    (void)context, (void)data, (void)size;
    return RATION_OK;
}

static void dumps_without_memory_are_neither_made_nor_loaded(void **state)
{
    struct load load = {.dump = {0}};
    void *loaded;
    uint64_t refused = 1;

    (void)state;
    plan_all(&load.kit, 2);
    kit_open(&load.kit);
    kit_take(&load.kit, "k", 3);
    for (;; refused++) {
        int64_t live_count = allocations.live_count;
        ration_status status;

        allocations.call_count = 0;
        allocations.fails_at = refused;
        status = ration_limiter_dump(load.kit.limiter, KIT_NOW_NS, write_nothing, NULL);
        allocations.fails_at = 0;
        assert_int_equal(allocations.live_count, live_count);
        if (status == RATION_OK)
            break;
        assert_int_equal(status, RATION_ENOMEM);
    }
    assert_true(refused > 1);
    load.dump = saved_dump(load.kit.limiter, KIT_NOW_NS);
    assert_true(refuse_each(load_limiter, &load, &loaded) >= 8);
    ration_limiter_free(loaded);
    free(load.dump.data);
    kit_end(&load.kit);
    assert_int_equal(allocations.live_count, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_limiter_without_memory_is_not_made),
        cmocka_unit_test(a_limiter_of_large_pages_makes_do_with_small_ones),
        cmocka_unit_test(a_stack_without_memory_is_not_made),
        cmocka_unit_test(wrong_options_leak_nothing),
        cmocka_unit_test(a_change_needs_no_memory),
        cmocka_unit_test(top_keys_without_memory_are_none),
        cmocka_unit_test(dumps_without_memory_are_neither_made_nor_loaded),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
