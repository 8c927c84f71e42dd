/*
 * status: why a call could not be carried out.
 *
 * A denial is an answer, not an error: it is a verdict inside a decision (decision.h). A status
 * other than RATION_OK means that there is no answer, and that outputs are untouched.
 */
#ifndef RATION_STATUS_H
#define RATION_STATUS_H

#include <stddef.h>

#include "ration/export.h"

RATION_C_BEGIN

/* The one list from which the enum, the names and the texts are made. */
#define RATION_STATUS_MAP(X)                                           \
    X(OK, 0, "ok")                                                     \
    X(EINVAL, -1, "invalid argument")                                  \
    X(ERANGE, -2, "outside the range that can be kept exactly")        \
    X(ENOMEM, -3, "out of memory")                                     \
    X(ENOSPC, -4, "the buffer given is too small")                     \
    X(ECLOSED, -5, "the reservation was already settled or cancelled") \
    X(EUNFIT, -6, "this algorithm's state does not fit what holds it") \
    X(ECANCELLED, -7, "the wait was cancelled")                        \
    X(EPENDING, -8, "the store has not answered yet")                  \
    X(ESTORE, -9, "the store could not answer")

typedef enum ration_status {
#define RATION_STATUS_ENUM(name, number, text) RATION_##name = (number),
    RATION_STATUS_MAP(RATION_STATUS_ENUM)
#undef RATION_STATUS_ENUM
} ration_status;

/* The name of a status ("RATION_EINVAL"), or "RATION_UNKNOWN". Static storage. */
RATION_API const char *ration_status_name(ration_status status);

/* One line about a status ("invalid argument"). Static storage. */
RATION_API const char *ration_status_text(ration_status status);

#define RATION_ERROR_MESSAGE_MAX 512

/*
 * What was wrong, where, and what would be right, for a person. A caller that wants it passes a
 * pointer to one; NULL is accepted everywhere. Written only on failure.
 */
struct ration_error {
    ration_status status;
    size_t offset; /* byte of the text at fault, 0 where there is no text */
    char message[RATION_ERROR_MESSAGE_MAX];
};

RATION_C_END

#endif
