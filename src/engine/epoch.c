#include "engine/epoch.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

/* The writer polls every 100 us, at most 100000 times (about 10 s) for each phase. */
#define POLL_NS   100000
#define POLLS_MAX 100000

ration_status ration_epoch_init(struct ration_epoch *epoch)
{
    struct ration_shards shards = ration_shards_private();
    size_t size = ration_shards_count(shards) * sizeof(struct ration_epoch_shard);
    struct ration_epoch_shard *cells = aligned_alloc(RATION_SHARD_ALIGN_BYTES, size);

    if (cells == NULL)
        return RATION_ENOMEM;
    memset(cells, 0, size);
    *epoch = (struct ration_epoch){.shards = shards, .cells = cells};
    return RATION_OK;
}

void ration_epoch_done(struct ration_epoch *epoch)
{
    free(epoch->cells);
    epoch->cells = NULL;
}

static bool is_phase_empty(const struct ration_epoch *epoch, uint32_t phase)
{
    uint64_t left = 0;
    uint64_t entered = 0;

    for (uint32_t i = 0; i < ration_shards_count(epoch->shards); i++)
        left += __atomic_load_n(&epoch->cells[i].left[phase], __ATOMIC_SEQ_CST);
    for (uint32_t i = 0; i < ration_shards_count(epoch->shards); i++)
        entered += __atomic_load_n(&epoch->cells[i].entered[phase], __ATOMIC_SEQ_CST);
    return left == entered;
}

bool ration_epoch_wait(struct ration_epoch *epoch)
{
    for (int round = 0; round < 2; round++) {
        uint32_t previous = epoch->phase;
        uint32_t polls = 0;

        __atomic_store_n(&epoch->phase, 1 - previous, __ATOMIC_SEQ_CST);
        while (!is_phase_empty(epoch, previous)) {
            if (polls++ == POLLS_MAX)
                return false;
            nanosleep(&(struct timespec){.tv_nsec = POLL_NS}, NULL);
        }
    }
    return true;
}

uint64_t ration_epoch_read(const struct ration_epoch *epoch, enum ration_epoch_count which)
{
    uint64_t sum = 0;

    for (uint32_t i = 0; i < ration_shards_count(epoch->shards); i++)
        sum += __atomic_load_n(&epoch->cells[i].counts[which], __ATOMIC_RELAXED);
    return sum;
}
