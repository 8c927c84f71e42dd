/*
 * slots: which of a cluster's 16384 slots a key is in, and who a node says has one.
 *
 *     CRC16 of the key, modulo 16384; of what is between the first { and the next }, if anything is
 */
#ifndef RATION_REDIS_SLOTS_H
#define RATION_REDIS_SLOTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "redis/url.h"

#define RATION_REDIS_SLOT_COUNT 16384

uint16_t ration_redis_slot(const char *key, size_t key_size);

/* "MOVED 3999 10.0.0.5:6381", as an error that was answered. */
struct ration_redis_redirect {
    bool is_ask; /* else moved: for good */
    uint16_t slot;
    struct ration_redis_address address; /* host "": that of the node that said so */
};

/* False: the error is none of these. */
bool ration_redis_redirect_read(const char *error, struct ration_redis_redirect *out_redirect);

#endif
