/*
 * endpoint: parses the text of a listening address and opens the socket.
 *
 *     127.0.0.1:8429   [::1]:8429    an address and a port; port 0: the kernel chooses a free port
 *     *:8429           :8429         every address of the host, IPv4 and IPv6
 *     unix:/run/x.sock /run/x.sock   a Unix socket; @name is one without a file (abstract)
 *
  * Host names are refused: the addresses that they resolve to may change, and with them the clients that can connect.
 */
#ifndef RATION_SERVER_NET_ENDPOINT_H
#define RATION_SERVER_NET_ENDPOINT_H

#include <stdbool.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "ration/status.h"

#define RATION_ENDPOINT_TEXT_SIZE (sizeof("unix:") + sizeof(struct sockaddr_un))

struct ration_endpoint {
    struct sockaddr_storage address;
    socklen_t address_size;
    bool every; /* all addresses of the host: if the family is IPv6, IPv4 too */
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
    bool joins; /* this process listens on the TCP port already; false: the port must be free */
    unsigned unix_mode; /* permissions of a Unix socket's file */
    int backlog;
};

/*
 * Opens a listening socket, non-blocking and close-on-exec. Updates the endpoint: port 0 becomes the chosen port,
 * and every address of a host without IPv6 becomes IPv4.
 *
 * A socket file that an earlier server left at a Unix socket's path is replaced if no process listens on it;
 * any other file there is an error. The file gets unix_mode.
 */
ration_status ration_endpoint_listen(struct ration_endpoint *endpoint,
                                     const struct ration_endpoint_options *options, int *out_fd,
                                     struct ration_error *error);

/* Removes the file of a Unix socket. */
void ration_endpoint_unlink(const struct ration_endpoint *endpoint);

#endif
