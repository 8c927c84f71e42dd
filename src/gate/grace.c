#include "gate/grace.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

/* How long is waited for readers, in steps of a tenth of a millisecond. */
#define STEP_NS   100000
#define STEPS_MAX 100000

ration_status ration_grace_init(struct ration_grace *grace)
{
    struct ration_shards shards = ration_shards_private();
    size_t size = ration_shards_count(shards) * sizeof(struct ration_grace_shard);
    struct ration_grace_shard *cells = aligned_alloc(RATION_SHARD_ALIGN_BYTES, size);

    if (cells == NULL)
        return RATION_ENOMEM;
    memset(cells, 0, size);
    *grace = (struct ration_grace){.shards = shards, .cells = cells};
    return RATION_OK;
}

void ration_grace_done(struct ration_grace *grace)
{
    free(grace->cells);
    grace->cells = NULL;
}

static bool is_empty(const struct ration_grace *grace, uint32_t phase)
{
    uint64_t left = 0;
    uint64_t entered = 0;

    for (uint32_t i = 0; i < ration_shards_count(grace->shards); i++)
        left += __atomic_load_n(&grace->cells[i].left[phase], __ATOMIC_SEQ_CST);
    for (uint32_t i = 0; i < ration_shards_count(grace->shards); i++)
        entered += __atomic_load_n(&grace->cells[i].entered[phase], __ATOMIC_SEQ_CST);
    return left == entered;
}

bool ration_grace_wait(struct ration_grace *grace)
{
    for (int turn = 0; turn < 2; turn++) {
        uint32_t before = grace->phase;
        uint32_t steps = 0;

        __atomic_store_n(&grace->phase, 1 - before, __ATOMIC_SEQ_CST);
        while (!is_empty(grace, before)) {
            if (steps++ == STEPS_MAX)
                return false;
            nanosleep(&(struct timespec){.tv_nsec = STEP_NS}, NULL);
        }
    }
    return true;
}

uint64_t ration_grace_read(const struct ration_grace *grace, enum ration_grace_count which)
{
    uint64_t sum = 0;

    for (uint32_t i = 0; i < ration_shards_count(grace->shards); i++)
        sum += __atomic_load_n(&grace->cells[i].counts[which], __ATOMIC_RELAXED);
    return sum;
}
