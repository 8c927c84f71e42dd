/*
 * A worker that runs 40 jobs at 200 per second, the first five at once.
 *
 *     worker             sleeps until each job may start: 175 ms in all
 *     worker --manual    the same on a manual clock, which is set instead, as in a test
 *
 * A reservation says when its job may start, so the worker sleeps once per job and never retries. ready_at_ns is a
 * time of the clock that now_ns came from: with CLOCK_MONOTONIC, clock_nanosleep() takes it as it is.
 */
#include <errno.h>
#include <inttypes.h>
#include <ration/ration.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#define JOBS_COUNT  40
#define WAIT_NS_MAX RATION_NS_PER_SECOND /* a job that would wait longer is denied */

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

/* Runs a job when its tokens are available. Returns false if it was denied. */
static bool run_job(struct ration_bucket *bucket, const struct ration_limit *limit,
                    const struct ration_clock *clock, int job, uint64_t start_ns)
{
    struct ration_bucket_reservation reservation;
    struct ration_decision decision =
        ration_bucket_reserve(bucket, limit, 1, WAIT_NS_MAX, ration_clock_now(clock), &reservation);

    if (decision.verdict != RATION_ALLOW)
        return false;
    if (decision.delay_ns > 0)
        wait_until(clock, reservation.ready_at_ns);

    uint64_t since_us = (ration_clock_now(clock) - start_ns) / RATION_NS_PER_US;

    printf("job %2d at %3" PRIu64 ".%03" PRIu64 " ms\n", job, since_us / 1000, since_us % 1000);
    return true;
}

int main(int argument_count, char **arguments)
{
    bool is_manual = argument_count == 2 && strcmp(arguments[1], "--manual") == 0;
    struct ration_clock clock = is_manual ? ration_clock_manual(&manual) : ration_clock_monotonic();
    struct ration_bucket bucket = {{0, 0}};
    struct ration_limit limit;

    if (argument_count > 1 && !is_manual) {
        fprintf(stderr, "usage: worker [--manual]\n");
        return 2;
    }
    if (ration_limit_parse("200/s burst 5", &limit, NULL) != RATION_OK)
        return 1;

    uint64_t start_ns = ration_clock_now(&clock);

    for (int job = 1; job <= JOBS_COUNT; job++) {
        if (!run_job(&bucket, &limit, &clock, job, start_ns))
            return 1;
    }

    uint64_t passed_ns = ration_clock_now(&clock) - start_ns;
    uint64_t min_ns = (JOBS_COUNT - limit.burst) * limit.period_ns / limit.tokens;

    printf("%s\n", passed_ns >= min_ns ? "on time" : "TOO EARLY");
    return passed_ns >= min_ns ? 0 : 1;
}
