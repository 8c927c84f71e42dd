/*
 * Dumps and scans while threads decide. The clock does not advance, so that a key's tokens can only become fewer: the
 * saved tokens of a key must lie between those it had before and after.
 */
#include <pthread.h>
#include <sched.h>

#include "base/wall.h"
#include "support/saved_dump.h"
#include "support/subjects.h"
#include "support/threads.h"

#define NOW_NS       (1000 * RATION_NS_PER_SECOND)
#define KEY_COUNT    60
#define THREAD_COUNT 2
#define SCENE_COUNT  (20 / THREADS_SHARE)
#define ROUND_COUNT  6 /* of a scene, few enough that its keys still have tokens */

/* The time of day does not advance either. */
uint64_t ration_wall_now(void)
{
    return NOW_NS;
}

static const struct subject rows[] = {
    {.name = "token bucket", .rules = {"1000/h burst 1M"}},
    {.name = "two buckets", .rules = {"1000/h burst 1M", "2000/h burst 1M"}},
    {.name = "reserve", .rules = {"1000/h burst 1M reserve 10/h burst 1M"}},
    {.name = "fixed window", .rules = {"1M/h fixed_window"}},
    {.name = "log", .rules = {"3000/h sliding_log"}},
    {.name = "log of many", .rules = {"3000/h sliding_log", "1000/h burst 1M"}},
};

#define ROW_COUNT (sizeof(rows) / sizeof(rows[0]))
#define ITEMS_MAX 5000

struct scene {
    const struct subject *subject;
    struct ration_manual_clock manual;
    struct ration_clock clock;
    struct ration_rule rules[SUBJECT_RULES_MAX];
    struct ration_limiter_options options;
    ration_limiter *limiter;
    pthread_t threads[THREAD_COUNT];
    uint32_t is_over;
    uint64_t tags[KEY_COUNT];
};

/* Keys 0 to KEY_COUNT - 1 are only taken from; other keys are created and reclaimed. */
static void *decide(void *context)
{
    struct scene *scene = context;
    uint64_t random = (uint64_t)(uintptr_t)&random;

    while (!__atomic_load_n(&scene->is_over, __ATOMIC_RELAXED)) {
        struct subject_key key;
        uint64_t index = ration_random_up_to(&random, KEY_COUNT - 1);

        ration_limiter_allow_at(scene->limiter, subject_request(&key, index),
                                1 + ration_random_up_to(&random, 2), NOW_NS);
        ration_limiter_allow_at(scene->limiter, subject_request(&key, 1000 + random % 10000), 1,
                                NOW_NS);
        ration_limiter_reset(scene->limiter, &key.key, NOW_NS);
    }
    return NULL;
}

static void list_tags(struct scene *scene)
{
    struct ration_scan_item items[KEY_COUNT + 1];
    uint64_t cursor = 0;
    size_t count = 0;

    do
        count += ration_limiter_scan(scene->limiter, &cursor, items + count, KEY_COUNT - count + 1,
                                     NOW_NS);
    while (cursor != 0);
    assert_int_equal(count, KEY_COUNT);
    for (size_t i = 0; i < KEY_COUNT; i++)
        scene->tags[i] = items[i].tag;
}

static void begin(struct scene *scene, const struct subject *subject)
{
    memset(scene, 0, sizeof(*scene));
    scene->subject = subject;
    scene->manual.ns = NOW_NS;
    scene->clock = ration_clock_manual(&scene->manual);
    scene->options = subject_options(subject, scene->rules, &scene->clock);
    scene->limiter = subject_create(&scene->options);
    for (uint64_t i = 0; i < KEY_COUNT; i++) {
        struct subject_key key;

        assert_true(ration_limiter_allow_at(scene->limiter, subject_request(&key, i), 1, NOW_NS));
    }
    list_tags(scene);
    for (size_t i = 0; i < THREAD_COUNT; i++)
        assert_int_equal(pthread_create(&scene->threads[i], NULL, decide, scene), 0);
}

static void end(struct scene *scene)
{
    __atomic_store_n(&scene->is_over, 1, __ATOMIC_RELAXED);
    for (size_t i = 0; i < THREAD_COUNT; i++)
        pthread_join(scene->threads[i], NULL);
    ration_limiter_free(scene->limiter);
}

struct snapshot {
    uint64_t remaining[KEY_COUNT][SUBJECT_RULES_MAX];
};

static struct snapshot snap(const struct scene *scene, ration_limiter *limiter)
{
    struct snapshot snapshot = {0};

    for (uint64_t i = 0; i < KEY_COUNT; i++) {
        struct ration_decision whole, details[RATION_RULES_MAX];
        struct subject_key key;

        ration_limiter_peek(limiter, subject_request(&key, i), 0, NOW_NS, &whole, details);
        for (size_t k = 0; k < scene->options.rule_count; k++)
            snapshot.remaining[i][k] = details[k].remaining;
    }
    return snapshot;
}

/* Whether each number of saved lies between those of before and after. */
static bool is_between(const struct snapshot *before, const struct snapshot *saved,
                       const struct snapshot *after)
{
    for (size_t i = 0; i < KEY_COUNT; i++)
        for (size_t k = 0; k < SUBJECT_RULES_MAX; k++)
            if (saved->remaining[i][k] > before->remaining[i][k] ||
                saved->remaining[i][k] < after->remaining[i][k])
                return false;
    return true;
}

static struct snapshot snap_dump(const struct scene *scene, struct saved_bytes *dump)
{
    struct ration_error error = {.message = ""};
    ration_limiter *loaded = NULL;
    struct snapshot snapshot;

    if (saved_load(&scene->options, dump, &loaded, &error) != RATION_OK)
        fail_msg("%s: %s", scene->subject->name, error.message);
    snapshot = snap(scene, loaded);
    ration_limiter_free(loaded);
    return snapshot;
}

static void a_dump_has_tokens_that_a_key_had_meanwhile(void **state)
{
    (void)state;
    for (size_t i = 0; i < ROW_COUNT * SCENE_COUNT; i++) {
        struct scene scene;

        begin(&scene, &rows[i % ROW_COUNT]);
        for (int round = 0; round < ROUND_COUNT; round++) {
            struct snapshot before = snap(&scene, scene.limiter);
            struct saved_bytes dump = saved_dump(scene.limiter, NOW_NS);
            struct snapshot after = snap(&scene, scene.limiter);
            struct snapshot saved = snap_dump(&scene, &dump);

            free(dump.data);
            if (!is_between(&before, &saved, &after))
                fail_msg("%s: a key has tokens in the dump that it never had meanwhile",
                         scene.subject->name);
        }
        end(&scene);
    }
}

/* The control of is_between(): a dump that misses the takes since. */
static void control_an_old_dump_is_noticed(void **state)
{
    struct scene scene;
    struct saved_bytes dump;
    struct snapshot first, later, saved;

    (void)state;
    begin(&scene, &rows[0]);
    dump = saved_dump(scene.limiter, NOW_NS);
    first = snap(&scene, scene.limiter);
    do {
        sched_yield();
        later = snap(&scene, scene.limiter);
    } while (memcmp(&first, &later, sizeof(first)) == 0);
    saved = snap_dump(&scene, &dump);
    assert_false(is_between(&later, &saved, &later));
    free(dump.data);
    end(&scene);
}

/* The number of times that a key was listed. */
static size_t count_tag(const struct ration_scan_item *items, size_t count, uint64_t tag)
{
    size_t seen = 0;

    for (size_t i = 0; i < count; i++)
        seen += items[i].tag == tag;
    return seen;
}

/* Keys that have tokens in use all the time, among others that are created and reclaimed: each is listed once. */
static void every_key_that_stays_in_use_is_listed_once(void **state)
{
    static struct ration_scan_item items[ITEMS_MAX];

    (void)state;
    for (size_t i = 0; i < ROW_COUNT * SCENE_COUNT; i++) {
        struct scene scene;

        begin(&scene, &rows[i % ROW_COUNT]);
        for (int round = 0; round < ROUND_COUNT; round++) {
            uint64_t cursor = 0;
            size_t count = 0;

            do
                count += ration_limiter_scan(scene.limiter, &cursor, items + count, 50, NOW_NS);
            while (cursor != 0 && count + 50 <= ITEMS_MAX);
            assert_int_equal(cursor, 0);
            for (size_t k = 0; k < KEY_COUNT; k++)
                assert_int_equal(count_tag(items, count, scene.tags[k]), 1);
        }
        end(&scene);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_dump_has_tokens_that_a_key_had_meanwhile),
        cmocka_unit_test(control_an_old_dump_is_noticed),
        cmocka_unit_test(every_key_that_stays_in_use_is_listed_once),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
