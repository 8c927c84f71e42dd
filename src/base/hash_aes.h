/* hash_aes: the keyed hash by AES instructions. What it computes and why is told in hash.h. */
#ifndef RATION_BASE_HASH_AES_H
#define RATION_BASE_HASH_AES_H

#include "base/hash.h"

/* Whether this machine has the instructions. */
bool ration_hash_aes_usable(void);

/* Only where it is usable. */
struct ration_hash ration_hash_aes(const struct ration_hash_secret *secret, const void *key,
                                   size_t key_size);

#endif
