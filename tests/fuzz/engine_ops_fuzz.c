/*
 * Any bytes as operations on an engine in memory: checks, charges, refunds, resets, blocks, clock steps, reloads, saves
 * and loads. support/engine_ops.h lists the checks; unit/engine/engine_state_test.c has the negative controls.
 */
#include <stdio.h>
#include <stdlib.h>

#include "base/wall.h"
#include "support/engine_ops.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

uint64_t ration_wall_now(void)
{
    return engine_ops_wall_ns;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const char *error = engine_ops_run(data, size, NULL);

    if (error == NULL)
        return 0;
    fprintf(stderr, "%s\n", error);
    abort();
}
