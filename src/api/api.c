/*
 * api: the exported functions that combine modules which must not depend on each other.
 *
 * A function that one module can implement alone is exported from that module: a wrapper would add a call to a
 * path of a few nanoseconds, and nothing for the reader.
 */
#include "ration/ration.h"

bool ration_bucket_allow(struct ration_bucket *bucket, const struct ration_limit *limit)
{
    return ration_bucket_allow_at(bucket, limit, 1, ration_clock_default_now());
}

#define TEXT_OF(number)  #number
#define VERSION(a, b, c) TEXT_OF(a) "." TEXT_OF(b) "." TEXT_OF(c)

const char *ration_version(void)
{
    return VERSION(RATION_VERSION_MAJOR, RATION_VERSION_MINOR, RATION_VERSION_PATCH);
}
