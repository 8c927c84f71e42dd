/*
 * A proxy in front of a language model. Each tenant has a limit of requests and a limit of tokens per minute. What a
 * request costs is known only when the model has answered.
 *
 * So the proxy reserves an estimate, waits until that is available, and settles with what was used. Unused tokens
 * return at once. Additional tokens are charged, and the tenant's next requests wait for them. A request whose caller
 * disconnects is cancelled, and costs nothing.
 *
 * The two limits are two rules of one limiter, so a reservation is made under both or under none. The function of the
 * first rule sets the cost of a request to 1, whatever its tokens.
 *
 * The clock is manual, so the output is the same each time.
 */
#include <inttypes.h>
#include <ration/ration.h>
#include <stdio.h>
#include <string.h>

#define WAIT_NS_MAX    (8 * RATION_NS_PER_SECOND)
#define REQUESTS_COUNT 11

enum { REQUESTS, TOKENS, RULES_COUNT }; /* the limiter's rules */

enum action { RESERVE, SETTLE, CANCEL };

/* What happens to a request. tokens is the estimate of a reserve, and what was used in a settle. */
struct event {
    uint64_t at_ms;
    enum action action;
    int request;
    const char *tenant;
    uint64_t tokens;
};

static const struct event events[] = {
    {0, RESERVE, 1, "acme", 6000},
    {200, RESERVE, 2, "acme", 5000},  /* only 4100 are left, so it waits */
    {300, RESERVE, 3, "zeta", 3000},  /* another tenant does not wait */
    {1500, SETTLE, 1, "acme", 1500},  /* nothing returns, because request 2 waits behind it */
    {2500, SETTLE, 3, "zeta", 14000}, /* much more than estimated: zeta is below zero */
    {3000, RESERVE, 4, "zeta", 500},  /* so it waits, and holds both limits until then */
    {4000, SETTLE, 2, "acme", 2000},  /* no request waits any more: 3000 return */
    {4100, RESERVE, 5, "acme", 100},
    {4100, RESERVE, 6, "acme", 100},
    {4100, RESERVE, 7, "acme", 100},
    {4100, RESERVE, 8, "acme", 100},   /* tokens are left, but no requests: it waits */
    {4200, CANCEL, 8, "acme", 0},      /* the caller disconnected: nothing is charged */
    {4400, RESERVE, 9, "acme", 12000}, /* more than the burst */
    {4400, RESERVE, 10, "zeta", 8000}, /* would wait too long, behind request 4 */
    {5000, SETTLE, 5, "acme", 80},
    {5000, SETTLE, 6, "acme", 80},
    {5000, SETTLE, 7, "acme", 80},
    {10000, SETTLE, 4, "zeta", 500},
    {60000, RESERVE, 11, "zeta", 9000}, /* all tokens have returned */
    {65000, SETTLE, 11, "zeta", 9000},
};

static ration_status tenant_key(void *context, const void *request, char *room,
                                struct ration_key *out_key)
{
    const struct event *event = request;

    (void)context;
    (void)room;
    *out_key = (struct ration_key){event->tenant, strlen(event->tenant)};
    return RATION_OK;
}

/* Sets the cost to one request, however many tokens it takes. Cost 0, of a peek, stays 0. */
static const struct ration_limit *one_request(void *context, const void *request,
                                              uint64_t *cost_tokens)
{
    (void)request;
    *cost_tokens = *cost_tokens > 0;
    return context;
}

static ration_limiter *create_limiter(const struct ration_clock *clock)
{
    static struct ration_rule rules[RULES_COUNT];
    struct ration_limiter_options options = {.struct_size = sizeof(options),
                                             .rules = rules,
                                             .rule_count = RULES_COUNT,
                                             .keys_max = 10000,
                                             .key_func = tenant_key,
                                             .clock = clock};
    struct ration_error error;
    ration_limiter *limiter;

    if (ration_limit_parse("20/min burst 4", &rules[REQUESTS].limit, &error) == RATION_OK &&
        ration_limit_parse("30k/min burst 10k", &rules[TOKENS].limit, &error) == RATION_OK) {
        rules[REQUESTS].choose = one_request;
        rules[REQUESTS].choose_context = &rules[REQUESTS].limit;
        rules[REQUESTS].sets_cost = 1;
        if (ration_limiter_create(&options, &limiter, &error) == RATION_OK)
            return limiter;
    }
    fprintf(stderr, "llm_proxy: %s\n", error.message);
    return NULL;
}

static void print_seconds(uint64_t ns)
{
    uint64_t tenths = ns / (100 * RATION_NS_PER_MS);

    printf("%3" PRIu64 ".%" PRIu64 " s", tenths / 10, tenths % 10);
}

static void reserve(ration_limiter *limiter, const struct event *event, uint64_t now_ns,
                    struct ration_reservation *out_reservation)
{
    struct ration_decision decision;

    if (ration_limiter_reserve(limiter, event, event->tokens, WAIT_NS_MAX, now_ns, &decision,
                               out_reservation) != RATION_OK)
        return;
    printf("reserve  %6" PRIu64 "  %-6s", event->tokens,
           ration_decision_verdict_name(decision.verdict));
    if (decision.verdict == RATION_NEVER)
        printf("      -");
    else
        print_seconds(decision.verdict == RATION_ALLOW ? decision.delay_ns
                                                       : decision.retry_after_ns);
}

/* Settles with the tokens really used. The first rule keeps its cost of 1. */
static void settle(ration_limiter *limiter, const struct event *event, uint64_t now_ns,
                   struct ration_reservation *reservation)
{
    ration_limiter_settle(limiter, reservation, event->tokens, now_ns);
    printf("settle   %6" PRIu64 "               ", event->tokens);
}

int main(void)
{
    static struct ration_reservation reservations[REQUESTS_COUNT + 1];
    struct ration_manual_clock manual = {0};
    struct ration_clock clock = ration_clock_manual(&manual);
    ration_limiter *limiter = create_limiter(&clock);

    if (limiter == NULL)
        return 1;
    printf("20 requests and 30k tokens per minute and tenant, with bursts of 4 and 10k\n\n");
    printf("  time   tenant    action   tokens  verdict  wait  requests left  tokens left\n");
    for (size_t i = 0; i < sizeof(events) / sizeof(events[0]); i++) {
        const struct event *event = &events[i];
        struct ration_reservation *reservation = &reservations[event->request];
        struct ration_decision left, details[RULES_COUNT];

        ration_clock_manual_set(&manual, event->at_ms * RATION_NS_PER_MS);

        uint64_t now_ns = ration_limiter_now(limiter);

        print_seconds(now_ns);
        printf("  %s %2d   ", event->tenant, event->request);
        if (event->action == RESERVE)
            reserve(limiter, event, now_ns, reservation);
        else if (event->action == SETTLE)
            settle(limiter, event, now_ns, reservation);
        if (event->action == CANCEL &&
            ration_limiter_cancel(limiter, reservation, now_ns) == RATION_OK)
            printf("cancel                        ");
        if (ration_limiter_peek(limiter, event, 0, now_ns, &left, details) != RATION_OK)
            return 1;
        printf("  %13" PRIu64 "  %11" PRIu64 "\n", details[REQUESTS].remaining,
               details[TOKENS].remaining);
    }
    ration_limiter_free(limiter);
    return 0;
}
