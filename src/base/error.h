/* error: sets a status with its reason. */
#ifndef RATION_BASE_ERROR_H
#define RATION_BASE_ERROR_H

#include "ration/status.h"

/* Writes the status and the reason to error (may be NULL), and returns the status. */
ration_status ration_error_set(struct ration_error *error, ration_status status, const char *format,
                               ...) __attribute__((format(printf, 3, 4)));

#ifdef __clang_analyzer__ /* it does not look into other files: what the call returns */
#define ration_error_set(error, status, ...) \
    ((void)(ration_error_set)((error), (status), __VA_ARGS__), (status))
#endif

#endif
