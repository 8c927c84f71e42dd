/*
 * A budget of language model tokens, where the real cost of a request is known only afterwards.
 *
 * Each request reserves an estimate, waits until that is available, and settles with what it used. Unused tokens
 * return at once, so the next request does not wait for them. Additional tokens are charged: the bucket goes below
 * zero, and the next request waits. The clock is manual, so the output is the same each time.
 */
#include <inttypes.h>
#include <ration/ration.h>
#include <stdio.h>

#define WAIT_NS_MAX (8 * RATION_NS_PER_SECOND)

struct request {
    uint64_t at_ms;
    uint64_t estimate_tokens;
    uint64_t used_tokens;
    uint64_t answer_ms; /* how long the model takes */
};

static const struct request requests[] = {
    {0, 8000, 2500, 1500},     /* the answer was shorter than estimated */
    {2000, 6000, 6400, 3000},  /* a little more than estimated */
    {6000, 4000, 9000, 4000},  /* much more: the bucket goes below zero */
    {10500, 800, 500, 1000},   /* so this one waits */
    {19000, 9000, 9000, 1000}, /* would wait too long: denied */
    {20000, 12000, 0, 0},      /* more than the burst: never */
    {25000, 3000, 3000, 1000}, /* back to normal */
};

static uint64_t ms(uint64_t ms)
{
    return ms * RATION_NS_PER_MS;
}

static void print_seconds(uint64_t ns)
{
    uint64_t tenths = ns / ms(100);

    printf("%4" PRIu64 ".%" PRIu64 " s", tenths / 10, tenths % 10);
}

/* Reserves, waits and settles. Returns how many tokens were used. */
static uint64_t run(struct ration_bucket *bucket, const struct ration_limit *limit,
                    struct ration_manual_clock *clock, const struct request *request)
{
    struct ration_clock reader = ration_clock_manual(clock);
    struct ration_bucket_reservation reservation;

    ration_clock_manual_set(clock, ms(request->at_ms));

    struct ration_decision decision =
        ration_bucket_reserve(bucket, limit, request->estimate_tokens, WAIT_NS_MAX,
                              ration_clock_now(&reader), &reservation);

    print_seconds(ration_clock_now(&reader));
    printf("  %8" PRIu64 "  %-7s", request->estimate_tokens,
           ration_decision_verdict_name(decision.verdict));
    if (decision.verdict == RATION_NEVER) {
        printf("  the burst is %" PRIu64 "\n", decision.limit);
        return 0;
    }
    if (decision.verdict == RATION_DENY) {
        print_seconds(decision.retry_after_ns);
        printf("  is longer than the maximum wait\n");
        return 0;
    }
    print_seconds(decision.delay_ns);

    ration_clock_manual_set(clock, reservation.ready_at_ns + ms(request->answer_ms));
    ration_bucket_settle(bucket, limit, &reservation, request->used_tokens,
                         ration_clock_now(&reader));

    struct ration_decision left = ration_bucket_peek(bucket, limit, 0, ration_clock_now(&reader));

    printf("  %6" PRIu64 "  ", request->used_tokens);
    print_seconds(ration_clock_now(&reader));
    printf("  %6" PRIu64 "  ", left.remaining);
    print_seconds(left.reset_after_ns);
    printf("\n");
    return request->used_tokens;
}

int main(void)
{
    struct ration_manual_clock clock = {0};
    struct ration_bucket bucket = {{0, 0}};
    struct ration_limit limit;
    uint64_t used_tokens = 0;

    if (ration_limit_parse("30k/min burst 10k", &limit, NULL) != RATION_OK)
        return 1;

    printf("30k tokens per minute, burst 10k; a request waits at most 8 s\n\n");
    printf("   at     estimate  verdict   wait    used   settled    left  full in\n");
    for (size_t index = 0; index < sizeof(requests) / sizeof(requests[0]); index++)
        used_tokens += run(&bucket, &limit, &clock, &requests[index]);

    /* The limit holds for what was really used, because each request waited for the tokens of those before it. */
    uint64_t passed_ns = clock.ns;
    uint64_t max_tokens = limit.burst + limit.tokens * passed_ns / limit.period_ns;

    printf("\nused %" PRIu64 " tokens in", used_tokens);
    print_seconds(passed_ns);
    printf(", at most %" PRIu64 "\n", max_tokens);
    return used_tokens <= max_tokens ? 0 : 1;
}
