/*
 * limiter_create: creates limiters and stacks: checks their rules, plans and allocates memory, and joins the
 * parts.
 */
#include <stdlib.h>
#include <string.h>

#include "api/make.h"
#include "base/error.h"
#include "base/os.h"
#include "store/memory.h"

#define THREADS_DEFAULT 64

/*
 * What determines the size of a table: keys_max; bytes_max (or keys_max) for a limiter outside a stack; or the
 * dump for a limiter that is loaded.
 */
enum size_by { SIZE_BY_KEYS, SIZE_BY_BYTES, SIZE_BY_DUMP };

static ration_status check_options(const struct ration_limiter_options *options,
                                   enum size_by size_by, struct ration_error *error)
{
    bool has_memory = size_by == SIZE_BY_BYTES;

    if (options == NULL || options->struct_size != sizeof(*options))
        return ration_error_set(
            error, RATION_EINVAL,
            "struct_size must be sizeof(struct ration_limiter_options); set it, and compile with "
            "the header of this library version");
    if (size_by != SIZE_BY_DUMP && options->keys_max == 0 &&
        (options->bytes_max == 0 || !has_memory))
        return ration_error_set(error, RATION_EINVAL,
                                has_memory ? "set keys_max or bytes_max (got neither)"
                                           : "a limiter of a stack needs keys_max (got 0)");
    if (options->keys_max > RATION_SECTION_KEYS_MAX)
        return ration_error_set(error, RATION_EINVAL, "keys_max is at most 4294967295");
    if (options->overflow > RATION_OVERFLOW_ALLOW)
        return ration_error_set(error, RATION_EINVAL,
                                "overflow must be one of enum ration_overflow");
    if (options->name != NULL &&
        strnlen(options->name, RATION_LIMITER_NAME_MAX + 1) > RATION_LIMITER_NAME_MAX)
        return ration_error_set(error, RATION_EINVAL, "name is at most 63 bytes");
    return RATION_OK;
}

/* Returns the given clock, or the default one. */
static ration_status choose_clock(const struct ration_clock *given, struct ration_clock *out_clock,
                                  struct ration_error *error)
{
    if (given != NULL && given->now_ns == NULL)
        return ration_error_set(
            error, RATION_EINVAL,
            "clock has no function; make one with ration_clock_...(), or leave it NULL");
    if (given != NULL && (unsigned)given->kind - 1 >= RATION_CLOCK_CUSTOM)
        return ration_error_set(
            error, RATION_EINVAL,
            "clock has the unknown kind %u; use RATION_CLOCK_CUSTOM for a clock of your own",
            (unsigned)given->kind);
    *out_clock = given != NULL ? *given : ration_clock_tsc();
    return RATION_OK;
}

static struct ration_section_shape shape_of(const struct ration_limiter_options *options,
                                            const struct ration_config_table *configs,
                                            bool is_stackable,
                                            const struct ration_saved_limiter *saved)
{
    bool is_plain = configs->cell_count == 1 && configs->ring_cells == 0 && !is_stackable;
    bool is_mixed = options->has_inline_limits != 0;

    for (size_t i = 0; i < options->rule_count; i++)
        is_mixed |= options->rules[i].choose != NULL;

    return (struct ration_section_shape){
        .keys_max = saved != NULL ? saved->keys_max : options->keys_max,
        .set_count = saved != NULL ? saved->set_count : 0,
        .cell_count = is_plain ? 0 : configs->cell_count,
        .expiry_mask = is_plain ? 0 : configs->expiry_mask,
        .ring_cells = configs->ring_cells,
        .is_mixed = is_mixed,
    };
}

static uint32_t descriptors_for(const struct ration_section_shape *shapes, size_t shape_count,
                                uint32_t threads_max)
{
    uint32_t descriptors = 1;

    if (threads_max == 0)
        threads_max = THREADS_DEFAULT;
    while (descriptors < threads_max && descriptors <= RATION_DESCRIPTORS_MAX)
        descriptors *= 2;
    for (size_t i = 0; i < shape_count; i++)
        if (shapes[i].cell_count > 0)
            return descriptors;
    return 0;
}

_Static_assert(RATION_LIMITER_TIME_MAX_NS == RATION_TABLE_NOW_NS_MAX,
               "the public bound on time is that of the slots");

/*
 * Windows are aligned to the clock's zero. A table whose epoch is zero can represent any now of a manual or
 * custom clock that starts low; but one whose clock counts the years since 1970 cannot, since they exceed the
 * range of its slots.
 */
static uint64_t epoch_of(const struct ration_clock *clock)
{
    bool is_callers_clock =
        clock->kind == RATION_CLOCK_MANUAL || clock->kind == RATION_CLOCK_CUSTOM;
    uint64_t now_ns = ration_time_clamp(ration_clock_now(clock));

    return is_callers_clock && now_ns < RATION_TABLE_NOW_NS_MAX / 2 ? 0 : now_ns;
}

/* Chooses the secret of the hash of keys: a new one, or that of the dump. */
static ration_status choose_hash(bool trusts_keys, const struct ration_saved_header *saved,
                                 struct ration_block_plan *plan, struct ration_error *error)
{
    plan->hash = trusts_keys ? RATION_HASH_TRUSTED : 0;
    if (saved == NULL)
        return ration_os_random(plan->seed, sizeof(plan->seed))
                   ? RATION_OK
                   : ration_error_set(error, RATION_ENOMEM, "the system returned no random bytes");
    if (!ration_hash_kind_usable(saved->hash_kind))
        return ration_error_set(error, RATION_EUNSUPPORTED,
                                "this machine cannot compute the hash of the dump's keys");
    if (trusts_keys != (saved->hash_kind == RATION_HASH_TRUSTED))
        return ration_error_set(error, RATION_EUNSUPPORTED,
                                "trusts_keys is not the same as when the dump was made");
    plan->hash = (enum ration_hash_kind)saved->hash_kind;
    memcpy(plan->seed, saved->seed, sizeof(plan->seed));
    return RATION_OK;
}

static ration_status create_memory(const struct ration_section_shape *shapes, size_t shape_count,
                                   const struct ration_stack_options *options,
                                   const struct ration_clock *clock,
                                   const struct ration_saved_header *saved,
                                   struct ration_memory **out_memory, struct ration_error *error)
{
    struct ration_block_plan plan = {
        .shapes = shapes,
        .shape_count = shape_count,
        .section_max = options->limiters_max,
        .spare_bytes = options->spare_bytes,
        .descriptor_count = descriptors_for(shapes, shape_count, options->threads_max),
        .clock_kind = clock->kind,
        .epoch_ns = epoch_of(clock),
        .is_shared = options->is_shared_by_forks != 0,
        .is_prefaulted = options->is_prefaulted != 0,
    };
    struct ration_mapping_options mapping_options = {
        .is_shared = options->is_shared_by_forks != 0,
        .is_huge = options->uses_huge_pages != 0,
    };
    ration_status status = choose_hash(options->trusts_keys != 0, saved, &plan, error);

    if (status != RATION_OK)
        return status;
    status = ration_memory_create(&plan, mapping_options, out_memory);
    if (status == RATION_EINVAL)
        return ration_error_set(error, status,
                                "the table would be too large; threads_max is at most 512");
    if (status != RATION_OK)
        return ration_error_set(error, status, "the system does not have enough memory");
    return RATION_OK;
}

static ration_status fit_to_bytes_max(const struct ration_limiter_options *options,
                                      struct ration_section_shape *shape,
                                      struct ration_error *error)
{
    struct ration_block_plan plan = {.shapes = shape,
                                     .shape_count = 1,
                                     .descriptor_count =
                                         descriptors_for(shape, 1, options->threads_max)};
    struct ration_mapping_options mapping_options = {.is_huge = options->uses_huge_pages != 0};
    size_t bytes_max = ration_mapping_fit(options->bytes_max, mapping_options);
    uint64_t keys;

    if (options->bytes_max == 0)
        return RATION_OK;
    if (shape->set_count > 0)
        return ration_block_size(&plan) <= bytes_max
                   ? RATION_OK
                   : ration_error_set(error, RATION_EUNSUPPORTED,
                                      "bytes_max is too small for the dump's table");
    keys = ration_block_keys_in(*shape, plan.descriptor_count, bytes_max);
    if (keys == 0 || shape->keys_max > keys)
        return ration_error_set(
            error, RATION_EINVAL,
            keys == 0 ? "bytes_max is too small for a single key"
                      : "bytes_max is too small for keys_max keys; set one of them to 0");
    if (shape->keys_max == 0)
        shape->keys_max = keys;
    return RATION_OK;
}

ration_status ration_make_limiter(const struct ration_limiter_options *options,
                                  const struct ration_saved_header *saved,
                                  ration_limiter **out_limiter, struct ration_error *error)
{
    const struct ration_saved_limiter *saved_limiter = saved != NULL ? &saved->limiters[0] : NULL;
    ration_status status =
        check_options(options, saved_limiter != NULL ? SIZE_BY_DUMP : SIZE_BY_BYTES, error);
    struct ration_config_table configs;
    struct ration_section_shape shape;
    struct ration_memory *memory = NULL;
    struct ration_clock clock;

    if (status == RATION_OK)
        status = choose_clock(options->clock, &clock, error);
    if (status == RATION_OK)
        status = ration_config_table_init(&configs, options->rules, options->rule_count, error);
    if (status != RATION_OK)
        return status;

    struct ration_stack_options common = {
        .is_prefaulted = options->is_prefaulted,
        .uses_huge_pages = options->uses_huge_pages,
        .is_shared_by_forks = options->is_shared_by_forks,
        .threads_max = options->threads_max,
        .trusts_keys = options->trusts_keys,
    };
    struct ration_limiter *limiter = calloc(1, sizeof(*limiter));

    shape = shape_of(options, &configs, options->is_stackable != 0, saved_limiter);
    if (limiter == NULL)
        status = ration_error_set(error, RATION_ENOMEM, "no memory for the limiter");
    if (status == RATION_OK && saved_limiter != NULL)
        status = ration_snapshot_load_check(saved_limiter, options, &configs, error);
    if (status == RATION_OK)
        status = fit_to_bytes_max(options, &shape, error);
    if (status == RATION_OK)
        status = create_memory(&shape, 1, &common, &clock, saved, &memory, error);
    if (status == RATION_OK) {
        status = ration_limiter_init(limiter, options, &configs, &memory->store, 0, clock);
        if (status != RATION_OK)
            ration_error_set(error, status,
                             status == RATION_ENOMEM ? "no memory for statistics"
                                                     : "top_keys is at most 4096");
    }
    if (status != RATION_OK) {
        if (memory != NULL)
            memory->store.calls->free(&memory->store);
        ration_config_table_done(&configs);
        free(limiter);
        return status;
    }
    *out_limiter = limiter;
    return RATION_OK;
}

ration_status ration_limiter_create(const struct ration_limiter_options *options,
                                    ration_limiter **out_limiter, struct ration_error *error)
{
    return ration_make_limiter(options, NULL, out_limiter, error);
}

ration_status ration_limiter_create_simple(const char *limit_text, uint64_t keys_max,
                                           ration_limiter **out_limiter, struct ration_error *error)
{
    struct ration_rule rule = {0};
    struct ration_limiter_options options = {
        .struct_size = sizeof(options), .rules = &rule, .rule_count = 1, .keys_max = keys_max};
    ration_status status = ration_limit_parse(limit_text, &rule.limit, error);

    return status == RATION_OK ? ration_limiter_create(&options, out_limiter, error) : status;
}

void ration_limiter_free(ration_limiter *limiter)
{
    if (limiter == NULL || limiter->stack != NULL)
        return;

    struct ration_store *store = limiter->store;

    ration_limiter_done(limiter);
    store->calls->free(store);
    free(limiter);
}

/* Computes the rules and shape of one limiter of a stack. On success the caller releases configs. */
static ration_status plan_limiter(const struct ration_limiter_options *options,
                                  const struct ration_saved_limiter *saved, bool is_alone,
                                  struct ration_config_table *configs,
                                  struct ration_section_shape *out_shape,
                                  struct ration_error *error)
{
    ration_status status =
        check_options(options, saved != NULL ? SIZE_BY_DUMP : SIZE_BY_KEYS, error);

    if (status == RATION_OK)
        status = ration_config_table_init(configs, options->rules, options->rule_count, error);
    if (status != RATION_OK)
        return status;
    if (!is_alone)
        status = ration_config_table_check_stacked(options->rules, options->rule_count, error);
    if (status == RATION_OK && saved != NULL)
        status = ration_snapshot_load_check(saved, options, configs, error);
    if (status != RATION_OK) {
        ration_config_table_done(configs);
        return status;
    }
    *out_shape = shape_of(options, configs, true, saved);
    return RATION_OK;
}

/* The plan of a stack. */
struct stack_plan {
    struct ration_config_table *configs;
    struct ration_section_shape *shapes;
    size_t planned_count; /* number of configs and shapes filled in */
};

static void stack_plan_done(struct stack_plan *plan)
{
    for (size_t i = 0; i < plan->planned_count; i++)
        ration_config_table_done(&plan->configs[i]);
    free(plan->configs);
    free(plan->shapes);
}

/* Computes the rules and shapes of all limiters. */
static ration_status plan_limiters(const struct ration_stack_options *options,
                                   const struct ration_saved_header *saved, struct stack_plan *plan,
                                   struct ration_error *error)
{
    size_t rule_count = 0;

    for (size_t i = 0; i < options->limiter_count; i++) {
        const struct ration_saved_limiter *saved_limiter =
            saved != NULL ? &saved->limiters[i] : NULL;
        bool is_alone = options->limiter_count == 1 || options->limiters_max > 0;
        ration_status status = plan_limiter(&options->limiters[i], saved_limiter, is_alone,
                                            &plan->configs[i], &plan->shapes[i], error);

        if (status != RATION_OK)
            return status;
        plan->planned_count++;
        rule_count += plan->configs[i].rule_count;
        if (options->limiters_max == 0 && rule_count > RATION_CALL_RULES_MAX)
            return ration_error_set(error, RATION_EINVAL, "a stack has at most 16 rules in all");
    }
    return RATION_OK;
}

/* Creates a limiter over a section of the stack's store. On success the limiter owns configs. */
static ration_status make_stacked(struct ration_stack *stack,
                                  const struct ration_limiter_options *options,
                                  struct ration_config_table *configs, uint32_t section_index,
                                  struct ration_limiter **out_limiter, struct ration_error *error)
{
    struct ration_limiter_options stacked = *options;
    struct ration_limiter *limiter = calloc(1, sizeof(*limiter));
    ration_status status;

    if (limiter == NULL)
        return ration_error_set(error, RATION_ENOMEM, "no memory for the limiter");
    stacked.is_stackable = 1;
    stacked.is_shared_by_forks = ((const struct ration_memory *)stack->store)->block->is_shared;
    status =
        ration_limiter_init(limiter, &stacked, configs, stack->store, section_index, stack->clock);
    if (status != RATION_OK) {
        free(limiter);
        return ration_error_set(error, status,
                                status == RATION_ENOMEM ? "no memory for statistics"
                                                        : "top_keys is at most 4096");
    }
    limiter->stack = stack;
    *out_limiter = limiter;
    return RATION_OK;
}

/* One thread adds and replaces limiters; other threads read the sum. */
static void set_bytes(struct ration_stack *stack, size_t bytes)
{
    __atomic_store_n(&stack->limiter_bytes, bytes, __ATOMIC_RELAXED);
}

static ration_status place_limiter(struct ration_stack *stack,
                                   const struct ration_limiter_options *options,
                                   struct ration_config_table *configs, uint32_t section_index,
                                   struct ration_error *error)
{
    ration_status status = make_stacked(stack, options, configs, section_index,
                                        &stack->limiters[section_index], error);

    if (status != RATION_OK)
        return status;
    set_bytes(stack, stack->limiter_bytes + ration_limiter_bytes(stack->limiters[section_index]));
    /* release: pairs with the acquire in ration_limiter_stack_count() */
    __atomic_store_n(&stack->limiter_count, section_index + 1, __ATOMIC_RELEASE);
    return RATION_OK;
}

static ration_status check_stack_options(const struct ration_stack_options *options,
                                         struct ration_error *error)
{
    if (options == NULL || options->struct_size != sizeof(*options))
        return ration_error_set(error, RATION_EINVAL,
                                "struct_size must be sizeof(struct ration_stack_options)");
    if (options->limiters == NULL || options->limiter_count == 0)
        return ration_error_set(error, RATION_EINVAL, "a stack has at least one limiter");
    if (options->limiter_count > RATION_STACK_MAX || options->limiters_max > RATION_STACK_MAX)
        return ration_error_set(error, RATION_EINVAL, "a stack has at most 16384 limiters");
    if (options->limiters_max != 0 && options->limiters_max < options->limiter_count)
        return ration_error_set(error, RATION_EINVAL,
                                "limiters_max is 0 or at least limiter_count");
    return RATION_OK;
}

/* Allocates the planned memory and creates all limiters over it. */
static ration_status fill_stack(struct ration_stack *stack,
                                const struct ration_stack_options *options,
                                const struct ration_saved_header *saved, struct stack_plan *plan,
                                struct ration_error *error)
{
    struct ration_memory *memory = NULL;
    ration_status status = create_memory(plan->shapes, options->limiter_count, options,
                                         &stack->clock, saved, &memory, error);

    if (status != RATION_OK)
        return status;
    stack->store = &memory->store;
    for (uint32_t i = 0; i < options->limiter_count; i++) {
        status = place_limiter(stack, &options->limiters[i], &plan->configs[i], i, error);
        if (status != RATION_OK)
            return status;
        plan->configs[i] = (struct ration_config_table){0}; /* now owned by the limiter */
    }
    return RATION_OK;
}

ration_status ration_make_stack(const struct ration_stack_options *options,
                                const struct ration_saved_header *saved, ration_stack **out_stack,
                                struct ration_error *error)
{
    struct stack_plan plan = {0};
    struct ration_stack *stack;
    ration_status status = check_stack_options(options, error);

    if (status != RATION_OK)
        return status;
    stack = calloc(1, sizeof(*stack));
    if (stack == NULL)
        return ration_error_set(error, RATION_ENOMEM, "no memory for the stack");
    stack->limiter_max =
        (uint32_t)(options->limiters_max > 0 ? options->limiters_max : options->limiter_count);
    stack->calls_name_limiters = options->limiters_max > 0;
    stack->limiters = calloc(stack->limiter_max, sizeof(stack->limiters[0]));
    plan.configs = calloc(options->limiter_count, sizeof(plan.configs[0]));
    plan.shapes = calloc(options->limiter_count, sizeof(plan.shapes[0]));
    if (stack->limiters == NULL || plan.configs == NULL || plan.shapes == NULL)
        status = ration_error_set(error, RATION_ENOMEM, "no memory for the stack");
    if (status == RATION_OK)
        status = choose_clock(options->clock, &stack->clock, error);
    if (status == RATION_OK)
        status = plan_limiters(options, saved, &plan, error);
    if (status == RATION_OK)
        status = fill_stack(stack, options, saved, &plan, error);
    stack_plan_done(&plan);
    if (status != RATION_OK) {
        ration_stack_free(stack);
        return status;
    }
    *out_stack = stack;
    return RATION_OK;
}

ration_status ration_stack_create(const struct ration_stack_options *options,
                                  ration_stack **out_stack, struct ration_error *error)
{
    return ration_make_stack(options, NULL, out_stack, error);
}

ration_status ration_stack_add(ration_stack *stack, const struct ration_limiter_options *options,
                               size_t *out_index, struct ration_error *error)
{
    struct ration_memory *memory = (struct ration_memory *)stack->store;
    struct ration_section_shape shape;
    struct ration_config_table configs;
    uint32_t section_index;
    ration_status status;

    if (stack->limiter_count == stack->limiter_max)
        return ration_error_set(error, RATION_ENOMEM,
                                "the stack already has limiters_max limiters");
    status = plan_limiter(options, NULL, true, &configs, &shape, error);
    if (status != RATION_OK)
        return status;
    status = ration_memory_add(memory, &shape, &section_index);
    if (status != RATION_OK)
        ration_error_set(error, status,
                         "the stack's spare_bytes are too small for that many keys; create a new "
                         "stack (restart)");
    if (status == RATION_OK) {
        status = place_limiter(stack, options, &configs, section_index, error);
        if (status != RATION_OK)
            ration_block_drop(memory->block);
    }
    if (status != RATION_OK) {
        ration_config_table_done(&configs);
        return status;
    }
    *out_index = section_index;
    return RATION_OK;
}

/* Creates a limiter in the section of another one, which is released. On success the new limiter owns configs. */
static ration_status replace_limiter(struct ration_stack *stack, uint32_t section_index,
                                     const struct ration_limiter_options *options,
                                     const struct ration_section_shape *shape,
                                     struct ration_config_table *configs,
                                     struct ration_error *error)
{
    struct ration_memory *memory = (struct ration_memory *)stack->store;
    struct ration_section_shape before = memory->sections[section_index].shape;
    struct ration_limiter *limiter = NULL;
    ration_status status = ration_memory_replace(memory, section_index, shape);

    if (status == RATION_OK)
        status = make_stacked(stack, options, configs, section_index, &limiter, error);
    else
        ration_error_set(error, status, "the limiter's memory is too small for that many keys");
    if (status != RATION_OK) {
        if (status != RATION_EUNSUPPORTED)
            (void)ration_memory_replace(memory, section_index, &before);
        return status;
    }
    set_bytes(stack, stack->limiter_bytes + ration_limiter_bytes(limiter) -
                         ration_limiter_bytes(stack->limiters[section_index]));
    ration_limiter_done(stack->limiters[section_index]);
    free(stack->limiters[section_index]);
    stack->limiters[section_index] = limiter;
    return RATION_OK;
}

ration_status ration_stack_replace(ration_stack *stack, const size_t *limiter_indexes,
                                   size_t index_count, bool takes_larger,
                                   const struct ration_limiter_options *options, size_t *out_index,
                                   struct ration_error *error)
{
    const struct ration_block *block = ((const struct ration_memory *)stack->store)->block;
    struct ration_section_shape shape;
    struct ration_config_table configs;
    ration_status status = plan_limiter(options, NULL, true, &configs, &shape, error);

    if (status != RATION_OK)
        return status;
    status = ration_error_set(error, RATION_EUNSUPPORTED, "there is no limiter to replace");
    for (size_t i = 0; i < index_count && status == RATION_EUNSUPPORTED; i++) {
        if (limiter_indexes[i] >= ration_limiter_stack_count(stack))
            status = ration_error_set(error, RATION_EINVAL, "the stack has no such limiter");
        else if (takes_larger ||
                 ration_block_is_same_size(block, (uint32_t)limiter_indexes[i], &shape))
            status = replace_limiter(stack, (uint32_t)limiter_indexes[i], options, &shape, &configs,
                                     error);
        if (status == RATION_OK)
            *out_index = limiter_indexes[i];
    }
    if (status != RATION_OK)
        ration_config_table_done(&configs);
    return status;
}

void ration_stack_free(ration_stack *stack)
{
    if (stack == NULL)
        return;
    for (uint32_t i = 0; i < stack->limiter_count; i++) {
        ration_limiter_done(stack->limiters[i]);
        free(stack->limiters[i]);
    }
    if (stack->store != NULL)
        stack->store->calls->free(stack->store);
    free(stack->limiters);
    free(stack);
}
