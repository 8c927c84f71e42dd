#include "support/limiter_scenes.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ONE      "7/min burst 1" /* a token is 8 s and a fraction */
#define ONE_MORE "9/min burst 1"

static bool is_allowed(ration_status status, const struct ration_decision *decision)
{
    return status == RATION_OK && decision->verdict == RATION_ALLOW;
}

/* First touches -------------------------------------------------------------------------- */

static uint64_t allow_each(struct arena *arena, unsigned thread_index)
{
    uint64_t now_ns = arena_now(arena, thread_index);
    uint64_t admitted = 0;

    for (unsigned k = 0; k < ARENA_KEYS; k++)
        admitted += scene_admitted(
            k, ration_limiter_allow_at(arena->limiters[0], &arena->keys[k], 1, now_ns));
    return admitted;
}

/* The call that reports everything, at the same time as the one that reports only the verdict. */
static uint64_t take_each(struct arena *arena, unsigned thread_index)
{
    uint64_t now_ns = arena_now(arena, thread_index);
    uint64_t admitted = 0;

    if (thread_index % 4 >= 2)
        return allow_each(arena, thread_index);
    for (unsigned k = 0; k < ARENA_KEYS; k++) {
        struct ration_decision decision;
        ration_status status =
            ration_limiter_take(arena->limiters[0], &arena->keys[k], 1, now_ns, &decision, NULL);

        admitted += scene_admitted(k, is_allowed(status, &decision));
    }
    return admitted;
}

/* Odd threads have the keys in the opposite order. */
static unsigned turned(unsigned key_index, unsigned thread_index)
{
    return thread_index % 2 == 0 ? key_index : ARENA_KEYS - 1 - key_index;
}

static uint64_t take_batch(struct arena *arena, unsigned thread_index)
{
    struct ration_batch_item items[ARENA_KEYS];
    uint64_t admitted = 0;

    for (unsigned i = 0; i < ARENA_KEYS; i++)
        items[i] = (struct ration_batch_item){.request = &arena->keys[turned(i, thread_index)],
                                              .cost_tokens = 1};
    ration_limiter_take_batch(arena->limiters[0], items, ARENA_KEYS,
                              arena_now(arena, thread_index));
    for (unsigned i = 0; i < ARENA_KEYS; i++)
        admitted += scene_admitted(turned(i, thread_index), items[i].status == RATION_OK &&
                                                                items[i].verdict == RATION_ALLOW);
    return admitted;
}

static uint64_t take_stack(struct arena *arena, unsigned thread_index)
{
    uint64_t now_ns = arena_now(arena, thread_index);
    uint64_t admitted = 0;

    for (unsigned k = 0; k < ARENA_KEYS; k++)
        admitted +=
            scene_admitted(k, ration_stack_allow_at(arena->stack, &arena->keys[k], 1, now_ns));
    return admitted;
}

/* The keys of one call; odd threads use the opposite order. */
static bool take_all(struct arena *arena, unsigned thread_index, struct ration_stack_request *asks,
                     size_t ask_count)
{
    struct ration_stack_request ordered[ARENA_LIMITERS_MAX * 2];
    struct ration_decision decision;

    for (size_t i = 0; i < ask_count; i++)
        ordered[thread_index % 2 == 0 ? i : ask_count - 1 - i] = asks[i];
    return is_allowed(ration_stack_take_all(arena->stack, ordered, ask_count,
                                            arena_now(arena, thread_index), &decision),
                      &decision);
}

static struct ration_stack_request ask(struct arena *arena, unsigned limiter_index,
                                       unsigned key_index)
{
    return (struct ration_stack_request){limiter_index, &arena->keys[key_index], 1};
}

static uint64_t take_opposite(struct arena *arena, unsigned thread_index)
{
    uint64_t admitted = 0;

    for (unsigned k = 0; k < ARENA_KEYS; k++)
        admitted += scene_admitted(
            k, take_all(arena, thread_index,
                        (struct ration_stack_request[]){ask(arena, 0, k), ask(arena, 1, k)}, 2));
    return admitted;
}

/* Even threads take key 0 of one limiter with key 1 of the other; odd ones key 2 with key 1. */
static uint64_t take_overlapping(struct arena *arena, unsigned thread_index)
{
    unsigned own = thread_index % 2 == 0 ? 0 : 2;

    return scene_admitted(
        own, take_all(arena, thread_index,
                      (struct ration_stack_request[]){ask(arena, 0, own), ask(arena, 1, 1)}, 2));
}

/* Two keys of one limiter at a time, and two of the other. */
static uint64_t take_pairs(struct arena *arena, unsigned thread_index)
{
    uint64_t admitted = 0;

    for (unsigned k = 0; k < ARENA_KEYS; k += 2) {
        struct ration_stack_request asks[] = {ask(arena, 0, k), ask(arena, 0, k + 1),
                                              ask(arena, 1, k), ask(arena, 1, k + 1)};
        bool allowed = take_all(arena, thread_index, asks, 4);

        admitted += scene_admitted(k, allowed) + scene_admitted(k + 1, allowed);
    }
    return admitted;
}

static bool is_one_each(struct arena *arena, uint64_t admitted)
{
    uint64_t expected = 0;

    for (unsigned k = 0; k < ARENA_KEYS; k++) {
        expected += scene_admitted(k, 1);
        if (!arena_is_left(arena, k, 0))
            return false;
    }
    return admitted == expected;
}

/* The thread that got key 1 also got its own key, and the other thread's key is as full as a new key. */
static bool is_one_of_two(struct arena *arena, uint64_t admitted)
{
    bool is_first = admitted == scene_admitted(0, 1);

    return (is_first || admitted == scene_admitted(2, 1)) && arena_remaining(arena, 1, 0, 1) == 0 &&
           arena_remaining(arena, 0, 0, 0) == !is_first &&
           arena_remaining(arena, 0, 0, 2) == is_first;
}

/* Playing -------------------------------------------------------------------------------- */

static const struct scene first_scenes[] = {
    {.name = "allow", .rules = {{ONE}}, .play = allow_each, .holds = is_one_each},
    {.name = "take", .rules = {{ONE}}, .play = take_each, .holds = is_one_each},
    {.name = "batch", .rules = {{ONE}}, .play = take_batch, .holds = is_one_each},
    {.name = "allow, 2 limits",
     .rules = {{ONE, ONE_MORE}},
     .play = allow_each,
     .holds = is_one_each},
    {.name = "take, 2 limits", .rules = {{ONE, ONE_MORE}}, .play = take_each, .holds = is_one_each},
    {.name = "batch, 2 limits",
     .rules = {{ONE, ONE_MORE}},
     .play = take_batch,
     .holds = is_one_each},
    {.name = "stack",
     .rules = {{ONE}, {ONE_MORE}},
     .is_stack = true,
     .play = take_stack,
     .holds = is_one_each},
    {.name = "stack, opposite orders",
     .rules = {{ONE}, {ONE_MORE}},
     .is_stack = true,
     .play = take_opposite,
     .holds = is_one_each},
    {.name = "stack, overlapping",
     .rules = {{ONE}, {ONE_MORE}},
     .is_stack = true,
     .play = take_overlapping,
     .holds = is_one_of_two},
    {.name = "stack, two keys of one limiter",
     .rules = {{ONE}, {ONE_MORE}},
     .is_stack = true,
     .play = take_pairs,
     .holds = is_one_each},
};

const struct scene_list limiter_first_scenes = {first_scenes,
                                                sizeof(first_scenes) / sizeof(first_scenes[0])};

const struct scene *scene_named(const char *name)
{
    const struct scene_list *const lists[] = {&limiter_first_scenes, &limiter_spend_scenes};

    for (unsigned l = 0; l < sizeof(lists) / sizeof(lists[0]); l++)
        for (unsigned i = 0; i < lists[l]->count; i++)
            if (strcmp(lists[l]->scenes[i].name, name) == 0)
                return &lists[l]->scenes[i];
    fprintf(stderr, "no scene is named %s\n", name);
    abort();
}

const char *ground_name(enum ground ground)
{
    static const char *const names[] = {"roomy", "idle", "skewed"};

    return names[ground];
}

struct stage {
    struct arena arena;
    const struct scene *scene;
};

static void prepare(void *context)
{
    struct stage *stage = context;

    arena_next_round(&stage->arena);
    if (stage->scene->prepare != NULL)
        stage->scene->prepare(&stage->arena);
}

static uint64_t play(void *context, unsigned thread_index)
{
    struct stage *stage = context;

    return stage->scene->play(&stage->arena, thread_index);
}

static bool holds(void *context, uint64_t total)
{
    struct stage *stage = context;

    return stage->scene->holds(&stage->arena, total);
}

struct totals scene_run(const struct scene *scene, enum ground ground, unsigned thread_count,
                        uint64_t round_count, uint64_t seed)
{
    struct stage stage = {.scene = scene};
    struct arena_plan plan = {.is_stack = scene->is_stack,
                              .ground = ground,
                              .overflow = scene->overflow,
                              .thread_count = thread_count,
                              .seed = seed};
    struct totals totals;

    memcpy(plan.rules, scene->rules, sizeof(plan.rules));
    arena_init(&stage.arena, &plan);
    totals = rounds_run(&(struct rounds){
        .thread_count = thread_count,
        .round_count = round_count,
        .context = &stage,
        .prepare = prepare,
        .play = play,
        .holds = holds,
    });
    arena_done(&stage.arena);
    return totals;
}
