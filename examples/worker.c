/*
 * A worker that waits its turn: 40 jobs at 200 per second, five of them at once.
 *
 *     worker             sleeps until each turn: 175 ms in all
 *     worker --manual    the same on a clock that is set instead, as a test would do it
 *
 * A reservation takes a place in line and tells when to go, so the worker sleeps once per job and
 * never asks again. ready_at_ns is a moment of the clock that now came from: with
 * CLOCK_MONOTONIC, one that clock_nanosleep() takes as it is.
 */
#include <errno.h>
#include <inttypes.h>
#include <ration/ration.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#define JOBS_COUNT  40
#define WAIT_NS_MAX RATION_NS_PER_SECOND /* whoever would wait longer is turned away */

static struct ration_manual_clock manual;

static void wait_until(const struct ration_clock *clock, uint64_t at_ns)
{
    struct timespec at = {.tv_sec = (time_t)(at_ns / RATION_NS_PER_SECOND),
                          .tv_nsec = (long)(at_ns % RATION_NS_PER_SECOND)};

    if (clock->kind == RATION_CLOCK_MANUAL) {
        ration_clock_manual_set(&manual, at_ns);
        return;
    }
    while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &at, NULL) == EINTR)
        continue;
}

/* Runs a job in its turn. False if it was turned away. */
static bool run_job(struct ration_bucket *bucket, const struct ration_limit *limit,
                    const struct ration_clock *clock, int job, uint64_t begun_ns)
{
    struct ration_bucket_reservation turn;
    struct ration_decision decision =
        ration_bucket_reserve(bucket, limit, 1, WAIT_NS_MAX, ration_clock_now(clock), &turn);

    if (decision.verdict != RATION_ALLOW)
        return false;
    if (decision.delay_ns > 0)
        wait_until(clock, turn.ready_at_ns);

    uint64_t since_us = (ration_clock_now(clock) - begun_ns) / RATION_NS_PER_US;

    printf("job %2d at %3" PRIu64 ".%03" PRIu64 " ms\n", job, since_us / 1000, since_us % 1000);
    return true;
}

int main(int argument_count, char **arguments)
{
    bool by_hand = argument_count == 2 && strcmp(arguments[1], "--manual") == 0;
    struct ration_clock clock = by_hand ? ration_clock_manual(&manual) : ration_clock_monotonic();
    struct ration_bucket bucket = {{0, 0}};
    struct ration_limit limit;

    if (argument_count > 1 && !by_hand) {
        fprintf(stderr, "usage: worker [--manual]\n");
        return 2;
    }
    if (ration_limit_parse("200/s burst 5", &limit, NULL) != RATION_OK)
        return 1;

    uint64_t begun_ns = ration_clock_now(&clock);

    for (int job = 1; job <= JOBS_COUNT; job++) {
        if (!run_job(&bucket, &limit, &clock, job, begun_ns))
            return 1;
    }

    uint64_t took_ns = ration_clock_now(&clock) - begun_ns;
    uint64_t least_ns = (JOBS_COUNT - limit.burst) * limit.period_ns / limit.tokens;

    printf("%s\n", took_ns >= least_ns ? "on time" : "TOO EARLY");
    return took_ns >= least_ns ? 0 : 1;
}
