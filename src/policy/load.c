/* load: loads a policy from a file. No other file of this module reads files. */
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "ration/policy.h"

/* Reports why a file cannot be read. */
static ration_status report_read_error(ration_policy_error_func *on_error, void *context, int error)
{
    char message[256];
    struct ration_policy_error read_error = {.message = message};

    snprintf(message, sizeof(message), "the file cannot be read: %s", strerror(error));
    if (on_error)
        on_error(context, &read_error);
    return RATION_EINVAL;
}

/* Reads until the end of the file, or until the buffer is full. */
static bool read_file(int file, char *text, size_t text_size_max, size_t *out_size)
{
    size_t size = 0;

    while (size < text_size_max) {
        ssize_t received = read(file, text + size, text_size_max - size);
        if (received < 0 && errno == EINTR)
            continue;
        if (received < 0) {
            *out_size = size;
            return false;
        }
        if (received == 0)
            break;
        size += (size_t)received;
    }
    *out_size = size;
    return true;
}

ration_status ration_policy_load(const char *path, ration_policy_error_func *on_error,
                                 void *context, ration_policy **out_policy)
{
    size_t text_size_max =
        RATION_POLICY_BYTES_MAX + 1; /* one byte more than ration_policy_parse() accepts */
    ration_status status;
    size_t size = 0;
    int file = open(path, O_RDONLY | O_CLOEXEC);

    if (file < 0)
        return report_read_error(on_error, context, errno);
    char *text = malloc(text_size_max);
    if (!text)
        status = RATION_ENOMEM;
    else if (!read_file(file, text, text_size_max, &size))
        status = report_read_error(on_error, context, errno);
    else
        status = ration_policy_parse(text, size, on_error, context, out_policy);
    if (text)
        explicit_bzero(text, size); /* a policy may contain passwords */
    free(text);
    (void)close(file);
    return status;
}
