/*
 * wall: the time of day, for what must outlive a clock that starts anew at boot.
 */
#ifndef RATION_BASE_WALL_H
#define RATION_BASE_WALL_H

#include <stdint.h>

/* CLOCK_REALTIME: nanoseconds since 1970. */
uint64_t ration_wall_now(void);

#endif
