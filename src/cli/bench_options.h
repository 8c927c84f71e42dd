/* bench_options: the options of `ration bench`. */
#ifndef RATION_CLI_BENCH_OPTIONS_H
#define RATION_CLI_BENCH_OPTIONS_H

#include "load/load.h"

/* Strings point into the arguments. */
struct bench_options {
    struct load_plan plan;
    const char *what; /* the command or path */
    const char *keys;
    const char *json_path; /* NULL: no JSON output */
    bool is_quiet;
    bool wants_help;
};

extern const char bench_help[];

/* Reads the arguments, and loads the --script into the server if there is one. */
bool bench_options_read(int argument_count, char **arguments, struct bench_options *out_options,
                        struct load_error *error);

#endif
