#include "load/target.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#define CONNECT_SECONDS_MAX 5
#define IPV4_LOOPBACK_BYTE  127

static bool parse_unix(const char *path, struct load_target *target, struct load_error *error)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};

    if (path[0] == '\0' || strlen(path) >= sizeof(address.sun_path))
        return load_fail(error, "the path of a socket has 1 to %zu bytes",
                         sizeof(address.sun_path) - 1);
    memcpy(address.sun_path, path, strlen(path));
    memcpy(&target->address, &address, sizeof(address));
    target->address_size = sizeof(address);
    target->is_loopback = true;
    return true;
}

static bool parse_ipv4(const char *host, uint16_t port, struct load_target *target)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(port)};

    if (inet_pton(AF_INET, host, &address.sin_addr) != 1)
        return false;
    memcpy(&target->address, &address, sizeof(address));
    target->address_size = sizeof(address);
    target->is_loopback = ntohl(address.sin_addr.s_addr) >> 24 == IPV4_LOOPBACK_BYTE;
    return true;
}

static bool parse_ipv6(const char *host, uint16_t port, struct load_target *target)
{
    struct sockaddr_in6 address = {.sin6_family = AF_INET6, .sin6_port = htons(port)};

    if (inet_pton(AF_INET6, host, &address.sin6_addr) != 1)
        return false;
    memcpy(&target->address, &address, sizeof(address));
    target->address_size = sizeof(address);
    target->is_loopback = IN6_IS_ADDR_LOOPBACK(&address.sin6_addr);
    return true;
}

static bool parse_port(const char *text, uint16_t *out_port)
{
    char *end;
    unsigned long port = strtoul(text, &end, 10);

    if (text[0] < '0' || text[0] > '9' || *end != '\0' || port < 1 || port > UINT16_MAX)
        return false;
    *out_port = (uint16_t)port;
    return true;
}

/* Parses HOST:PORT; an IPv6 address is written in brackets. */
static bool parse_network(const char *text, struct load_target *target, struct load_error *error)
{
    char host[LOAD_TARGET_TEXT_SIZE];
    const char *colon = strrchr(text, ':');
    size_t host_size = colon != NULL ? (size_t)(colon - text) : 0;
    uint16_t port;

    if (colon == NULL || host_size == 0 || !parse_port(colon + 1, &port))
        return load_fail(error, "'%s' is not ADDRESS:PORT or unix:/path", text);
    if (text[0] == '[' && colon[-1] == ']') {
        memcpy(host, text + 1, host_size - 2);
        host[host_size - 2] = '\0';
        if (parse_ipv6(host, port, target))
            return true;
    } else {
        memcpy(host, text, host_size);
        host[host_size] = '\0';
        if (parse_ipv4(strcmp(host, "localhost") == 0 ? "127.0.0.1" : host, port, target))
            return true;
    }
    return load_fail(error, "'%s' is not an address: write 127.0.0.1, [::1] or localhost", host);
}

bool load_target_parse(const char *text, struct load_target *out_target, struct load_error *error)
{
    struct load_target target = {0};

    if (strlen(text) >= sizeof(target.text))
        return load_fail(error, "a target has at most %zu bytes", sizeof(target.text) - 1);
    memcpy(target.text, text, strlen(text));
    if (!(strncmp(text, "unix:", 5) == 0 ? parse_unix(text + 5, &target, error)
                                         : parse_network(text, &target, error)))
        return false;
    *out_target = target;
    return true;
}

/* Connects, with a timeout, and makes the socket non-blocking. */
static bool connect_socket(int socket_fd, const struct load_target *target)
{
    struct timeval timeout = {.tv_sec = CONNECT_SECONDS_MAX};
    int on = 1;

    if (setsockopt(socket_fd, SOL_SOCKET, SO_SNDTIMEO, &timeout, sizeof(timeout)) != 0 ||
        connect(socket_fd, (const struct sockaddr *)&target->address, target->address_size) != 0)
        return false;
    if (target->address.ss_family != AF_UNIX &&
        setsockopt(socket_fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on)) != 0)
        return false;
    return fcntl(socket_fd, F_SETFL, O_NONBLOCK) == 0;
}

bool load_target_connect(const struct load_target *target, int *out_socket,
                         struct load_error *error)
{
    int socket_fd = socket(target->address.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0);

    if (socket_fd < 0)
        return load_fail(error, "cannot create a socket: %s", strerror(errno));
    if (!connect_socket(socket_fd, target)) {
        load_fail(error, "cannot connect to %s: %s", target->text, strerror(errno));
        close(socket_fd);
        return false;
    }
    *out_socket = socket_fd;
    return true;
}
