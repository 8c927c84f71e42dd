/*
 * A limit per plan, chosen per request by a function; a write costs as much as five reads.
 *
 *     free          60/min burst 10
 *     enterprise    6000/min burst 500
 *     internal      no limit
 *
 * All customers are in one limiter. The function looks up the plan for each request, so the limiter need not be
 * changed when a customer changes plans. A rule with is_one_budget has one bucket per customer, whatever the plan.
 * (Limits that are counted separately are declared as the rule's limits instead: docs/reference/c-api-limiter.md.)
 *
 * So a customer keeps the bucket when the plan changes, and what was taken under the old plan is still in use, as time:
 * ten tokens of a second each are 10 s, which is twice what the enterprise bucket holds. The program therefore resets
 * a customer who changes plans.
 *
 * The clock is manual, so the output is the same each time.
 */
#include <inttypes.h>
#include <ration/ration.h>
#include <stdio.h>
#include <string.h>

#define WRITE_COST_TIMES 5

enum plan { FREE, ENTERPRISE, INTERNAL, PLANS_COUNT };

struct customer {
    const char *name;
    enum plan plan;
};

struct call {
    const struct customer *customer;
    bool is_write;
};

/* The limits that plan_limit() returns. They live as long as the limiter. */
static struct ration_limit limits[PLANS_COUNT];

static ration_status customer_key(void *context, const void *request, char *room,
                                  struct ration_key *out_key)
{
    const struct call *call = request;

    (void)context;
    (void)room;
    *out_key = (struct ration_key){call->customer->name, strlen(call->customer->name)};
    return RATION_OK;
}

static const struct ration_limit *plan_limit(void *context, const void *request,
                                             uint64_t *cost_tokens)
{
    const struct ration_limit *by_plan = context;
    const struct call *call = request;

    if (call->customer->plan == INTERNAL)
        return NULL; /* no limit applies */
    if (call->is_write)
        *cost_tokens *= WRITE_COST_TIMES;
    return &by_plan[call->customer->plan];
}

static ration_limiter *create_limiter(const struct ration_clock *clock)
{
    struct ration_rule rule = {
        .choose = plan_limit,
        .choose_context = limits,
        .is_one_budget = 1, /* a customer who changes the plan keeps the bucket */
    };
    struct ration_limiter_options options = {.struct_size = sizeof(options),
                                             .rules = &rule,
                                             .rule_count = 1,
                                             .keys_max = 100000,
                                             .key_func = customer_key,
                                             .clock = clock,
                                             .top_keys = 8};
    struct ration_error error;
    ration_limiter *limiter;

    if (ration_limit_parse("60/min burst 10 name free", &limits[FREE], &error) == RATION_OK &&
        ration_limit_parse("6000/min burst 500 name enterprise", &limits[ENTERPRISE], &error) ==
            RATION_OK) {
        rule.limit = limits[FREE]; /* an example of what plan_limit() returns */
        if (ration_limiter_create(&options, &limiter, &error) == RATION_OK)
            return limiter;
    }
    fprintf(stderr, "plans: %s\n", error.message);
    return NULL;
}

/* Makes so many calls at once and prints how many were allowed, and the last decision. */
static void make_calls(ration_limiter *limiter, const struct customer *customer, bool is_write,
                       int call_count)
{
    static const char *const plans[PLANS_COUNT] = {"free", "enterprise", "internal"};
    struct call call = {customer, is_write};
    struct ration_decision decision = {0};
    int allowed_count = 0;

    for (int i = 0; i < call_count; i++) {
        if (ration_limiter_take(limiter, &call, 1, ration_limiter_now(limiter), &decision, NULL) !=
            RATION_OK)
            return;
        allowed_count += decision.verdict == RATION_ALLOW;
    }
    printf("  %-4s %-10s  %4d %s  %4d allowed", customer->name, plans[customer->plan], call_count,
           is_write ? "writes" : "reads ", allowed_count);
    if (decision.limit == 0)
        printf("  no limit\n");
    else if (decision.verdict == RATION_ALLOW)
        printf("  %3" PRIu64 " of %" PRIu64 " left\n", decision.remaining, decision.limit);
    else
        printf("  %3" PRIu64 " of %" PRIu64 " left, the next after %" PRIu64 " ms\n",
               decision.remaining, decision.limit, decision.retry_after_ns / RATION_NS_PER_MS);
}

static void advance(struct ration_manual_clock *manual, uint64_t seconds)
{
    ration_clock_manual_advance(manual, seconds * RATION_NS_PER_SECOND);
    printf("%" PRIu64 " s later\n", seconds);
}

static void print_report(ration_limiter *limiter)
{
    struct ration_limiter_report report;
    struct ration_top_key key;

    ration_limiter_read_report(limiter, &report);
    printf("allowed %" PRIu64 " calls of %" PRIu64 " tokens, denied %" PRIu64 "\n",
           report.rules[0].allowed, report.rules[0].allowed_tokens, report.rules[0].denied);
    if (ration_limiter_top_keys(limiter, RATION_TOP_DENIED, &key, 1, NULL) == 1)
        printf("denied most often: %.*s, %" PRIu64 "\n", RATION_TOP_KEY_NAME_MAX,
               (const char *)key.name, key.count);
}

int main(void)
{
    struct ration_manual_clock manual = {0};
    struct ration_clock clock = ration_clock_manual(&manual);
    ration_limiter *limiter = create_limiter(&clock);
    struct customer ann = {"ann", FREE}, bob = {"bob", ENTERPRISE}, ops = {"ops", INTERNAL};

    if (limiter == NULL)
        return 1;
    make_calls(limiter, &ann, false, 5);
    make_calls(limiter, &ann, true, 2); /* one write costs five reads */
    make_calls(limiter, &bob, true, 60);
    make_calls(limiter, &bob, true, 60);
    make_calls(limiter, &ops, true, 1000);

    advance(&manual, 3);
    make_calls(limiter, &ann, false, 10);
    make_calls(limiter, &bob, true, 60);

    ann.plan = ENTERPRISE;
    printf("ann changes to enterprise\n");
    make_calls(limiter, &ann, false,
               1); /* denied: the tokens taken under the free plan are still in use */
    ration_limiter_reset(limiter, &(struct call){&ann, false}, ration_limiter_now(limiter));
    printf("ann is reset\n");
    make_calls(limiter, &ann, false, 100);

    print_report(limiter);
    ration_limiter_free(limiter);
    return 0;
}
