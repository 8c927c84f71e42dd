#include "load/keys.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/random.h"
#include "base/units.h"

/* Zipf ----------------------------------------------------------------------------------- */

/* log(1 + x) / x and (exp(x) - 1) / x, accurate near 0, where both are 1. */
static double log_ratio(double x)
{
    return fabs(x) > 1e-8 ? log1p(x) / x : 1 - x / 2;
}

static double exp_ratio(double x)
{
    return fabs(x) > 1e-8 ? expm1(x) / x : 1 + x / 2;
}

/* The curve h(x) = 1 / x^S, its integral H(x) from 1, and the inverse of H. */
static double curve_at(double exponent, double x)
{
    return exp(-exponent * log(x));
}

static double area_to(double exponent, double x)
{
    return exp_ratio((1 - exponent) * log(x)) * log(x);
}

static double area_inverse(double exponent, double given_area)
{
    double t = given_area * (1 - exponent);

    if (t < -1) /* rounding error at the far end */
        t = -1;
    return exp(log_ratio(t) * given_area);
}

static void prepare_zipf(struct load_keys *keys)
{
    double exponent = keys->exponent;

    keys->area_first = area_to(exponent, 1.5) - 1;
    keys->area_last = area_to(exponent, (double)keys->count + 0.5);
    keys->accept_within =
        2 - area_inverse(exponent, area_to(exponent, 2.5) - curve_at(exponent, 2));
}

/* Returns a number in [0, 1). */
static double random_fraction(uint64_t *random_state)
{
    return (double)(ration_random_next(random_state) >> 11) * 0x1p-53;
}

/* At least 6 of 10 points are accepted, whatever the exponent, so the loop is short. */
static uint64_t sample_zipf(const struct load_keys *keys, uint64_t *random_state)
{
    for (;;) {
        double point =
            keys->area_last + random_fraction(random_state) * (keys->area_first - keys->area_last);
        double x = area_inverse(keys->exponent, point);
        double rank = floor(x + 0.5);

        if (rank < 1)
            rank = 1;
        else if (rank > (double)keys->count)
            rank = (double)keys->count;
        if (rank - x <= keys->accept_within ||
            point >= area_to(keys->exponent, rank + 0.5) - curve_at(keys->exponent, rank))
            return (uint64_t)rank - 1;
    }
}

uint64_t load_keys_draw(const struct load_keys *keys, uint64_t *random_state)
{
    switch (keys->kind) {
    case LOAD_KEYS_UNIFORM:
        return ration_random_up_to(random_state, keys->count - 1);
    case LOAD_KEYS_ZIPF:
        return sample_zipf(keys, random_state);
    default:
        return 0;
    }
}

/* Text ----------------------------------------------------------------------------------- */

static bool parse_exponent(const char *text, double *out_exponent, struct load_error *error)
{
    char *end;
    double exponent = strtod(text, &end);

    if (end == text || *end != '\0' || !(exponent > 0) || exponent > LOAD_KEYS_EXPONENT_MAX)
        return load_fail(error, "Zipf's exponent is above 0 and at most %g (got '%s')",
                         LOAD_KEYS_EXPONENT_MAX, text);
    *out_exponent = exponent;
    return true;
}

static bool parse_count(const char *text, size_t size, uint64_t count_max, uint64_t *out_count,
                        struct load_error *error)
{
    uint64_t count;
    size_t used;
    struct ration_error why;

    if (ration_units_parse_count(text, size, &count, &used, &why) != RATION_OK)
        return load_fail(error, "--keys: %s", why.message);
    if (used != size || count < 1 || count > count_max)
        return load_fail(error, "--keys takes 1 to %" PRIu64 " keys (got '%.*s')", count_max,
                         (int)size, text);
    *out_count = count;
    return true;
}

static bool parse_zipf(const char *text, struct load_keys *out_keys, struct load_error *error)
{
    struct load_keys keys = {.kind = LOAD_KEYS_ZIPF, .exponent = LOAD_KEYS_EXPONENT};
    const char *colon = strchrnul(text, ':');

    if (!parse_count(text, (size_t)(colon - text), LOAD_KEYS_ZIPF_COUNT_MAX, &keys.count, error))
        return false;
    if (*colon == ':' && !parse_exponent(colon + 1, &keys.exponent, error))
        return false;
    prepare_zipf(&keys);
    *out_keys = keys;
    return true;
}

bool load_keys_parse(const char *text, struct load_keys *out_keys, struct load_error *error)
{
    if (strcmp(text, "one") == 0) {
        *out_keys = (struct load_keys){.kind = LOAD_KEYS_ONE, .count = 1};
        return true;
    }
    if (strncmp(text, "uniform:", 8) == 0) {
        struct load_keys keys = {.kind = LOAD_KEYS_UNIFORM};

        if (!parse_count(text + 8, strlen(text + 8), LOAD_KEYS_COUNT_MAX, &keys.count, error))
            return false;
        *out_keys = keys;
        return true;
    }
    if (strncmp(text, "zipf:", 5) == 0)
        return parse_zipf(text + 5, out_keys, error);
    return load_fail(error, "--keys is one, uniform:N or zipf:N[:S] (got '%s')", text);
}
