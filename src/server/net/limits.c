#include "server/net/limits.h"

#include <stdbool.h>

#include "base/error.h"

struct bounds {
    const char *name;
    uint32_t default_value;
    uint32_t min;
    uint32_t max;
    bool may_be_none;
};

static ration_status complete(const struct bounds *bounds, uint32_t *limit,
                              struct ration_error *error)
{
    if (*limit == 0)
        *limit = bounds->default_value;
    if (*limit == RATION_LIMIT_NONE && bounds->may_be_none)
        return RATION_OK;
    if (*limit >= bounds->min && *limit <= bounds->max)
        return RATION_OK;
    return ration_error_set(error, RATION_EINVAL, "%s must be %u to %u%s (got %u)", bounds->name,
                            bounds->min, bounds->max, bounds->may_be_none ? ", or none" : "",
                            *limit);
}

ration_status ration_server_limits_complete(const struct ration_server_limits *limits,
                                            struct ration_server_limits *out_limits,
                                            struct ration_error *error)
{
    enum { never = false, none = true };
    struct ration_server_limits completed = *limits;

#define COMPLETE(limit, default_value, min, max, may_be_none)                                      \
    if (complete(&(struct bounds){#limit, default_value, min, max, may_be_none}, &completed.limit, \
                 error) != RATION_OK)                                                              \
        return RATION_EINVAL;
    RATION_SERVER_LIMIT_MAP(COMPLETE)
#undef COMPLETE
    *out_limits = completed;
    return RATION_OK;
}
