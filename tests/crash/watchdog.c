#include "watchdog.h"

#include <setjmp.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/time.h>
#include <unistd.h>

#define CPU_TIME_US    200000
#define ASLEEP_SECONDS 60

static const int signals[] = {SIGPROF, SIGALRM, SIGSEGV, SIGBUS, SIGFPE, SIGILL};
static sigjmp_buf way_out;

static void leave(int signal_number)
{
    bool is_hung = signal_number == SIGPROF || signal_number == SIGALRM;

    siglongjmp(way_out, is_hung ? WATCHDOG_HUNG : WATCHDOG_CRASHED);
}

/* CPU time: a busy machine must not look like a hang. */
static void set_timers(int cpu_time_us, unsigned asleep_seconds)
{
    struct itimerval timer = {.it_value = {.tv_usec = cpu_time_us}};

    setitimer(ITIMER_PROF, &timer, NULL);
    alarm(asleep_seconds);
}

enum watchdog_end watchdog_run(void (*work)(void *context), void *context)
{
    struct sigaction action = {.sa_handler = leave};
    int end;

    for (size_t i = 0; i < sizeof(signals) / sizeof(signals[0]); i++)
        sigaction(signals[i], &action, NULL);
    end = sigsetjmp(way_out, 1);
    if (end == 0) {
        set_timers(CPU_TIME_US, ASLEEP_SECONDS);
        work(context);
    }
    set_timers(0, 0);
    action.sa_handler = SIG_DFL;
    for (size_t i = 0; i < sizeof(signals) / sizeof(signals[0]); i++)
        sigaction(signals[i], &action, NULL);
    return (enum watchdog_end)end;
}
