/* ration bench: reads the options, runs the load (tools/bench/load/), and reports. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "bench_options.h"
#include "command.h"
#include "load/escape.h"
#include "load/load.h"
#include "load/report.h"

#define CLEAR_LINE "\r\033[K"

static void print_progress(void *context, uint64_t answered_count, uint64_t elapsed_ns)
{
    double seconds = (double)elapsed_ns / 1e9;

    (void)context;
    fprintf(stderr, CLEAR_LINE "%.1f s  %" PRIu64 " answers  %.0f/s", seconds, answered_count,
            seconds > 0 ? (double)answered_count / seconds : 0);
    fflush(stderr);
}

static int print_failure(const struct load_error *error)
{
    char shown[2 * sizeof(error->message)];

    fprintf(stderr, "ration bench: %s\n",
            load_escape(error->message, strlen(error->message), shown, sizeof(shown)));
    return EXIT_USAGE;
}

static bool write_report(const struct bench_options *options, const struct load_result *result,
                         struct load_error *error)
{
    const char *path = options->json_path;

    if (path == NULL || strcmp(path, "-") != 0)
        load_report_print(stdout, &options->plan, options->what, options->keys, result);
    return path == NULL || load_report_write_json(path, &options->plan, options->what,
                                                  options->keys, result, error);
}

int command_bench(int argument_count, char **arguments)
{
    static struct bench_options options; /* static because it is large, like the result */
    static struct load_result result;
    struct load_error error;

    if (!bench_options_read(argument_count, arguments, &options, &error))
        return print_failure(&error);
    if (options.wants_help) {
        fputs(bench_help, stdout);
        return EXIT_DONE;
    }

    bool shows_progress = !options.is_quiet && isatty(STDERR_FILENO);
    bool done =
        load_run(&options.plan, shows_progress ? print_progress : NULL, NULL, &result, &error);

    if (shows_progress)
        fputs(CLEAR_LINE, stderr);
    if (!done || !write_report(&options, &result, &error))
        return print_failure(&error);
    return result.totals.error_count > 0 ? EXIT_NO : EXIT_DONE;
}
