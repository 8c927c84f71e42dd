/*
 * A process that uses a table and dies, at every instruction of an operation (R11).
 *
 *     crash_test MODE [STRIDE [SCENARIO [FAILURE]]]
 *
 *     states      steps through the operation once and stores every intermediate state of the shared memory; the
 *                 survivors then run every program on each of them
 *     twice       the same for a second process, in each of the states that the first one left
 *     kill        kills a process after each instruction, or each STRIDE-th
 *     sleep       stops it there, and lets it continue after the calls of the others
 *     absence     likewise after days, with its old now: it may be denied (R6)
 *     lineage, forgotten, claims, changer, zombies: see lineage.c
 *
 * SCENARIO: only scenarios whose name contains it; by default those that the mode is for.
 * FAILURE: negative control. The library was built with a bug, and the test must find this failure.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "crash.h"

#define EXIT_SKIPPED 77
#define TAIL_ONE_IN  7 /* for modes with many checks of the same states */

/* A state of the block, and how many steps led to it. */
struct image {
    size_t step_count;
    void *block;
};

struct images {
    size_t count;
    struct image all[IMAGES_MAX];
};

static struct trace trace;
static size_t stride = 1;
static struct images images;
static struct images images_second;

static void free_images(struct images *some)
{
    while (some->count > 0)
        free(some->all[--some->count].block);
}

static void store_image(struct images *some, const struct story *story, size_t step_count)
{
    void *block = malloc(world_size(&story->world));

    if (block == NULL || some->count == IMAGES_MAX)
        crash_stop("more states than expected");
    world_save(&story->world, block);
    some->all[some->count++] = (struct image){step_count, block};
}

/* Steps a process through the operation, from the current block to the end of the operation. */
static void walk(struct story *story, struct images *out_images)
{
    struct stepper stepper;

    free_images(out_images);
    crash_start(&stepper, story);
    store_image(out_images, story, 0);
    trace.at[0] = stepper_address(&stepper);
    while (stepper_step(&stepper)) {
        if (stepper.step_count >= STEPS_MAX)
            crash_stop("an operation does not end");
        trace.at[stepper.step_count] = stepper_address(&stepper);
        if (!world_equals(&story->world, out_images->all[out_images->count - 1].block))
            store_image(out_images, story, stepper.step_count);
    }
    trace_close(&trace, stepper.step_count);
    if (!stepper_finish(&stepper))
        crash_stop("an operation fails without a crash");
}

static void begin(struct story *story)
{
    world_restore(&story->world, story->begin);
    walk(story, &images);
}

/* Modes: each returns the first failure it finds. -------------------------------------------- */

static enum failure run_states(struct story *story, struct crash_count *count)
{
    begin(story);
    for (size_t i = 0; i < images.count; i++)
        for (enum program_kind kind = 0; kind < PROGRAM_COUNT; kind++) {
            enum failure failure =
                story_check(story, kind, &story->correct[kind], images.all[i].block, true);

            count->checks++;
            if (failure != FAILURE_NONE) {
                printf("  in the state after instruction %zu of %zu\n", images.all[i].step_count,
                       trace.step_count);
                return failure;
            }
        }
    return FAILURE_NONE;
}

static enum failure run_twice(struct story *story, struct crash_count *count)
{
    if (scenario_is(story->scenario, SCENARIO_ONCE) || scenario_is(story->scenario, SCENARIO_SPLIT))
        return FAILURE_NONE;
    begin(story);
    story_open_twice(story);
    for (size_t i = 0; i < images.count; i++) {
        world_restore(&story->world, images.all[i].block);
        walk(story, &images_second);
        for (size_t k = 0; k < images_second.count; k++) {
            enum failure failure = story_check(story, PROGRAM_PEEK, &story->correct_twice,
                                               images_second.all[k].block, k % TAIL_ONE_IN == 0);

            count->checks++;
            if (failure != FAILURE_NONE) {
                printf("  after instruction %zu of the first, %zu of the second\n",
                       images.all[i].step_count, images_second.all[k].step_count);
                return failure;
            }
        }
    }
    return FAILURE_NONE;
}

static enum failure run_kill(struct story *story, struct crash_count *count)
{
    begin(story);
    for (size_t n = 0; n <= trace.step_count; n += stride) {
        enum program_kind kind = (enum program_kind)(count->kills % PROGRAM_COUNT);
        struct stepper stepper;
        enum failure failure;

        if (!trace_is_boundary(&trace, n))
            continue;
        world_restore(&story->world, story->begin);
        crash_start(&stepper, story);
        if (!stepper_forward(&stepper, &trace, n))
            crash_stop("an operation takes another path");
        stepper_kill(&stepper);
        failure =
            story_check(story, kind, &story->correct[kind], NULL, count->kills % TAIL_ONE_IN == 0);
        count->kills++;
        count->checks++;
        if (failure != FAILURE_NONE) {
            printf("  killed after instruction %zu of %zu\n", n, trace.step_count);
            return failure;
        }
    }
    return FAILURE_NONE;
}

/* One process is stopped after n instructions, a program runs up to some call, then the process continues. */
static enum failure sleep_through(struct story *story, enum program_kind kind, size_t n,
                                  size_t until, size_t end)
{
    enum fate fate = until == story->programs[kind].head_count ? FATE_ASLEEP : FATE_ABSENT;
    static struct replies replies;
    struct stepper stepper;
    enum failure failure;

    memset(&replies, 0, sizeof(replies));
    world_restore(&story->world, story->begin);
    crash_start(&stepper, story);
    if (!stepper_forward(&stepper, &trace, n))
        crash_stop("an operation takes another path");
    failure = story_play(story, kind, 0, until, &replies);
    if (failure != FAILURE_NONE) {
        stepper_kill(&stepper);
        return failure;
    }
    if (!stepper_finish(&stepper))
        return FAILURE_HANG;
    replies.operation = seen_of((const struct answer *)(const void *)story->stage->room);
    failure = story_play(story, kind, until, end, &replies);
    return failure != FAILURE_NONE
               ? failure
               : story_judge(story, kind, &story->correct[kind], &replies, fate);
}

static enum failure run_sleeps(struct story *story, struct crash_count *count, bool is_long)
{
    begin(story);
    for (size_t n = 0; n < trace.step_count; n += stride) {
        enum program_kind kind = (enum program_kind)(count->checks % PROGRAM_STALE);
        const struct program *program = &story->programs[kind];
        bool is_whole = is_long || count->checks % TAIL_ONE_IN == 0;
        enum failure failure;

        if (!trace_is_boundary(&trace, n))
            continue;
        failure = sleep_through(story, kind, n, is_long ? program->tail_end : program->head_count,
                                story_end(story, kind, is_whole));
        count->checks++;
        if (failure != FAILURE_NONE) {
            printf("  %s: %s, stopped after instruction %zu of %zu, program %d\n",
                   story->scenario->name, failure_names[failure], n, trace.step_count, (int)kind);
            return failure;
        }
    }
    return FAILURE_NONE;
}

static enum failure run_sleep(struct story *story, struct crash_count *count)
{
    return run_sleeps(story, count, false);
}

static enum failure run_absence(struct story *story, struct crash_count *count)
{
    return run_sleeps(story, count, true);
}

/* -------------------------------------------------------------------------------------------- */

static const struct mode {
    const char *name;
    enum failure (*run)(struct story *story, struct crash_count *count);
    uint32_t descriptor_counts[2]; /* the second for main scenarios that use descriptors; 0: none */
    unsigned traits;               /* of the scenarios of this mode; 0: all */
} modes[] = {
    {"states", run_states, {1, 2}, 0},
    {"twice", run_twice, {1, 0}, SCENARIO_OFTEN},
    {"kill", run_kill, {1, 0}, SCENARIO_MAIN},
    {"sleep", run_sleep, {2, 0}, SCENARIO_MAIN},
    {"absence", run_absence, {2, 0}, SCENARIO_MAIN},
    {"lineage", crash_run_lineage, {2, 0}, SCENARIO_OFTEN},
    {"forgotten", crash_run_forgotten, {64, 0}, SCENARIO_OFTEN},
    {"claims", crash_run_claims, {2, 0}, SCENARIO_OFTEN},
    {"changer", crash_run_changer, {2, 0}, SCENARIO_OFTEN},
    {"zombies", crash_run_zombies, {1, 2}, SCENARIO_OFTEN},
};

static const struct mode *find_mode(const char *name)
{
    for (size_t i = 0; i < sizeof(modes) / sizeof(modes[0]); i++)
        if (strcmp(modes[i].name, name) == 0)
            return &modes[i];
    fprintf(stderr, "usage: crash_test MODE [STRIDE [SCENARIO [FAILURE]]]\n");
    exit(2);
}

static double seconds(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

static enum failure run(const struct mode *mode, const struct scenario *scenario,
                        uint32_t descriptor_count, struct crash_count *total)
{
    static struct story story;
    struct crash_count count = {0};
    double began = seconds();
    enum failure failure;

    story_open(&story, scenario, descriptor_count, crash_stage());
    images.count = 0;
    failure = mode->run(&story, &count);
    printf("%-30s %4u descriptors %6zu instructions %5zu states %6" PRIu64 " kills %7" PRIu64
           " checks %6.2f s  %s\n",
           scenario->name, descriptor_count, trace.step_count, images.count, count.kills,
           count.checks, seconds() - began, failure == FAILURE_NONE ? "" : failure_names[failure]);
    fflush(stdout);
    free_images(&images);
    free_images(&images_second);
    story_close(&story);
    total->kills += count.kills;
    total->checks += count.checks;
    return failure;
}

static bool is_wanted(const struct mode *mode, const struct scenario *scenario, const char *name)
{
    if (name[0] != '\0')
        return strstr(scenario->name, name) != NULL;
    return mode->traits == 0 || (scenario->traits & mode->traits) != 0;
}

/* Counts the failures. Stops at the expected one. */
static size_t run_all(const struct mode *mode, const char *name, const char *expected,
                      struct crash_count *total)
{
    size_t failure_count = 0;

    for (size_t i = 0; i < scenario_count; i++)
        for (size_t k = 0; k < 2 && is_wanted(mode, &scenarios[i], name); k++) {
            enum failure failure;

            if (mode->descriptor_counts[k] == 0 ||
                (k > 0 &&
                 (!scenario_is(&scenarios[i], SCENARIO_MAIN) || scenarios[i].world == WORLD_PLAIN)))
                continue;
            failure = run(mode, &scenarios[i], mode->descriptor_counts[k], total);
            failure_count += failure != FAILURE_NONE;
            if (expected != NULL && strcmp(failure_names[failure], expected) == 0) {
                printf("caught: %s\n", expected);
                exit(0);
            }
        }
    return failure_count;
}

int main(int argc, char **argv)
{
    const struct mode *mode = find_mode(argc > 1 ? argv[1] : "");
    const char *expected = argc > 4 ? argv[4] : NULL;
    struct crash_count total = {0};
    double began = seconds();
    size_t failure_count;

    stride = argc > 2 ? strtoull(argv[2], NULL, 10) : 1;
    if (!crash_can_trace()) {
        printf("skipped: this process may not trace its children\n");
        return EXIT_SKIPPED;
    }
    failure_count = run_all(mode, argc > 3 ? argv[3] : "", expected, &total);
    printf("%s: %" PRIu64 " single steps, %" PRIu64 " kills, %" PRIu64
           " checks, %zu failures, %.1f s\n",
           mode->name, stepper_total(), total.kills, total.checks, failure_count,
           seconds() - began);
    if (expected != NULL)
        printf("not caught: %s\n", expected);
    return failure_count > 0 || expected != NULL || total.checks == 0;
}
