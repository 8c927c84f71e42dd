#include "support/whole_server.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "server/net/endpoint.h"
#include "server/net/loop_parts.h"
#include "server/ops/auth_failures.h"
#include "server/ops/reloader.h"

#define WHOLE_NOW_NS (UINT64_C(1000) * RATION_NS_PER_SECOND)

#define CHECK(condition)                                                    \
    do {                                                                    \
        if (!(condition)) {                                                 \
            fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition); \
            abort();                                                        \
        }                                                                   \
    } while (0)

/* The server ---------------------------------------------------------------------------------- */

static uint64_t read_coarse(void *server)
{
    return ((struct whole_server *)server)->coarse_ms;
}

static void print_error(void *unused, const struct ration_policy_error *error)
{
    (void)unused;
    fprintf(stderr, "%u:%u: %s\n", error->line, error->column, error->message);
}

static void open_engine(struct whole_server *server, const struct whole_server_options *given)
{
    struct ration_engine_options options = {
        .struct_size = sizeof(options),
        .clock = &server->clock,
        .inline_keys_max = given->inline_keys_max > 0 ? given->inline_keys_max : 64,
        .top_keys = 16,
        .spare_bytes = 1 << 16,
        .threads_max = 2};
    ration_policy *policy = NULL;

    CHECK(ration_policy_parse(given->policy, strlen(given->policy), print_error, NULL, &policy) ==
          RATION_OK);
    CHECK(ration_engine_create(&options, policy, &server->service.engine, NULL) == RATION_OK);
}

static void listen_on(struct whole_server *server, const struct ration_protocol *protocol)
{
    static unsigned number;
    char address[64];
    struct ration_listen_options options = {
        .address = address, .protocol = protocol, .context = &server->service};
    struct ration_error error;

    snprintf(address, sizeof(address), "unix:@ration-test-%d-%u", (int)getpid(), number++);
    if (ration_loops_listen(server->service.loops, &options, &error) != RATION_OK) {
        fprintf(stderr, "%s\n", error.message);
        abort();
    }
}

static void set_secret(struct ration_secret *secret, const char *text)
{
    CHECK(text == NULL || ration_secret_set(secret, text, strlen(text)));
}

/* Applies the given settings over the defaults. */
static void set_limits(struct ration_server_limits *limits,
                       const struct ration_server_limits *given)
{
#define SET_LIMIT(name, initial, min, max, none) \
    if (given->name != 0)                        \
        limits->name = given->name;
    RATION_SERVER_LIMIT_MAP(SET_LIMIT)
#undef SET_LIMIT
}

void whole_server_open(struct whole_server *server, const struct whole_server_options *options)
{
    struct ration_loops_options of_loops = {
        .loop_count = 1, .coarse_ms = read_coarse, .coarse_context = server};

    memset(server, 0, sizeof(*server));
    server->manual.ns = WHOLE_NOW_NS;
    server->clock = ration_clock_manual(&server->manual);
    server->coarse_ms = 1000;
    ration_settings_init(&server->settings);
    server->settings.has_manual_clock = true;
    server->settings.threads = 1;
    set_limits(&server->settings.limits, &options->limits);
    set_secret(&server->settings.check_secret, options->check_secret);
    set_secret(&server->settings.admin_secret, options->admin_secret);
    CHECK(ration_settings_read_arguments(&server->settings, options->argument_count,
                                         options->arguments, print_error, NULL) == RATION_OK);
    CHECK(ration_settings_complete(&server->settings, print_error, NULL) == RATION_OK);
    open_engine(server, options);
    of_loops.limits = server->settings.limits;
    of_loops.clock = server->clock;
    CHECK(ration_loops_create(&of_loops, &server->service.loops, NULL) == RATION_OK);
    server->loop = ration_loops_at(server->service.loops, 0);
    server->service.settings = &server->settings;
    server->service.manual = &server->manual;
    server->service.is_ready = true;
    server->service.auth_failures = ration_auth_failures_create(&server->clock);
    CHECK(server->service.auth_failures != NULL);
    CHECK(ration_service_open_loop(&server->service, server->loop) == RATION_OK);
    listen_on(server,
              options->http_protocol != NULL ? options->http_protocol : &ration_http_protocol);
    listen_on(server,
              options->resp_protocol != NULL ? options->resp_protocol : &ration_resp_protocol);
    CHECK(ration_reloader_create(&server->service, &server->settings, &server->reloader) ==
          RATION_OK);
    ration_acceptor_start_all(server->loop);
}

void whole_server_close(struct whole_server *server)
{
    while (server->loop->connections != NULL)
        ration_connection_end(server->loop->connections, RATION_CLOSE_REASON_SHUTDOWN);
    ration_reloader_free(server->reloader);
    ration_service_close_loop(server->loop);
    ration_loops_free(server->service.loops);
    ration_auth_failures_free(server->service.auth_failures);
    ration_engine_free(server->service.engine);
    ration_settings_done(&server->settings);
}

void whole_server_turn(struct whole_server *server)
{
    uv_run(&server->loop->uv, UV_RUN_NOWAIT);
}

void whole_server_pass(struct whole_server *server, uint64_t ms)
{
    server->coarse_ms += ms;
    ration_loop_tick(server->loop);
}

static bool is_ready(int fd, int events)
{
    struct pollfd poll_fd = {.fd = fd, .events = (short)events};

    return poll(&poll_fd, 1, 0) > 0;
}

bool whole_server_is_busy(const struct whole_server *server)
{
    const struct ration_loop *loop = server->loop;

    if (loop->jobs.behind != &loop->jobs)
        return true;
    for (unsigned i = 0; i < loop->acceptor_count; i++)
        if (is_ready(loop->acceptors[i].fd, POLLIN))
            return true;
    for (const struct ration_connection *at = loop->connections; at != NULL; at = at->behind) {
        int events =
            (at->events & UV_READABLE ? POLLIN : 0) | (at->events & UV_WRITABLE ? POLLOUT : 0);

        if (at->paused || at->yields || (events != 0 && is_ready(at->fd, events)))
            return true;
    }
    return false;
}

void whole_server_settle(struct whole_server *server, struct whole_client *clients, size_t count)
{
    do {
        whole_server_turn(server);
        for (size_t i = 0; i < count; i++)
            whole_client_take(&clients[i]);
    } while (whole_server_is_busy(server));
    whole_server_turn(server); /* libuv frees closed handles */
    for (size_t i = 0; i < count; i++)
        whole_client_take(&clients[i]);
}

/* Clients ------------------------------------------------------------------------------------- */

void whole_client_open(struct whole_server *server, struct whole_client *client,
                       enum whole_protocol protocol)
{
    struct ration_endpoint endpoint;

    memset(client, 0, sizeof(*client));
    CHECK(ration_endpoint_parse(ration_loops_address(server->service.loops, protocol), &endpoint,
                                NULL) == RATION_OK);
    client->fd = socket(endpoint.address.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    CHECK(client->fd >= 0);
    CHECK(connect(client->fd, (struct sockaddr *)&endpoint.address, endpoint.address_size) == 0);
}

void whole_client_close(struct whole_client *client)
{
    close(client->fd);
    free(client->answers);
}

void whole_client_forget(struct whole_client *client)
{
    client->answer_size = 0;
}

void whole_client_take(struct whole_client *client)
{
    ssize_t size = 1;

    while (size > 0 && !client->is_closed) {
        if (client->answer_room - client->answer_size < 65536) {
            client->answer_room = client->answer_room * 2 + 131072;
            client->answers = realloc(client->answers, client->answer_room);
            CHECK(client->answers != NULL);
        }
        size = recv(client->fd, client->answers + client->answer_size,
                    client->answer_room - client->answer_size, 0);
        if (size > 0)
            client->answer_size += (size_t)size;
        client->is_reset |= size < 0 && errno != EAGAIN;
        client->is_closed |= size == 0 || client->is_reset;
    }
}

void whole_client_send(struct whole_server *server, struct whole_client *client, const void *bytes,
                       size_t size)
{
    for (size_t sent = 0; sent < size && !client->is_closed;) {
        ssize_t now = send(client->fd, (const char *)bytes + sent, size - sent, MSG_NOSIGNAL);

        if (now < 0 && errno == EAGAIN) {
            whole_server_turn(server);
            whole_client_take(client);
        } else if (now < 0) {
            client->is_closed = true;
            whole_client_take(client);
        } else {
            sent += (size_t)now;
        }
    }
}
