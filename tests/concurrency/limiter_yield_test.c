/*
 * More threads than cores on keys of a limiter. The kernel rarely stops a thread where it matters, so the library is built
 * with yield points, also before every atomic operation of 16 bytes, at which threads give up their CPU at random from a
 * fixed seed.
 */
#include <inttypes.h>

#include "support/limiter_scenes.h"
#include "support/limiter_yields.h"
#include "support/unit.h"

/* Fewer rounds with more threads, so that the time stays about the same. */
#define ROUND_COUNT(threads) ((thread_rounds / (threads)) / THREADS_SHARE)

static const uint64_t thread_rounds = 1600;

static uint64_t seed;

static void play_list(const struct scene_list *list, enum ground ground, unsigned thread_count)
{
    uint64_t bad_count = 0;

    for (unsigned i = 0; i < list->count; i++) {
        struct totals totals;

        yields_start(seed + i, YIELDS_ONE_IN);
        totals = scene_run(&list->scenes[i], ground, thread_count, ROUND_COUNT(thread_count), seed);
        print_message("  %s, %s, %u threads: %" PRIu64 " of %" PRIu64 " rounds wrong, %" PRIu64
                      " yields\n",
                      list->scenes[i].name, ground_name(ground), thread_count, totals.bad_count,
                      totals.round_count, yields_count());
        assert_true(yields_count() > 0);
        bad_count += totals.bad_count;
    }
    assert_int_equal(bad_count, 0);
}

static void play_on(enum ground ground, unsigned thread_count)
{
    play_list(&limiter_first_scenes, ground, thread_count);
    play_list(&limiter_spend_scenes, ground, thread_count);
}

static void r1_r3_of_eight_threads_one_gets_a_new_keys_token(void **state)
{
    (void)state;
    play_on(GROUND_ROOMY, 8);
}

static void r1_r3_of_eight_threads_one_gets_it_where_idle_places_are_reclaimed(void **state)
{
    (void)state;
    play_on(GROUND_IDLE, 8);
}

static void r1_r3_of_eight_threads_one_gets_it_where_their_nows_differ(void **state)
{
    (void)state;
    play_on(GROUND_SKEWED, 8);
}

static void r1_r3_of_64_threads_one_gets_a_new_keys_token(void **state)
{
    (void)state;
    play_on(GROUND_ROOMY, 64);
    play_on(GROUND_IDLE, 64);
}

/* For a moment their claims alone may fill all 16 places of a key. That must not cause a denial. */
static void r1_r3_of_64_threads_one_gets_it_where_their_nows_differ(void **state)
{
    (void)state;
    play_on(GROUND_SKEWED, 64);
}

static void r1_r2_remaining_tokens_survive_a_change_of_limits(void **state)
{
    (void)state;
    play_list(&limiter_change_scenes, GROUND_IDLE, 8);
    play_list(&limiter_change_scenes, GROUND_IDLE, 64);
}

static void r7_keys_without_a_place_share_one_bucket(void **state)
{
    (void)state;
    play_list(&limiter_overflow_scenes, GROUND_IDLE, 8);
    play_list(&limiter_overflow_scenes, GROUND_IDLE, 64);
}

static void r1_a_key_gets_no_more_by_overflow_and_creation_together(void **state)
{
    (void)state;
    play_list(&limiter_overflow_beside_scenes, GROUND_IDLE, 8);
    play_list(&limiter_overflow_beside_scenes, GROUND_IDLE, 64);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(r1_r3_of_eight_threads_one_gets_a_new_keys_token),
        cmocka_unit_test(r1_r3_of_eight_threads_one_gets_it_where_idle_places_are_reclaimed),
        cmocka_unit_test(r1_r3_of_eight_threads_one_gets_it_where_their_nows_differ),
        cmocka_unit_test(r1_r3_of_64_threads_one_gets_a_new_keys_token),
        cmocka_unit_test(r1_r3_of_64_threads_one_gets_it_where_their_nows_differ),
        cmocka_unit_test(r1_r2_remaining_tokens_survive_a_change_of_limits),
        cmocka_unit_test(r7_keys_without_a_place_share_one_bucket),
        cmocka_unit_test(r1_a_key_gets_no_more_by_overflow_and_creation_together),
    };

    seed = threads_seed("limiter_yield_test");
    return cmocka_run_group_tests(tests, NULL, NULL);
}
