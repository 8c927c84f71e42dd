/*
 * Scenes in which keys find no place: the keys in all 16 have tokens in use for longer than the round.
 */
#include "support/limiter_scenes.h"

#define FIVE       "7/min burst 5"
#define SEVEN      "9/min burst 7"
#define SPEND_MAX  5
#define BLOCKED_NS (UINT64_C(60) * 1000000000)

static void fill_places(struct arena *arena)
{
    arena_block_places(arena, ARENA_PLACES, arena->now_ns + BLOCKED_NS);
}

static bool allow(struct arena *arena, unsigned key_index, uint64_t now_ns)
{
    const struct ration_key *key = &arena->keys[key_index];

    return arena->stack != NULL ? ration_stack_allow_at(arena->stack, key, 1, now_ns)
                                : ration_limiter_allow_at(arena->limiters[0], key, 1, now_ns);
}

static uint64_t try_all(struct arena *arena, unsigned thread_index)
{
    uint64_t now_ns = arena_now(arena, thread_index);
    uint64_t admitted = 0;

    for (unsigned i = 0; i < SPEND_MAX * ARENA_KEYS; i++)
        admitted += scene_admitted(i % ARENA_KEYS, allow(arena, i % ARENA_KEYS, now_ns));
    return admitted;
}

static uint64_t try_each(struct arena *arena, unsigned thread_index)
{
    uint64_t now_ns = arena_now(arena, thread_index);
    uint64_t admitted = 0;

    for (unsigned k = 0; k < ARENA_KEYS; k++)
        admitted += scene_admitted(k, allow(arena, k, now_ns));
    return admitted;
}

/* All keys together got the tokens of one bucket. */
static bool is_shared(struct arena *arena, uint64_t admitted)
{
    uint64_t total = 0;

    for (unsigned k = 0; k < ARENA_KEYS; k++)
        total += admitted >> (8 * k) & 0xff;
    return total == SPEND_MAX && arena_remaining(arena, 0, 0, 0) == 0;
}

static bool is_nobody_admitted(struct arena *arena, uint64_t admitted)
{
    (void)arena;
    return admitted == 0;
}

static bool is_everyone_admitted(struct arena *arena, uint64_t admitted)
{
    uint64_t expected = 0;

    for (unsigned k = 0; k < ARENA_KEYS; k++)
        expected += scene_admitted(k, arena->plan.thread_count);
    return admitted == expected;
}

static const struct scene scenes[] = {
    {.name = "overflow shared",
     .rules = {{FIVE}},
     .prepare = fill_places,
     .play = try_all,
     .holds = is_shared},
    {.name = "overflow shared, 2 limits",
     .rules = {{FIVE, SEVEN}},
     .prepare = fill_places,
     .play = try_all,
     .holds = is_shared},
    {.name = "overflow shared, stack",
     .rules = {{FIVE}, {SEVEN}},
     .is_stack = true,
     .prepare = fill_places,
     .play = try_all,
     .holds = is_shared},
    {.name = "overflow denied",
     .rules = {{FIVE}},
     .overflow = RATION_OVERFLOW_DENY,
     .prepare = fill_places,
     .play = try_each,
     .holds = is_nobody_admitted},
    {.name = "overflow denied, stack",
     .rules = {{FIVE}, {SEVEN}},
     .is_stack = true,
     .overflow = RATION_OVERFLOW_DENY,
     .prepare = fill_places,
     .play = try_each,
     .holds = is_nobody_admitted},
    {.name = "overflow allowed",
     .rules = {{FIVE}},
     .overflow = RATION_OVERFLOW_ALLOW,
     .prepare = fill_places,
     .play = try_each,
     .holds = is_everyone_admitted},
};

const struct scene_list limiter_overflow_scenes = {scenes, sizeof(scenes) / sizeof(scenes[0])};

/* Overflow during creation --------------------------------------------------------------- */

#define ONE      "7/min burst 1"
#define ONE_MORE "9/min burst 1"

/*
 * Two places become free between the earlier and the later now: even threads find no place for the key and share the
 * overflow bucket, odd threads create the key. It has one token in either case.
 */
static void leave_room_later(struct arena *arena)
{
    arena->skew_ns = ARENA_SKEW_NS_MAX;
    arena_block_places(arena, ARENA_PLACES - 2, arena->now_ns + BLOCKED_NS);
    arena_block_places(arena, 2, arena_last_now(arena));
}

static uint64_t try_one(struct arena *arena, unsigned thread_index)
{
    return scene_admitted(0, allow(arena, 0, arena_now(arena, thread_index)));
}

static bool is_one(struct arena *arena, uint64_t admitted)
{
    return admitted == scene_admitted(0, 1) && arena_is_left(arena, 0, 0);
}

/* One place, and two keys in one call: one of them follows the overflow rule. */
static void leave_one_place(struct arena *arena)
{
    arena_block_places(arena, ARENA_PLACES - 1, arena->now_ns + BLOCKED_NS);
}

static uint64_t try_two(struct arena *arena, unsigned thread_index)
{
    unsigned first = thread_index % 2;
    struct ration_stack_request asks[] = {{0, &arena->keys[first], 1},
                                          {0, &arena->keys[1 - first], 1}};
    struct ration_decision decision;

    if (ration_stack_take_all(arena->stack, asks, 2, arena->now_ns, &decision) != RATION_OK ||
        decision.verdict != RATION_ALLOW)
        return 0;
    return scene_admitted(0, 1);
}

static bool is_once(struct arena *arena, uint64_t admitted)
{
    return admitted == scene_admitted(0, 1) && arena_is_left(arena, 0, 0) &&
           arena_is_left(arena, 1, 0);
}

static const struct scene beside_scenes[] = {
    {.name = "overflow beside creation",
     .rules = {{ONE}},
     .prepare = leave_room_later,
     .play = try_one,
     .holds = is_one},
    {.name = "overflow beside creation, 2 limits",
     .rules = {{ONE, ONE_MORE}},
     .prepare = leave_room_later,
     .play = try_one,
     .holds = is_one},
    {.name = "overflow beside creation, stack",
     .rules = {{ONE}, {ONE_MORE}},
     .is_stack = true,
     .prepare = leave_room_later,
     .play = try_one,
     .holds = is_one},
    {.name = "one place for two keys",
     .rules = {{ONE}},
     .is_stack = true,
     .prepare = leave_one_place,
     .play = try_two,
     .holds = is_once},
    {.name = "one place for two keys, denied",
     .rules = {{ONE}},
     .is_stack = true,
     .overflow = RATION_OVERFLOW_DENY,
     .prepare = leave_one_place,
     .play = try_two,
     .holds = is_nobody_admitted},
};

const struct scene_list limiter_overflow_beside_scenes = {
    beside_scenes, sizeof(beside_scenes) / sizeof(beside_scenes[0])};
