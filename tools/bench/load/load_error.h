/* error: the reason why a load could not run, as a message for people. */
#ifndef RATION_LOAD_LOAD_ERROR_H
#define RATION_LOAD_LOAD_ERROR_H

#include <stdbool.h>

#define LOAD_ERROR_SIZE 256

struct load_error {
    char message[LOAD_ERROR_SIZE];
};

/* Writes the message, truncated if necessary, and returns false, so that callers can return it. */
bool load_fail(struct load_error *error, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

#endif
