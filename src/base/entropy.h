/*
 * entropy: random bytes from the operating system, for the secrets of hashes.
 */
#ifndef RATION_BASE_ENTROPY_H
#define RATION_BASE_ENTROPY_H

#include <stdbool.h>
#include <stddef.h>

/* Fills bytes with random bytes. False if the operating system has none yet; bytes are then undefined. */
bool ration_entropy_read(void *bytes, size_t size);

#endif
