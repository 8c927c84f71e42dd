/* A separate file, so that a test can replace it with its own time of day. */
#include "base/wall.h"

#include <time.h>

uint64_t ration_wall_now(void)
{
    struct timespec now;

    clock_gettime(CLOCK_REALTIME, &now);
    return (uint64_t)now.tv_sec * UINT64_C(1000000000) + (uint64_t)now.tv_nsec;
}
