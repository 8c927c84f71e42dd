#include "server/net/endpoint.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/address.h"
#include "base/error.h"

#define PORT_MAX 65535u

static const char unix_prefix[] = "unix:";

/* Text to endpoint -------------------------------------------------------------------------- */

static ration_status parse_unix(const char *path, struct ration_endpoint *out_endpoint,
                                struct ration_error *error)
{
    struct ration_endpoint endpoint = {0};
    struct sockaddr_un *address = (struct sockaddr_un *)&endpoint.address;
    size_t size = strlen(path);

    if (size < 2)
        return ration_error_set(error, RATION_EINVAL,
                                "a Unix socket needs a path: write unix:/run/ration.sock");
    if (size >= sizeof(address->sun_path))
        return ration_error_set(error, RATION_EINVAL,
                                "the path of a Unix socket has at most %zu bytes (got %zu)",
                                sizeof(address->sun_path) - 1, size);
    address->sun_family = AF_UNIX;
    memcpy(address->sun_path, path, size);
    endpoint.address_size = (socklen_t)sizeof(*address);
    if (path[0] == '@') {
        address->sun_path[0] = '\0';
        endpoint.address_size = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + size);
    }
    *out_endpoint = endpoint;
    return RATION_OK;
}

static bool parse_port(const char *text, uint16_t *out_port)
{
    unsigned port = 0;
    size_t size = strlen(text);

    if (size == 0 || size > 5)
        return false;
    for (size_t i = 0; i < size; i++) {
        if (text[i] < '0' || text[i] > '9')
            return false;
        port = port * 10 + (unsigned)(text[i] - '0');
    }
    if (port > PORT_MAX)
        return false;
    *out_port = (uint16_t)port;
    return true;
}

static void set_address(const struct ration_address *address, uint16_t port,
                        struct ration_endpoint *endpoint)
{
    if (address->family == 4) {
        struct sockaddr_in *in = (struct sockaddr_in *)&endpoint->address;

        *in = (struct sockaddr_in){.sin_family = AF_INET, .sin_port = htons(port)};
        memcpy(&in->sin_addr, address->bytes, sizeof(in->sin_addr));
        endpoint->address_size = sizeof(*in);
    } else {
        struct sockaddr_in6 *in6 = (struct sockaddr_in6 *)&endpoint->address;

        *in6 = (struct sockaddr_in6){.sin6_family = AF_INET6, .sin6_port = htons(port)};
        memcpy(&in6->sin6_addr, address->bytes, sizeof(in6->sin6_addr));
        endpoint->address_size = sizeof(*in6);
    }
}

static const char loopback_name[] = "localhost";
static const struct ration_address loopback_address = {.bytes = {127, 0, 0, 1}, .family = 4};

/* Parses the host part of host:port, size bytes: localhost, an address, one in brackets, "*" or nothing. */
static bool parse_host(const char *host, size_t size, struct ration_address *out_address,
                       bool *out_every)
{
    bool every = size == 0 || (size == 1 && host[0] == '*');
    bool bracketed = size >= 2 && host[0] == '[' && host[size - 1] == ']';

    if (every)
        *out_address = (struct ration_address){.family = 6};
    else if (size == strlen(loopback_name) && memcmp(host, loopback_name, size) == 0)
        *out_address = loopback_address;
    else if (bracketed && !ration_address_parse(host + 1, size - 2, out_address))
        return false;
    else if (!bracketed &&
             (memchr(host, ':', size) != NULL || !ration_address_parse(host, size, out_address)))
        return false;
    *out_every = every;
    return true;
}

ration_status ration_endpoint_parse(const char *text, struct ration_endpoint *out_endpoint,
                                    struct ration_error *error)
{
    struct ration_endpoint endpoint = {0};
    struct ration_address address;
    const char *colon = strrchr(text, ':');
    uint16_t port;

    if (strncmp(text, unix_prefix, strlen(unix_prefix)) == 0)
        return parse_unix(text + strlen(unix_prefix), out_endpoint, error);
    if (text[0] == '/' || text[0] == '@')
        return parse_unix(text, out_endpoint, error);
    if (parse_port(text, &port)) { /* a port alone listens on loopback */
        set_address(&loopback_address, port, &endpoint);
        *out_endpoint = endpoint;
        return RATION_OK;
    }
    if (colon == NULL || !parse_port(colon + 1, &port))
        return ration_error_set(error, RATION_EINVAL,
                                "'%.100s' has no port from 0 to %u: write 127.0.0.1:8429", text,
                                PORT_MAX);
    if (!parse_host(text, (size_t)(colon - text), &address, &endpoint.every))
        return ration_error_set(
            error, RATION_EINVAL,
            "'%.100s' is not an IP address with a port (host names are not resolved): write "
            "127.0.0.1:%u, [::1]:%u or *:%u",
            text, port, port, port);
    set_address(&address, port, &endpoint);
    *out_endpoint = endpoint;
    return RATION_OK;
}

/* Endpoint to text -------------------------------------------------------------------------- */

static void print_unix(const struct ration_endpoint *endpoint,
                       char buffer[RATION_ENDPOINT_TEXT_SIZE])
{
    const struct sockaddr_un *address = (const struct sockaddr_un *)&endpoint->address;
    size_t size = endpoint->address_size - offsetof(struct sockaddr_un, sun_path);

    if (address->sun_path[0] == '\0')
        snprintf(buffer, RATION_ENDPOINT_TEXT_SIZE, "unix:@%.*s", (int)size - 1,
                 address->sun_path + 1);
    else
        snprintf(buffer, RATION_ENDPOINT_TEXT_SIZE, "unix:%.*s", (int)size, address->sun_path);
}

void ration_endpoint_print(const struct ration_endpoint *endpoint,
                           char buffer[RATION_ENDPOINT_TEXT_SIZE])
{
    const struct sockaddr_in *in = (const struct sockaddr_in *)&endpoint->address;
    const struct sockaddr_in6 *in6 = (const struct sockaddr_in6 *)&endpoint->address;
    bool ipv6 = endpoint->address.ss_family == AF_INET6;
    struct ration_address address = {.family = ipv6 ? 6 : 4};
    char text[RATION_ADDRESS_TEXT_SIZE];

    if (ration_endpoint_is_unix(endpoint)) {
        print_unix(endpoint, buffer);
        return;
    }
    if (ipv6)
        memcpy(address.bytes, &in6->sin6_addr, sizeof(in6->sin6_addr));
    else
        memcpy(address.bytes, &in->sin_addr, sizeof(in->sin_addr));
    ration_address_print(&address, text);
    snprintf(buffer, RATION_ENDPOINT_TEXT_SIZE, ipv6 ? "[%s]:%u" : "%s:%u", text,
             ntohs(ipv6 ? in6->sin6_port : in->sin_port));
}

/* Endpoint to socket ------------------------------------------------------------------------ */

static bool has_file(const struct ration_endpoint *endpoint)
{
    return ration_endpoint_is_unix(endpoint) &&
           ((const struct sockaddr_un *)&endpoint->address)->sun_path[0] != '\0';
}

void ration_endpoint_unlink(const struct ration_endpoint *endpoint)
{
    if (has_file(endpoint))
        unlink(((const struct sockaddr_un *)&endpoint->address)->sun_path);
}

static ration_status set_listen_error(const struct ration_endpoint *endpoint, const char *what,
                                      struct ration_error *error)
{
    int saved_errno = errno;
    char text[RATION_ENDPOINT_TEXT_SIZE];

    ration_endpoint_print(endpoint, text);
    return ration_error_set(error, RATION_EINVAL, "cannot listen on %s: %s: %s", text, what,
                            strerror(saved_errno));
}

static bool has_listener(const struct ration_endpoint *endpoint)
{
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    const struct sockaddr *address = (const struct sockaddr *)&endpoint->address;
    /* ECONNREFUSED: no process listens. EAGAIN: one does, and its accept queue is full. */
    bool answers =
        fd < 0 || connect(fd, address, endpoint->address_size) == 0 || errno != ECONNREFUSED;

    if (fd >= 0)
        close(fd);
    return answers;
}

/* Removes the file of a Unix socket that a stopped server left behind. */
static ration_status clear_path(const struct ration_endpoint *endpoint, struct ration_error *error)
{
    const struct sockaddr_un *address = (const struct sockaddr_un *)&endpoint->address;
    struct stat file_status;

    if (!has_file(endpoint) || lstat(address->sun_path, &file_status) != 0)
        return RATION_OK;
    if (!S_ISSOCK(file_status.st_mode)) {
        errno = EEXIST;
        return set_listen_error(endpoint, "the file there is not a socket", error);
    }
    if (has_listener(endpoint)) {
        errno = EADDRINUSE;
        return set_listen_error(endpoint, "another server answers there", error);
    }
    if (unlink(address->sun_path) != 0)
        return set_listen_error(endpoint, "the old socket cannot be removed", error);
    return RATION_OK;
}

static bool set_option(int fd, int level, int name, int value)
{
    return setsockopt(fd, level, name, &value, sizeof(value)) == 0;
}

/* Accepted sockets inherit these options, so TCP_NODELAY costs no system call per connection. */
static bool set_tcp_options(int fd, const struct ration_endpoint *endpoint, bool shares)
{
    if (ration_endpoint_is_unix(endpoint))
        return true;
    return set_option(fd, SOL_SOCKET, SO_REUSEADDR, 1) &&
           set_option(fd, IPPROTO_TCP, TCP_NODELAY, 1) &&
           (!shares || set_option(fd, SOL_SOCKET, SO_REUSEPORT, 1)) &&
           (endpoint->address.ss_family != AF_INET6 ||
            set_option(fd, IPPROTO_IPV6, IPV6_V6ONLY, !endpoint->every));
}

/*
 * The first socket of an endpoint is bound without SO_REUSEPORT, so that a second server fails with EADDRINUSE
 * instead of receiving a share of the first one's connections. Sockets of this process may join it afterwards.
 */
static bool allow_joining(int fd, const struct ration_endpoint *endpoint)
{
    return ration_endpoint_is_unix(endpoint) || set_option(fd, SOL_SOCKET, SO_REUSEPORT, 1);
}

/* umask, not chmod: the file must not have wider permissions than unix_mode even for a short time. */
static int bind_to(int fd, const struct ration_endpoint *endpoint, unsigned unix_mode)
{
    mode_t mask = umask((mode_t)(~unix_mode & 0777));
    int result = bind(fd, (const struct sockaddr *)&endpoint->address, endpoint->address_size);
    int saved_errno = errno;

    umask(mask);
    errno = saved_errno;
    return result;
}

/* Falls back to IPv4 if the endpoint is every address and the host has no IPv6. */
static int open_socket(struct ration_endpoint *endpoint)
{
    int type = SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK;
    int fd = socket(endpoint->address.ss_family, type, 0);

    if (fd >= 0 || errno != EAFNOSUPPORT || !endpoint->every)
        return fd;
    uint16_t port = ntohs(((struct sockaddr_in6 *)&endpoint->address)->sin6_port);
    memset(&endpoint->address, 0, sizeof(endpoint->address));
    set_address(&(struct ration_address){.family = 4}, port, endpoint);
    return socket(AF_INET, type, 0);
}

ration_status ration_endpoint_listen(struct ration_endpoint *endpoint,
                                     const struct ration_endpoint_options *options, int *out_fd,
                                     struct ration_error *error)
{
    struct ration_endpoint bound = *endpoint;
    struct sockaddr *address = (struct sockaddr *)&bound.address;
    socklen_t size = sizeof(bound.address);
    ration_status status = clear_path(endpoint, error);
    int fd;

    if (status != RATION_OK)
        return status;
    fd = open_socket(&bound);
    if (fd < 0)
        return set_listen_error(endpoint, "cannot create a socket", error);
    if (!set_tcp_options(fd, &bound, options->joins) ||
        bind_to(fd, &bound, options->unix_mode) != 0 || !allow_joining(fd, &bound) ||
        listen(fd, options->backlog) != 0 ||
        (!ration_endpoint_is_unix(&bound) && getsockname(fd, address, &size) != 0)) {
        status = set_listen_error(endpoint, "bind", error);
        close(fd);
        return status;
    }
    *endpoint = bound;
    *out_fd = fd;
    return RATION_OK;
}
