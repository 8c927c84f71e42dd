/*
 * keys: chooses the key of each request.
 *
 *     one             always key 0
 *     uniform:N       one of N keys, all with the same probability
 *     zipf:N[:S]      one of N keys, the k-th with a share of 1 / k^S (S is 0.99 by default)
 *
 * Popularity often follows Zipf's law: with 1 000 000 keys and S = 0.99 the first key has 6.5 % of
 * the requests, and half of them go to the first 1000. Keys are sampled by rejection-inversion
 * (Hoermann and Derflinger, 1996): a point under the smooth curve 1 / x^S, found by inverting its
 * integral, is rounded to a key and rarely rejected. There is no table, and the time is the same
 * for any N.
 */
#ifndef RATION_LOAD_KEYS_H
#define RATION_LOAD_KEYS_H

#include <stdint.h>

#include "load/load_error.h"

#define LOAD_KEYS_COUNT_MAX    UINT64_C(1000000000000) /* the largest number that fits in 12 digits */
#define LOAD_KEYS_EXPONENT     0.99
#define LOAD_KEYS_EXPONENT_MAX 10.0
#define LOAD_KEYS_ZIPF_COUNT_MAX \
    UINT64_C(4294967296) /* within this range doubles are exact enough */

enum load_keys_kind { LOAD_KEYS_ONE, LOAD_KEYS_UNIFORM, LOAD_KEYS_ZIPF };

struct load_keys {
    enum load_keys_kind kind;
    uint64_t count;

    /* For Zipf only. In the paper these are H(1.5) - h(1), H(N + 0.5) and s. */
    double exponent;
    double area_first;
    double area_last;
    double accept_within;
};

/* Parses one of the texts above. On failure *out_keys is untouched. */
bool load_keys_parse(const char *text, struct load_keys *out_keys, struct load_error *error);

/* Returns the next key, from 0 to count - 1. The state is a seed that base/random.h advances. */
uint64_t load_keys_draw(const struct load_keys *keys, uint64_t *random_state);

#endif
