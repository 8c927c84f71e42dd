/*
 * Scenes in which keys have several tokens: all of them are spent, or some takes are denied.
 */
#include "support/limiter_scenes.h"

/* Spending ------------------------------------------------------------------------------- */

#define FIVE      "7/min burst 5"
#define SEVEN     "9/min burst 7"
#define SPEND_MAX 5

/* Every thread tries to take all tokens of a key. */
static uint64_t spend(struct arena *arena, unsigned thread_index)
{
    uint64_t now_ns = arena_now(arena, thread_index);
    uint64_t admitted = 0;

    for (unsigned i = 0; i < SPEND_MAX * ARENA_KEYS; i++) {
        unsigned k = i % ARENA_KEYS;
        bool allowed =
            arena->stack != NULL
                ? ration_stack_allow_at(arena->stack, &arena->keys[k], 1, now_ns)
                : ration_limiter_allow_at(arena->limiters[0], &arena->keys[k], 1, now_ns);

        admitted += scene_admitted(k, allowed);
    }
    return admitted;
}

/* The position of the second limit, and the remaining tokens of both. */
static bool is_left_of_both(const struct arena *arena, unsigned key_index, uint64_t first,
                            uint64_t second)
{
    bool is_stack = arena->limiter_count > 1;

    return arena_remaining(arena, 0, 0, key_index) == first &&
           arena_remaining(arena, is_stack ? 1 : 0, is_stack ? 0 : 1, key_index) == second;
}

static bool is_spent(struct arena *arena, uint64_t admitted)
{
    bool is_alone = arena->limiter_count == 1 && arena->plan.rules[0][1] == NULL;
    uint64_t expected = 0;

    for (unsigned k = 0; k < ARENA_KEYS; k++) {
        expected += scene_admitted(k, SPEND_MAX);
        if (is_alone ? !arena_is_left(arena, k, 0) : !is_left_of_both(arena, k, 0, 2))
            return false;
    }
    return admitted == expected;
}

/* Denials during takes ------------------------------------------------------------------- */

/*
 * Of two limits one has 4 tokens left, the other 2. Thread 0 takes 2; the others try to take 3, which the first limit
 * allows and the second denies. So thread 0 must succeed whatever they do. If limits were charged one after the other,
 * and refunded, the first would have 1 left for a moment.
 */
#define WIDE        "7/min burst 4"
#define NARROW      "9/min burst 2"
#define NARROW_PLUS "9/min burst 3"

#define DENIED_TRIES 3

typedef bool take_function(struct arena *arena, unsigned key_index, uint64_t tokens,
                           uint64_t now_ns);

static uint64_t take_beside(struct arena *arena, unsigned thread_index, take_function *take)
{
    uint64_t now_ns = arena_now(arena, thread_index);
    uint64_t admitted = 0;

    for (unsigned k = 0; k < ARENA_KEYS; k++) {
        if (thread_index == 0) {
            admitted += scene_admitted(k, take(arena, k, 2, now_ns));
            continue;
        }
        for (unsigned i = 0; i < DENIED_TRIES; i++)
            admitted += scene_admitted(k, take(arena, k, 3, now_ns));
    }
    return admitted;
}

static bool take_of_limiter(struct arena *arena, unsigned key_index, uint64_t tokens,
                            uint64_t now_ns)
{
    return ration_limiter_allow_at(arena->limiters[0], &arena->keys[key_index], tokens, now_ns);
}

static uint64_t take_beside_never(struct arena *arena, unsigned thread_index)
{
    return take_beside(arena, thread_index, take_of_limiter);
}

static bool take_of_stack(struct arena *arena, unsigned key_index, uint64_t tokens, uint64_t now_ns)
{
    return ration_stack_allow_at(arena->stack, &arena->keys[key_index], tokens, now_ns);
}

static uint64_t take_beside_denied(struct arena *arena, unsigned thread_index)
{
    return take_beside(arena, thread_index, take_of_stack);
}

static bool take_in_turn(struct arena *arena, unsigned key_index, uint64_t tokens, uint64_t now_ns)
{
    const struct ration_key *key = &arena->keys[key_index];

    if (!ration_limiter_allow_at(arena->limiters[0], key, tokens, now_ns))
        return false;
    ration_yield_point();
    if (ration_limiter_allow_at(arena->limiters[1], key, tokens, now_ns))
        return true;
    ration_yield_point();
    ration_limiter_refund(arena->limiters[0], key, tokens, now_ns);
    return false;
}

static uint64_t take_beside_given_back(struct arena *arena, unsigned thread_index)
{
    return take_beside(arena, thread_index, take_in_turn);
}

/* One of the narrow limiter's three tokens is in use, and not refilled at the later now. */
static void charge_narrow(struct arena *arena)
{
    for (unsigned k = 0; k < ARENA_KEYS; k++)
        ration_limiter_charge(arena->limiters[1], &arena->keys[k], 1, arena->now_ns);
}

/* Thread 0 got its two tokens of each key, the others nothing, and both limits have the rest. */
static bool is_two_each(struct arena *arena, uint64_t admitted)
{
    uint64_t expected = 0;

    for (unsigned k = 0; k < ARENA_KEYS; k++) {
        expected += scene_admitted(k, 1);
        if (!is_left_of_both(arena, k, 2, 0))
            return false;
    }
    return admitted == expected;
}

/* Enough for all: whichever other threads run, none is denied (R3) or subject to the overflow rule. */
#define PLENTY "7/min burst 100"

static uint64_t take_of_plenty(struct arena *arena, unsigned thread_index)
{
    uint64_t now_ns = arena_now(arena, thread_index);
    uint64_t admitted = 0;

    for (unsigned k = 0; k < ARENA_KEYS; k++)
        admitted += scene_admitted(k, arena->stack != NULL ? take_of_stack(arena, k, 1, now_ns)
                                                           : take_of_limiter(arena, k, 1, now_ns));
    return admitted;
}

static bool is_everyone_admitted(struct arena *arena, uint64_t admitted)
{
    uint64_t expected = 0;

    for (unsigned k = 0; k < ARENA_KEYS; k++) {
        expected += scene_admitted(k, arena->plan.thread_count);
        if (!arena_is_left(arena, k, 100 - arena->plan.thread_count))
            return false;
    }
    return admitted == expected;
}

static const struct scene scenes[] = {
    {.name = "spend", .rules = {{FIVE}}, .play = spend, .holds = is_spent},
    {.name = "spend, 2 limits", .rules = {{FIVE, SEVEN}}, .play = spend, .holds = is_spent},
    {.name = "spend, stack",
     .rules = {{FIVE}, {SEVEN}},
     .is_stack = true,
     .play = spend,
     .holds = is_spent},
    {.name = "beside never",
     .rules = {{WIDE, NARROW}},
     .play = take_beside_never,
     .holds = is_two_each},
    {.name = "beside denied",
     .rules = {{WIDE}, {NARROW_PLUS}},
     .is_stack = true,
     .prepare = charge_narrow,
     .play = take_beside_denied,
     .holds = is_two_each},
    {.name = "plenty",
     .rules = {{PLENTY}},
     .overflow = RATION_OVERFLOW_DENY,
     .play = take_of_plenty,
     .holds = is_everyone_admitted},
    {.name = "plenty, 2 limits",
     .rules = {{PLENTY, PLENTY}},
     .overflow = RATION_OVERFLOW_DENY,
     .play = take_of_plenty,
     .holds = is_everyone_admitted},
    {.name = "plenty, stack",
     .rules = {{PLENTY}, {PLENTY}},
     .is_stack = true,
     .overflow = RATION_OVERFLOW_DENY,
     .play = take_of_plenty,
     .holds = is_everyone_admitted},
};

const struct scene_list limiter_spend_scenes = {scenes, sizeof(scenes) / sizeof(scenes[0])};

const struct scene limiter_scene_rollback = {.name = "control: charge, give back",
                                             .rules = {{WIDE}, {NARROW_PLUS}},
                                             .is_stack = true,
                                             .prepare = charge_narrow,
                                             .play = take_beside_given_back,
                                             .holds = is_two_each};
