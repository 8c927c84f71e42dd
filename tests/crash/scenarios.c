#include "scenarios.h"

#include <stdio.h>
#include <stdlib.h>

#define SECONDS ((int64_t)RATION_NS_PER_SECOND)

/* Initial states. The operation uses key 0; key 1 is another key. ------------------------- */

static void take_all(struct world *world, uint32_t key, uint64_t cost)
{
    for (uint32_t l = 0; l < world->limiter_count; l++)
        world_take(world, l, key, cost, 0);
}

static void absent(struct world *world)
{
    take_all(world, 1, 1);
}

static void present(struct world *world)
{
    absent(world);
    take_all(world, 0, 1);
}

static void drained(struct world *world)
{
    absent(world);
    take_all(world, 0, 3);
}

/* For a stack: the key is in the first limiter only. */
static void half_present(struct world *world)
{
    absent(world);
    world_take(world, 0, 0, 1, 0);
}

/* Every place has a key that is full again. */
static void idle_crowd(struct world *world)
{
    world_crowd(world, 1, WORLD_CROWD_NS);
}

/* Every place has a key with tokens in use; key 0 has used the overflow bucket before. */
static void debt_crowd(struct world *world)
{
    world_crowd(world, 3, 0);
    take_all(world, 0, 1);
}

/* The key has used tokens of the overflow bucket; now a place is free, and the key inherits that use. */
static void back_from_overflow(struct world *world)
{
    int64_t token_ns = (world->kind == WORLD_PLAIN ? 60 : 360) * SECONDS;

    world_crowd(world, 1, -token_ns - SECONDS);
    world_take(world, 0, 0, 2, -30 * SECONDS);
}

static void claimed(struct world *world)
{
    absent(world);
    world_leave_claims(world, 0, 0, 1);
}

static void claimed_twice(struct world *world)
{
    absent(world);
    world_leave_claims(world, 0, 0, 2);
}

static void check(ration_status status, const struct ration_decision *decision)
{
    if (status == RATION_OK && decision->verdict == RATION_ALLOW)
        return;
    fprintf(stderr, "crash: a scenario could not be prepared\n");
    abort();
}

static void reserved(struct world *world)
{
    struct ration_decision decision = {0};

    absent(world);
    if (world->stack != NULL)
        check(ration_stack_reserve(world->stack, &world->subjects[0].key, 2, 0, world->now_ns,
                                   &decision, &world->reservation),
              &decision);
    else
        check(ration_limiter_reserve(world->limiters[0], &world->subjects[0].key, 2, 0,
                                     world->now_ns, &decision, &world->reservation),
              &decision);
}

void scenario_change_limits(struct world *world)
{
    static const char *const texts[2][3] = {{"60/h burst 3", "120/h burst 5", "10/h burst 4"},
                                            {"90/h burst 4", "50/h burst 6", "20/h burst 5"}};
    struct ration_rule rules[3] = {0};
    struct ration_decision decision = {0};
    size_t count = ration_limiter_rule_count(world->limiters[0]);

    for (size_t i = 0; i < count; i++)
        ration_limit_parse(texts[world->salt % 2 == 0][i], &rules[i].limit, NULL);
    check(ration_limiter_change(world->limiters[0], rules, count, RATION_CHANGE_KEEP, NULL),
          &decision);
}

/* Buckets are still of the previous generation. */
static void changed(struct world *world)
{
    present(world);
    scenario_change_limits(world);
}

/* Operations. ----------------------------------------------------------------------------- */

static void take(struct world *world, struct answer *out)
{
    out->status = ration_limiter_take(world->limiters[0], &world->subjects[0].key, 1, world->now_ns,
                                      &out->decision, out->details);
}

static void allow(struct world *world, struct answer *out)
{
    out->decision.verdict =
        !ration_limiter_allow_at(world->limiters[0], &world->subjects[0].key, 1, world->now_ns);
}

static void settle(struct world *world, struct answer *out)
{
    world->reservation.open = 1;
    out->status = ration_limiter_settle(world->limiters[0], &world->reservation, 1, world->now_ns);
}

static void cancel(struct world *world, struct answer *out)
{
    world->reservation.open = 1;
    out->status = ration_limiter_cancel(world->limiters[0], &world->reservation, world->now_ns);
}

static void refund(struct world *world, struct answer *out)
{
    out->status =
        ration_limiter_refund(world->limiters[0], &world->subjects[0].key, 1, world->now_ns);
}

static void reserve(struct world *world, struct answer *out)
{
    out->status = ration_limiter_reserve(world->limiters[0], &world->subjects[0].key, 2, 0,
                                         world->now_ns, &out->decision, &world->reservation);
}

static void stack_take(struct world *world, struct answer *out)
{
    out->status = ration_stack_take(world->stack, &world->subjects[0].key, 1, world->now_ns,
                                    &out->decision, out->details);
}

static void stack_asks(struct world *world, struct answer *out)
{
    struct ration_stack_request asks[] = {{1, &world->subjects[0].key, 1},
                                          {0, &world->subjects[1].key, 1},
                                          {1, &world->subjects[0].key, 1}};

    out->status = ration_stack_take_all(world->stack, asks, 3, world->now_ns, &out->decision);
}

static void stack_settle(struct world *world, struct answer *out)
{
    world->reservation.open = 1;
    out->status = ration_stack_settle(world->stack, &world->reservation, 1, world->now_ns);
}

/* -------------------------------------------------------------------------------------------- */

#define TWO   {0, 1}, 2
#define CROWD {0, 1, 100, 115}, 4

const struct scenario scenarios[] = {
    {"plain insert", WORLD_PLAIN, absent, allow, TWO, SCENARIO_MAIN | SCENARIO_OFTEN},
    {"plain take", WORLD_PLAIN, present, allow, TWO, SCENARIO_MAIN},
    {"plain take, all reported", WORLD_PLAIN, present, take, TWO, 0},
    {"plain denied", WORLD_PLAIN, drained, allow, TWO, 0},
    {"plain reclaim", WORLD_PLAIN, idle_crowd, take, CROWD, SCENARIO_MAIN},
    {"plain insert, a dead claim", WORLD_PLAIN, claimed, take, TWO, 0},
    {"plain insert, two dead claims", WORLD_PLAIN, claimed_twice, take, TWO, 0},
    {"plain overflow", WORLD_PLAIN, debt_crowd, take, CROWD, 0},
    {"plain back from overflow", WORLD_PLAIN, back_from_overflow, take, CROWD, 0},
    {"plain settle", WORLD_PLAIN, reserved, settle, TWO, SCENARIO_ONCE},
    {"plain cancel", WORLD_PLAIN, reserved, cancel, TWO, SCENARIO_ONCE},
    {"plain refund", WORLD_PLAIN, present, refund, TWO, 0},
    {"plain new limits", WORLD_PLAIN, changed, allow, TWO, 0},
    {"start empty, first touch", WORLD_EMPTY, absent, take, TWO, 0},
    {"entry insert", WORLD_ENTRY, absent, allow, TWO, SCENARIO_MAIN},
    {"entry take", WORLD_ENTRY, present, allow, TWO, SCENARIO_MAIN | SCENARIO_OFTEN},
    {"entry take, all reported", WORLD_ENTRY, present, take, TWO, 0},
    {"entry denied", WORLD_ENTRY, drained, allow, TWO, 0},
    {"entry reclaim", WORLD_ENTRY, idle_crowd, take, CROWD, SCENARIO_MAIN},
    {"entry insert, a dead claim", WORLD_ENTRY, claimed, take, TWO, 0},
    {"entry insert, two dead claims", WORLD_ENTRY, claimed_twice, take, TWO, 0},
    {"entry overflow", WORLD_ENTRY, debt_crowd, take, CROWD, 0},
    {"entry back from overflow", WORLD_ENTRY, back_from_overflow, take, CROWD, 0},
    {"entry reserve", WORLD_ENTRY, absent, reserve, TWO, 0},
    {"entry settle", WORLD_ENTRY, reserved, settle, TWO, SCENARIO_ONCE},
    {"entry cancel", WORLD_ENTRY, reserved, cancel, TWO, SCENARIO_ONCE},
    {"entry refund", WORLD_ENTRY, present, refund, TWO, 0},
    {"entry new limits", WORLD_ENTRY, changed, allow, TWO, 0},
    {"burst reserve take", WORLD_RESERVE, present, take, TWO, 0},
    {"log insert", WORLD_LOG, absent, take, TWO, 0},
    {"log take", WORLD_LOG, present, take, TWO, 0},
    {"log reclaim", WORLD_LOG, idle_crowd, take, CROWD, 0},
    {"stack of 2", WORLD_STACK_2, present, stack_take, TWO, SCENARIO_MAIN | SCENARIO_OFTEN},
    {"stack of 2, fresh", WORLD_STACK_2, absent, stack_take, TWO, 0},
    {"stack of 2, half fresh", WORLD_STACK_2, half_present, stack_take, TWO, 0},
    {"stack of 2, denied", WORLD_STACK_2, drained, stack_take, TWO, 0},
    {"stack of 2, reclaim", WORLD_STACK_2, idle_crowd, stack_take, CROWD, 0},
    {"stack of 2, overflow", WORLD_STACK_2, debt_crowd, stack_take, CROWD, 0},
    {"stack of 2, other keys", WORLD_STACK_2, present, stack_asks, TWO, 0},
    {"stack of 2, settle", WORLD_STACK_2, reserved, stack_settle, TWO,
     SCENARIO_ONCE | SCENARIO_SPLIT},
    {"stack of 3", WORLD_STACK_3, present, stack_take, TWO, 0},
    {"stack of 3, fresh", WORLD_STACK_3, absent, stack_take, TWO, 0},
};

const size_t scenario_count = sizeof(scenarios) / sizeof(scenarios[0]);
