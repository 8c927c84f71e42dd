#include "stepper.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <unistd.h>

#define EXIT_UNTRACED 70
#define CPU_SECONDS   2 /* that a child may use: it should never spin */

static uint64_t total;

static void stop(const char *what)
{
    perror(what);
    abort();
}

struct stage *stage_create(void)
{
    void *memory =
        mmap(NULL, sizeof(struct stage), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

    if (memory == MAP_FAILED)
        stop("mmap");
    return memory;
}

uint64_t stepper_total(void)
{
    return total;
}

static void perform(struct stage *stage, void (*act)(void *context), void *context)
{
    setrlimit(RLIMIT_CPU, &(struct rlimit){CPU_SECONDS, CPU_SECONDS + 1});
    if (ptrace(PTRACE_TRACEME, 0, NULL, NULL) != 0)
        _exit(EXIT_UNTRACED);
    __asm__ volatile("int3"); /* stops here */
    act(context);
    __atomic_store_n(&stage->is_done, 1, __ATOMIC_SEQ_CST);
    _exit(0);
}

/* Waits until the child stops by this signal. False if it does anything else. */
static bool wait_for(const struct stepper *stepper, int signal_number)
{
    int status;

    while (waitpid(stepper->pid, &status, __WALL) != stepper->pid)
        if (errno != EINTR)
            stop("waitpid");
    return WIFSTOPPED(status) && WSTOPSIG(status) == signal_number;
}

static void resume(const struct stepper *stepper)
{
    if (ptrace(PTRACE_CONT, stepper->pid, NULL, NULL) != 0)
        stop("ptrace");
}

bool stepper_start(struct stepper *stepper, struct stage *stage, void (*act)(void *context),
                   void *context)
{
    *stage = (struct stage){0};
    *stepper = (struct stepper){.stage = stage, .pid = fork()};
    if (stepper->pid < 0)
        stop("fork");
    if (stepper->pid == 0)
        perform(stage, act, context);
    if (!wait_for(stepper, SIGTRAP))
        return false;
    if (ptrace(PTRACE_SETOPTIONS, stepper->pid, NULL, PTRACE_O_EXITKILL) != 0)
        stop("ptrace");
    return true;
}

bool stepper_step(struct stepper *stepper)
{
    if (__atomic_load_n(&stepper->stage->is_done, __ATOMIC_SEQ_CST))
        return false;
    if (ptrace(PTRACE_SINGLESTEP, stepper->pid, NULL, NULL) != 0)
        stop("ptrace");
    if (!wait_for(stepper, SIGTRAP))
        stop("an operation crashes by itself");
    stepper->step_count++;
    total++;
    return true;
}

static long register_offset(void)
{
    return (long)offsetof(struct user_regs_struct, rip);
}

uint64_t stepper_address(const struct stepper *stepper)
{
    return (uint64_t)ptrace(PTRACE_PEEKUSER, stepper->pid, register_offset(), NULL);
}

static int compare_addresses(const void *left, const void *right)
{
    const uint64_t *a = *(const uint64_t *const *)left;
    const uint64_t *b = *(const uint64_t *const *)right;

    if (*a != *b)
        return *a < *b ? -1 : 1;
    return a < b ? -1 : a > b;
}

static void find_before(struct trace *trace)
{
    const uint64_t **order = malloc((trace->step_count + 1) * sizeof(*order));

    if (order == NULL)
        stop("malloc");
    for (size_t i = 0; i <= trace->step_count; i++)
        order[i] = &trace->at[i];
    qsort(order, trace->step_count + 1, sizeof(*order), compare_addresses);
    for (size_t i = 0; i <= trace->step_count; i++) {
        bool is_again = i > 0 && *order[i] == *order[i - 1];

        trace->before[order[i] - trace->at] =
            is_again ? (size_t)(order[i - 1] - trace->at) : TRACE_NEVER;
    }
    free(order);
}

void trace_close(struct trace *trace, size_t step_count)
{
    trace->step_count = step_count;
    find_before(trace);
    trace->hops[0] = 0;
    for (size_t n = 1; n <= step_count; n++) {
        size_t first = trace->before[n] == TRACE_NEVER ? 0 : trace->before[n] + 1;

        trace->hops[n] = SIZE_MAX;
        for (size_t i = first; i < n && trace_is_boundary(trace, n); i++)
            if (trace->hops[i] < SIZE_MAX && trace->hops[i] + 1 < trace->hops[n]) {
                trace->hops[n] = trace->hops[i] + 1;
                trace->from[n] = i;
            }
    }
}

/* Runs to an address other than the current one. The child's code is the same as this process's. */
static bool run_to(const struct stepper *stepper, uint64_t address)
{
    unsigned long code;

    memcpy(&code, (const void *)(uintptr_t)address, sizeof(code));
    if (ptrace(PTRACE_POKETEXT, stepper->pid, address, (code & ~0xFFul) | 0xCC) != 0)
        stop("ptrace");
    resume(stepper);
    return wait_for(stepper, SIGTRAP) && stepper_address(stepper) == address + 1 &&
           ptrace(PTRACE_POKETEXT, stepper->pid, address, code) == 0 &&
           ptrace(PTRACE_POKEUSER, stepper->pid, register_offset(), address) == 0;
}

bool stepper_forward(struct stepper *stepper, const struct trace *trace, size_t n)
{
    if (n == 0)
        return stepper_address(stepper) == trace->at[0];
    if (!stepper_forward(stepper, trace, trace->from[n]) || !run_to(stepper, trace->at[n]))
        return false;
    stepper->step_count = n;
    return true;
}

void stepper_kill_unreaped(struct stepper *stepper)
{
    siginfo_t info;

    kill(stepper->pid, SIGKILL);
    while (waitid(P_PID, (id_t)stepper->pid, &info, WEXITED | WNOWAIT) != 0 && errno == EINTR)
        ;
}

void stepper_kill(struct stepper *stepper)
{
    int status;

    kill(stepper->pid, SIGKILL);
    do {
        if (waitpid(stepper->pid, &status, __WALL) < 0 && errno != EINTR)
            stop("waitpid");
    } while (!WIFSIGNALED(status) && !WIFEXITED(status));
}

bool stepper_finish(struct stepper *stepper)
{
    int status = 0;

    resume(stepper);
    while (waitpid(stepper->pid, &status, __WALL) != stepper->pid)
        if (errno != EINTR)
            stop("waitpid");
    if (WIFSTOPPED(status)) { /* by a failure, or by its CPU limit */
        stepper_kill(stepper);
        return false;
    }
    return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}
