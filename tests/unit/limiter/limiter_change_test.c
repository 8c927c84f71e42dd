/*
 * Changes of limits while keys are in use: preserving or resetting them, any number of times, or refused.
 */
#include <pthread.h>

#include "base/random.h"
#include "limiter/config.h"
#include "unit/limiter/limiter_kit.h"

static const struct ration_key key = {"k", 1};

static ration_status change(struct kit *kit, enum ration_change how, const char *const *texts)
{
    struct ration_rule next[RATION_RULES_MAX];
    size_t count = kit_rules(next, texts);

    return ration_limiter_change(kit->limiter, next, count, how, NULL);
}

/* Limits whose state fits where the other's is, in any order. */
static const char *const fitting[] = {
    "10/s burst 20",
    "3/s burst 7",
    "1/min burst 5",
    "7/s burst 5 leaky_queue",
    "9/s fixed_window",
    "20/min fixed_window",
    "5/s burst 12 refill interval",
    "50/min refill interval",
};

/* One rule behaves as a bucket that is changed: every pair, and then on. */
static void every_pair_that_fits_changes_as_a_bucket_does(void **state)
{
    (void)state;
    for (size_t a = 0; a < KIT_COUNT_OF(fitting); a++)
        for (size_t b = 0; b < KIT_COUNT_OF(fitting); b++)
            for (int how = RATION_CHANGE_KEEP; how <= RATION_CHANGE_RESET; how++) {
                struct ration_limit old = kit_limit(fitting[a]), new = kit_limit(fitting[b]);
                uint64_t random = a * 100 + b;
                struct kit kit;

                KIT_BEGIN(&kit, fitting[a]);
                for (int round = 0; round < 8; round++) {
                    struct ration_bucket bucket;
                    struct kit_room room;
                    struct ration_key fresh = kit_numbered(&room, (uint64_t)round);
                    struct ration_decision got;

                    ration_bucket_init(&bucket, &old, kit.manual.ns);
                    for (int i = 0; i < round; i++) {
                        uint64_t cost = ration_random_up_to(&random, 3);

                        ration_bucket_allow_at(&bucket, &old, cost, kit.manual.ns);
                        ration_limiter_allow_at(kit.limiter, &fresh, cost, kit.manual.ns);
                        kit_pass(&kit, ration_random_up_to(&random, 100 * MS));
                    }
                    if (kit_report(&kit).limiter.created == 0)
                        continue; /* a key never seen is of the new limit from the start */
                    assert_int_equal(change(&kit, (enum ration_change)how, KIT_TEXTS(fitting[b])),
                                     RATION_OK);
                    assert_int_equal(ration_bucket_change(&bucket, &old, &new,
                                                          (enum ration_change)how, kit.manual.ns),
                                     RATION_OK);
                    for (uint64_t cost = 0; cost < 4; cost++) {
                        ration_limiter_peek(kit.limiter, &fresh, cost, kit.manual.ns, &got, NULL);
                        assert_same_decision(
                            got, ration_bucket_peek(&bucket, &new, cost, kit.manual.ns));
                    }
                    assert_int_equal(change(&kit, RATION_CHANGE_RESET, KIT_TEXTS(fitting[a])),
                                     RATION_OK);
                }
                kit_end(&kit);
            }
}

/* 4.5 tokens of 10/s become 4.5 of 20/s: 4 are left, and the fifth is there after 25 ms. */
static void tokens_are_kept_with_their_fraction(void **state)
{
    (void)state;
    for (size_t rule_count = 1; rule_count <= 2; rule_count++) {
        struct kit kit;

        KIT_PLAN(&kit, "10/s", "1000/h");
        kit.options.rule_count = rule_count;
        kit_open(&kit);
        kit_take(&kit, "k", 6);
        kit_pass(&kit, 50 * MS);
        assert_int_equal(change(&kit, RATION_CHANGE_KEEP,
                                rule_count == 1 ? KIT_TEXTS("20/s") : KIT_TEXTS("20/s", "1000/h")),
                         RATION_OK);
        assert_answer(kit_peek(&kit, "k", 5), RATION_DENY, 4, 25 * MS);
        /* met by a take it is converted for good, denied or not: then the wait that is reported stands */
        assert_answer(kit_take(&kit, "k", 5), RATION_DENY, 4, 25 * MS);
        assert_wait_is_exact(&kit, key, 5, kit_peek(&kit, "k", 5));
        assert_int_equal(kit_left(&kit, "full"), 20);
        assert_int_equal(change(&kit, RATION_CHANGE_KEEP,
                                rule_count == 1 ? KIT_TEXTS("3/s") : KIT_TEXTS("3/s", "1000/h")),
                         RATION_OK);
        assert_int_equal(kit_left(&kit, "k"), 3); /* full stays full */
        kit_end(&kit);
    }
}

/*
 * A limiter whose limit is set again and again, always to the same, decides as one whose limit is never set. (The
 * moments of a log were forgotten: tokens taken 50 minutes ago came back after 60 minutes more, instead of 10.)
 */
static void setting_an_equal_limit_changes_no_decision(void **state)
{
    static const char *const texts[] = {"10/h sliding_log", "10/h sliding_window",
                                        "10/h fixed_window", "10/h burst 10 reserve 1/h burst 4",
                                        "10/h refill interval"};

    (void)state;
    for (size_t i = 0; i < KIT_COUNT_OF(texts); i++) {
        uint64_t random = i;
        struct kit changed, same;

        KIT_BEGIN(&changed, texts[i]);
        KIT_BEGIN(&same, texts[i]);
        for (int step = 0; step < 500; step++) {
            uint64_t cost = ration_random_up_to(&random, 4);
            uint64_t passed_ns = ration_random_up_to(&random, 20 * RATION_NS_PER_MINUTE);

            if (ration_random_up_to(&random, 2) == 0)
                assert_int_equal(change(&changed, RATION_CHANGE_KEEP, KIT_TEXTS(texts[i])),
                                 RATION_OK);
            assert_same_decision(kit_take(&changed, "k", cost), kit_take(&same, "k", cost));
            kit_pass(&changed, passed_ns);
            kit_pass(&same, passed_ns);
        }
        kit_end(&changed);
        kit_end(&same);
    }
}

static void a_reset_starts_every_key_again(void **state)
{
    static const struct {
        const char *old, *next;
        uint64_t left;
    } rows[] = {{"10/h", "20/h", 20},
                {"10/h", "20/h burst 20 start 4", 4},
                {"10/h sliding_log", "5/h sliding_log", 5},
                {"10/h sliding_window", "7/h sliding_window", 7},
                {"10/h burst 10 reserve 1/d burst 3", "5/h burst 5 reserve 1/d burst 2", 7}};

    (void)state;
    for (size_t i = 0; i < KIT_COUNT_OF(rows); i++) {
        struct kit kit;

        KIT_BEGIN(&kit, rows[i].old);
        kit_take(&kit, "k", 8);
        ration_limiter_charge(kit.limiter, &(struct ration_key){"deep", 4}, 1000, kit.manual.ns);
        assert_int_equal(change(&kit, RATION_CHANGE_RESET, KIT_TEXTS(rows[i].next)), RATION_OK);
        assert_int_equal(kit_left(&kit, "k"), rows[i].left);
        assert_int_equal(kit_left(&kit, "deep"), rows[i].left);
        assert_int_equal(kit_left(&kit, "new"), rows[i].left);
        kit_take(&kit, "k", 1);
        if (rows[i].left > 0)
            assert_int_equal(kit_left(&kit, "k"), rows[i].left - 1);
        kit_end(&kit);
    }
}

/*
 * R7: a key that is idle when its limits are reset is like an absent key, and so is an idle overflow bucket. Neither
 * has the start of a limit that was replaced before the key was used. A key with tokens in use has.
 */
static void r7_a_reset_is_not_remembered_for_idle_keys(void **state)
{
    static const struct {
        const char *first, *start, *last;
        uint64_t in_debt, idle;
    } rows[] = {
        {"10/h", "10/h start 3", "10/h", 3, 10},
        {"10/h start 5", "10/h start 3", "10/h", 3, 10},
        {"10/h fixed_window", "10/h fixed_window start 3", "10/h fixed_window", 3, 10},
        {"10/h sliding_log", "10/h sliding_log start 3", "10/h sliding_log", 3, 10},
        {"10/h", "10/h start 3", "10/h start 6", 3, 6},
    };

    (void)state;
    for (size_t i = 0; i < KIT_COUNT_OF(rows); i++) {
        struct kit kit;

        KIT_BEGIN(&kit, rows[i].first);
        kit_take(&kit, "idle", 5);
        kit_pass(&kit, 2 * RATION_NS_PER_DAY);
        kit_take(&kit, "in debt", 5);
        assert_int_equal(change(&kit, RATION_CHANGE_RESET, KIT_TEXTS(rows[i].start)), RATION_OK);
        assert_int_equal(kit_left(&kit, "idle"), 3);
        assert_int_equal(change(&kit, RATION_CHANGE_KEEP, KIT_TEXTS(rows[i].last)), RATION_OK);
        assert_int_equal(kit_left(&kit, "in debt"), rows[i].in_debt);
        assert_int_equal(kit_left(&kit, "idle"), rows[i].idle);
        assert_int_equal(kit_left(&kit, "new"), rows[i].idle);
        kit_end(&kit);
    }
}

static void r7_a_reset_is_not_remembered_for_an_idle_overflow_bucket(void **state)
{
    uint64_t numbers[KIT_CROWD_MAX], overflow_count;
    struct kit kit;

    (void)state;
    KIT_PLAN(&kit, "1/s burst 300");
    kit.options.keys_max = 1;
    kit_open(&kit);
    kit_crowd(&kit, numbers);
    overflow_count = kit_overflow_count(&kit);
    assert_int_equal(change(&kit, RATION_CHANGE_RESET, KIT_TEXTS("1/s burst 300 start 3")),
                     RATION_OK);
    assert_int_equal(change(&kit, RATION_CHANGE_KEEP, KIT_TEXTS("1/s burst 300")), RATION_OK);
    assert_int_equal(kit_take(&kit, "k", 1).remaining, 299);
    assert_int_equal(kit_overflow_count(&kit), overflow_count + 1);
    kit_end(&kit);
}

/* A key that is accessed after each change, and one that is not: it is full no earlier than before. */
static void more_changes_than_there_are_generations(void **state)
{
    (void)state;
    for (size_t rule_count = 1; rule_count <= 2; rule_count++)
        for (int count = 1; count <= 60; count++) {
            struct kit kit;
            struct ration_decision got;

            KIT_PLAN(&kit, "1/s burst 100", "1/s burst 1000");
            kit.options.rule_count = rule_count;
            kit_open(&kit);
            kit_take(&kit, "touched", 60);
            kit_take(&kit, "left alone", 60);
            for (int i = 0; i < count; i++) {
                assert_int_equal(change(&kit, RATION_CHANGE_KEEP,
                                        rule_count == 1
                                            ? KIT_TEXTS("1/s burst 100")
                                            : KIT_TEXTS("1/s burst 100", "1/s burst 1000")),
                                 RATION_OK);
                kit_take(&kit, "touched", 0);
                ration_limiter_charge(kit.limiter, &(struct ration_key){"touched", 7}, 0,
                                      kit.manual.ns);
            }
            /* the same limit again and again: both are as they were */
            got = kit_peek(&kit, "touched", 1);
            assert_same_decision(got, kit_peek(&kit, "left alone", 1));
            assert_int_equal(got.remaining, 40);
            assert_int_equal(got.reset_after_ns, 60 * SECOND);
            kit_end(&kit);
        }
}

/* R1 for any number of changes: a key gains no token because it is not accessed. */
static void a_reset_reaches_keys_of_every_age(void **state)
{
    (void)state;
    for (int before = 0; before < 30; before++)
        for (int after = 0; after < 12; after++) {
            struct kit kit;

            KIT_BEGIN(&kit, "1/h burst 10");
            kit_take(&kit, "k", 10);
            for (int i = 0; i < before; i++)
                change(&kit, RATION_CHANGE_KEEP, KIT_TEXTS("1/h burst 10"));
            change(&kit, RATION_CHANGE_RESET, KIT_TEXTS("1/h burst 10"));
            for (int i = 0; i < after; i++)
                change(&kit, RATION_CHANGE_KEEP, KIT_TEXTS("1/h burst 10"));
            assert_int_equal(kit_left(&kit, "k"), 10);
            kit_end(&kit);
        }
}

/* A config that was overwritten while a thread read it must not be used. */
static void a_config_that_is_being_written_does_not_stand(void **state)
{
    struct ration_rule rule = {.limit = kit_limit("10/h")};
    struct ration_config_table configs;
    struct ration_config *config;

    (void)state;
    assert_int_equal(ration_config_table_init(&configs, &rule, 1, NULL), RATION_OK);
    config = &configs.configs[0];
    assert_true(ration_config_is_current(config, 0));
    assert_false(ration_config_is_current(config, 14));
    config->number = UINT64_MAX; /* as ration_config_table_replace() does while it writes */
    assert_false(ration_config_is_current(config, 0));
    assert_false(ration_config_is_current(config, config->number)); /* read in the middle of it */
    ration_config_table_done(&configs);
}

static void the_new_rules_are_reported(void **state)
{
    struct ration_rule rule, untouched;
    struct kit kit;

    (void)state;
    KIT_BEGIN(&kit, "10/s name old", "100/min");
    change(&kit, RATION_CHANGE_KEEP, KIT_TEXTS("20/s name new", "200/min"));
    assert_int_equal(ration_limiter_rule(kit.limiter, 0, &rule), RATION_OK);
    assert_string_equal(rule.limit.name, "new");
    assert_int_equal(rule.limit.tokens, 20);
    memset(&untouched, 0x5a, sizeof(untouched));
    rule = untouched;
    assert_int_equal(ration_limiter_rule(kit.limiter, 2, &rule), RATION_EINVAL);
    assert_memory_equal(&rule, &untouched, sizeof(rule));
    kit_end(&kit);
}

static void what_does_not_fit_is_refused_and_nothing_changed(void **state)
{
    static const struct {
        const char *old[3], *next[10];
        ration_status status;
        const char *part;
    } rows[] = {
        {{"10/h"},
         {"10/h", "9/h"},
         RATION_EUNSUPPORTED,
         "has 1 rules, and a change cannot add or remove any (got 2)"},
        {{"10/h", "9/h"},
         {"10/h"},
         RATION_EUNSUPPORTED,
         "has 2 rules, and a change cannot add or remove any (got 1)"},
        {{"10/h"}, {NULL}, RATION_EINVAL, "1 to 8 rules (got 0)"},
        {{"10/h"},
         {"1/h", "2/h", "3/h", "4/h", "5/h", "6/h", "7/h", "8/h", "9/h"},
         RATION_EINVAL,
         "1 to 8 rules (got 9)"},
        {{"10/h"}, {"10/h sliding_window"}, RATION_EUNSUPPORTED, "rule 0: the new limit's state"},
        {{"10/h"}, {"10/h sliding_log"}, RATION_EUNSUPPORTED, "rule 0"},
        {{"10/h"}, {"10/h reserve 1/d"}, RATION_EUNSUPPORTED, "rule 0"},
        {{"10/h"}, {"2M/h refill interval"}, RATION_EUNSUPPORTED, "rule 0"},
        {{"10/h", "10/h sliding_window"}, {"10/h", "10/h"}, RATION_EUNSUPPORTED, "rule 1"},
        {{"10/h sliding_window"}, {"10/h reserve 1/d"}, RATION_EUNSUPPORTED, "rule 0"},
        {{"10/h sliding_log"}, {"11/h sliding_log"}, RATION_EUNSUPPORTED, "for at most 10 tokens"},
        {{"10/h sliding_log"}, {"10/h sliding_window"}, RATION_EUNSUPPORTED, "rule 0"},
        {{"10/h sliding_log", "10/h"},
         {"10/h sliding_log", "5/h sliding_log"},
         RATION_EUNSUPPORTED,
         "at most one sliding_log"},
    };

    (void)state;
    for (size_t i = 0; i < KIT_COUNT_OF(rows); i++) {
        struct ration_rule next[10], before, after;
        size_t count = kit_rules(next, rows[i].next);
        struct ration_error error = {.message = ""};
        struct ration_decision peek;
        struct kit kit;

        kit_plan(&kit, rows[i].old);
        kit_open(&kit);
        kit_take(&kit, "k", 4);
        peek = kit_peek(&kit, "k", 7);
        ration_limiter_rule(kit.limiter, 0, &before);
        assert_int_equal(
            ration_limiter_change(kit.limiter, next, count, RATION_CHANGE_RESET, &error),
            rows[i].status);
        assert_int_equal(error.status, rows[i].status);
        if (strstr(error.message, rows[i].part) == NULL)
            fail_msg("row %zu: \"%s\", wanted \"%s\"", i, error.message, rows[i].part);
        assert_int_equal(ration_limiter_change(kit.limiter, next, count, RATION_CHANGE_RESET, NULL),
                         rows[i].status);
        ration_limiter_rule(kit.limiter, 0, &after);
        assert_memory_equal(&before.limit, &after.limit, sizeof(before.limit));
        assert_same_decision(kit_peek(&kit, "k", 7), peek);
        kit_end(&kit);
    }
}

static void limits_that_were_never_made_are_refused(void **state)
{
    struct ration_rule next[2] = {{.limit = {0}}, {.limit = {0}}};
    struct ration_error error = {.message = ""};
    struct kit kit;

    (void)state;
    KIT_BEGIN(&kit, "10/h");
    assert_int_equal(ration_limiter_change(kit.limiter, next, 1, RATION_CHANGE_KEEP, &error),
                     RATION_EINVAL);
    assert_non_null(strstr(error.message, "rule 0 has a limit that was never made"));
    assert_int_equal(ration_limiter_change(kit.limiter, NULL, 1, RATION_CHANGE_KEEP, &error),
                     RATION_EINVAL);
    next[0].limit = kit_limit("10/h start empty");
    next[0].stale_after_ns = RATION_FILL_NS_MAX + 1;
    assert_int_equal(ration_limiter_change(kit.limiter, next, 1, RATION_CHANGE_KEEP, &error),
                     RATION_EINVAL);
    assert_non_null(strstr(error.message, "stale_after"));
    assert_int_equal(kit_left(&kit, "k"), 10);
    kit_end(&kit);
}

/* R1 while another thread decides: the burst of a key that never refills is admitted once. */
struct race {
    struct kit kit;
    uint64_t allowed_count;
    int is_over;
};

static void *decide(void *context)
{
    struct race *race = context;

    while (!__atomic_load_n(&race->is_over, __ATOMIC_ACQUIRE))
        race->allowed_count += ration_limiter_allow_at(race->kit.limiter, &key, 1, KIT_NOW_NS);
    return NULL;
}

static void r1_changes_while_others_decide(void **state)
{
    struct race race = {.is_over = 0};
    pthread_t thread;

    (void)state;
    KIT_BEGIN(&race.kit, "1/y burst 10");
    assert_int_equal(pthread_create(&thread, NULL, decide, &race), 0);
    for (int i = 0; i < 2000; i++)
        change(&race.kit, RATION_CHANGE_KEEP, KIT_TEXTS("1/y burst 10"));
    __atomic_store_n(&race.is_over, 1, __ATOMIC_RELEASE);
    pthread_join(thread, NULL);
    while (ration_limiter_allow_at(race.kit.limiter, &key, 1, KIT_NOW_NS))
        race.allowed_count++;
    assert_int_equal(race.allowed_count, 10);
    kit_end(&race.kit);
}

/*
 * R1: a charge of 18 years under one limit, and 15 more by a change to a slower one, lie beyond what a slot can hold. The
 * moment is cut; the count of tokens beside it must not be.
 */
static void a_debt_that_is_cut_admits_nobody(void **state)
{
    struct kit kit;

    (void)state;
    KIT_BEGIN(&kit, "10/h refill interval");
    kit_pass(&kit, 5 * RATION_NS_PER_YEAR);
    assert_int_equal(ration_limiter_charge(kit.limiter, &key, UINT64_MAX, kit.manual.ns),
                     RATION_OK);
    assert_int_equal(
        change(&kit, RATION_CHANGE_KEEP, KIT_TEXTS("100k/365d burst 1500k refill interval")),
        RATION_OK);
    assert_int_equal(ration_limiter_charge(kit.limiter, &key, 1, kit.manual.ns), RATION_OK);
    for (int year = 0; year < 10; year++) {
        assert_int_equal(kit_take(&kit, "k", 1).verdict, RATION_DENY);
        kit_pass(&kit, RATION_NS_PER_YEAR);
    }
    kit_end(&kit);
}

/*
 * R2, R4: a key is converted as of the change. Calls that are denied in between change nothing for anybody,
 * and the wait that they report is true, whichever limit is the faster.
 */
static void a_denial_after_a_change_can_not_be_observed(void **state)
{
    static const char *const pairs[][2] = {
        {"10/s burst 10", "1/s burst 10"},
        {"1/h burst 10", "1/s burst 10"},
        {"10/s leaky_queue", "2/s burst 10"},
        {"10/s fixed_window", "1/s burst 3"},
        {"10/s burst 10", "4/10s fixed_window"},
        {"5/s refill interval", "5/min burst 5"},
        {"9/min sliding_window", "3/min sliding_window"},
        {"9/min sliding_log", "4/min sliding_log"},
        {"5/s burst 5 reserve 2/s", "1/min burst 5 reserve 1/h"}};

    (void)state;
    for (size_t i = 0; i < KIT_COUNT_OF(pairs); i++)
        for (int is_reset = 0; is_reset < 2; is_reset++) {
            struct kit kits[2];
            struct ration_rule rule = {.limit = kit_limit(pairs[i][1])};

            for (int k = 0; k < 2; k++) {
                KIT_BEGIN(&kits[k], pairs[i][0]);
                while (kit_take(&kits[k], "k", 1).verdict == RATION_ALLOW)
                    ;
                kit_pass(&kits[k], 50 * MS);
                assert_int_equal(ration_limiter_change(
                                     kits[k].limiter, &rule, 1,
                                     is_reset ? RATION_CHANGE_RESET : RATION_CHANGE_KEEP, NULL),
                                 RATION_OK);
            }
            for (int step = 0; step < 40; step++) {
                for (int k = 0; k < 2; k++)
                    kit_pass(&kits[k], 70 * MS);
                for (int n = 0; n < 3; n++) { /* the first kit only */
                    struct ration_decision denied = kit_peek(&kits[0], "k", 1);

                    if (denied.verdict != RATION_DENY)
                        break;
                    assert_same_decision(kit_take(&kits[0], "k", 1), denied);
                    assert_wait_is_exact(&kits[0], kit_key("k"), 1, denied);
                }
                assert_same_decision(kit_peek(&kits[0], "k", 1), kit_peek(&kits[1], "k", 1));
            }
            for (int k = 0; k < 2; k++)
                kit_end(&kits[k]);
        }
}

/* R7: under a slower limit a key has tokens in use for longer than its slot says. The slot is not reclaimed. */
static void a_debt_that_a_change_makes_longer_is_not_forgotten(void **state)
{
    struct ration_rule rule = {.limit = kit_limit("1/h burst 10")};
    struct kit_room room;
    struct kit kit;

    (void)state;
    KIT_PLAN(&kit, "10/s burst 10");
    kit.options.keys_max = 1;
    kit.options.overflow = RATION_OVERFLOW_ALLOW; /* a key without a slot would pass */
    kit_open(&kit);
    kit_take(&kit, "k", 10);
    assert_int_equal(ration_limiter_change(kit.limiter, &rule, 1, RATION_CHANGE_KEEP, NULL),
                     RATION_OK);
    kit_pass(&kit, 2 * SECOND); /* it would be full again */
    for (uint64_t i = 0; i < 200; i++)
        kit_take_key(&kit, kit_numbered(&room, i), 1);
    assert_int_equal(kit_peek(&kit, "k", 1).verdict, RATION_DENY);
    kit_end(&kit);
}

/* Keys that were charged more than once keep their places for a minute when they are idle; not when reset. */
static void a_reset_frees_the_places_of_established_keys(void **state)
{
    (void)state;
    for (size_t rule_count = 1; rule_count <= 2; rule_count++) {
        struct kit kit;
        struct kit_room room;

        KIT_PLAN(&kit, "1/h burst 9", "1/h burst 9");
        kit.options.rule_count = rule_count;
        kit.options.keys_max = 1;
        kit.options.overflow = RATION_OVERFLOW_DENY;
        kit_open(&kit);
        for (uint64_t i = 0; i < 100; i++)
            kit_take_key(&kit, kit_numbered(&room, i % 50), 1);
        assert_int_equal(kit_take(&kit, "new", 1).verdict, RATION_DENY);
        assert_int_equal(
            ration_limiter_change(kit.limiter, kit.rules, rule_count, RATION_CHANGE_RESET, NULL),
            RATION_OK);
        for (uint64_t i = 0; i < 16; i++)
            assert_int_equal(kit_take_key(&kit, kit_numbered(&room, 100 + i), 1).verdict,
                             RATION_ALLOW);
        kit_end(&kit);
    }
}

/*
 * A key that gets the place of one that a reset made free has all tokens of its log, for a now that runs back too: it
 * does not find the moments of the key that had the place.
 */
static void a_new_key_after_a_reset_starts_with_its_own_log(void **state)
{
    struct kit_room room;
    struct kit kit;

    (void)state;
    KIT_PLAN(&kit, "9/min sliding_log");
    kit.options.keys_max = 1;
    kit.options.overflow = RATION_OVERFLOW_DENY;
    kit_open(&kit);
    for (uint64_t i = 0; i < 50; i++)
        kit_take_key(&kit, kit_numbered(&room, i), 9);
    kit_pass(&kit, 120 * SECOND);
    assert_int_equal(change(&kit, RATION_CHANGE_RESET, KIT_TEXTS("9/min sliding_log")), RATION_OK);
    kit.manual.ns -= 120 * SECOND;
    for (uint64_t i = 0; i < 16; i++) {
        struct ration_key fresh = kit_numbered(&room, 100 + i);

        assert_answer(kit_peek_key(&kit, fresh, 2), RATION_ALLOW, 9, 0);
        assert_answer(kit_take_key(&kit, fresh, 2), RATION_ALLOW, 7, 0);
        kit_pass(&kit, SECOND);
        assert_answer(kit_take_key(&kit, fresh, 7), RATION_ALLOW, 0, 0);
        assert_answer(kit_take_key(&kit, fresh, 3), RATION_DENY, 0, 60 * SECOND);
    }
    kit_end(&kit);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_new_key_after_a_reset_starts_with_its_own_log),
        cmocka_unit_test(a_reset_frees_the_places_of_established_keys),
        cmocka_unit_test(a_denial_after_a_change_can_not_be_observed),
        cmocka_unit_test(a_debt_that_a_change_makes_longer_is_not_forgotten),
        cmocka_unit_test(every_pair_that_fits_changes_as_a_bucket_does),
        cmocka_unit_test(tokens_are_kept_with_their_fraction),
        cmocka_unit_test(setting_an_equal_limit_changes_no_decision),
        cmocka_unit_test(a_reset_starts_every_key_again),
        cmocka_unit_test(r7_a_reset_is_not_remembered_for_idle_keys),
        cmocka_unit_test(r7_a_reset_is_not_remembered_for_an_idle_overflow_bucket),
        cmocka_unit_test(more_changes_than_there_are_generations),
        cmocka_unit_test(a_reset_reaches_keys_of_every_age),
        cmocka_unit_test(a_config_that_is_being_written_does_not_stand),
        cmocka_unit_test(the_new_rules_are_reported),
        cmocka_unit_test(what_does_not_fit_is_refused_and_nothing_changed),
        cmocka_unit_test(limits_that_were_never_made_are_refused),
        cmocka_unit_test(r1_changes_while_others_decide),
        cmocka_unit_test(a_debt_that_is_cut_admits_nobody),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
