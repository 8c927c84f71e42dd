/*
 * ration_bench [FILE.json]: measures every suite, prints a table and writes it to the file.
 *
 * A missed target is shown and does not fail the run: on a busy machine it may be the machine.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench.h"

static void (*const suites[])(struct bench *bench) = {
    bucket_bench,
    limiter_bench,
    peers_bench,
};

int main(int argc, char **argv)
{
    struct bench *bench = bench_create();
    int status = EXIT_SUCCESS;

    for (size_t i = 0; i < sizeof(suites) / sizeof(suites[0]); i++)
        suites[i](bench);
    bench_summary(bench);
    if (argc > 1 && !bench_write_json(bench, argv[1])) {
        fprintf(stderr, "ration_bench: %s: %s\n", argv[1], strerror(errno));
        status = EXIT_FAILURE;
    }
    bench_free(bench);
    return status;
}
