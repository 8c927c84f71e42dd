/*
 * Many threads count top keys while one reads them: the reported counts are correct within the reported losses. The control
 * omits the losses, and must be caught.
 */
#include <inttypes.h>

#include "support/stats_keys.h"
#include "support/stats_race.h"
#include "support/unit.h"

#define ADD_COUNT (200000u / THREADS_SHARE)
#define KEY_MAX   64u

static uint64_t seed;

/* The try-lock -------------------------------------------------------------------------- */

/* Two threads try to lock one shard, and count in it without atomics. */
struct duel {
    struct ration_top_keys_shard shard;
    bool is_racy;
};

/* The control: checks, then acts. */
static bool racy_enter(struct ration_top_keys_shard *shard)
{
    bool is_free = __atomic_load_n(&shard->busy, __ATOMIC_RELAXED) == 0;

    if (is_free)
        __atomic_store_n(&shard->busy, 1, __ATOMIC_RELAXED);
    return is_free;
}

static void start_at_zero(void *context)
{
    struct duel *duel = context;

    __atomic_store_n(&duel->shard.total, 0, __ATOMIC_RELAXED);
}

static uint64_t enter_often(void *context, unsigned thread_index)
{
    struct duel *duel = context;
    struct ration_top_keys_shard *shard = &duel->shard;
    uint64_t entered_count = 0;

    (void)thread_index;
    for (unsigned i = 0; i < 1000; i++) {
        if (!(duel->is_racy ? racy_enter(shard) : ration_top_keys_enter(shard)))
            continue;
        entered_count++;
        ration_shards_add((struct ration_shard){0, true}, &shard->total, 1);
        ration_top_keys_leave(shard);
    }
    return entered_count;
}

static bool is_all_there(void *context, uint64_t total)
{
    struct duel *duel = context;

    return __atomic_load_n(&duel->shard.total, __ATOMIC_RELAXED) == total;
}

static struct totals duel_rounds(bool is_racy)
{
    struct duel duel = {.is_racy = is_racy};

    return rounds_run(&(struct rounds){
        .thread_count = 2,
        .round_count = 5000 / THREADS_SHARE,
        .context = &duel,
        .prepare = start_at_zero,
        .play = enter_often,
        .holds = is_all_there,
    });
}

static void one_thread_at_a_time_has_the_lock(void **state)
{
    (void)state;
    assert_int_equal(duel_rounds(false).bad_count, 0);
}

static void a_racy_lock_is_caught(void **state)
{
    struct totals totals = {0, 0};

    (void)state;
    for (unsigned i = 0; i < CONTROL_TRIES_MAX && totals.bad_count * 10 <= totals.round_count;
         i++) {
        totals = duel_rounds(true);
        print_message("  control: both had the lock in %" PRIu64 " of %" PRIu64 " rounds\n",
                      totals.bad_count, totals.round_count);
        if (!is_control_sure())
            return;
    }
    assert_true(totals.bad_count * 10 > totals.round_count);
}

/* Lists --------------------------------------------------------------------------------- */

struct naming {
    struct ration_top_keys *top;
    struct stats_exact exact[WRITER_COUNT];
    uint64_t begun_count; /* of key 0 */
    uint64_t done_count;
    void *scratch;
    struct ration_top_key keys[KEY_MAX];
    bool is_wrong;
};

static struct stats_zipf zipf;

static void name_often(void *context, unsigned thread_index)
{
    struct naming *naming = context;
    struct stats_exact *exact = &naming->exact[thread_index];
    uint64_t random = seed + thread_index;

    for (uint32_t i = 0; i < ADD_COUNT; i++) {
        uint32_t number = stats_zipf_next(&zipf, &random);
        char name[32];
        struct ration_top_key_ref key = stats_key(number, name);

        exact->counts[number]++;
        exact->total++;
        if (number == 0)
            __atomic_add_fetch(&naming->begun_count, 1, __ATOMIC_RELAXED);
        ration_top_keys_add(naming->top, &key, 1);
        if (number ==
            0) /* release: a reader of this number finds all counts before it; pairs with the load below */
            __atomic_add_fetch(&naming->done_count, 1, __ATOMIC_RELEASE);
    }
}

/* The count reported for the heaviest key meanwhile is correct at that time. */
static void read_keys(void *context)
{
    struct naming *naming = context;
    struct ration_top_keys_stats stats;
    uint64_t done = __atomic_load_n(&naming->done_count, __ATOMIC_ACQUIRE);
    uint32_t count =
        ration_top_keys_read(naming->top, naming->scratch, naming->keys, KEY_MAX, &stats);
    uint64_t begun = __atomic_load_n(&naming->begun_count, __ATOMIC_RELAXED);

    for (uint32_t i = 0; i < count; i++) {
        const struct ration_top_key *key = &naming->keys[i];

        if (key->hash[1] == 0)
            naming->is_wrong |= done > key->count + stats.lost || key->count > begun + key->error;
    }
    naming->is_wrong |= stats.total + stats.lost > WRITER_COUNT * ADD_COUNT;
}

/* Counts with eight threads and the given number of shards, and checks the list, with or without the losses. */
static struct stats_errors name_and_judge(uint32_t shard_count, bool forgets_lost,
                                          uint64_t *out_lost)
{
    struct ration_top_keys_shape shape = {KEY_MAX, shard_count};
    struct naming *naming = calloc(1, sizeof(*naming));
    struct ration_top_keys_stats stats;

    assert_non_null(naming);
    naming->scratch = stats_block(ration_top_keys_scratch_size(shape));
    assert_int_equal(ration_top_keys_init(stats_block(ration_top_keys_size(shape)),
                                          ration_top_keys_size(shape), shape, &naming->top),
                     RATION_OK);
    race_run(name_often, read_keys, naming);
    for (unsigned i = 1; i < WRITER_COUNT; i++) {
        for (uint32_t key = 0; key < STATS_KEYS_COUNT; key++)
            naming->exact[0].counts[key] += naming->exact[i].counts[key];
        naming->exact[0].total += naming->exact[i].total;
    }

    uint32_t count =
        ration_top_keys_read(naming->top, naming->scratch, naming->keys, KEY_MAX, &stats);

    *out_lost = stats.lost;
    if (forgets_lost)
        stats.lost = 0;

    struct stats_errors errors =
        stats_judge(&naming->exact[0], KEY_MAX, naming->keys, count, &stats);

    print_message("  %u shards: %" PRIu64 " of %u lost\n", shard_count, *out_lost,
                  WRITER_COUNT * ADD_COUNT);
    errors.sum += naming->is_wrong;
    free(naming->top);
    free(naming->scratch);
    free(naming);
    return errors;
}

static void reported_counts_of_keys_are_correct_within_the_losses(void **state)
{
    uint64_t lost;

    (void)state;
    for (uint32_t shard_count = 1; shard_count <= 16; shard_count *= 4)
        assert_int_equal(stats_errors_count(name_and_judge(shard_count, false, &lost)), 0);
}

/* The control: the same without the reported losses. */
static void an_unreported_loss_is_caught(void **state)
{
    uint64_t lost = 0;

    (void)state;
    for (unsigned i = 0; i < CONTROL_TRIES_MAX && lost < 100; i++) {
        struct stats_errors errors = name_and_judge(1, true, &lost);

        assert_int_equal(errors.sum, lost > 0);
        assert_true(lost < 100 || errors.above + errors.unlisted > 0);
    }
    assert_true(lost > 0 || !is_control_sure());
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_thread_at_a_time_has_the_lock),
        cmocka_unit_test(a_racy_lock_is_caught),
        cmocka_unit_test(reported_counts_of_keys_are_correct_within_the_losses),
        cmocka_unit_test(an_unreported_loss_is_caught),
    };

    seed = threads_seed("stats_keys_test");
    stats_zipf_init(&zipf);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
