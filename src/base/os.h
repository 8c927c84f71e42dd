/*
 * os: what the operating system provides: random bytes for the secrets of hashes, and the id of this process.
 */
#ifndef RATION_BASE_OS_H
#define RATION_BASE_OS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Fills bytes with random bytes. False if the operating system has none yet; bytes are then undefined. */
bool ration_os_random(void *bytes, size_t size);

/* Returns getpid(), cached. A child of fork() gets its own. Never 0. */
uint64_t ration_os_process_id(void);

#endif
