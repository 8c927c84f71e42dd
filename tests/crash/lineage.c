/*
 * Many deaths on one table, which is never created again: what the dead processes leave must neither fill the table nor
 * use up the descriptors.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "crash.h"
#include "watchdog.h"

#define DEATHS_MAX  200
#define DEATH_STEPS 30000
#define FORGOTTEN   18
#define ZOMBIES_MAX 2
#define ROUND_NS    (20 * RATION_NS_PER_DAY)

void crash_stop(const char *what)
{
    fprintf(stderr, "crash: %s\n", what);
    abort();
}

struct stage *crash_stage(void)
{
    static struct stage *stage;

    if (stage == NULL)
        stage = stage_create();
    return stage;
}

static void do_nothing(void *context)
{
    (void)context;
}

bool crash_can_trace(void)
{
    struct stepper stepper;

    if (!stepper_start(&stepper, crash_stage(), do_nothing, NULL))
        return false;
    stepper_kill(&stepper);
    return true;
}

void crash_start(struct stepper *stepper, struct story *story)
{
    if (!stepper_start(stepper, story->stage, story_act, story))
        crash_stop("a process cannot be traced");
}

/* Steps until the block has changed write_count times. False if the operation ended before. */
static bool step_writes(struct stepper *stepper, const struct story *story, size_t write_count,
                        void *last)
{
    world_save(&story->world, last);
    while (write_count > 0) {
        if (!stepper_step(stepper))
            return false;
        if (!world_equals(&story->world, last)) {
            world_save(&story->world, last);
            write_count--;
        }
    }
    return true;
}

static void next_round(struct story *story, uint64_t round)
{
    world_turn(&story->world, (uint32_t)round, WORLD_BEGIN_NS + round * ROUND_NS);
}

/* Each process dies after another number of writes; repeated until step_count steps. */
enum failure crash_run_lineage(struct story *story, struct crash_count *count)
{
    void *last = malloc(world_size(&story->world));
    uint64_t end = stepper_total() + DEATH_STEPS;
    enum failure failure = FAILURE_NONE;
    size_t write_count = 0;

    if (last == NULL)
        crash_stop("no memory");
    while (failure == FAILURE_NONE && count->kills < DEATHS_MAX &&
           (stepper_total() < end || write_count > 0)) {
        enum program_kind kind = (enum program_kind)(count->kills % PROGRAM_STALE);
        struct stepper stepper;
        bool is_inside;

        next_round(story, count->kills + 1);
        story->scenario->prepare(&story->world);
        crash_start(&stepper, story);
        is_inside = step_writes(&stepper, story, write_count, last);
        stepper_kill(&stepper);
        failure = story_check(story, kind, &story->correct[kind], NULL, true);
        if (failure != FAILURE_NONE)
            printf("  death %zu, after write %zu\n", (size_t)count->kills, write_count);
        count->kills++;
        count->checks++;
        write_count = is_inside ? write_count + 1 : 0;
    }
    free(last);
    return failure;
}

struct crowd {
    struct story *story;
    unsigned count; /* of the calls that are counted */
};

/* Takes as many new keys as there are places. */
static void take_places(void *context)
{
    struct crowd *crowd = context;
    struct world *world = &crowd->story->world;

    for (uint32_t i = 0; i < WORLD_PLACES; i++)
        for (uint32_t l = 0; l < world->limiter_count; l++) {
            uint64_t overflow_count = world_overflow_count(world);
            struct seen seen = world_take(world, l, 300 + i, 1, 0);

            crowd->count +=
                seen.verdict != RATION_ALLOW || world_overflow_count(world) != overflow_count;
        }
}

/* Whether all of them find a place. */
static enum failure check_room(struct story *story, const char *after_what)
{
    struct crowd crowd = {story, 0};

    if (watchdog_run(take_places, &crowd) != WATCHDOG_RETURNED)
        return FAILURE_HANG;
    if (crowd.count == 0)
        return FAILURE_NONE;
    printf("  %s: %u of %u keys find no place in a table of full buckets, %s\n",
           story->scenario->name, crowd.count,
           (unsigned)(WORLD_PLACES * story->world.limiter_count), after_what);
    return FAILURE_WRONG;
}

/* Steps until a write to the table itself, not only to a descriptor. */
static void step_into_table(struct stepper *stepper, const struct story *story, char *last)
{
    const char *block = (const char *)story->world.memory->block;
    size_t first = ration_block_sections(story->world.memory->block)[0].sets_offset;
    size_t size = world_size(&story->world) - first;

    world_save(&story->world, last);
    while (stepper_step(stepper) && memcmp(block + first, last + first, size) == 0)
        ;
}

/*
 * Each process dies at its first write to the table, with a key that is never used again. A key with tokens in use has
 * its place until it is full, and no longer, even if a process died with it (R7).
 */
enum failure crash_run_forgotten(struct story *story, struct crash_count *count)
{
    char *last = malloc(world_size(&story->world));

    if (last == NULL)
        crash_stop("no memory");
    for (; count->kills < FORGOTTEN; count->kills++) {
        struct stepper stepper;

        next_round(story, count->kills + 1);
        story->scenario->prepare(&story->world);
        crash_start(&stepper, story);
        step_into_table(&stepper, story, last);
        stepper_kill(&stepper);
    }
    free(last);
    next_round(story, count->kills + 1);
    count->checks++;
    return check_room(story, "after many deaths");
}

/* Almost every place has a claim of a dead process. The claims lapse after a second. */
enum failure crash_run_claims(struct story *story, struct crash_count *count)
{
    enum failure failure = FAILURE_NONE;

    if (story->scenario->account_count > 2)
        return FAILURE_NONE; /* a full table has no room for claims */
    for (uint64_t s = 3; s < 500 * UINT64_C(86400) && failure == FAILURE_NONE; s += 1 + s / 7) {
        char when[40];

        world_restore(&story->world, story->begin);
        next_round(story, 1);
        for (uint32_t i = 0; i < WORLD_PLACES - 2; i++)
            for (uint32_t l = 0; l < story->world.limiter_count; l++)
                world_leave_claims(&story->world, l, 400 + i, 1);
        world_turn(&story->world, 1, story->world.now_ns + s * RATION_NS_PER_SECOND);
        count->checks++;
        snprintf(when, sizeof(when), "%u s after claims", (unsigned)s);
        failure = check_room(story, when);
    }
    return failure;
}

/* Changes the limits, which only this process then knows, and uses them. */
static void change_and_take(void *context)
{
    struct story *story = context;

    scenario_change_limits(&story->world);
    world_take(&story->world, 0, 0, 1, 0);
}

static void take_three(void *context)
{
    struct crowd *crowd = context;

    for (int i = 0; i < 3; i++)
        crowd->count += world_take(&crowd->story->world, 0, 0, 1, 0).verdict == RATION_ALLOW;
}

/*
 * A process changes its limits and dies. The others have the old limits, and find buckets of a generation that they do
 * not know. The dead process has taken one of the remaining tokens.
 */
enum failure crash_run_changer(struct story *story, struct crash_count *count)
{
    struct crowd crowd = {story, 0};
    struct stepper stepper;
    uint64_t left;

    world_restore(&story->world, story->begin);
    left = world_take(&story->world, 0, 0, 0, 0).rules[0].remaining;
    if (!stepper_start(&stepper, story->stage, change_and_take, story) || !stepper_finish(&stepper))
        crash_stop("a process cannot change its limits");
    count->checks++;
    switch (watchdog_run(take_three, &crowd)) {
    case WATCHDOG_CRASHED:
        return FAILURE_CRASH;
    case WATCHDOG_HUNG:
        return FAILURE_HANG;
    default:
        return crowd.count < left ? FAILURE_NONE : FAILURE_WRONG;
    }
}

/*
 * Every descriptor belongs to a process that was killed and is still a zombie. Its parent may be the process that
 * decides next.
 */
enum failure crash_run_zombies(struct story *story, struct crash_count *count)
{
    struct stepper steppers[ZOMBIES_MAX];
    uint32_t descriptor_count = story->world.memory->block->descriptor_count;
    enum failure failure;

    for (uint32_t i = 0; i < descriptor_count; i++, count->kills++) {
        crash_start(&steppers[i], story);
        while (world_descriptor_owner(&story->world, i) != (uint64_t)steppers[i].pid)
            if (!stepper_step(&steppers[i]))
                return FAILURE_NONE; /* it needs no descriptor */
        stepper_kill_unreaped(&steppers[i]);
    }
    failure = story_check(story, PROGRAM_PEEK, &story->correct[PROGRAM_PEEK], NULL, true);
    count->checks++;
    for (uint32_t i = 0; i < descriptor_count; i++)
        stepper_kill(&steppers[i]);
    return failure;
}
