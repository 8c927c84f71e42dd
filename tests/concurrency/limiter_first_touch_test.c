/*
 * Two threads touch a new key at the same time: each looks for a place, and there must be one bucket in the end. In every
 * round exactly one thread gets the token, with one limit or several, with a stack whose keys are given in opposite
 * orders, and in batches; with empty places and with places that must be reclaimed, and also if the threads' nows
 * differ, so that they choose different places. The controls are in limiter_race_controls_test.c.
 */
#include <inttypes.h>

#include "support/limiter_scenes.h"
#include "support/unit.h"

/* For each scene on each ground: 60000 rounds, with four times as many keys. */
#define ROUND_COUNT       (20000 / THREADS_SHARE)
#define OTHER_ROUND_COUNT (8000 / THREADS_SHARE)

static uint64_t seed;

static void play_list(const struct scene_list *list, enum ground ground, uint64_t round_count)
{
    for (unsigned i = 0; i < list->count; i++) {
        struct totals totals = scene_run(&list->scenes[i], ground, 2, round_count, seed);

        print_message("  %s, %s: %" PRIu64 " of %" PRIu64 " rounds wrong\n", list->scenes[i].name,
                      ground_name(ground), totals.bad_count, totals.round_count);
        assert_int_equal(totals.bad_count, 0);
    }
}

static void play_on(enum ground ground)
{
    play_list(&limiter_first_scenes, ground, ROUND_COUNT);
    play_list(&limiter_spend_scenes, ground, OTHER_ROUND_COUNT);
}

static void r1_r3_one_of_two_threads_gets_a_new_keys_token(void **state)
{
    (void)state;
    play_on(GROUND_ROOMY);
}

static void r1_r3_one_of_two_threads_gets_it_where_idle_places_are_reclaimed(void **state)
{
    (void)state;
    play_on(GROUND_IDLE);
}

static void r1_r3_one_of_two_threads_gets_it_where_their_nows_differ(void **state)
{
    (void)state;
    play_on(GROUND_SKEWED);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(r1_r3_one_of_two_threads_gets_a_new_keys_token),
        cmocka_unit_test(r1_r3_one_of_two_threads_gets_it_where_idle_places_are_reclaimed),
        cmocka_unit_test(r1_r3_one_of_two_threads_gets_it_where_their_nows_differ),
    };

    seed = threads_seed("limiter_first_touch_test");
    return cmocka_run_group_tests(tests, NULL, NULL);
}
