/*
 * Cost by size: a budget of model tokens, where the real cost is known only afterwards.
 *
 * Each request reserves an estimate, waits its turn, and settles with what it used. Too much
 * comes back at once, so the next need not wait for it; too little is taken late, as a debt that
 * the next one waits for. On a manual clock, so that it prints the same each time.
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
    {0, 8000, 2500, 1500},     /* a long answer was feared, a short one came */
    {2000, 6000, 6400, 3000},  /* a bit more than feared */
    {6000, 4000, 9000, 4000},  /* far more: the bucket goes below zero */
    {10500, 800, 500, 1000},   /* so this one waits for its turn */
    {19000, 9000, 9000, 1000}, /* its wait is too long: turned away */
    {20000, 12000, 0, 0},      /* more than the burst: no wait would help */
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

/* Reserves, waits and settles. Returns the tokens used. */
static uint64_t run(struct ration_bucket *bucket, const struct ration_limit *limit,
                    struct ration_manual_clock *clock, const struct request *request)
{
    struct ration_clock reader = ration_clock_manual(clock);
    struct ration_bucket_reservation place;

    ration_clock_manual_set(clock, ms(request->at_ms));

    struct ration_decision decision = ration_bucket_reserve(
        bucket, limit, request->estimate_tokens, WAIT_NS_MAX, ration_clock_now(&reader), &place);

    print_seconds(ration_clock_now(&reader));
    printf("  %8" PRIu64 "  %-7s", request->estimate_tokens,
           ration_decision_verdict_name(decision.verdict));
    if (decision.verdict == RATION_NEVER) {
        printf("  the burst is %" PRIu64 "\n", decision.limit);
        return 0;
    }
    if (decision.verdict == RATION_DENY) {
        print_seconds(decision.retry_after_ns);
        printf("  is more than it would wait\n");
        return 0;
    }
    print_seconds(decision.delay_ns);

    ration_clock_manual_set(clock, place.ready_at_ns + ms(request->answer_ms));
    ration_bucket_settle(bucket, limit, &place, request->used_tokens, ration_clock_now(&reader));

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

    printf("30k tokens per minute, burst 10k; a request waits 8 s at most\n\n");
    printf("   at     estimate  verdict   wait    used   settled    left  full in\n");
    for (size_t index = 0; index < sizeof(requests) / sizeof(requests[0]); index++)
        used_tokens += run(&bucket, &limit, &clock, &requests[index]);

    /* Every debt was waited for, so in the end the limit holds for what was really used. */
    uint64_t took_ns = clock.ns;
    uint64_t most_tokens = limit.burst + limit.tokens * took_ns / limit.period_ns;

    printf("\nused %" PRIu64 " tokens in", used_tokens);
    print_seconds(took_ns);
    printf(", at most %" PRIu64 "\n", most_tokens);
    return used_tokens <= most_tokens ? 0 : 1;
}
