#include <inttypes.h>
#include <stdio.h>

#include "command.h"
#include "ration/ration.h"

#define READS_COUNT 200000

/* Returns the cost of a read in tenths of a nanosecond, measured with another clock. */
static uint64_t read_cost_tenths(const struct ration_clock *clock)
{
    struct ration_clock reference = ration_clock_monotonic();
    uint64_t begun_ns = ration_clock_now(&reference);

    for (int index = 0; index < READS_COUNT; index++)
        (void)ration_clock_now(clock);
    return (ration_clock_now(&reference) - begun_ns) * 10 / READS_COUNT;
}

static void print_clock(const struct ration_clock *clock, const char *note)
{
    uint64_t tenths = read_cost_tenths(clock);

    printf("%-10s %20" PRIu64 " ns   %3" PRIu64 ".%" PRIu64 " ns a read   %s\n",
           ration_clock_kind_name(clock->kind), ration_clock_now(clock), tenths / 10, tenths % 10,
           note);
}

int ration_command_clock(int argument_count, char **arguments)
{
    struct ration_clock tsc = ration_clock_tsc();
    struct ration_clock monotonic = ration_clock_monotonic();
    struct ration_clock boottime = ration_clock_boottime();
    struct ration_clock coarse = ration_clock_coarse();
    const char *tsc_problem = ration_clock_tsc_error();

    if (ration_command_asks_help(argument_count, arguments)) {
        fputs("usage: ration clock\n\n"
              "Lists the clocks of this machine, what a read costs and which is the default.\n\n"
              "Example: ration clock\n",
              stdout);
        return EXIT_DONE;
    }
    if (argument_count > 0)
        return ration_command_reject_word("ration clock",
                                          arguments[0][0] == '-' ? "option" : "argument",
                                          arguments[0], "", (const char *const[]){"--help"}, 1);
    if (tsc_problem == NULL)
        print_clock(&tsc, "the default");
    print_clock(&monotonic, tsc_problem == NULL ? "" : "the default");
    print_clock(&boottime, "counts suspend");
    print_clock(&coarse, "steps of a kernel tick");
    if (tsc_problem != NULL)
        printf("tsc is not used: %s\n", tsc_problem);
    return EXIT_DONE;
}
