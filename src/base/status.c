#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>

#include "base/error.h"
#include "ration/decision.h"
#include "ration/status.h"

#undef ration_error_set /* the analyzer's macro */

const char *ration_status_name(ration_status status)
{
    switch (status) {
#define NAME_CASE(name, number, text) \
    case RATION_##name:               \
        return "RATION_" #name;
        RATION_STATUS_MAP(NAME_CASE)
#undef NAME_CASE
    }
    return "RATION_UNKNOWN";
}

const char *ration_status_text(ration_status status)
{
    switch (status) {
#define TEXT_CASE(name, number, text) \
    case RATION_##name:               \
        return text;
        RATION_STATUS_MAP(TEXT_CASE)
#undef TEXT_CASE
    }
    return "unknown status";
}

const char *ration_decision_verdict_name(enum ration_verdict verdict)
{
    static const char *const names[] = {"allow", "deny", "never"};

    return (unsigned)verdict <= RATION_NEVER ? names[verdict] : "unknown";
}

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
