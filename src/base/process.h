/* process: the id of this process, without a system call each time. */
#ifndef RATION_BASE_PROCESS_H
#define RATION_BASE_PROCESS_H

#include <stdint.h>

/* Returns getpid(), cached. A child of fork() gets its own. Never 0. */
uint64_t ration_process_id(void);

#endif
