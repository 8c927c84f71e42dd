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

#ifdef __clang_analyzer__ /* it does not look into other files: what the call returns */
#define load_fail(error, ...) ((void)(load_fail)((error), __VA_ARGS__), false)
#endif

#endif
