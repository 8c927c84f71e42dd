/*
 * Any bytes to a whole server over real sockets: nothing crashes, every connection is answered the same
 * however its bytes are cut, and the server is left with nothing to do and no memory accounted.
 *
 *     byte 0       bit 0: there are a check secret and an admin secret
 *     bytes 1-4    where to cut
 *     the rest     streams, apart by ff fe: each is a connection; H first: HTTP, else RESP
 *
 * Connections stay open beside each other, and each is sent to the end before the next begins: what
 * is answered depends on the bytes alone, since both clocks stand still. The link wraps clock_gettime.
 *
 * With RATION_PLANTED_BUG the server loses a byte of a request that comes in parts, and this program tells
 * that it has seen that.
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "server/log.h"
#include "server/loop_parts.h"
#include "support/whole_server.h"

#define CUTS_SIZE    4
#define STREAMS_MAX  4
#define BYTEWISE_MAX 2048 /* of a longer stream only these are sent one by one */
#define WALL_S       1794838999

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const char policy[] =
    "limits: [{name: user, key: user, rate: 2/s, burst: 3, keys: 16}, "
    "{name: all, rate: 100/s, burst: 50}, "
    "{name: window, match: {path: {prefix: /w}}, key: [ip, header.x-a], rate: 5/min, "
    "algorithm: sliding-window, keys: 16, shadow: true}]\n"
    "exempt: [{user: root}]\n"
    "banned: [{user: mallory}]\n";

static void check(bool condition, const char *what)
{
    if (condition)
        return;
#ifdef RATION_PLANTED_BUG
    printf("the planted bug was caught: %s\n", what);
    fflush(stdout);
    _exit(EXIT_SUCCESS);
#else
    fprintf(stderr, "%s\n", what);
    abort();
#endif
}

int __wrap_clock_gettime(clockid_t clock, struct timespec *out_time);
int __real_clock_gettime(clockid_t clock, struct timespec *out_time);
int __wrap_clock_gettime(clockid_t clock, struct timespec *out_time)
{
    if (clock != CLOCK_REALTIME && clock != CLOCK_REALTIME_COARSE)
        return __real_clock_gettime(clock, out_time);
    *out_time = (struct timespec){.tv_sec = WALL_S};
    return 0;
}

#ifdef RATION_PLANTED_BUG
static size_t lose_a_byte(struct ration_connection *connection, char *bytes, size_t size)
{
    size_t used = ration_resp_protocol.receive(connection, bytes, size);

    return used == 0 && size > 2 && !ration_connection_is_full(connection) ? 1 : used;
}
#endif

/* One input, as the server was sent it ---------------------------------------------------------- */

struct stream {
    enum whole_protocol protocol;
    const uint8_t *bytes;
    size_t size;
};

static size_t split(const uint8_t *bytes, size_t size, struct stream streams[STREAMS_MAX])
{
    size_t count = 0;

    while (size > 0 && count < STREAMS_MAX) {
        const uint8_t *mark = memmem(bytes, size, "\xff\xfe", 2);
        size_t own_size = mark != NULL ? (size_t)(mark - bytes) : size;
        bool is_http = own_size > 0 && bytes[0] == 'H';

        streams[count++] =
            (struct stream){is_http ? WHOLE_HTTP : WHOLE_RESP, bytes + is_http, own_size - is_http};
        bytes += own_size + (mark != NULL ? 2 : 0);
        size -= own_size + (mark != NULL ? 2 : 0);
    }
    return count;
}

/* The server has to take a piece before it is sent the next. */
static void feed(struct whole_server *server, struct whole_client *client,
                 const struct stream *stream, const uint8_t *cuts)
{
    size_t given = 0, turn = 0;

    while (given < stream->size && !client->is_closed) {
        size_t piece = cuts != NULL ? (size_t)cuts[turn++ % CUTS_SIZE] % 64 + 1 : stream->size;

        if (cuts != NULL && turn > BYTEWISE_MAX)
            piece = stream->size;
        piece = piece < stream->size - given ? piece : stream->size - given;
        whole_client_send(server, client, stream->bytes + given, piece);
        whole_server_settle(server, client, 1);
        given += piece;
    }
}

static void run(const uint8_t *data, const struct stream *streams, size_t count,
                const uint8_t *cuts, struct whole_client clients[STREAMS_MAX])
{
    const char *secret = data[0] & 1 ? "secret" : NULL;
    struct whole_server_options options = {
        .policy = policy, .check_secret = secret, .admin_secret = secret != NULL ? "admin" : NULL};
    struct whole_server server;

#ifdef RATION_PLANTED_BUG
    struct ration_protocol planted = ration_resp_protocol;

    planted.receive = lose_a_byte;
    options.resp_protocol = &planted;
#endif
    whole_server_open(&server, &options);
    for (size_t i = 0; i < count; i++) {
        whole_client_open(&server, &clients[i], streams[i].protocol);
        whole_server_settle(&server, &clients[i], 1);
        feed(&server, &clients[i], &streams[i], cuts);
    }
    for (int i = 0; i < 3; i++) { /* replies that are delayed */
        whole_server_pass(&server, RATION_DELAY_MS);
        whole_server_settle(&server, clients, count);
    }
    for (size_t i = 0; i < count; i++)
        close(clients[i].fd);
    whole_server_settle(&server, NULL, 0);
    for (int i = 0; i < 30 && server.loop->connections != NULL;
         i++) { /* those that are not heard */
        whole_server_pass(&server, RATION_DELAY_MS);
        whole_server_settle(&server, NULL, 0);
    }
    check(server.loop->connections == NULL, "a connection is left");
    check(server.service.loops->memory_bytes == 0, "memory is left accounted");
    check(server.service.loops->unauthenticated_count == 0, "an unauthenticated client is left");
    check(server.service.loops->delayed_count == 0, "a delayed reply is left");
    whole_server_close(&server);
}

/* What must be the same ------------------------------------------------------------------------- */

static bool has(const struct whole_client *client, const char *text)
{
    return client->answer_size > 0 &&
           memmem(client->answers, client->answer_size, text, strlen(text)) != NULL;
}

/* A client that waits for its body to be asked for gets this, and one that does not wait does not. */
static void drop_continue(struct whole_client *client)
{
    static const char text[] = "HTTP/1.1 100 Continue\r\n\r\n";
    char *at;

    while (client->answer_size > 0 &&
           (at = memmem(client->answers, client->answer_size, text, sizeof(text) - 1)) != NULL) {
        size_t rest = client->answer_size - (size_t)(at - client->answers) - (sizeof(text) - 1);

        memmove(at, at + sizeof(text) - 1, rest);
        client->answer_size -= sizeof(text) - 1;
    }
}

/* /metrics and INFO tell of the process and of the bytes sent so far: there numbers are not compared. */
static void drop_numbers(struct whole_client *client)
{
    size_t put = 0;

    if (!has(client, "process_cpu_seconds_total") && !has(client, "total_net_output_bytes"))
        return;
    for (size_t i = 0; i < client->answer_size; i++)
        if (client->answers[i] < '0' || client->answers[i] > '9')
            client->answers[put++] = client->answers[i];
    client->answer_size = put;
}

/* HTTP sent to RESP's port ends the connection at once, with replies that were not sent yet. */
static bool may_be_cut_off(const struct stream *stream)
{
    static const char *const words[] = {"post", "POST", "Post", "host:", "Host:", "HOST:"};

    for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++)
        if (stream->protocol == WHOLE_RESP && stream->size > 0 &&
            memmem(stream->bytes, stream->size, words[i], strlen(words[i])) != NULL)
            return true;
    return false;
}

static void check_same(const struct stream *stream, const struct whole_client *one,
                       const struct whole_client *other)
{
    size_t size = one->answer_size < other->answer_size ? one->answer_size : other->answer_size;

    check(one->is_closed == other->is_closed, "closed and not closed");
    check(size == 0 || memcmp(one->answers, other->answers, size) == 0, "other answers");
    check(one->answer_size == other->answer_size || (one->is_closed && may_be_cut_off(stream)),
          "more answers");
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const uint8_t bytewise[CUTS_SIZE] = {0};
    const uint8_t *cuts[] = {NULL, data + 1, bytewise};
    struct stream streams[STREAMS_MAX];
    struct whole_client clients[3][STREAMS_MAX];
    static int null_fd = -1;
    size_t count;

    if (size < CUTS_SIZE + 1)
        return 0;
    if (null_fd < 0) {
        null_fd = open("/dev/null", O_WRONLY | O_CLOEXEC);
        ration_log_open(null_fd, false);
    }
    count = split(data + CUTS_SIZE + 1, size - CUTS_SIZE - 1, streams);
    for (size_t i = 0; i < 3; i++)
        run(data, streams, count, cuts[i], clients[i]);
    for (size_t i = 0; i < count; i++) {
        for (size_t k = 0; k < 3; k++) {
            drop_continue(&clients[k][i]);
            drop_numbers(&clients[k][i]);
        }
        check_same(&streams[i], &clients[0][i], &clients[1][i]);
        check_same(&streams[i], &clients[0][i], &clients[2][i]);
        for (size_t k = 0; k < 3; k++)
            free(clients[k][i].answers);
    }
    return 0;
}
