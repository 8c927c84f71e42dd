#include "program.h"

#include <stdlib.h>

#define DAYS        ((int64_t)RATION_NS_PER_DAY)
#define MINUTES     ((int64_t)RATION_NS_PER_MINUTE)
#define TAIL_FIRST  200 /* key */
#define TAIL_GROUPS 6
#define TAIL_KEYS   8 /* of 16 places in a section */
#define DRAIN_CALLS 4

const char *const program_names[] = {"peek", "drain", "reverse", "fresh", "stale"};

static void add(struct program *program, struct call call)
{
    if (program->call_count == CALLS_MAX)
        abort();
    program->calls[program->call_count++] = call;
}

/* Adds the same call for every key of the scenario, in every limiter. */
static void add_each(struct program *program, const struct scenario *scenario,
                     const struct world *world, struct call call)
{
    for (uint32_t i = 0; i < scenario->account_count; i++)
        for (uint32_t l = 0; l < world->limiter_count; l++) {
            call.key = scenario->accounts[i];
            call.limiter_index = l;
            add(program, call);
        }
}

static void reverse(struct program *program)
{
    for (size_t i = 0, k = program->call_count; i + 1 < k; i++) {
        struct call call = program->calls[i];

        program->calls[i] = program->calls[--k];
        program->calls[k] = call;
    }
}

static void add_head(struct program *program, const struct scenario *scenario,
                     const struct world *world)
{
    bool is_stack = world->stack != NULL && !scenario_is(scenario, SCENARIO_SPLIT);

    switch (program->kind) {
    case PROGRAM_PEEK:
        add_each(program, scenario, world, (struct call){.kind = CALL_PEEK});
        add_each(program, scenario, world, (struct call){.kind = CALL_TAKE, .cost = 1});
        break;
    case PROGRAM_DRAIN:
        for (int i = 0; i < DRAIN_CALLS; i++)
            add_each(program, scenario, world, (struct call){.kind = CALL_ALLOW, .cost = 1});
        break;
    case PROGRAM_REVERSE:
        add_each(program, scenario, world, (struct call){.kind = CALL_TAKE, .cost = 2});
        for (int i = 0; i < DRAIN_CALLS && is_stack; i++)
            add(program, (struct call){.kind = CALL_STACK, .cost = 1});
        reverse(program);
        break;
    case PROGRAM_FRESH:
        for (uint32_t l = 0; l < world->limiter_count; l++) {
            add(program, (struct call){CALL_ALLOW, l, 50, 1, 0});
            add(program, (struct call){CALL_TAKE, l, 51, 1, 0});
        }
        add_each(program, scenario, world, (struct call){.kind = CALL_TAKE, .cost = 1});
        break;
    default:
        for (int64_t minutes = 1; minutes < 100000; minutes *= 7)
            add_each(program, scenario, world,
                     (struct call){.kind = CALL_PEEK, .after_ns = -minutes * MINUTES});
        for (uint32_t i = 0; i < WORLD_PLACES;
             i++) /* a time at which the idle keys had tokens in use */
            add(program, (struct call){CALL_PEEK, 0, WORLD_CROWD + i, 0, WORLD_CROWD_NS});
    }
}

static void add_tail(struct program *program, const struct scenario *scenario,
                     const struct world *world)
{
    add_each(program, scenario, world, (struct call){.kind = CALL_PEEK});
    for (uint32_t group = 0; group < TAIL_GROUPS; group++)
        for (uint32_t i = 0; i < TAIL_KEYS; i++)
            for (uint32_t l = 0; l < world->limiter_count; l++) {
                uint32_t key = TAIL_FIRST + group * TAIL_KEYS + i;
                int64_t after_ns = 2 * DAYS * (1 + group);

                add(program, (struct call){CALL_ALLOW, l, key, 3, after_ns});
                add(program, (struct call){CALL_TAKE, l, key, 1, after_ns});
            }
    program->tail_end = program->call_count;
}

static void add_epilogue(struct program *program, const struct scenario *scenario,
                         const struct world *world)
{
    int64_t after_ns = 2 * DAYS * TAIL_GROUPS;

    for (uint32_t i = 0; i < TAIL_KEYS; i++)
        for (uint32_t l = 0; l < world->limiter_count; l++)
            add(program, (struct call){CALL_PEEK, l, TAIL_FIRST + (TAIL_GROUPS - 1) * TAIL_KEYS + i,
                                       0, after_ns});
    add_each(program, scenario, world, (struct call){.kind = CALL_PEEK, .after_ns = after_ns});
}

void program_build(struct program *program, enum program_kind kind, const struct scenario *scenario,
                   const struct world *world)
{
    *program = (struct program){.kind = kind};
    add_head(program, scenario, world);
    program->head_count = program->call_count;
    program->tail_end = program->call_count;
    if (kind == PROGRAM_STALE)
        return;
    add_tail(program, scenario, world);
    add_epilogue(program, scenario, world);
}

struct seen program_call(const struct program *program, size_t call_index, struct world *world)
{
    const struct call *call = &program->calls[call_index];

    switch (call->kind) {
    case CALL_ALLOW:
        return world_allow(world, call->limiter_index, call->key, call->cost, call->after_ns);
    case CALL_STACK:
        return world_take_stack(world, call->key, call->cost, call->after_ns);
    default:
        return world_take(world, call->limiter_index, call->key, call->cost, call->after_ns);
    }
}
