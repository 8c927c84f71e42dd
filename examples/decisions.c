/*
 * What limits decide, row by row: the same requests under four limits, on a manual clock.
 *
 * Prints the same bytes each time; on a terminal verdicts are coloured, unless NO_COLOR is set.
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
    {0, 1},            /* five tokens are there, not six */
    {200 * MS - 1, 1}, /* one nanosecond before one is back */
    {200 * MS, 1},     /* as told */
    {600 * MS, 2},
    {1000 * MS, 4},
    {1400 * MS, 4}, /* as told */
    {1400 * MS, 6}, /* more than a full bucket holds */
    {2400 * MS, 5},
};

#define EVENTS_COUNT (sizeof(events) / sizeof(events[0]))

struct scene {
    const char *limit_text;
    const char *title;
    const char *idea;
};

static const struct scene scenes[] = {
    {"5/s burst 5", "token bucket", "a token comes back every 200 ms; at most 5 are saved up"},
    {"5/s refill interval", "token bucket, by interval",
     "all 5 come back together, 1 s after the take that found it full"},
    {"5/s leaky_queue", "leaky queue", "nobody is refused who fits: \"go after\" spaces them out"},
    {"5/s sliding_window", "sliding window",
     "5 per second, the window before counted by the part still in sight"},
};

static bool colour;

/* "-" for nothing, else whole nanoseconds, or milliseconds with the decimals they need. */
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
    char at[32], go[32], retry[32], reset[32];

    printf("%14s %5" PRIu64 "  ", event->at_ns == 0 ? "0 ms" : duration(event->at_ns, at),
           event->cost_tokens);
    print_verdict(decision->verdict);
    printf(" %5" PRIu64 "  %8s  %14s  %14s   ", decision->remaining,
           duration(decision->delay_ns, go), duration(decision->retry_after_ns, retry),
           duration(decision->reset_after_ns, reset));
    print_bar(decision);
    printf("\n");
}

static bool show(const struct scene *scene)
{
    struct ration_manual_clock manual = {0};
    struct ration_clock clock = ration_clock_manual(&manual);
    struct ration_bucket bucket = {{0, 0}};
    struct ration_limit limit;
    uint64_t admitted_tokens = 0;

    if (ration_limit_parse(scene->limit_text, &limit, NULL) != RATION_OK)
        return false;
    printf("%s: %s\n%s\n\n", scene->title, scene->limit_text, scene->idea);
    printf(
        "          time  cost  verdict  left  go after     retry after     reset after   fill\n");
    for (size_t index = 0; index < EVENTS_COUNT; index++) {
        ration_clock_manual_set(&manual, events[index].at_ns);

        struct ration_decision decision = ration_bucket_take(
            &bucket, &limit, events[index].cost_tokens, ration_clock_now(&clock));

        print_row(&events[index], &decision);
        if (decision.verdict == RATION_ALLOW)
            admitted_tokens += events[index].cost_tokens;
    }
    printf("%14s %5" PRIu64 "  admitted\n\n", "", admitted_tokens);
    return true;
}

int main(void)
{
    colour = isatty(STDOUT_FILENO) && getenv("NO_COLOR") == NULL;
    for (size_t index = 0; index < sizeof(scenes) / sizeof(scenes[0]); index++) {
        if (!show(&scenes[index]))
            return 1;
    }
    printf(
        "Next:\n"
        "    build/ration limit 20 per 100ms burst 100    what a limit means, or why it cannot be\n"
        "    build/ration clock                           the clocks, and what a read costs\n"
        "    make test                                    every test, in every build\n");
    return 0;
}
