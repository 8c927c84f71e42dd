/*
 * wait: makes a reservation and sleeps until its start time.
 */
#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "limiter/call.h"

/* A manual or custom clock wakes no sleeping thread: it is read again at this interval. */
#define MANUAL_POLL_NS RATION_NS_PER_MS

void ration_limiter_cancel_wait(struct ration_canceller *canceller)
{
    __atomic_store_n(&canceller->is_cancelled, 1, __ATOMIC_RELEASE);
    (void)syscall(SYS_futex, &canceller->is_cancelled, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
}

static bool is_cancelled(const struct ration_canceller *canceller)
{
    return canceller != NULL && __atomic_load_n(&canceller->is_cancelled, __ATOMIC_ACQUIRE) != 0;
}

/* Sleeps for about ns nanoseconds; less if cancelled or interrupted. */
static void sleep_for(struct ration_canceller *canceller, uint64_t ns)
{
    struct ration_canceller never = {0};
    struct timespec time = {(time_t)(ns / RATION_NS_PER_SECOND), (long)(ns % RATION_NS_PER_SECOND)};

    (void)syscall(SYS_futex, canceller != NULL ? &canceller->is_cancelled : &never.is_cancelled,
                  FUTEX_WAIT, 0, &time, NULL, 0);
}

/* Returns true at ready_at_ns, false if cancelled before. */
static bool sleep_until(const struct ration_limiter *limiter, struct ration_canceller *canceller,
                        uint64_t ready_at_ns)
{
    bool is_manual =
        limiter->clock.kind == RATION_CLOCK_MANUAL || limiter->clock.kind == RATION_CLOCK_CUSTOM;

    for (;;) {
        uint64_t now_ns = ration_clock_now(&limiter->clock);
        uint64_t left_ns = ready_at_ns - now_ns;

        if (now_ns >= ready_at_ns)
            return true;
        if (is_cancelled(canceller))
            return false;
        sleep_for(canceller, is_manual && left_ns > MANUAL_POLL_NS ? MANUAL_POLL_NS : left_ns);
    }
}

ration_status ration_limiter_wait(ration_limiter *limiter, const void *request,
                                  uint64_t cost_tokens, uint64_t deadline_ns,
                                  struct ration_canceller *canceller,
                                  struct ration_decision *out_decision)
{
    uint64_t now_ns = ration_clock_now(&limiter->clock);
    uint64_t max_wait_ns = deadline_ns > now_ns ? deadline_ns - now_ns : 0;
    struct ration_reservation reservation;
    struct ration_decision decision;
    ration_status status;

    if (is_cancelled(canceller))
        return RATION_ECANCELLED;
    status = ration_limiter_reserve(limiter, request, cost_tokens, max_wait_ns, now_ns, &decision,
                                    &reservation);
    if (status != RATION_OK)
        return status;
    if (decision.verdict == RATION_ALLOW &&
        !sleep_until(limiter, canceller, reservation.ready_at_ns)) {
        (void)ration_limiter_cancel(limiter, &reservation, ration_clock_now(&limiter->clock));
        return RATION_ECANCELLED;
    }
    *out_decision = decision;
    return RATION_OK;
}
