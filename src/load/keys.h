/*
 * keys: which key a request is for.
 *
 *     one             always key 0
 *     uniform:N       one of N, each as likely
 *     zipf:N[:S]      one of N, the k-th with a share of 1 / k^S (S is 0.99 unless given)
 *
 * Zipf's law is what popularity looks like: with 1 000 000 keys and S = 0.99 the first key has
 * 6.5 % of the requests, and half of them go to the first 1000. It is drawn by rejection-inversion
 * (Hoermann and Derflinger, 1996): a point under the smooth curve 1 / x^S, found by inverting its
 * integral, is rounded to a key and rarely refused. No table, the same time for any N.
 */
#ifndef RATION_LOAD_KEYS_H
#define RATION_LOAD_KEYS_H

#include <stdint.h>

#include "load/error.h"

#define LOAD_KEYS_COUNT_MAX      UINT64_C(1000000000000) /* what 12 digits can name */
#define LOAD_KEYS_EXPONENT       0.99
#define LOAD_KEYS_EXPONENT_MAX   10.0
#define LOAD_KEYS_ZIPF_COUNT_MAX UINT64_C(4294967296) /* doubles stay exact with room to spare */

enum load_keys_kind { LOAD_KEYS_ONE, LOAD_KEYS_UNIFORM, LOAD_KEYS_ZIPF };

struct load_keys {
    enum load_keys_kind kind;
    uint64_t count;

    /* Of Zipf alone. The names are those of the paper's H(1.5) - h(1), H(N + 0.5) and s. */
    double exponent;
    double area_first;
    double area_last;
    double accept_within;
};

/* Reads one of the texts above. On failure *out_keys is untouched. */
bool load_keys_parse(const char *text, struct load_keys *out_keys, struct load_error *error);

/* The next key, from 0 to count - 1. The state is a seed that base/random.h moves on. */
uint64_t load_keys_draw(const struct load_keys *keys, uint64_t *random_state);

#endif
