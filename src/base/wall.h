/* wall: the time of day, for data that must outlive a clock that restarts at boot. */
#ifndef RATION_BASE_WALL_H
#define RATION_BASE_WALL_H

#include <stdint.h>

/* Returns CLOCK_REALTIME: nanoseconds since 1970. */
uint64_t ration_wall_now(void);

#endif
