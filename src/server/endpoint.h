/*
 * endpoint: where to listen, from text to a listening socket.
 *
 *     127.0.0.1:8429   [::1]:8429    an address and a port; port 0 is any that is free
 *     *:8429           :8429         every address of the host, IPv4 and IPv6
 *     unix:/run/x.sock /run/x.sock   a Unix socket; @name is one without a file (abstract)
 *
 * Names are refused: what they resolve to may change, and with it who can connect.
 */
#ifndef RATION_SERVER_ENDPOINT_H
#define RATION_SERVER_ENDPOINT_H

#include <stdbool.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "ration/status.h"

#define RATION_ENDPOINT_TEXT_SIZE (sizeof("unix:") + sizeof(struct sockaddr_un))

struct ration_endpoint {
    struct sockaddr_storage address;
    socklen_t address_size;
    bool every; /* of all addresses: IPv4 too if the family is IPv6 */
};

/* Returns RATION_EINVAL with the fix in error (may be NULL); *out_endpoint is then untouched. */
ration_status ration_endpoint_parse(const char *text, struct ration_endpoint *out_endpoint,
                                    struct ration_error *error);

void ration_endpoint_print(const struct ration_endpoint *endpoint,
                           char buffer[RATION_ENDPOINT_TEXT_SIZE]);

static inline bool ration_endpoint_is_unix(const struct ration_endpoint *endpoint)
{
    return endpoint->address.ss_family == AF_UNIX;
}

struct ration_endpoint_options {
    bool joins;         /* a TCP port that this process already listens on; else it must be free */
    unsigned unix_mode; /* of a Unix socket's file */
    int backlog;
};

/*
 * Opens a socket that listens, non-blocking and closed on exec. The endpoint then has the port
 * that was chosen for port 0, or another family if it is every address of a host without IPv6.
 *
 * A file that an earlier server left at a Unix socket's path is replaced if nobody answers there;
 * anything else at that path is refused. The file gets unix_mode.
 */
ration_status ration_endpoint_listen(struct ration_endpoint *endpoint,
                                     const struct ration_endpoint_options *options, int *out_fd,
                                     struct ration_error *error);

/* Removes the file of a Unix socket. */
void ration_endpoint_unlink(const struct ration_endpoint *endpoint);

#endif
