/*
 * Rules that depend on the request: key functions, limit functions and shadows.
 */
#include "unit/limiter/limiter_kit.h"

enum plan { FREE, PAID, INTERNAL, WRONG, PLAN_COUNT };

/* A request of the caller's own type. */
struct request {
    const char *user;
    const char *path;
    enum plan plan;
    bool is_write;
};

static struct ration_limit plans[PLAN_COUNT];
static void *context_seen;

/* Points into the request. */
static ration_status key_by_user(void *context, const void *request, char *room,
                                 struct ration_key *out_key)
{
    const struct request *r = request;

    (void)room;
    context_seen = context;
    if (r->user == NULL)
        return RATION_EINVAL;
    *out_key = kit_key(r->user);
    return RATION_OK;
}

/* Composes the key in the buffer that it is given. */
static ration_status key_by_user_and_path(void *context, const void *request, char *room,
                                          struct ration_key *out_key)
{
    const struct request *r = request;
    int size = snprintf(room, RATION_KEY_ROOM_SIZE, "%s %s", r->user, r->path);

    (void)context;
    out_key->bytes = room;
    out_key->size = (size_t)size;
    return RATION_OK;
}

static const struct ration_limit *choose_plan(void *context, const void *request,
                                              uint64_t *cost_tokens)
{
    const struct request *r = request;

    context_seen = context;
    if (r->is_write)
        *cost_tokens *= 5;
    return r->plan == INTERNAL ? NULL : &plans[r->plan];
}

/* One per request, whatever it takes of others. */
static const struct ration_limit *choose_one_each(void *context, const void *request,
                                                  uint64_t *cost_tokens)
{
    (void)request;
    *cost_tokens = 1;
    return context;
}

static const struct ration_limit *choose_none(void *context, const void *request,
                                              uint64_t *cost_tokens)
{
    (void)context, (void)request, (void)cost_tokens;
    return NULL;
}

static struct ration_decision take(struct kit *kit, const struct request *request, uint64_t cost)
{
    struct ration_decision decision;

    assert_int_equal(
        ration_limiter_take(kit->limiter, request, cost, kit->manual.ns, &decision, NULL),
        RATION_OK);
    return decision;
}

static void a_key_func_finds_the_key_in_the_request(void **state)
{
    struct request alice = {.user = "alice", .path = "/a"}, bob = {.user = "bob", .path = "/a"};
    struct kit kit;

    (void)state;
    KIT_PLAN(&kit, "1/h burst 2");
    kit.options.key_func = key_by_user;
    kit.options.key_context = &alice;
    kit_open(&kit);
    assert_answer(take(&kit, &alice, 2), RATION_ALLOW, 0, 0);
    assert_ptr_equal(context_seen, &alice);
    assert_answer(take(&kit, &bob, 1), RATION_ALLOW, 1, 0);
    alice.path = "/b"; /* the same key */
    assert_int_equal(take(&kit, &alice, 1).verdict, RATION_DENY);
    assert_false(ration_limiter_allow(kit.limiter, &alice));
    assert_true(ration_limiter_allow(kit.limiter, &bob));
    kit_end(&kit);

    KIT_PLAN(&kit, "1/h burst 2");
    kit.options.key_func = key_by_user_and_path;
    kit_open(&kit);
    assert_answer(take(&kit, &alice, 2), RATION_ALLOW, 0, 0);
    alice.path = "/a"; /* another key */
    assert_answer(take(&kit, &alice, 2), RATION_ALLOW, 0, 0);
    assert_int_equal(take(&kit, &alice, 1).verdict, RATION_DENY);
    kit_end(&kit);
}

static void a_request_without_a_key_is_an_error(void **state)
{
    struct request nobody = {.user = NULL};
    struct ration_batch_item item = {.request = &nobody, .cost_tokens = 1};
    struct ration_decision decision;
    struct ration_reservation reservation;
    uint64_t granted;
    struct kit kit;

    (void)state;
    KIT_PLAN(&kit, "1/h burst 2");
    kit.options.key_func = key_by_user;
    kit_open(&kit);

    ration_limiter *limiter = kit.limiter;

    assert_int_equal(ration_limiter_take(limiter, &nobody, 1, 0, &decision, NULL), RATION_EINVAL);
    assert_int_equal(ration_limiter_peek(limiter, &nobody, 1, 0, &decision, NULL), RATION_EINVAL);
    assert_int_equal(ration_limiter_take_up_to(limiter, &nobody, 1, 0, &granted, &decision),
                     RATION_EINVAL);
    assert_int_equal(ration_limiter_refund(limiter, &nobody, 1, 0), RATION_EINVAL);
    assert_int_equal(ration_limiter_charge(limiter, &nobody, 1, 0), RATION_EINVAL);
    assert_int_equal(ration_limiter_reset(limiter, &nobody, 0), RATION_EINVAL);
    assert_int_equal(ration_limiter_block_until(limiter, &nobody, 1, 0), RATION_EINVAL);
    assert_int_equal(ration_limiter_reserve(limiter, &nobody, 1, 0, 0, &decision, &reservation),
                     RATION_EINVAL);
    assert_int_equal(ration_limiter_wait(limiter, &nobody, 1, 0, NULL, &decision), RATION_EINVAL);
    assert_int_equal(ration_limiter_take_batch(limiter, &item, 1, 0), 0);
    assert_int_equal(item.status, RATION_EINVAL);
    assert_false(ration_limiter_allow(limiter, &nobody));
    kit_end(&kit);
}

static void plan_with_limit_funcs(struct kit *kit)
{
    plans[FREE] = kit_limit("60/min burst 10");
    plans[PAID] = kit_limit("600/min burst 100");
    plans[WRONG] = kit_limit("60/min fixed_window");
    KIT_PLAN(kit, "60/min burst 10", "1000/h");
    kit->rules[0].choose = choose_plan;
    kit->rules[0].is_one_budget = 1;
    kit->rules[0].choose_context = kit;
    kit->options.key_func = key_by_user;
    kit_open(kit);
}

static void a_limit_func_says_which_limit_and_what_it_costs(void **state)
{
    struct request alice = {.user = "alice", .plan = FREE}, bob = {.user = "bob", .plan = PAID};
    struct ration_decision details[2], got;
    struct kit kit;

    (void)state;
    plan_with_limit_funcs(&kit);
    got = take(&kit, &alice, 1);
    assert_ptr_equal(context_seen, &kit);
    assert_answer(got, RATION_ALLOW, 9, 0);
    assert_int_equal(got.limit, 10);
    assert_int_equal(take(&kit, &alice, 11).verdict, RATION_NEVER);
    assert_answer(take(&kit, &bob, 11), RATION_ALLOW, 89, 0);

    bob.is_write = true; /* five times as much, of that limit only */
    assert_int_equal(ration_limiter_take(kit.limiter, &bob, 3, KIT_NOW_NS, &got, details),
                     RATION_OK);
    assert_int_equal(details[0].remaining, 89 - 15);
    assert_int_equal(details[1].remaining, 1000 - 11 - 3);
    assert_int_equal(take(&kit, &bob, 21).verdict, RATION_NEVER); /* 105 of 100 */

    /* one bucket per key: ten tokens of 60/min are 10 s, and that is 100 of 600/min */
    take(&kit, &alice, 9);
    alice.plan = PAID;
    assert_int_equal(ration_limiter_peek(kit.limiter, &alice, 0, KIT_NOW_NS, &got, details),
                     RATION_OK);
    assert_int_equal(details[0].remaining, 0);
    assert_int_equal(details[0].reset_after_ns, 10 * SECOND);
    kit_end(&kit);
}

static void a_rule_that_does_not_apply_is_not_charged(void **state)
{
    struct request alice = {.user = "alice", .plan = INTERNAL};
    struct ration_decision details[2], got;
    struct kit kit;

    (void)state;
    plan_with_limit_funcs(&kit);
    assert_int_equal(ration_limiter_take(kit.limiter, &alice, 100, KIT_NOW_NS, &got, details),
                     RATION_OK);
    assert_answer(got, RATION_ALLOW, 900, 0);
    assert_int_equal(got.limit_index, 1);
    assert_int_equal(details[0].limit, 0);
    assert_int_equal(details[0].verdict, RATION_ALLOW);
    alice.plan = FREE;
    assert_answer(take(&kit, &alice, 0), RATION_ALLOW, 10, 0);
    kit_end(&kit);
}

static void where_no_rule_applies_everything_passes(void **state)
{
    static const char *const texts[] = {"1/h", "5/h sliding_log", "1/h start empty"};

    (void)state;
    for (size_t i = 0; i < KIT_COUNT_OF(texts); i++)
        for (size_t rule_count = 1; rule_count <= 2; rule_count++) {
            struct ration_key key = RATION_KEY("k");
            struct ration_decision got;
            struct ration_reservation reservation;
            uint64_t granted;
            struct kit kit;

            KIT_PLAN(&kit, texts[i], "1/h");
            kit.options.rule_count = rule_count;
            kit.rules[0].choose = kit.rules[1].choose = choose_none;
            kit_open(&kit);
            for (int k = 0; k < 10; k++) {
                got = kit_take(&kit, "k", UINT64_MAX);
                assert_answer(got, RATION_ALLOW, UINT64_MAX, 0);
                assert_int_equal(got.limit, 0);
                assert_true(ration_limiter_allow(kit.limiter, &key));
            }
            ration_limiter_take_up_to(kit.limiter, &key, 77, KIT_NOW_NS, &granted, &got);
            assert_int_equal(granted, 77);
            assert_int_equal(
                ration_limiter_reserve(kit.limiter, &key, 5, 0, KIT_NOW_NS, &got, &reservation),
                RATION_OK);
            assert_int_equal(reservation.ready_at_ns, KIT_NOW_NS);
            assert_int_equal(ration_limiter_settle(kit.limiter, &reservation, 9, KIT_NOW_NS),
                             RATION_OK);
            assert_int_equal(kit_report(&kit).limiter.created, 0);
            kit_end(&kit);
        }
}

static void a_limit_of_another_kind_is_refused_and_nothing_taken(void **state)
{
    struct request alice = {.user = "alice", .plan = WRONG};
    struct ration_decision untouched, got;
    struct ration_reservation reservation;
    struct kit kit;

    (void)state;
    plan_with_limit_funcs(&kit);
    memset(&untouched, 0x5a, sizeof(untouched));
    got = untouched;
    assert_int_equal(ration_limiter_take(kit.limiter, &alice, 1, KIT_NOW_NS, &got, NULL),
                     RATION_EUNSUPPORTED);
    assert_int_equal(ration_limiter_charge(kit.limiter, &alice, 1, KIT_NOW_NS),
                     RATION_EUNSUPPORTED);
    assert_int_equal(
        ration_limiter_reserve(kit.limiter, &alice, 1, 0, KIT_NOW_NS, &got, &reservation),
        RATION_EUNSUPPORTED);
    assert_false(ration_limiter_allow(kit.limiter, &alice));
    assert_same_decision(got, untouched);
    memset(&plans[WRONG], 0, sizeof(plans[WRONG])); /* one that was never made */
    assert_int_equal(ration_limiter_take(kit.limiter, &alice, 1, KIT_NOW_NS, &got, NULL),
                     RATION_EUNSUPPORTED);
    assert_same_decision(got, untouched);
    plans[WRONG] = kit_limit("60/min burst 10 refill interval");
    assert_int_equal(ration_limiter_take(kit.limiter, &alice, 1, KIT_NOW_NS, &got, NULL),
                     RATION_EUNSUPPORTED);
    alice.plan = INTERNAL;
    assert_answer(take(&kit, &alice, 0), RATION_ALLOW, 1000, 0);
    assert_int_equal(kit_report(&kit).rules[1].errors, 6);
    kit_end(&kit);
}

/* Requests beside tokens: one per request, whatever it takes of the other. */
static void a_cost_of_its_own_is_charged_once_per_request(void **state)
{
    struct ration_key key = RATION_KEY("k");
    struct ration_decision details[2], got;
    struct ration_limit requests = kit_limit("3/min");
    struct kit kit;
    uint64_t granted;

    (void)state;
    KIT_PLAN(&kit, "1000/min", "3/min");
    kit.rules[1].choose = choose_one_each;
    kit.rules[1].choose_context = &requests;
    kit_open(&kit);
    ration_limiter_take(kit.limiter, &key, 100, KIT_NOW_NS, &got, details);
    assert_int_equal(details[0].remaining, 900);
    assert_int_equal(details[1].remaining, 2);
    ration_limiter_peek(kit.limiter, &key, 0, KIT_NOW_NS, &got, details); /* a peek stays a peek */
    assert_int_equal(details[1].remaining, 2);
    ration_limiter_take_up_to(kit.limiter, &key, 5000, KIT_NOW_NS, &granted, &got);
    assert_int_equal(granted, 900);
    assert_answer(got, RATION_ALLOW, 0, 0);
    ration_limiter_peek(kit.limiter, &key, 0, KIT_NOW_NS, &got, details);
    assert_int_equal(details[0].remaining, 0);
    assert_int_equal(details[1].remaining, 1);
    kit_pass(&kit, 60 * SECOND / 1000); /* a token, and less than a request */
    ration_limiter_take_up_to(kit.limiter, &key, 1, kit.manual.ns, &granted, &got);
    assert_int_equal(granted, 1);
    kit_pass(&kit, 60 * SECOND / 1000);
    ration_limiter_take_up_to(kit.limiter, &key, 1, kit.manual.ns, &granted, &got);
    assert_int_equal(granted, 0);
    assert_int_equal(got.verdict, RATION_DENY);
    assert_int_equal(got.limit_index, 1);
    kit_end(&kit);
}

static void a_shadow_is_charged_by_its_own_verdict_and_never_denies(void **state)
{
    struct ration_key key = RATION_KEY("k");
    struct ration_decision details[2], got;
    struct ration_limiter_report report;
    uint64_t granted;
    struct kit kit;

    (void)state;
    KIT_PLAN(&kit, "5/h", "3/h");
    kit.rules[1].is_shadow = 1;
    kit_open(&kit);
    for (uint64_t i = 1; i <= 5; i++) {
        ration_limiter_take(kit.limiter, &key, 1, KIT_NOW_NS, &got, details);
        assert_answer(got, RATION_ALLOW, 5 - i, 0); /* the shadow's remaining never binds */
        assert_int_equal(got.limit_index, 0);
        assert_int_equal(details[1].verdict, i <= 3 ? RATION_ALLOW : RATION_DENY);
        assert_int_equal(details[1].remaining, i <= 3 ? 3 - i : 0);
    }
    ration_limiter_take(kit.limiter, &key, 4, KIT_NOW_NS, &got, details); /* NEVER to a shadow */
    assert_answer(got, RATION_DENY, 0, 4 * 720 * SECOND);
    assert_int_equal(details[1].verdict, RATION_NEVER);
    report = kit_report(&kit);
    assert_int_equal(report.rules[0].allowed, 5);
    assert_int_equal(report.rules[0].denied, 1);
    assert_int_equal(report.rules[1].allowed, 3);
    assert_int_equal(report.rules[1].denied + report.rules[1].never, 0);
    assert_int_equal(report.rules[1].shadow_denied, 3);
    assert_int_equal(report.limiter.shadow_denied, 3);
    kit_end(&kit);

    /* up to what the enforced one has; the shadow, that has less, would have denied it */
    KIT_PLAN(&kit, "9/h", "3/h");
    kit.rules[1].is_shadow = 1;
    kit_open(&kit);
    ration_limiter_take_up_to(kit.limiter, &key, 50, KIT_NOW_NS, &granted, &got);
    assert_int_equal(granted, 9);
    assert_int_equal(kit_report(&kit).rules[1].shadow_denied, 1);
    kit_end(&kit);

    /* charged though the enforced one denies: its own verdict is ALLOW */
    KIT_PLAN(&kit, "1/h", "10/h");
    kit.rules[1].is_shadow = 1;
    kit_open(&kit);
    for (int i = 0; i < 4; i++)
        ration_limiter_take(kit.limiter, &key, 1, KIT_NOW_NS, &got, details);
    assert_int_equal(got.verdict, RATION_DENY);
    assert_int_equal(details[1].remaining, 6);
    kit_end(&kit);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_key_func_finds_the_key_in_the_request),
        cmocka_unit_test(a_request_without_a_key_is_an_error),
        cmocka_unit_test(a_limit_func_says_which_limit_and_what_it_costs),
        cmocka_unit_test(a_rule_that_does_not_apply_is_not_charged),
        cmocka_unit_test(where_no_rule_applies_everything_passes),
        cmocka_unit_test(a_limit_of_another_kind_is_refused_and_nothing_taken),
        cmocka_unit_test(a_cost_of_its_own_is_charged_once_per_request),
        cmocka_unit_test(a_shadow_is_charged_by_its_own_verdict_and_never_denies),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
