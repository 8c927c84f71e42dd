/*
 * index_key: computes the hash under which a value is stored in an index.
 *
 * The hash is keyed by a secret of each policy, so that clients cannot send values that collide on
 * purpose.
 */
#ifndef RATION_POLICY_INDEX_KEY_H
#define RATION_POLICY_INDEX_KEY_H

#include <stddef.h>
#include <stdint.h>

#include "base/hash.h"
#include "policy/index.h"

enum ration_index_kind { RATION_INDEX_EXACT, RATION_INDEX_START, RATION_INDEX_NETWORK };

static inline uint64_t ration_index_hash(const struct ration_index *index, const void *bytes,
                                         size_t size)
{
    return ration_hash_key(index->secret, bytes, size).words[0];
}

/* Separates equal bytes of different attributes, and of different kinds of key. */
static inline uint64_t ration_index_role(uint16_t name_index, enum ration_index_kind kind,
                                         unsigned bits)
{
    return (((uint64_t)name_index + 1) << 16 | (uint64_t)kind << 8 | bits) *
           UINT64_C(0x9E3779B97F4A7C15);
}

static inline uint64_t ration_index_text_key(const struct ration_index *index, uint16_t name_index,
                                             enum ration_index_kind kind, const void *bytes,
                                             size_t size)
{
    return ration_index_hash(index, bytes, size) ^ ration_index_role(name_index, kind, 0);
}

/* Requires that the bits of network beyond its prefix length are 0. */
static inline uint64_t ration_index_network_key(const struct ration_index *index,
                                                uint16_t name_index,
                                                const struct ration_network *network)
{
    size_t size = network->base.family == 6 ? 16 : 4;

    return ration_index_hash(index, network->base.bytes, size) ^
           ration_index_role(name_index, RATION_INDEX_NETWORK, network->bits);
}

/* How many bytes of a prefix are stored in the table; see index.h. */
static inline uint32_t ration_index_start_size(uint32_t size)
{
    if (size <= 32)
        return size;
    return (size < 256 ? size : 256) & ~UINT32_C(7);
}

#endif
