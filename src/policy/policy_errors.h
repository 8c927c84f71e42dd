/* policy_errors: collects the errors of a policy in any order and reports them in the order of lines. */
#ifndef RATION_POLICY_POLICY_ERRORS_H
#define RATION_POLICY_POLICY_ERRORS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "policy/arena.h"
#include "ration/policy.h"

struct ration_policy_errors {
    struct ration_arena *arena; /* owns the messages */
    struct ration_policy_error errors[RATION_POLICY_ERRORS_MAX];
    size_t count;
    bool has_more;
};

/* Records an error. The message is truncated at RATION_ERROR_MESSAGE_MAX bytes. */
void ration_policy_errors_add(struct ration_policy_errors *errors, uint32_t line, uint32_t column,
                              const char *format, ...) __attribute__((format(printf, 4, 5)));

/* Calls on_error (may be NULL) once for each recorded error. */
void ration_policy_errors_report(struct ration_policy_errors *errors,
                                 ration_policy_error_func *on_error, void *context);

#endif
