/*
 * The controls of the tests of limiters with threads: the same scenes and checks must catch a limiter with a bug. Without
 * arguments the bug is in a function here; with a scene's name and a ground it is in the library with which this program
 * was linked: two threads on two cores, or more threads and a library that yields.
 *
 *     limiter_race_controls_test [SCENE GROUND]
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "support/limiter_scenes.h"

#ifdef RATION_YIELD_POINTS
#include "support/limiter_yields.h"

#define THREAD_COUNT 8
#define ROUND_COUNT  (500 / THREADS_SHARE)
#else
#define THREAD_COUNT 2
#define ROUND_COUNT  (20000 / THREADS_SHARE)
#endif

/* A limiter without the bug never has a bad round, so one bad round is a catch. Other work on the
   machine, or on its host, keeps two threads apart; then the control gets another try. */
#define TRIES_MAX 50

static enum ground ground_named(const char *name)
{
    for (enum ground ground = GROUND_ROOMY; ground <= GROUND_SKEWED; ground++)
        if (strcmp(ground_name(ground), name) == 0)
            return ground;
    fprintf(stderr, "no ground is named %s\n", name);
    exit(2);
}

static bool is_caught(const struct scene *scene, enum ground ground, uint64_t seed)
{
    for (unsigned i = 0; i < TRIES_MAX; i++) {
        struct totals totals;

#ifdef RATION_YIELD_POINTS
        yields_start(seed + i, YIELDS_ONE_IN);
#endif
        totals = scene_run(scene, ground, THREAD_COUNT, ROUND_COUNT, seed + i);
        printf("  %s, %s: caught in %" PRIu64 " of %" PRIu64 " rounds\n", scene->name,
               ground_name(ground), totals.bad_count, totals.round_count);
        if (totals.bad_count > 0)
            return true;
    }
    return false;
}

/* Whether the control must be caught, not just be run. */
static bool is_sure(void)
{
#ifdef __SANITIZE_THREAD__
    return THREAD_COUNT >
           2; /* the sanitizer's work between the atomics decides whether two threads meet */
#else
    return THREAD_COUNT > 2 || threads_cpu_count() > 1;
#endif
}

int main(int argument_count, char **arguments)
{
    uint64_t seed = threads_seed("limiter_race_controls_test");
    bool caught = argument_count == 3
                      ? is_caught(scene_named(arguments[1]), ground_named(arguments[2]), seed)
                      : is_caught(&limiter_scene_rollback, GROUND_ROOMY, seed) &&
                            is_caught(&limiter_scene_rollback, GROUND_IDLE, seed);

    if (!caught && !is_sure()) {
        printf("one CPU, or the thread sanitizer: run but not judged\n");
        return 0;
    }
    return caught ? 0 : 1;
}
