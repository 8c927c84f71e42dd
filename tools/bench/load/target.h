/*
 * target: the address of the server under load. Only this host, unless --allow-remote is passed.
 *
 *     127.0.0.1:6429   [::1]:8429   localhost:80   unix:/run/ration.sock
 */
#ifndef RATION_LOAD_TARGET_H
#define RATION_LOAD_TARGET_H

#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

#include "load/load_error.h"

#define LOAD_TARGET_TEXT_SIZE 128

struct load_target {
    struct sockaddr_storage address;
    socklen_t address_size;
    bool is_loopback;                 /* also true for a Unix socket */
    char text[LOAD_TARGET_TEXT_SIZE]; /* as passed by the user */
};

/* Parses one of the texts above. Names other than localhost are not resolved. */
bool load_target_parse(const char *text, struct load_target *out_target, struct load_error *error);

/* Opens a non-blocking connection. Its descriptor is owned by the caller. */
bool load_target_connect(const struct load_target *target, int *out_socket,
                         struct load_error *error);

#endif
