/*
 * Scenes in which thread 0 changes the limits while the others decide.
 *
 * The clock does not advance, and the others try to take more than either limit has, so that all tokens are spent under
 * the final limit. If a tokens were taken of a burst of n before a change to m that preserves the remaining tokens, then
 * min(n - a, m) are left after it; or m, if a was 0. So in a change from 5 to 2 each key gets from 2 to 5, and in one from
 * 2 to 5 either 2 or 5. With any other result tokens were created or lost.
 */
#include "support/limiter_scenes.h"

#define WIDE       "7/min burst 5"
#define NARROW     "7/min burst 2"
#define SECOND     "9/min burst 9"
#define TRIES      5
#define WIDE_MAX   5
#define NARROW_MAX 2

/* Even rounds narrow the limit, odd ones widen it; so the key's number determines the earlier burst. */
static bool narrows(const struct arena *arena)
{
    return arena->numbers[0] / ARENA_KEYS % 2 == 0;
}

static void change(struct arena *arena, enum ration_change how)
{
    const char *texts[ARENA_RULES_MAX] = {narrows(arena) ? NARROW : WIDE, arena->plan.rules[0][1]};
    struct ration_rule rules[ARENA_RULES_MAX];
    size_t count = arena_rules(texts, rules);

    ration_limiter_change(arena->limiters[0], rules, count, how, NULL);
}

/* Some threads ask for more than the narrow limit ever has; all return the tokens that they got. */
static uint64_t take_tokens(struct arena *arena, unsigned thread_index)
{
    uint64_t now_ns = arena_now(arena, thread_index);
    uint64_t cost = thread_index % 4 == 3 ? 3 : 1;
    uint64_t admitted = 0;

    for (unsigned i = 0; i < TRIES * ARENA_KEYS; i++) {
        unsigned k = i % ARENA_KEYS;
        bool allowed =
            arena->stack != NULL
                ? ration_stack_allow_at(arena->stack, &arena->keys[k], cost, now_ns)
                : ration_limiter_allow_at(arena->limiters[0], &arena->keys[k], cost, now_ns);

        admitted += scene_admitted(k, allowed ? cost : 0);
    }
    return admitted;
}

static uint64_t change_keeping(struct arena *arena, unsigned thread_index)
{
    if (thread_index > 0)
        return take_tokens(arena, thread_index);
    change(arena, RATION_CHANGE_KEEP);
    return 0;
}

static uint64_t change_resetting(struct arena *arena, unsigned thread_index)
{
    if (thread_index > 0)
        return take_tokens(arena, thread_index);
    change(arena, RATION_CHANGE_RESET);
    return 0;
}

static bool is_kept(struct arena *arena, uint64_t admitted)
{
    for (unsigned k = 0; k < ARENA_KEYS; k++) {
        uint64_t tokens = admitted >> (8 * k) & 0xff;
        bool is_possible = narrows(arena) ? tokens >= NARROW_MAX && tokens <= WIDE_MAX
                                          : tokens == NARROW_MAX || tokens == WIDE_MAX;

        if (!is_possible || arena_remaining(arena, 0, 0, k) != 0)
            return false;
    }
    return true;
}

/* Adds the tokens taken before the change; a thread that finished before it leaves new tokens unused. */
static bool is_reset_once(struct arena *arena, uint64_t admitted)
{
    for (unsigned k = 0; k < ARENA_KEYS; k++) {
        uint64_t tokens = admitted >> (8 * k) & 0xff;
        uint64_t last_max = narrows(arena) ? NARROW_MAX : WIDE_MAX;
        uint64_t left = arena_remaining(arena, 0, 0, k);

        if (tokens + left < last_max || tokens + left > NARROW_MAX + WIDE_MAX)
            return false;
    }
    return true;
}

static const struct scene scenes[] = {
    {.name = "change", .rules = {{WIDE}}, .play = change_keeping, .holds = is_kept},
    {.name = "change, 2 limits",
     .rules = {{WIDE, SECOND}},
     .play = change_keeping,
     .holds = is_kept},
    {.name = "change, stack",
     .rules = {{WIDE}, {SECOND}},
     .is_stack = true,
     .play = change_keeping,
     .holds = is_kept},
    {.name = "reset", .rules = {{WIDE}}, .play = change_resetting, .holds = is_reset_once},
    {.name = "reset, 2 limits",
     .rules = {{WIDE, SECOND}},
     .play = change_resetting,
     .holds = is_reset_once},
};

const struct scene_list limiter_change_scenes = {scenes, sizeof(scenes) / sizeof(scenes[0])};
