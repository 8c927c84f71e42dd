#include "load/exchange.h"

#include <errno.h>
#include <poll.h>
#include <string.h>

#define EXCHANGE_MS_MAX 10000
#define RECEIVE_SIZE    4096

static bool wait_for(int socket_fd, short events, struct load_error *error)
{
    struct pollfd poll_entry = {.fd = socket_fd, .events = events};
    int ready = poll(&poll_entry, 1, EXCHANGE_MS_MAX);

    if (ready < 0 && errno != EINTR)
        return load_fail(error, "poll: %s", strerror(errno));
    return ready != 0 ||
           load_fail(error, "the server has not answered for %d s", EXCHANGE_MS_MAX / 1000);
}

bool load_exchange_send(const struct load_connection *connection, const char *bytes, size_t size,
                        struct load_error *error)
{
    while (size > 0) {
        ssize_t sent = send(connection->socket_fd, bytes, size, MSG_NOSIGNAL);

        if (sent < 0 && errno != EAGAIN && errno != EINTR)
            return load_fail(error, "cannot send: %s", strerror(errno));
        if (sent < 0) {
            if (!wait_for(connection->socket_fd, POLLOUT, error))
                return false;
            continue;
        }
        bytes += sent;
        size -= (size_t)sent;
    }
    return true;
}

bool load_exchange_receive(struct load_connection *connection, struct load_totals *totals,
                           char *text, size_t text_size, struct load_error *error)
{
    char received[RECEIVE_SIZE];
    uint64_t before_count = load_totals_total(totals);
    size_t text_used = 0;

    while (load_totals_total(totals) == before_count) {
        size_t size;

        if (!wait_for(connection->socket_fd, POLLIN, error) ||
            !load_connection_receive(connection, received, sizeof(received), &size, error) ||
            !load_replies_read(&connection->replies, received, size, totals, error))
            return false;
        if (text == NULL)
            continue;
        if (size > text_size - 1 - text_used)
            size = text_size - 1 - text_used;
        memcpy(text + text_used, received, size);
        text_used += size;
    }
    if (text != NULL)
        text[text_used] = '\0';
    return true;
}
