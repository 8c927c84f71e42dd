/*
 * load: a policy from a file. Nothing else in the module reads files.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "ration/policy.h"

/* Tells, for a file that cannot be read, why. */
static ration_status refuse(ration_policy_fault_fn *fault, void *context, int error)
{
    char message[256];
    struct ration_policy_fault told = {.message = message};

    snprintf(message, sizeof(message), "the file cannot be read: %s", strerror(error));
    if (fault)
        fault(context, &told);
    return RATION_EINVAL;
}

/* Reads until the end, or until there is no room. */
static bool read_all(int file, char *text, size_t room, size_t *out_size)
{
    size_t size = 0;

    while (size < room) {
        ssize_t got = read(file, text + size, room - size);
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0) {
            *out_size = size;
            return false;
        }
        if (got == 0)
            break;
        size += (size_t)got;
    }
    *out_size = size;
    return true;
}

ration_status ration_policy_load(const char *path, ration_policy_fault_fn *fault, void *context,
                                 ration_policy **out_policy)
{
    size_t room = RATION_POLICY_BYTES_MAX + 1; /* one more: ration_policy_parse() refuses it */
    ration_status status;
    size_t size = 0;
    int file = open(path, O_RDONLY | O_CLOEXEC);

    if (file < 0)
        return refuse(fault, context, errno);
    char *text = malloc(room);
    if (!text)
        status = RATION_ENOMEM;
    else if (!read_all(file, text, room, &size))
        status = refuse(fault, context, errno);
    else
        status = ration_policy_parse(text, size, fault, context, out_policy);
    if (text)
        explicit_bzero(text, size); /* a policy may hold passwords */
    free(text);
    (void)close(file);
    return status;
}
