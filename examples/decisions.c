/*
 * The same requests under four limits, decided on a manual clock, with every decision printed.
 *
 * The output is the same each time. On a terminal verdicts are coloured, unless NO_COLOR is set.
 */
#include <inttypes.h>
#include <ration/ration.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

struct event {
    uint64_t at_ns;
    uint64_t cost_tokens;
};

#define MS RATION_NS_PER_MS

static const struct event events[] = {
    {0, 3},
    {0, 2},
    {0, 1},            /* the bucket had five tokens, not six */
    {200 * MS - 1, 1}, /* one nanosecond before a token returns */
    {200 * MS, 1},     /* after the reported wait */
    {600 * MS, 2},
    {1000 * MS, 4},
    {1400 * MS, 4}, /* after the reported wait */
    {1400 * MS, 6}, /* more than a full bucket has */
    {2400 * MS, 5},
};

#define EVENTS_COUNT (sizeof(events) / sizeof(events[0]))

struct example {
    const char *limit_text;
    const char *title;
    const char *rule;
};

static const struct example examples[] = {
    {"5/s burst 5", "token bucket", "one token returns every 200 ms; a bucket has at most 5"},
    {"5/s refill interval", "token bucket with interval refill",
     "all 5 tokens return together, 1 s after the request that found the bucket full"},
    {"5/s leaky_queue", "leaky queue",
     "requests that fit into the queue are allowed, and proceed one after another"},
    {"5/s sliding_window", "sliding window",
     "5 per second; the previous window counts by the part that the last second covers"},
};

static bool colour;

/* Writes a duration as nanoseconds or milliseconds, 0 as "-". */
static const char *duration(uint64_t ns, char text[32])
{
    if (ns == 0) {
        snprintf(text, 32, "-");
    } else if (ns == RATION_FOREVER) {
        snprintf(text, 32, "never");
    } else if (ns < RATION_NS_PER_US) {
        snprintf(text, 32, "%" PRIu64 " ns", ns);
    } else if (ns % MS == 0) {
        snprintf(text, 32, "%" PRIu64 " ms", ns / MS);
    } else {
        snprintf(text, 32, "%" PRIu64 ".%06" PRIu64 " ms", ns / MS, ns % MS);
    }
    return text;
}

static void print_verdict(enum ration_verdict verdict)
{
    static const char *const colours[] = {"\033[32m", "\033[33m", "\033[31m"};

    printf("%s%-7s%s", colour ? colours[verdict] : "", ration_decision_verdict_name(verdict),
           colour ? "\033[0m" : "");
}

static void print_bar(const struct ration_decision *decision)
{
    for (uint64_t token = 0; token < decision->limit; token++)
        printf("%s", token < decision->remaining ? "██" : "··");
}

static void print_row(const struct event *event, const struct ration_decision *decision)
{
    char at[32], delay[32], retry[32], reset[32];

    printf("%14s %5" PRIu64 "  ", event->at_ns == 0 ? "0 ms" : duration(event->at_ns, at),
           event->cost_tokens);
    print_verdict(decision->verdict);
    printf(" %5" PRIu64 "  %8s  %14s  %14s   ", decision->remaining,
           duration(decision->delay_ns, delay), duration(decision->retry_after_ns, retry),
           duration(decision->reset_after_ns, reset));
    print_bar(decision);
    printf("\n");
}

static bool show(const struct example *example)
{
    struct ration_manual_clock manual = {0};
    struct ration_clock clock = ration_clock_manual(&manual);
    struct ration_bucket bucket = {{0, 0}};
    struct ration_limit limit;
    uint64_t allowed_tokens = 0;

    if (ration_limit_parse(example->limit_text, &limit, NULL) != RATION_OK)
        return false;
    printf("%s: %s\n%s\n\n", example->title, example->limit_text, example->rule);
    printf(
        "          time  cost  verdict  left   proceed     retry after     reset after   tokens\n");
    for (size_t index = 0; index < EVENTS_COUNT; index++) {
        ration_clock_manual_set(&manual, events[index].at_ns);

        struct ration_decision decision = ration_bucket_take(
            &bucket, &limit, events[index].cost_tokens, ration_clock_now(&clock));

        print_row(&events[index], &decision);
        if (decision.verdict == RATION_ALLOW)
            allowed_tokens += events[index].cost_tokens;
    }
    printf("%14s %5" PRIu64 "  allowed\n\n", "", allowed_tokens);
    return true;
}

int main(void)
{
    colour = isatty(STDOUT_FILENO) && getenv("NO_COLOR") == NULL;
    for (size_t index = 0; index < sizeof(examples) / sizeof(examples[0]); index++) {
        if (!show(&examples[index]))
            return 1;
    }
    printf(
        "Next:\n"
        "    build/ration limit 20 per 100ms burst 100    explains a limit, or what is wrong with "
        "it\n"
        "    build/ration clock                           lists the clocks, and what a read costs\n"
        "    make test                                    runs all tests\n");
    return 0;
}
