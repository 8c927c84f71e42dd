/*
 * slots: maps a key to one of the 16384 slots of a cluster, and reads redirections to the node that owns one.
 *
 *     slot = CRC16(key) modulo 16384; only the part between the first { and the next } is hashed, if it is not empty
 */
#ifndef RATION_REDIS_SLOTS_H
#define RATION_REDIS_SLOTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "redis/url.h"

#define RATION_REDIS_SLOT_COUNT 16384

uint16_t ration_redis_slot(const char *key, size_t key_size);

/* A redirection: an error reply such as "MOVED 3999 10.0.0.5:6381". */
struct ration_redis_redirect {
    bool is_ask; /* ASK, for this request only; else MOVED, permanently */
    uint16_t slot;
    struct ration_redis_address address; /* host "": the host of the node that replied */
};

/* False: the error is not a redirection. */
bool ration_redis_redirect_read(const char *error, struct ration_redis_redirect *out_redirect);

#endif
