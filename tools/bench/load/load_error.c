#include "load/load_error.h"

#include <stdarg.h>
#include <stdio.h>

#undef load_fail /* the analyzer's macro */

bool load_fail(struct load_error *error, const char *format, ...)
{
    va_list arguments;

    va_start(arguments, format);
    vsnprintf(error->message, sizeof(error->message), format, arguments);
    va_end(arguments);
    return false;
}
