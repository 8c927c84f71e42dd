#include "policy/faults.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void ration_faults_add(struct ration_faults *faults, uint32_t line, uint32_t column,
                       const char *format, ...)
{
    char message[RATION_ERROR_MESSAGE_MAX];
    va_list arguments;

    if (faults->count == RATION_POLICY_FAULTS_MAX) {
        faults->has_more = true;
        return;
    }
    va_start(arguments, format);
    vsnprintf(message, sizeof(message), format, arguments);
    va_end(arguments);
    const char *kept = ration_arena_copy(faults->arena, message, strlen(message));
    if (kept)
        faults->faults[faults->count++] = (struct ration_policy_fault){line, column, kept};
}

/* By place, and where two are at one place by what they say: an order that never varies. */
static int compare(const void *left, const void *right)
{
    const struct ration_policy_fault *a = left, *b = right;

    if (a->line != b->line)
        return a->line < b->line ? -1 : 1;
    if (a->column != b->column)
        return a->column < b->column ? -1 : 1;
    return strcmp(a->message, b->message);
}

void ration_faults_tell(struct ration_faults *faults, ration_policy_fault_fn *fault, void *context)
{
    if (!fault || faults->count == 0)
        return;
    qsort(faults->faults, faults->count, sizeof(faults->faults[0]), compare);
    for (size_t i = 0; i < faults->count; i++)
        fault(context, &faults->faults[i]);
    if (faults->has_more) {
        struct ration_policy_fault last = faults->faults[faults->count - 1];
        last.message = "and more: mend these first";
        fault(context, &last);
    }
}
