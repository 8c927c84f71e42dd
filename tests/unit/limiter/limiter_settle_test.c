/*
 * Release of reservations: unused tokens come back, unless they were promised to others; tokens used beyond the
 * reservation are charged; and each reservation is released only once.
 */
#include "unit/limiter/limiter_kit.h"

static const struct ration_key key = {"k", 1};

static void unused_tokens_come_back_and_excess_is_charged(void **state)
{
    static const char *const texts[] = {"100/h",
                                        "100/h refill interval",
                                        "100/h fixed_window",
                                        "100/h sliding_window",
                                        "100/h sliding_log",
                                        "100/h burst 100 reserve 1/d burst 5"};

    (void)state;
    for (size_t i = 0; i < KIT_COUNT_OF(texts); i++)
        for (size_t rule_count = 1; rule_count <= 2; rule_count++) {
            struct ration_decision details[2], got;
            struct ration_reservation reservation;
            struct kit kit;
            uint64_t full;

            KIT_PLAN(&kit, texts[i], "100/h");
            kit.options.rule_count = rule_count;
            kit_open(&kit);
            full = kit_peek(&kit, "k", 0).limit;
            kit_reserve(&kit, 60, 0, &reservation);
            assert_int_equal(ration_limiter_settle(kit.limiter, &reservation, 10, KIT_NOW_NS),
                             RATION_OK);
            ration_limiter_peek(kit.limiter, &key, 0, KIT_NOW_NS, &got, details);
            for (size_t r = 0; r < rule_count; r++)
                assert_int_equal(details[r].remaining, details[r].limit - 10);

            kit_reserve(&kit, 20, 0, &reservation);
            ration_limiter_cancel(kit.limiter, &reservation, KIT_NOW_NS);
            assert_true(kit_left(&kit, "k") == full - 10 || rule_count == 2);

            kit_reserve(&kit, 20, 0, &reservation);
            ration_limiter_settle(kit.limiter, &reservation, 50, KIT_NOW_NS);
            ration_limiter_peek(kit.limiter, &key, 0, KIT_NOW_NS, &got, details);
            for (size_t r = 0; r < rule_count; r++)
                assert_int_equal(details[r].remaining, details[r].limit - 60);
            kit_end(&kit);
        }
}

static void a_reservation_is_settled_or_cancelled_once(void **state)
{
    struct ration_reservation reservations[2];
    struct kit kit;

    (void)state;
    KIT_BEGIN(&kit, "100/h", "200/h");
    for (int i = 0; i < 2; i++) {
        kit_reserve(&kit, 20, 0, &reservations[i]);
        if (i == 0)
            assert_int_equal(ration_limiter_settle(kit.limiter, &reservations[i], 5, KIT_NOW_NS),
                             RATION_OK);
        else
            assert_int_equal(ration_limiter_cancel(kit.limiter, &reservations[i], KIT_NOW_NS),
                             RATION_OK);
        assert_int_equal(ration_limiter_settle(kit.limiter, &reservations[i], 0, KIT_NOW_NS),
                         RATION_ECLOSED);
        assert_int_equal(ration_limiter_cancel(kit.limiter, &reservations[i], KIT_NOW_NS),
                         RATION_ECLOSED);
        assert_int_equal(kit_left(&kit, "k"), 95);
    }
    kit_end(&kit);
}

/*
 * As docs/ARCHITECTURE.md has it: while others wait, only the last in line gives back; later, what
 * is still outstanding.
 */
static void only_the_last_in_line_gives_back(void **state)
{
    static const struct {
        int cancelled;
        uint64_t after_s, full_s;
    } rows[] = {{0, 1, 8}, {1, 1, 8}, {2, 1, 7}, {0, 5, 7}};

    (void)state;
    for (size_t i = 0; i < KIT_COUNT_OF(rows); i++)
        for (size_t rule_count = 1; rule_count <= 2; rule_count++) {
            struct ration_reservation reservations[3];
            struct kit kit;

            KIT_PLAN(&kit, "1/s burst 3", "1/s burst 3");
            kit.options.rule_count = rule_count;
            kit_open(&kit);
            kit_take(&kit, "k", 3);
            assert_int_equal(kit_reserve(&kit, 3, RATION_FOREVER, &reservations[0]).delay_ns,
                             3 * SECOND);
            assert_int_equal(kit_reserve(&kit, 1, RATION_FOREVER, &reservations[1]).delay_ns,
                             4 * SECOND);
            assert_int_equal(kit_reserve(&kit, 1, RATION_FOREVER, &reservations[2]).delay_ns,
                             5 * SECOND);
            kit_pass(&kit, rows[i].after_s * SECOND);
            ration_limiter_cancel(kit.limiter, &reservations[rows[i].cancelled], kit.manual.ns);
            assert_int_equal(
                kit_peek(&kit, "k", 0).reset_after_ns,
                rows[i].full_s > rows[i].after_s ? (rows[i].full_s - rows[i].after_s) * SECOND : 0);
            kit_end(&kit);
        }
}

/* Limits changed while a reservation is out: what comes back is never more than was taken. */
static void a_reservation_from_before_a_change_mints_nothing(void **state)
{
    static const char *const nexts[] = {"1/h burst 10", "10/s burst 100", "3/s burst 7",
                                        "50/h fixed_window", "5/s burst 12 refill interval"};

    (void)state;
    for (size_t i = 0; i < KIT_COUNT_OF(nexts); i++) {
        struct ration_reservation reservation;
        struct ration_rule next = {.limit = kit_limit(nexts[i])};
        uint64_t before, after;
        struct kit kit;

        KIT_BEGIN(&kit, "10/h burst 10");
        kit_take(&kit, "k", 4);
        kit_reserve(&kit, 3, 0, &reservation);
        assert_int_equal(ration_limiter_change(kit.limiter, &next, 1, RATION_CHANGE_KEEP, NULL),
                         RATION_OK);
        before = kit_left(&kit, "k");
        assert_int_equal(ration_limiter_cancel(kit.limiter, &reservation, kit.manual.ns),
                         RATION_OK);
        after = kit_left(&kit, "k");
        assert_in_range(after, before, before + 3);
        assert_int_equal(ration_limiter_cancel(kit.limiter, &reservation, kit.manual.ns),
                         RATION_ECLOSED);
        kit_end(&kit);
    }
}

/* A reservation from the shared overflow bucket is settled there, and returns nothing to other keys. */
static void a_reservation_of_a_key_without_a_place(void **state)
{
    uint64_t numbers[KIT_CROWD_MAX];
    struct ration_reservation reservation;

    (void)state;
    for (size_t rule_count = 1; rule_count <= 2; rule_count++) {
        struct kit kit;

        KIT_PLAN(&kit, "1/s burst 300", "1/s burst 300");
        kit.options.rule_count = rule_count;
        kit.options.keys_max = 1;
        kit_open(&kit);
        assert_int_equal(kit_crowd(&kit, numbers), 16);
        assert_int_equal(kit_reserve(&kit, 100, 0, &reservation).verdict, RATION_ALLOW);
        assert_int_equal(kit_peek(&kit, "other", 1).remaining, 200); /* they share one bucket */
        assert_int_equal(ration_limiter_settle(kit.limiter, &reservation, 40, kit.manual.ns),
                         RATION_OK);
        assert_int_equal(kit_peek(&kit, "other", 1).remaining, 200);
        assert_int_equal(ration_limiter_cancel(kit.limiter, &reservation, kit.manual.ns),
                         RATION_ECLOSED);
        kit_reserve(&kit, 100, 0, &reservation);
        ration_limiter_settle(kit.limiter, &reservation, 150, kit.manual.ns);
        assert_int_equal(kit_peek(&kit, "other", 1).remaining, 50);

        /* a place is free meanwhile: the key takes it, with the debt, and gives back none of it */
        struct kit_room room;
        struct ration_key placed = kit_numbered(&room, numbers[3]);

        kit_reserve(&kit, 50, 0, &reservation);
        ration_limiter_reset(kit.limiter, &placed, kit.manual.ns);
        assert_int_equal(kit_take(&kit, "k", 1).verdict, RATION_DENY);
        kit_pass(&kit, 10 * SECOND);
        kit_take(&kit, "k", 4);
        ration_limiter_cancel(kit.limiter, &reservation, kit.manual.ns);
        assert_int_equal(kit_left(&kit, "k"), 6);
        kit_end(&kit);
    }
}

/* A place in line that is settled before its turn, with something used, is still promised it. */
static void before_its_turn_only_what_is_cancelled_comes_back(void **state)
{
    (void)state;
    for (size_t rule_count = 1; rule_count <= 2; rule_count++) {
        struct ration_reservation reservation;
        struct kit kit;

        KIT_PLAN(&kit, "1/s burst 3", "1/s burst 3");
        kit.options.rule_count = rule_count;
        kit_open(&kit);
        kit_take(&kit, "k", 3);
        assert_int_equal(kit_reserve(&kit, 2, RATION_FOREVER, &reservation).delay_ns, 2 * SECOND);
        ration_limiter_settle(kit.limiter, &reservation, 1, kit.manual.ns);
        assert_int_equal(kit_peek(&kit, "k", 0).reset_after_ns, 5 * SECOND);
        assert_int_equal(kit_reserve(&kit, 2, RATION_FOREVER, &reservation).delay_ns, 4 * SECOND);
        ration_limiter_cancel(kit.limiter, &reservation, kit.manual.ns);
        assert_int_equal(kit_peek(&kit, "k", 0).reset_after_ns, 5 * SECOND);
        kit_end(&kit);
    }
}

static const struct ration_limit *choose_one_each(void *context, const void *request,
                                                  uint64_t *cost_tokens)
{
    (void)request;
    *cost_tokens = 1;
    return context;
}

/* One per request: used if anything was. */
static void a_cost_of_its_own_is_kept_unless_nothing_was_used(void **state)
{
    static const uint64_t used[] = {0, 1, 40, 100, 150};
    struct ration_limit requests = kit_limit("10/h");

    (void)state;
    for (size_t i = 0; i < KIT_COUNT_OF(used); i++) {
        struct ration_decision got, details[2];
        struct ration_reservation reservation;
        struct kit kit;

        KIT_PLAN(&kit, "1000/h", "10/h");
        kit.rules[1].choose = choose_one_each;
        kit.rules[1].choose_context = &requests;
        kit_open(&kit);
        kit_reserve(&kit, 100, 0, &reservation);
        ration_limiter_settle(kit.limiter, &reservation, used[i], kit.manual.ns);
        ration_limiter_peek(kit.limiter, &key, 0, kit.manual.ns, &got, details);
        assert_int_equal(details[0].remaining, 1000 - used[i]);
        assert_int_equal(details[1].remaining, used[i] > 0 ? 9 : 10);
        kit_end(&kit);
    }
}

/* What was reserved as much as one request costs: only the rule can say that it is one. */
static void a_cost_of_its_own_may_be_the_callers(void **state)
{
    struct ration_limit requests = kit_limit("10/h");
    struct ration_decision got, details[2];
    struct ration_reservation reservation;
    struct kit kit;

    (void)state;
    KIT_PLAN(&kit, "1000/h", "10/h");
    kit.rules[1].choose = choose_one_each;
    kit.rules[1].choose_context = &requests;
    kit.rules[1].sets_cost = 1;
    kit_open(&kit);
    kit_reserve(&kit, 1, 0, &reservation);
    ration_limiter_settle(kit.limiter, &reservation, 500, kit.manual.ns);
    ration_limiter_peek(kit.limiter, &key, 0, kit.manual.ns, &got, details);
    assert_int_equal(details[0].remaining, 500);
    assert_int_equal(details[1].remaining, 9);
    kit_end(&kit);
}

static const struct ration_limit *choose_given(void *context, const void *request,
                                               uint64_t *cost_tokens)
{
    (void)request, (void)cost_tokens;
    return context;
}

/* Reservations given by a function's limit, ended when the rule is of another kind: nothing comes back. */
static void r1_reservations_of_another_kind_of_limit_mint_nothing(void **state)
{
    static const char *const after[] = {"60/min fixed_window", "60/min refill interval"};
    struct ration_limit chosen = kit_limit("60/min burst 60");

    (void)state;
    for (size_t i = 0; i < KIT_COUNT_OF(after); i++) {
        struct ration_reservation reservations[50];
        struct ration_rule next = {.limit = kit_limit(after[i])};
        uint64_t admitted = 0;
        struct kit kit;

        KIT_PLAN(&kit, "60/min burst 60");
        kit.rules[0].choose = choose_given;
        kit.rules[0].is_one_budget = 1;
        kit.rules[0].choose_context = &chosen;
        kit_open(&kit);
        kit_pass(&kit, 40 * SECOND); /* into a window: its end is not now */
        for (size_t k = 0; k < KIT_COUNT_OF(reservations); k++)
            assert_int_equal(kit_reserve(&kit, 1, 0, &reservations[k]).verdict, RATION_ALLOW);
        assert_int_equal(ration_limiter_change(kit.limiter, &next, 1, RATION_CHANGE_KEEP, NULL),
                         RATION_OK);
        for (size_t k = 0; k < KIT_COUNT_OF(reservations); k++) {
            while (kit_take(&kit, "k", 1).verdict == RATION_ALLOW)
                admitted++;
            ration_limiter_cancel(kit.limiter, &reservations[k], kit.manual.ns);
        }
        while (kit_take(&kit, "k", 1).verdict == RATION_ALLOW)
            admitted++;
        assert_in_range(admitted, 0, 60);
        kit_end(&kit);
    }
}

/* Under two limits, one of which makes the caller wait, a cancelled reservation leaves both as they were. */
static void a_reservation_cancelled_under_two_limits_locks_nothing(void **state)
{
    static const char *const seconds[] = {"5/min", "5/min refill interval", "5/min burst 5",
                                          "5/min reserve 1/h burst 1"};

    (void)state;
    for (size_t i = 0; i < KIT_COUNT_OF(seconds); i++) {
        struct ration_reservation reservation;
        struct ration_decision before, after;
        struct kit kit;

        KIT_PLAN(&kit, "10/s burst 20", seconds[i]);
        kit_open(&kit);
        kit_take(&kit, "k", 5);
        kit_pass(&kit, SECOND);
        before = kit_peek(&kit, "k", 1);
        assert_true(kit_reserve(&kit, 5, RATION_FOREVER, &reservation).delay_ns >= 40 * SECOND);
        assert_int_equal(ration_limiter_cancel(kit.limiter, &reservation, kit.manual.ns),
                         RATION_OK);
        after = kit_peek(&kit, "k", 1);
        assert_memory_equal(&before, &after, sizeof(before));
        kit_end(&kit);
    }
}

/* What others took after a reservation keeps its own time to come back, and so does the reservation. */
static void r1_a_log_gives_back_the_tokens_of_the_reservation(void **state)
{
    struct ration_reservation reservation;
    struct kit kit;

    (void)state;
    KIT_PLAN(&kit, "10/10s sliding_log");
    kit_open(&kit);
    kit_take(&kit, "k", 1);
    kit_pass(&kit, SECOND);
    kit_take(&kit, "k", 1);
    kit_pass(&kit, SECOND);
    kit_reserve(&kit, 4, 0, &reservation);
    kit_pass(&kit, SECOND);
    kit_take(&kit, "k", 3);
    assert_int_equal(kit_left(&kit, "k"), 1);
    ration_limiter_settle(kit.limiter, &reservation, 1,
                          kit.manual.ns); /* 3 s: 3 of the 4 come back */
    assert_int_equal(kit_left(&kit, "k"), 4);
    kit_pass(&kit, 7 * SECOND); /* 10 s: the first */
    assert_int_equal(kit_left(&kit, "k"), 5);
    kit_pass(&kit, SECOND); /* 11 s: the second */
    assert_int_equal(kit_left(&kit, "k"), 6);
    kit_pass(&kit, SECOND); /* 12 s: the one that was used */
    assert_int_equal(kit_left(&kit, "k"), 7);
    kit_pass(&kit, SECOND - 1); /* and no earlier than that those that were taken last */
    assert_int_equal(kit_left(&kit, "k"), 7);
    kit_pass(&kit, 1);
    assert_int_equal(kit_left(&kit, "k"), 10);
    kit_end(&kit);
}

/* A busy key whose callers estimate twice what they use: the unused tokens come back to other callers. */
static void a_busy_budget_gets_back_what_was_not_used(void **state)
{
    struct ration_reservation reservations[8];
    uint64_t used = 0;
    struct kit kit;

    (void)state;
    KIT_PLAN(&kit, "100k/min");
    kit_open(&kit);
    kit_take(&kit, "k", 90000);
    for (size_t i = 0; i < KIT_COUNT_OF(reservations); i++)
        assert_int_equal(kit_reserve(&kit, 1000, 0, &reservations[i]).verdict, RATION_ALLOW);
    for (size_t i = 0; i < 400; i++) { /* one ends, and the next begins, every 600 ms */
        struct ration_reservation *reservation = &reservations[i % KIT_COUNT_OF(reservations)];

        kit_pass(&kit, 600 * RATION_NS_PER_MS);
        if (reservation->open)
            ration_limiter_settle(kit.limiter, reservation, 500, kit.manual.ns);
        reservation->open = 0;
        used += kit_reserve(&kit, 1000, 0, reservation).verdict == RATION_ALLOW ? 500 : 0;
        used += kit_take(&kit, "k", 500).verdict == RATION_ALLOW ? 500 : 0;
    }
    /* 240 s bring 400 000 tokens, and 10 000 were left: without returns 266 667 would be used */
    assert_in_range(used, 380000, 410000);
    kit_end(&kit);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(unused_tokens_come_back_and_excess_is_charged),
        cmocka_unit_test(a_reservation_is_settled_or_cancelled_once),
        cmocka_unit_test(only_the_last_in_line_gives_back),
        cmocka_unit_test(a_reservation_from_before_a_change_mints_nothing),
        cmocka_unit_test(a_reservation_of_a_key_without_a_place),
        cmocka_unit_test(before_its_turn_only_what_is_cancelled_comes_back),
        cmocka_unit_test(a_cost_of_its_own_is_kept_unless_nothing_was_used),
        cmocka_unit_test(a_cost_of_its_own_may_be_the_callers),
        cmocka_unit_test(r1_reservations_of_another_kind_of_limit_mint_nothing),
        cmocka_unit_test(a_reservation_cancelled_under_two_limits_locks_nothing),
        cmocka_unit_test(r1_a_log_gives_back_the_tokens_of_the_reservation),
        cmocka_unit_test(a_busy_budget_gets_back_what_was_not_used),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
