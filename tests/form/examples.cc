/*
 * The examples of the public headers as C++17, with the names of structs alone: `struct` is not needed in
 * front of any. Compiled by g++ and clang++, linked with libration and run.
 */
#include <ration/ration.h>

#include <cstdio>
#include <cstring>

static int failed_count;

#define CHECK(condition)                                                \
    do {                                                                \
        if (!(condition)) {                                             \
            std::printf("%s:%d: %s\n", __FILE__, __LINE__, #condition); \
            failed_count++;                                             \
        }                                                               \
    } while (0)

/* ration.h, bucket.h, limit.h */
static void buckets()
{
    static ration_bucket bucket;
    ration_limit limit;
    ration_bucket_reservation reservation;
    ration_error error;
    ration_limit_spec spec{};
    char text[RATION_LIMIT_TEXT_SIZE];

    CHECK(ration_limit_parse("100/s burst 20", &limit, nullptr) == RATION_OK);
    CHECK(ration_bucket_allow(&bucket, &limit));
    ration_decision decision =
        ration_bucket_reserve(&bucket, &limit, 1, 0, ration_clock_default_now(), &reservation);
    CHECK(decision.verdict == RATION_ALLOW);
    CHECK(ration_limit_print(&limit, text, sizeof(text)) == RATION_OK);
    spec.tokens = 10;
    spec.period_ns = 1;
    CHECK(ration_limit_make(&spec, &limit, &error) == RATION_ERANGE);
    ration_limit_nearest nearest = ration_limit_find_nearest(&spec);
    CHECK(nearest.count > 0);
}

/* retry.h, clock.h, stats.h */
static void retries()
{
    ration_retry retry;
    ration_decision decision{};
    ration_manual_clock manual{};
    ration_clock clock = ration_clock_manual(&manual);
    ration_limit_stats before{}, now{};

    decision.verdict = RATION_DENY;
    decision.retry_after_ns = 5;
    CHECK(ration_retry_init(&retry, RATION_JITTER_FULL, 10 * RATION_NS_PER_MS,
                            5 * RATION_NS_PER_SECOND, 1) == RATION_OK);
    CHECK(ration_retry_next(&retry, &decision) >= 5);
    ration_clock_manual_set(&manual, 7);
    CHECK(ration_clock_now(&clock) == 7);
    now.allowed = 3;
    now.denied = 1;
    ration_limit_stats lately = ration_limit_stats_since(&now, &before);
    CHECK(ration_limit_stats_rejected_ppm(&lately) == 250000);
}

/* limiter.h: the common case */
static void simple_limiter()
{
    ration_limiter *limiter;

    CHECK(ration_limiter_create_simple("10/s burst 20", 100000, &limiter, nullptr) == RATION_OK);
    CHECK(ration_limiter_allow(limiter, &RATION_KEY("198.51.100.7")));
    CHECK(ration_limiter_count(limiter, ration_limiter_now(limiter)) == 1);
    ration_limiter_free(limiter);
}

/* limiter.h */
static void limiters()
{
    ration_rule rule{};
    ration_limiter_options options{};
    ration_limiter *limiter;
    ration_limiter_report report;
    ration_reservation reservation;
    ration_decision decision;

    CHECK(ration_limit_parse("10/s burst 20", &rule.limit, nullptr) == RATION_OK);
    options.struct_size = sizeof(ration_limiter_options);
    options.rules = &rule;
    options.rule_count = 1;
    options.keys_max = 1000;
    CHECK(ration_limiter_create(&options, &limiter, nullptr) == RATION_OK);
    CHECK(ration_limiter_allow(limiter, &RATION_KEY("198.51.100.7")));
    ration_key key = RATION_KEY("198.51.100.7");
    const ration_key *kept = &RATION_KEY("kept"); /* it lives as long as the program */
    ration_batch_item item{};
    item.request = kept;
    item.cost_tokens = 1;
    CHECK(ration_limiter_take_batch(limiter, &item, 1, ration_limiter_now(limiter)) == 1);
    CHECK(ration_limiter_reserve(limiter, &key, 1, 0, ration_limiter_now(limiter), &decision,
                                 &reservation) == RATION_OK);
    CHECK(ration_limiter_cancel(limiter, &reservation, ration_limiter_now(limiter)) == RATION_OK);
    ration_limiter_read_report(limiter, &report);
    CHECK(report.rules[0].allowed == 3);
    ration_limiter_free(limiter);
}

/* limiter.h: a stack */
static void stacks()
{
    ration_rule rule{};
    ration_limiter_options limiters[2]{};
    ration_stack_options options{};
    ration_stack *stack;
    ration_decision decision;

    ration_limit_per_second(5, &rule.limit);
    for (ration_limiter_options &each : limiters) {
        each.struct_size = sizeof(each);
        each.rules = &rule;
        each.rule_count = 1;
        each.keys_max = 10;
    }
    options.struct_size = sizeof(options);
    options.limiters = limiters;
    options.limiter_count = 2;
    CHECK(ration_stack_create(&options, &stack, nullptr) == RATION_OK);
    ration_stack_request asks[] = {{0, &RATION_KEY("all"), 1}, {1, &RATION_KEY("each"), 1}};
    CHECK(ration_stack_take_all(stack, asks, 2, ration_stack_now(stack), &decision) == RATION_OK);
    CHECK(decision.verdict == RATION_ALLOW);
    ration_stack_free(stack);
}

/* policy.h, engine.h */
static void policies()
{
    static const char text[] =
        "limits: [{name: login, match: {method: POST, path: /login}, key: ip, rate: 5/min}]";
    ration_attribute request[] = {{RATION_KEY("method"), RATION_KEY("POST")},
                                  {RATION_KEY("path"), RATION_KEY("/login")},
                                  {RATION_KEY("ip"), RATION_KEY("192.0.2.7")}};
    ration_policy *policy;
    ration_engine *engine;
    ration_engine_options options{};
    ration_policy_match match;
    ration_engine_stats stats;
    ration_check check{};

    CHECK(ration_policy_parse(text, sizeof(text) - 1, nullptr, nullptr, &policy) == RATION_OK);
    CHECK(ration_policy_find_matches(policy, request, 3, &match) == RATION_OK);
    const ration_policy_limit *limit = ration_policy_limit_at(policy, match.limits[0]);
    CHECK(std::strcmp(limit->limit.name, "login") == 0);
    const ration_policy_setting *setting = ration_policy_setting_at(policy, 0);
    CHECK(setting == nullptr);
    options.struct_size = sizeof(options);
    CHECK(ration_engine_create(&options, policy, &engine, nullptr) == RATION_OK);
    check.attributes = request;
    check.attribute_count = 3;
    check.cost_tokens = 1;
    ration_engine_check(engine, &check, 1, ration_engine_now(engine));
    CHECK(check.status == RATION_OK && check.decision.verdict == RATION_ALLOW);
    ration_engine_read_stats(engine, &stats);
    CHECK(stats.unlimited == 0);
    ration_engine_free(engine);
}

int main()
{
    buckets();
    retries();
    simple_limiter();
    limiters();
    stacks();
    policies();
    std::printf("%s\n", failed_count == 0 ? "all examples hold" : "failed");
    return failed_count == 0 ? 0 : 1;
}
