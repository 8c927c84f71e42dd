/* process: the resources that a process has used so far. */
#ifndef RATION_LOAD_LOAD_PROCESS_H
#define RATION_LOAD_LOAD_PROCESS_H

#include <stdint.h>
#include <sys/types.h>

struct load_usage {
    uint64_t cpu_ns; /* of all its live threads */
    uint64_t resident_bytes;
};

/* All values are 0 if they cannot be read, for example because the process has exited. */
struct load_usage load_process_usage(pid_t pid);

/* CPU time of this process, user and system. */
uint64_t load_process_own_cpu_ns(void);

#endif
