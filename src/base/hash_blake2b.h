/*
 * hash_blake2b: BLAKE2b with 256 bits of output and an optional key (RFC 7693).
 *
 * A cryptographic hash: finding two messages with the same hash is infeasible, even without a
 * secret key. SipHash and the hash of tables guarantee that only while their key is secret, so they
 * cannot name keys for which many nodes must compute the same name.
 *
 * Written out here although libraries have it, for the same reason as SipHash: 60 lines, and the
 * tests check it against the vectors of the RFC and its authors.
 */
#ifndef RATION_BASE_HASH_BLAKE2B_H
#define RATION_BASE_HASH_BLAKE2B_H

#include <stddef.h>
#include <stdint.h>

#define RATION_BLAKE2B_SIZE    32
#define RATION_BLAKE2B_KEY_MAX 64

/*
 * key may be NULL if key_size is 0: then the hash has no key. message may be NULL if message_size
 * is 0.
 */
void ration_hash_blake2b(const void *key, size_t key_size, const void *message, size_t message_size,
                         uint8_t out_hash[RATION_BLAKE2B_SIZE]);

#endif
