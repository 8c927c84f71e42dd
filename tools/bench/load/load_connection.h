/*
 * connection: one client connection, with the requests that wait for answers.
 *
 * Requests that were sent together form a group. Its time is when they were sent, or due. Answers
 * come in the order of the requests, so the groups form a queue: the oldest is answered first.
 */
#ifndef RATION_LOAD_LOAD_CONNECTION_H
#define RATION_LOAD_LOAD_CONNECTION_H

#include "load/replies.h"
#include "load/target.h"

struct load_group {
    uint64_t since_ns;
    uint64_t request_count;
};

struct load_connection {
    int socket_fd;
    uint32_t waiting_count; /* requests without an answer */
    uint32_t groups_first;
    uint32_t groups_count;
    uint32_t groups_max;
    struct load_group *groups; /* a ring buffer */

    /* Bytes that the socket did not accept at once. */
    char *unsent;
    size_t unsent_size;
    size_t unsent_max;

    struct load_replies replies;
};

/*
 * Connects. At most pipeline_count requests, of request_size bytes each, may wait for answers.
 * Release it with load_connection_done(), which also accepts a connection of all zero bytes.
 */
bool load_connection_init(const struct load_target *target, enum load_protocol protocol,
                          uint32_t pipeline_count, size_t request_size,
                          struct load_connection *out_connection, struct load_error *error);
void load_connection_done(struct load_connection *connection);

/* Records that request_count requests are about to be sent. */
void load_connection_expect(struct load_connection *connection, uint64_t since_ns,
                            uint32_t request_count);

/*
 * Removes up to count_max answered requests from the oldest group. Returns the part that was
 * removed.
 */
struct load_group load_connection_answered(struct load_connection *connection, uint64_t count_max);

/* Sends bytes after those that are unsent; stores what the socket does not accept. */
bool load_connection_send(struct load_connection *connection, const char *bytes, size_t size,
                          struct load_error *error);

/* Sends as many of the unsent bytes as the socket accepts. */
bool load_connection_flush(struct load_connection *connection, struct load_error *error);

/*
 * Receives once into a buffer of the caller. *out_size is 0 if no bytes are available now. A
 * connection that the server has closed is an error.
 */
bool load_connection_receive(struct load_connection *connection, char *buffer, size_t buffer_size,
                             size_t *out_size, struct load_error *error);

#endif
