/*
 * A proxy in front of a language model: per tenant so many requests and so many tokens a minute,
 * both at once. What a request costs is known only when its answer is there.
 *
 * So it reserves an estimate, waits its turn, and settles with what was used. Too much comes back
 * at once; too little is taken late, as a debt that the tenant's next requests wait for. One that
 * is given up is cancelled, and has cost nothing.
 *
 * Two rules of one limiter: the reservation holds both or neither. A request is one request,
 * whatever its tokens: the first rule's function says so.
 *
 * On a manual clock, so that it prints the same each time.
 */
#include <inttypes.h>
#include <ration/ration.h>
#include <stdio.h>
#include <string.h>

#define WAIT_NS_MAX    (8 * RATION_NS_PER_SECOND)
#define REQUESTS_COUNT 11

enum { REQUESTS, TOKENS, RULES_COUNT }; /* the limiter's rules */

enum action { BEGIN, END, GIVE_UP };

/* What happens to a request. Tokens are an estimate at its begin, and what was used at its end. */
struct event {
    uint64_t at_ms;
    enum action action;
    int request;
    const char *tenant;
    uint64_t tokens;
};

static const struct event events[] = {
    {0, BEGIN, 1, "acme", 6000},
    {200, BEGIN, 2, "acme", 5000}, /* only 4100 are left: it waits */
    {300, BEGIN, 3, "zeta", 3000}, /* another tenant does not */
    {1500, END, 1, "acme", 1500},  /* nothing comes back: request 2 was promised its turn */
    {2500, END, 3, "zeta", 14000}, /* far more than estimated: zeta is in debt ... */
    {3000, BEGIN, 4, "zeta", 500}, /* ... and waits; both limits are held for its turn */
    {4000, END, 2, "acme", 2000},  /* nobody waits any more: 3000 come back */
    {4100, BEGIN, 5, "acme", 100},
    {4100, BEGIN, 6, "acme", 100},
    {4100, BEGIN, 7, "acme", 100},
    {4100, BEGIN, 8, "acme", 100},   /* there are tokens, but no request: it waits */
    {4200, GIVE_UP, 8, "acme", 0},   /* the caller hung up: as if it had never asked */
    {4400, BEGIN, 9, "acme", 12000}, /* more than the bucket holds */
    {4400, BEGIN, 10, "zeta", 8000}, /* behind request 4, longer than it may wait */
    {5000, END, 5, "acme", 80},
    {5000, END, 6, "acme", 80},
    {5000, END, 7, "acme", 80},
    {10000, END, 4, "zeta", 500},
    {60000, BEGIN, 11, "zeta", 9000}, /* back to normal */
    {65000, END, 11, "zeta", 9000},
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

/* One request, however many tokens. A look at nothing stays one. */
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

static void begin(ration_limiter *limiter, const struct event *event, uint64_t now_ns,
                  struct ration_reservation *out_reservation)
{
    struct ration_decision decision;

    if (ration_limiter_reserve(limiter, event, event->tokens, WAIT_NS_MAX, now_ns, &decision,
                               out_reservation) != RATION_OK)
        return;
    printf("begin    %6" PRIu64 "  %-6s", event->tokens,
           ration_decision_verdict_name(decision.verdict));
    if (decision.verdict == RATION_NEVER)
        printf("      -");
    else
        print_seconds(decision.verdict == RATION_ALLOW ? decision.delay_ns
                                                       : decision.retry_after_ns);
}

/* Settled with the tokens really used. A request stays one, as the rule's function has said. */
static void end(ration_limiter *limiter, const struct event *event, uint64_t now_ns,
                struct ration_reservation *reservation)
{
    ration_limiter_settle(limiter, reservation, event->tokens, now_ns);
    printf("end      %6" PRIu64 "               ", event->tokens);
}

int main(void)
{
    static struct ration_reservation reservations[REQUESTS_COUNT + 1];
    struct ration_manual_clock manual = {0};
    struct ration_clock clock = ration_clock_manual(&manual);
    ration_limiter *limiter = create_limiter(&clock);

    if (limiter == NULL)
        return 1;
    printf("20 requests and 30k tokens a minute per tenant, bursts of 4 and 10k\n\n");
    printf("    at   who  no.  what     tokens  answer   wait  requests left  tokens left\n");
    for (size_t i = 0; i < sizeof(events) / sizeof(events[0]); i++) {
        const struct event *event = &events[i];
        struct ration_reservation *reservation = &reservations[event->request];
        struct ration_decision left, details[RULES_COUNT];

        ration_clock_manual_set(&manual, event->at_ms * RATION_NS_PER_MS);

        uint64_t now_ns = ration_limiter_now(limiter);

        print_seconds(now_ns);
        printf("  %s %2d   ", event->tenant, event->request);
        if (event->action == BEGIN)
            begin(limiter, event, now_ns, reservation);
        else if (event->action == END)
            end(limiter, event, now_ns, reservation);
        if (event->action == GIVE_UP &&
            ration_limiter_cancel(limiter, reservation, now_ns) == RATION_OK)
            printf("give up                       ");
        if (ration_limiter_peek(limiter, event, 0, now_ns, &left, details) != RATION_OK)
            return 1;
        printf("  %13" PRIu64 "  %11" PRIu64 "\n", details[REQUESTS].remaining,
               details[TOKENS].remaining);
    }
    ration_limiter_free(limiter);
    return 0;
}
