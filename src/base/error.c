#include "base/error.h"

#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>

#undef ration_error_set /* the analyzer's macro */

ration_status ration_error_set(struct ration_error *error, ration_status status, const char *format,
                               ...)
{
    if (error != NULL) {
        va_list arguments;

        error->status = status;
        error->offset = 0;
        va_start(arguments, format);
        vsnprintf(error->message, sizeof(error->message), format, arguments);
        va_end(arguments);
    }
    return status;
}
