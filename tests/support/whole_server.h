/*
 * whole_server: a server in this process - policy, loop, listeners, both protocols - that runs on the
 * calling thread, one turn at a time, with clients on real sockets.
 *
 *     struct whole_server server;
 *     whole_server_open(&server, &(struct whole_server_options){.policy = text});
 *     whole_client_open(&server, &client, WHOLE_RESP);
 *     whole_client_send(&client, "PING\r\n", 6);
 *     whole_server_settle(&server, &client, 1);   runs turns until the server is idle
 *     ... client.answers, client.answer_size, client.is_closed
 *
 * The clocks do not advance: decisions use `manual`, timeouts use coarse_ms. Failures abort in every build.
 */
#ifndef RATION_TESTS_WHOLE_SERVER_H
#define RATION_TESTS_WHOLE_SERVER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "ration/ration.h"
#include "server/ops/service.h"

enum whole_protocol { WHOLE_HTTP, WHOLE_RESP };

struct whole_server_options {
    const char *policy;
    const char *check_secret; /* NULL: none; as the next */
    const char *admin_secret;
    uint64_t inline_keys_max;           /* of inline limits; 0: 64 */
    struct ration_server_limits limits; /* 0: the default */
    char **arguments;                   /* other settings, as on a command line */
    int argument_count;
    const struct ration_protocol *http_protocol; /* in place of the server's; NULL: that */
    const struct ration_protocol *resp_protocol; /* the same */
};

struct whole_server {
    struct ration_manual_clock manual;
    struct ration_clock clock;
    uint64_t coarse_ms;
    struct ration_settings settings;
    struct ration_service service;
    struct ration_reloader *reloader;
    struct ration_loop *loop;
};

struct whole_client {
    int fd;
    char *answers;
    size_t answer_size;
    size_t answer_room;
    bool is_closed; /* by the server */
    bool is_reset;  /* the same, and bytes may be lost */
};

void whole_server_open(struct whole_server *server, const struct whole_server_options *options);
void whole_server_close(struct whole_server *server);

/* One turn of the loop, which does not wait. */
void whole_server_turn(struct whole_server *server);

/* Lets so many milliseconds pass for deadlines, and looks at them. */
void whole_server_pass(struct whole_server *server, uint64_t ms);

/* Whether the server has something to do, or waits for a thread of its own. */
bool whole_server_is_busy(const struct whole_server *server);

/* Turns until it has not, while the clients take what is answered. */
void whole_server_settle(struct whole_server *server, struct whole_client *clients, size_t count);

void whole_client_open(struct whole_server *server, struct whole_client *client,
                       enum whole_protocol protocol);
void whole_client_close(struct whole_client *client);

/* Sends all of it, with turns of the server while its sockets are full. Nothing if it is closed. */
void whole_client_send(struct whole_server *server, struct whole_client *client, const void *bytes,
                       size_t size);

/* Takes what was answered. */
void whole_client_take(struct whole_client *client);

/* Forgets what was answered so far. */
void whole_client_forget(struct whole_client *client);

#endif
