#include "policy/policy_errors.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void ration_policy_errors_add(struct ration_policy_errors *errors, uint32_t line, uint32_t column,
                              const char *format, ...)
{
    char message[RATION_ERROR_MESSAGE_MAX];
    va_list arguments;

    if (errors->count == RATION_POLICY_ERRORS_MAX) {
        errors->has_more = true;
        return;
    }
    va_start(arguments, format);
    vsnprintf(message, sizeof(message), format, arguments);
    va_end(arguments);
    const char *copy = ration_arena_copy(errors->arena, message, strlen(message));
    if (copy)
        errors->errors[errors->count++] = (struct ration_policy_error){line, column, copy};
}

/* Orders errors by position, then by message, so that the order is always the same. */
static int compare_errors(const void *left, const void *right)
{
    const struct ration_policy_error *a = left, *b = right;

    if (a->line != b->line)
        return a->line < b->line ? -1 : 1;
    if (a->column != b->column)
        return a->column < b->column ? -1 : 1;
    return strcmp(a->message, b->message);
}

void ration_policy_errors_report(struct ration_policy_errors *errors,
                                 ration_policy_error_func *on_error, void *context)
{
    if (!on_error || errors->count == 0)
        return;
    qsort(errors->errors, errors->count, sizeof(errors->errors[0]), compare_errors);
    for (size_t i = 0; i < errors->count; i++)
        on_error(context, &errors->errors[i]);
    if (errors->has_more) {
        struct ration_policy_error last = errors->errors[errors->count - 1];
        last.message = "and more: fix these first";
        on_error(context, &last);
    }
}
