#include "stats/shards.h"

#include <unistd.h>

#define EXCLUSIVE_PER_CPU 2u
#define EXCLUSIVE_MIN     16u

/* The CPUs of this machine, rounded up to a power of two. Makes system calls. */
static uint32_t count_cpus(void)
{
    long online = sysconf(_SC_NPROCESSORS_ONLN);
    uint32_t count = 1;

    while (count < RATION_THREADS_MAX && (long)count < online)
        count *= 2;
    return count;
}

struct ration_shards ration_shards_private(void)
{
    uint32_t wanted = count_cpus() * EXCLUSIVE_PER_CPU;

    if (wanted < EXCLUSIVE_MIN)
        wanted = EXCLUSIVE_MIN;
    if (wanted > RATION_THREADS_MAX)
        wanted = RATION_THREADS_MAX;
    return (struct ration_shards){wanted, wanted / 2};
}

struct ration_shards ration_shards_common(void)
{
    return (struct ration_shards){0, ration_shards_private().exclusive_count};
}

bool ration_shards_valid(struct ration_shards shards)
{
    return shards.exclusive_count <= RATION_THREADS_MAX && shards.shared_count > 0 &&
           shards.shared_count <= RATION_SHARDS_SHARED_MAX &&
           (shards.shared_count & (shards.shared_count - 1)) == 0;
}
