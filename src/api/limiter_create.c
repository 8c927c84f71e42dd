/*
 * Limiters and stacks made: rules checked, memory planned and taken, the parts joined.
 */
#include <stdlib.h>
#include <string.h>

#include "api/make.h"
#include "base/refuse.h"
#include "store/memory.h"

#define THREADS_DEFAULT 64

/* How large the table is: by bytes_max for a limiter alone, by the dump for one that is loaded. */
enum size_by { SIZE_BY_KEYS, SIZE_BY_BYTES, SIZE_BY_DUMP };

static ration_status check_options(const struct ration_limiter_options *options,
                                   enum size_by size_by, struct ration_error *error)
{
    bool has_memory = size_by == SIZE_BY_BYTES;

    if (options == NULL || options->struct_size != sizeof(*options))
        return ration_refuse(
            error, RATION_EINVAL,
            "struct_size must be sizeof(struct ration_limiter_options): was it set, and is "
            "the header that of the library?");
    if (size_by != SIZE_BY_DUMP && options->keys_max == 0 &&
        (options->bytes_max == 0 || !has_memory))
        return ration_refuse(error, RATION_EINVAL,
                             has_memory ? "how much memory? set keys_max or bytes_max (got neither)"
                                        : "a limiter of a stack needs keys_max (got 0)");
    if (options->keys_max > RATION_SECTION_KEYS_MAX)
        return ration_refuse(error, RATION_EINVAL, "keys_max is at most 4294967295");
    if (options->overflow > RATION_OVERFLOW_ALLOW)
        return ration_refuse(error, RATION_EINVAL, "overflow must be one of enum ration_overflow");
    if (options->name != NULL &&
        strnlen(options->name, RATION_LIMITER_NAME_MAX + 1) > RATION_LIMITER_NAME_MAX)
        return ration_refuse(error, RATION_EINVAL, "name is at most 63 bytes");
    return RATION_OK;
}

/* The clock that was given, or the default one. */
static ration_status choose_clock(const struct ration_clock *given, struct ration_clock *out_clock,
                                  struct ration_error *error)
{
    if (given != NULL && given->now_ns == NULL)
        return ration_refuse(
            error, RATION_EINVAL,
            "clock has no function; make one with ration_clock_...(), or leave it NULL");
    if (given != NULL && (unsigned)given->kind - 1 >= RATION_CLOCK_CUSTOM)
        return ration_refuse(
            error, RATION_EINVAL,
            "clock has the unknown kind %u; one of your own is RATION_CLOCK_CUSTOM",
            (unsigned)given->kind);
    *out_clock = given != NULL ? *given : ration_clock_tsc();
    return RATION_OK;
}

static struct ration_section_shape shape_of(const struct ration_limiter_options *options,
                                            const struct ration_configs *configs, bool is_stackable,
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
        .moment_mask = is_plain ? 0 : configs->moment_mask,
        .ring_cells = configs->ring_cells,
        .is_mixed = is_mixed,
    };
}

static uint32_t seats_for(const struct ration_section_shape *shapes, size_t shape_count,
                          uint32_t threads_max)
{
    uint32_t seats = 1;

    if (threads_max == 0)
        threads_max = THREADS_DEFAULT;
    while (seats < threads_max && seats <= RATION_SEATS_MAX)
        seats *= 2;
    for (size_t i = 0; i < shape_count; i++)
        if (shapes[i].cell_count > 0)
            return seats;
    return 0;
}

_Static_assert(RATION_LIMITER_TIME_MAX_NS == RATION_TABLE_NOW_NS_MAX, "as the slots have it");

/*
 * Windows are aligned to the clock's zero; a table that starts then can count any now. Not so one
 * that is to count the years since 1970, which are more than its slots can hold.
 */
static uint64_t epoch_of(const struct ration_clock *clock)
{
    bool is_own = clock->kind == RATION_CLOCK_MANUAL || clock->kind == RATION_CLOCK_CUSTOM;
    uint64_t now_ns = ration_time_clamp(ration_clock_now(clock));

    return is_own && now_ns < RATION_TABLE_NOW_NS_MAX / 2 ? 0 : now_ns;
}

/* The secret of the keys' hash: a new one, or that of a dump. */
static ration_status choose_hash(bool trusts_keys, const struct ration_saved_header *saved,
                                 struct ration_block_plan *plan, struct ration_error *error)
{
    plan->hash = trusts_keys ? RATION_HASH_TRUSTED : 0;
    if (saved == NULL)
        return ration_random_secret(plan->seed, sizeof(plan->seed))
                   ? RATION_OK
                   : ration_refuse(error, RATION_ENOMEM, "the system has no random bytes to give");
    if (!ration_hash_kind_usable(saved->hash_kind))
        return ration_refuse(error, RATION_EUNFIT,
                             "this machine cannot compute the hash of the dump's keys");
    if (trusts_keys != (saved->hash_kind == RATION_HASH_TRUSTED))
        return ration_refuse(error, RATION_EUNFIT,
                             "trusts_keys is not what it was when the dump was made");
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
        .seat_count = seats_for(shapes, shape_count, options->threads_max),
        .clock_kind = clock->kind,
        .epoch_ns = epoch_of(clock),
        .is_shared = options->is_shared_by_forks != 0,
        .is_prefaulted = options->is_prefaulted != 0,
    };
    struct ration_mapping_wishes wishes = {
        .is_shared = options->is_shared_by_forks != 0,
        .is_huge = options->uses_huge_pages != 0,
    };
    ration_status status = choose_hash(options->trusts_keys != 0, saved, &plan, error);

    if (status != RATION_OK)
        return status;
    status = ration_memory_create(&plan, wishes, out_memory);
    if (status == RATION_EINVAL)
        return ration_refuse(error, status, "no table can be so large; threads_max is at most 512");
    if (status != RATION_OK)
        return ration_refuse(error, status, "the system has not so much memory to give");
    return RATION_OK;
}

static ration_status fit_bytes(const struct ration_limiter_options *options,
                               struct ration_section_shape *shape, struct ration_error *error)
{
    struct ration_block_plan plan = {
        .shapes = shape, .shape_count = 1, .seat_count = seats_for(shape, 1, options->threads_max)};
    struct ration_mapping_wishes wishes = {.is_huge = options->uses_huge_pages != 0};
    size_t bytes_max = ration_mapping_fit(options->bytes_max, wishes);
    uint64_t keys;

    if (options->bytes_max == 0)
        return RATION_OK;
    if (shape->set_count > 0)
        return ration_block_size(&plan) <= bytes_max
                   ? RATION_OK
                   : ration_refuse(error, RATION_EUNFIT,
                                   "bytes_max has no room for the dump's table");
    keys = ration_block_keys_in(*shape, plan.seat_count, bytes_max);
    if (keys == 0 || shape->keys_max > keys)
        return ration_refuse(error, RATION_EINVAL,
                             keys == 0
                                 ? "bytes_max has no room for a single key"
                                 : "bytes_max has no room for keys_max keys; leave one of them 0");
    if (shape->keys_max == 0)
        shape->keys_max = keys;
    return RATION_OK;
}

ration_status ration_make_limiter(const struct ration_limiter_options *options,
                                  const struct ration_saved_header *saved,
                                  ration_limiter **out_limiter, struct ration_error *error)
{
    const struct ration_saved_limiter *mine = saved != NULL ? &saved->limiters[0] : NULL;
    ration_status status =
        check_options(options, mine != NULL ? SIZE_BY_DUMP : SIZE_BY_BYTES, error);
    struct ration_configs configs;
    struct ration_section_shape shape;
    struct ration_memory *memory = NULL;
    struct ration_clock clock;

    if (status == RATION_OK)
        status = choose_clock(options->clock, &clock, error);
    if (status == RATION_OK)
        status = ration_configs_init(&configs, options->rules, options->rule_count, error);
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

    shape = shape_of(options, &configs, options->is_stackable != 0, mine);
    if (limiter == NULL)
        status = ration_refuse(error, RATION_ENOMEM, "no memory for the limiter");
    if (status == RATION_OK && mine != NULL)
        status = ration_load_check(mine, options, &configs, error);
    if (status == RATION_OK)
        status = fit_bytes(options, &shape, error);
    if (status == RATION_OK)
        status = create_memory(&shape, 1, &common, &clock, saved, &memory, error);
    if (status == RATION_OK) {
        status = ration_limiter_init(limiter, options, &configs, &memory->store, 0, clock);
        if (status != RATION_OK)
            ration_refuse(error, status,
                          status == RATION_ENOMEM ? "no memory for statistics"
                                                  : "top_keys is at most 4096");
    }
    if (status != RATION_OK) {
        if (memory != NULL)
            memory->store.calls->free(&memory->store);
        ration_configs_done(&configs);
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

/* Rules and shape of one limiter of a stack. configs is released by the caller, on success. */
static ration_status plan_limiter(const struct ration_limiter_options *options,
                                  const struct ration_saved_limiter *saved, bool is_alone,
                                  struct ration_configs *configs,
                                  struct ration_section_shape *out_shape,
                                  struct ration_error *error)
{
    ration_status status =
        check_options(options, saved != NULL ? SIZE_BY_DUMP : SIZE_BY_KEYS, error);

    if (status == RATION_OK)
        status = ration_configs_init(configs, options->rules, options->rule_count, error);
    if (status != RATION_OK)
        return status;
    if (!is_alone)
        status = ration_configs_check_stacked(options->rules, options->rule_count, error);
    if (status == RATION_OK && saved != NULL)
        status = ration_load_check(saved, options, configs, error);
    if (status != RATION_OK) {
        ration_configs_done(configs);
        return status;
    }
    *out_shape = shape_of(options, configs, true, saved);
    return RATION_OK;
}

/* A stack in the making. */
struct stack_plan {
    struct ration_configs *configs;
    struct ration_section_shape *shapes;
    size_t planned_count; /* of those above */
};

static void plan_done(struct stack_plan *plan)
{
    for (size_t i = 0; i < plan->planned_count; i++)
        ration_configs_done(&plan->configs[i]);
    free(plan->configs);
    free(plan->shapes);
}

/* The rules and shapes of all limiters. */
static ration_status plan_limiters(const struct ration_stack_options *options,
                                   const struct ration_saved_header *saved, struct stack_plan *plan,
                                   struct ration_error *error)
{
    size_t rule_count = 0;

    for (size_t i = 0; i < options->limiter_count; i++) {
        const struct ration_saved_limiter *mine = saved != NULL ? &saved->limiters[i] : NULL;
        bool is_alone = options->limiter_count == 1 || options->limiters_max > 0;
        ration_status status = plan_limiter(&options->limiters[i], mine, is_alone,
                                            &plan->configs[i], &plan->shapes[i], error);

        if (status != RATION_OK)
            return status;
        plan->planned_count++;
        rule_count += plan->configs[i].rule_count;
        if (options->limiters_max == 0 && rule_count > RATION_CALL_RULES_MAX)
            return ration_refuse(error, RATION_EINVAL, "a stack has at most 16 rules in all");
    }
    return RATION_OK;
}

/* A limiter over a section of the stack's store. configs are taken over, on success. */
static ration_status make_stacked(struct ration_stack *stack,
                                  const struct ration_limiter_options *options,
                                  struct ration_configs *configs, uint32_t section_index,
                                  struct ration_limiter **out_limiter, struct ration_error *error)
{
    struct ration_limiter_options stacked = *options;
    struct ration_limiter *limiter = calloc(1, sizeof(*limiter));
    ration_status status;

    if (limiter == NULL)
        return ration_refuse(error, RATION_ENOMEM, "no memory for the limiter");
    stacked.is_stackable = 1;
    stacked.is_shared_by_forks = ((const struct ration_memory *)stack->store)->block->is_shared;
    status =
        ration_limiter_init(limiter, &stacked, configs, stack->store, section_index, stack->clock);
    if (status != RATION_OK) {
        free(limiter);
        return ration_refuse(error, status,
                             status == RATION_ENOMEM ? "no memory for statistics"
                                                     : "top_keys is at most 4096");
    }
    limiter->stack = stack;
    *out_limiter = limiter;
    return RATION_OK;
}

/* One thread adds and replaces limiters; others read the sum. */
static void set_bytes(struct ration_stack *stack, size_t bytes)
{
    __atomic_store_n(&stack->limiter_bytes, bytes, __ATOMIC_RELAXED);
}

static ration_status place_limiter(struct ration_stack *stack,
                                   const struct ration_limiter_options *options,
                                   struct ration_configs *configs, uint32_t section_index,
                                   struct ration_error *error)
{
    ration_status status = make_stacked(stack, options, configs, section_index,
                                        &stack->limiters[section_index], error);

    if (status != RATION_OK)
        return status;
    set_bytes(stack, stack->limiter_bytes + ration_limiter_bytes(stack->limiters[section_index]));
    /* release: pairs with the acquire in ration_stack_count() */
    __atomic_store_n(&stack->limiter_count, section_index + 1, __ATOMIC_RELEASE);
    return RATION_OK;
}

static ration_status check_stack_options(const struct ration_stack_options *options,
                                         struct ration_error *error)
{
    if (options == NULL || options->struct_size != sizeof(*options))
        return ration_refuse(error, RATION_EINVAL,
                             "struct_size must be sizeof(struct ration_stack_options)");
    if (options->limiters == NULL || options->limiter_count == 0)
        return ration_refuse(error, RATION_EINVAL, "a stack has at least one limiter");
    if (options->limiter_count > RATION_STACK_MAX || options->limiters_max > RATION_STACK_MAX)
        return ration_refuse(error, RATION_EINVAL, "a stack has at most 16384 limiters");
    if (options->limiters_max != 0 && options->limiters_max < options->limiter_count)
        return ration_refuse(error, RATION_EINVAL, "limiters_max is 0 or at least limiter_count");
    return RATION_OK;
}

/* Memory as planned, and all limiters over it. */
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
        plan->configs[i] = (struct ration_configs){0}; /* the limiter's now */
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
        return ration_refuse(error, RATION_ENOMEM, "no memory for the stack");
    stack->limiter_max =
        (uint32_t)(options->limiters_max > 0 ? options->limiters_max : options->limiter_count);
    stack->asks_some = options->limiters_max > 0;
    stack->limiters = calloc(stack->limiter_max, sizeof(stack->limiters[0]));
    plan.configs = calloc(options->limiter_count, sizeof(plan.configs[0]));
    plan.shapes = calloc(options->limiter_count, sizeof(plan.shapes[0]));
    if (stack->limiters == NULL || plan.configs == NULL || plan.shapes == NULL)
        status = ration_refuse(error, RATION_ENOMEM, "no memory for the stack");
    if (status == RATION_OK)
        status = choose_clock(options->clock, &stack->clock, error);
    if (status == RATION_OK)
        status = plan_limiters(options, saved, &plan, error);
    if (status == RATION_OK)
        status = fill_stack(stack, options, saved, &plan, error);
    plan_done(&plan);
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
    struct ration_configs configs;
    uint32_t section_index;
    ration_status status;

    if (stack->limiter_count == stack->limiter_max)
        return ration_refuse(error, RATION_ENOMEM, "the stack has its limiters_max already");
    status = plan_limiter(options, NULL, true, &configs, &shape, error);
    if (status != RATION_OK)
        return status;
    status = ration_memory_add(memory, &shape, &section_index);
    if (status != RATION_OK)
        ration_refuse(
            error, status,
            "the stack's spare_bytes have no room for so many keys; a new stack (a restart) has");
    if (status == RATION_OK) {
        status = place_limiter(stack, options, &configs, section_index, error);
        if (status != RATION_OK)
            ration_block_drop(memory->block);
    }
    if (status != RATION_OK) {
        ration_configs_done(&configs);
        return status;
    }
    *out_index = section_index;
    return RATION_OK;
}

/* Makes a limiter in the section of another one, which is released. configs are taken over, on success. */
static ration_status replace_limiter(struct ration_stack *stack, uint32_t section_index,
                                     const struct ration_limiter_options *options,
                                     const struct ration_section_shape *shape,
                                     struct ration_configs *configs, struct ration_error *error)
{
    struct ration_memory *memory = (struct ration_memory *)stack->store;
    struct ration_section_shape before = memory->sections[section_index].shape;
    struct ration_limiter *limiter = NULL;
    ration_status status = ration_memory_replace(memory, section_index, shape);

    if (status == RATION_OK)
        status = make_stacked(stack, options, configs, section_index, &limiter, error);
    else
        ration_refuse(error, status, "the limiter's memory is not enough for so many keys");
    if (status != RATION_OK) {
        if (status != RATION_EUNFIT)
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
    struct ration_configs configs;
    ration_status status = plan_limiter(options, NULL, true, &configs, &shape, error);

    if (status != RATION_OK)
        return status;
    status = ration_refuse(error, RATION_EUNFIT, "there is no limiter to replace");
    for (size_t i = 0; i < index_count && status == RATION_EUNFIT; i++) {
        if (limiter_indexes[i] >= ration_stack_count(stack))
            status = ration_refuse(error, RATION_EINVAL, "the stack has no such limiter");
        else if (takes_larger ||
                 ration_block_is_same_size(block, (uint32_t)limiter_indexes[i], &shape))
            status = replace_limiter(stack, (uint32_t)limiter_indexes[i], options, &shape, &configs,
                                     error);
        if (status == RATION_OK)
            *out_index = limiter_indexes[i];
    }
    if (status != RATION_OK)
        ration_configs_done(&configs);
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
