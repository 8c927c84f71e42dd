/*
 * target: where the load goes. This host only, unless its owner says otherwise.
 *
 *     127.0.0.1:6429   [::1]:8429   localhost:80   unix:/run/ration.sock
 */
#ifndef RATION_LOAD_TARGET_H
#define RATION_LOAD_TARGET_H

#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

#include "load/error.h"

#define LOAD_TARGET_TEXT_SIZE 128

struct load_target {
    struct sockaddr_storage address;
    socklen_t address_size;
    bool is_loopback;                 /* also for a socket in the file system */
    char text[LOAD_TARGET_TEXT_SIZE]; /* as it was given */
};

/* Reads one of the texts above; names other than localhost are not looked up. */
bool load_target_parse(const char *text, struct load_target *out_target, struct load_error *error);

/* Opens a connection that does not wait. Its descriptor is owned by the caller. */
bool load_target_connect(const struct load_target *target, int *out_socket,
                         struct load_error *error);

#endif
