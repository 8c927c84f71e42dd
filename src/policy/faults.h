/*
 * faults: what is wrong with a policy, gathered in any order and told in the order of lines.
 */
#ifndef RATION_POLICY_FAULTS_H
#define RATION_POLICY_FAULTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "policy/arena.h"
#include "ration/policy.h"

struct ration_faults {
    struct ration_arena *arena; /* of the messages */
    struct ration_policy_fault faults[RATION_POLICY_FAULTS_MAX];
    size_t count;
    bool has_more;
};

/* Notes a fault. The message is cut at RATION_ERROR_MESSAGE_MAX. */
void ration_faults_add(struct ration_faults *faults, uint32_t line, uint32_t column,
                       const char *format, ...) __attribute__((format(printf, 4, 5)));

/* Tells all to fault, which may be NULL. */
void ration_faults_tell(struct ration_faults *faults, ration_policy_fault_fn *fault, void *context);

#endif
