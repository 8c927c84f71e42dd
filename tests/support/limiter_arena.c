#include "support/limiter_arena.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/random.h"

#define ROOMY_KEYS 20000

/* Keys with tokens in use before a skewed round, some until between the threads' nows. They leave room for all keys. */
#define SKEWED_PLACES 8

/* Any time of the first nine years; rounds continue from there. */
#define FIRST_NOW_SHIFT 6

static void need(bool holds, const char *what)
{
    if (holds)
        return;
    fprintf(stderr, "arena: %s\n", what);
    abort();
}

size_t arena_rules(const char *const *texts, struct ration_rule *out_rules)
{
    size_t count = 0;

    for (; count < ARENA_RULES_MAX && texts[count] != NULL; count++) {
        out_rules[count] = (struct ration_rule){0};
        need(ration_limit_parse(texts[count], &out_rules[count].limit, NULL) == RATION_OK,
             texts[count]);
    }
    return count;
}

void arena_init(struct arena *arena, const struct arena_plan *plan)
{
    struct ration_rule rules[ARENA_LIMITERS_MAX][ARENA_RULES_MAX];
    struct ration_limiter_options options[ARENA_LIMITERS_MAX];
    struct ration_clock clock = ration_clock_manual(&arena->clock);
    struct ration_error error = {.message = ""};

    *arena = (struct arena){.plan = *plan, .random = plan->seed};
    for (;
         arena->limiter_count < ARENA_LIMITERS_MAX && plan->rules[arena->limiter_count][0] != NULL;
         arena->limiter_count++) {
        unsigned i = arena->limiter_count;

        options[i] = (struct ration_limiter_options){
            .struct_size = sizeof(options[i]),
            .rules = rules[i],
            .rule_count = arena_rules(plan->rules[i], rules[i]),
            .keys_max = plan->ground == GROUND_ROOMY ? ROOMY_KEYS : 1,
            .overflow = plan->overflow,
            .clock = &clock,
        };
    }
    if (plan->is_stack) {
        struct ration_stack_options stack = {
            .struct_size = sizeof(stack),
            .limiters = options,
            .limiter_count = arena->limiter_count,
            .clock = &clock,
        };

        need(ration_stack_create(&stack, &arena->stack, &error) == RATION_OK, error.message);
        for (unsigned i = 0; i < arena->limiter_count; i++)
            arena->limiters[i] = ration_stack_limiter(arena->stack, i);
    } else {
        for (unsigned i = 0; i < arena->limiter_count; i++)
            need(ration_limiter_create(&options[i], &arena->limiters[i], &error) == RATION_OK,
                 error.message);
    }
    arena->now_ns = ration_random_next(&arena->random) >> FIRST_NOW_SHIFT;
}

void arena_done(struct arena *arena)
{
    ration_stack_free(arena->stack);
    for (unsigned i = 0; i < arena->limiter_count && arena->stack == NULL; i++)
        ration_limiter_free(arena->limiters[i]);
}

struct ration_key arena_new_key(struct arena *arena, uint64_t *number)
{
    *number = arena->next_number++;
    return (struct ration_key){number, sizeof(*number)};
}

static void block_new_key(struct arena *arena, uint64_t until_ns)
{
    uint64_t number;
    struct ration_key key = arena_new_key(arena, &number);

    for (unsigned i = 0; i < arena->limiter_count; i++)
        need(ration_limiter_block_until(arena->limiters[i], &key, until_ns, arena->now_ns) ==
                 RATION_OK,
             "a block failed");
}

void arena_block_places(struct arena *arena, unsigned place_count, uint64_t until_ns)
{
    for (unsigned i = 0; i < place_count; i++)
        block_new_key(arena, until_ns);
}

void arena_next_round(struct arena *arena)
{
    arena->now_ns += ARENA_ROUND_NS;
    arena->skew_ns = 0;
    if (arena->plan.ground == GROUND_SKEWED) {
        arena->skew_ns = 1 + ration_random_up_to(&arena->random, ARENA_SKEW_NS_MAX - 1);
        for (unsigned i = 0; i < SKEWED_PLACES; i++)
            block_new_key(arena, arena->now_ns + 1 +
                                     ration_random_up_to(&arena->random, 2 * arena->skew_ns));
    }
    for (unsigned k = 0; k < ARENA_KEYS; k++)
        arena->keys[k] = arena_new_key(arena, &arena->numbers[k]);
}

uint64_t arena_now(const struct arena *arena, unsigned thread_index)
{
    return thread_index % 2 == 0 ? arena->now_ns : arena_last_now(arena);
}

uint64_t arena_last_now(const struct arena *arena)
{
    return arena->now_ns + arena->skew_ns;
}

uint64_t arena_remaining(const struct arena *arena, unsigned limiter_index, unsigned rule_index,
                         unsigned key_index)
{
    struct ration_decision decision;
    struct ration_decision details[RATION_RULES_MAX];

    need(ration_limiter_peek(arena->limiters[limiter_index], &arena->keys[key_index], 1,
                             arena_last_now(arena), &decision, details) == RATION_OK,
         "a peek failed");
    return details[rule_index].remaining;
}

bool arena_is_left(const struct arena *arena, unsigned key_index, uint64_t tokens)
{
    for (unsigned i = 0; i < arena->limiter_count; i++)
        if (arena_remaining(arena, i, 0, key_index) != tokens)
            return false;
    return true;
}
