/*
 * process: the number of this process, without a system call each time.
 */
#ifndef RATION_BASE_PROCESS_H
#define RATION_BASE_PROCESS_H

#include <stdint.h>

/* getpid(), remembered. A child of fork() has its own. Never 0. */
uint64_t ration_process_id(void);

#endif
