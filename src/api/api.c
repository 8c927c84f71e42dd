/*
 * api: the exported functions that join modules which must not know each other.
 *
 * Functions that one module can answer alone are exported from there: a wrapper would add a
 * call to a path of a few nanoseconds and nothing to read.
 */
#include "ration/ration.h"

bool ration_bucket_allow(struct ration_bucket *bucket, const struct ration_limit *limit)
{
    return ration_bucket_allow_at(bucket, limit, 1, ration_now());
}

#define TEXT_OF(number)  #number
#define VERSION(a, b, c) TEXT_OF(a) "." TEXT_OF(b) "." TEXT_OF(c)

const char *ration_version(void)
{
    return VERSION(RATION_VERSION_MAJOR, RATION_VERSION_MINOR, RATION_VERSION_PATCH);
}
