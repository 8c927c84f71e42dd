/*
 * status: why a call failed.
 *
 * A denial is not an error: it is a verdict in a decision (decision.h). A status other than
 * RATION_OK means that there is no decision and that the outputs are untouched.
 *
 *     struct ration_error error;
 *     if (ration_limit_parse("10 per blink", &limit, &error) != RATION_OK)
 *         fprintf(stderr, "%s, at byte %zu: %s\n", ration_status_name(error.status), error.offset, error.message);
 */
#ifndef RATION_STATUS_H
#define RATION_STATUS_H

#include <stddef.h>

#include "ration/export.h"

RATION_C_BEGIN

/* The list that the enum, the names and the texts are generated from. */
#define RATION_STATUS_MAP(X)                                                 \
    X(OK, 0, "ok")                                                           \
    X(EINVAL, -1, "invalid argument")                                        \
    X(ERANGE, -2, "outside the range that can be kept exactly")              \
    X(ENOMEM, -3, "out of memory")                                           \
    X(ENOSPC, -4, "the buffer given is too small")                           \
    X(ECLOSED, -5, "the reservation was already settled or cancelled")       \
    X(EUNSUPPORTED, -6, "this algorithm's state does not fit what holds it") \
    X(ECANCELLED, -7, "the wait was cancelled")                              \
    X(EPENDING, -8, "the store has not answered yet")                        \
    X(ESTORE, -9, "the store could not answer")

typedef enum ration_status {
#define RATION_STATUS_ENUM(name, number, text) RATION_##name = (number),
    RATION_STATUS_MAP(RATION_STATUS_ENUM)
#undef RATION_STATUS_ENUM
} ration_status;

/* Returns the name of a status ("RATION_EINVAL"), or "RATION_UNKNOWN". Static storage. */
RATION_API const char *ration_status_name(ration_status status);

/* Returns a one-line description of a status ("invalid argument"). Static storage. */
RATION_API const char *ration_status_text(ration_status status);

#define RATION_ERROR_MESSAGE_MAX 512

/*
 * Explains an error to a person: what is wrong, where, and what would be valid. A caller that wants
 * the explanation passes a pointer to a struct of its own; every function also accepts NULL. The
 * struct is written only on failure.
 */
struct ration_error {
    ration_status status;
    size_t offset; /* byte offset of the error in the text; 0 if there is no text */
    char message[RATION_ERROR_MESSAGE_MAX];
};

RATION_C_END

#endif
