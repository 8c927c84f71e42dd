#include "load/load_connection.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

bool load_connection_init(const struct load_target *target, enum load_protocol protocol,
                          uint32_t pipeline_count, size_t request_size,
                          struct load_connection *out_connection, struct load_error *error)
{
    struct load_connection connection = {
        .groups_max = pipeline_count,
        .unsent_max = pipeline_count * request_size,
    };

    if (!load_target_connect(target, &connection.socket_fd, error))
        return false;
    connection.groups = calloc(pipeline_count, sizeof(connection.groups[0]));
    if (connection.groups == NULL) {
        load_connection_done(&connection);
        return load_fail(error, "out of memory");
    }
    load_replies_init(protocol, &connection.replies);
    *out_connection = connection;
    return true;
}

void load_connection_done(struct load_connection *connection)
{
    if (connection->groups_max == 0)
        return;
    close(connection->socket_fd);
    free(connection->groups);
    free(connection->unsent);
    memset(connection, 0, sizeof(*connection));
}

/* Groups --------------------------------------------------------------------------------- */

void load_connection_expect(struct load_connection *connection, uint64_t since_ns,
                            uint32_t request_count)
{
    uint32_t next = connection->groups_first + connection->groups_count++;

    connection->groups[next % connection->groups_max] =
        (struct load_group){since_ns, request_count};
    connection->waiting_count += request_count;
}

struct load_group load_connection_answered(struct load_connection *connection, uint64_t count_max)
{
    struct load_group *oldest = &connection->groups[connection->groups_first];
    struct load_group part = *oldest;

    if (part.request_count > count_max)
        part.request_count = count_max;
    oldest->request_count -= part.request_count;
    connection->waiting_count -= (uint32_t)part.request_count;
    if (oldest->request_count == 0) {
        connection->groups_first = (connection->groups_first + 1) % connection->groups_max;
        connection->groups_count--;
    }
    return part;
}

/* Bytes ---------------------------------------------------------------------------------- */

/* Converts errno to a message about a connection. */
static bool fail_with_errno(const char *what, struct load_error *error)
{
    if (errno == ECONNRESET || errno == EPIPE)
        return load_fail(error, "the server closed a connection");
    return load_fail(error, "cannot %s: %s", what, strerror(errno));
}

/* Sends once. *out_size is the number of bytes sent; 0 if the socket accepts none now. */
static bool send_once(int socket_fd, const char *bytes, size_t size, size_t *out_size,
                      struct load_error *error)
{
    ssize_t sent = send(socket_fd, bytes, size, MSG_NOSIGNAL);

    if (sent < 0 && errno != EAGAIN && errno != EINTR)
        return fail_with_errno("send", error);
    *out_size = sent < 0 ? 0 : (size_t)sent;
    return true;
}

static bool store_unsent(struct load_connection *connection, const char *bytes, size_t size,
                         struct load_error *error)
{
    if (connection->unsent == NULL)
        connection->unsent = malloc(connection->unsent_max);
    if (connection->unsent == NULL)
        return load_fail(error, "out of memory");
    memcpy(connection->unsent + connection->unsent_size, bytes, size);
    connection->unsent_size += size;
    return true;
}

bool load_connection_send(struct load_connection *connection, const char *bytes, size_t size,
                          struct load_error *error)
{
    size_t sent = 0;

    if (connection->unsent_size == 0 &&
        !send_once(connection->socket_fd, bytes, size, &sent, error))
        return false;
    return sent == size || store_unsent(connection, bytes + sent, size - sent, error);
}

bool load_connection_flush(struct load_connection *connection, struct load_error *error)
{
    size_t sent = 0;

    if (!send_once(connection->socket_fd, connection->unsent, connection->unsent_size, &sent,
                   error))
        return false;
    connection->unsent_size -= sent;
    memmove(connection->unsent, connection->unsent + sent, connection->unsent_size);
    return true;
}

bool load_connection_receive(struct load_connection *connection, char *buffer, size_t buffer_size,
                             size_t *out_size, struct load_error *error)
{
    ssize_t size = recv(connection->socket_fd, buffer, buffer_size, 0);

    if (size == 0)
        return load_fail(error, "the server closed a connection that waited for %u answers",
                         connection->waiting_count);
    if (size < 0 && errno != EAGAIN && errno != EINTR)
        return fail_with_errno("receive", error);
    *out_size = size < 0 ? 0 : (size_t)size;
    return true;
}
