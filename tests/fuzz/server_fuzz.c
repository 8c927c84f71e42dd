/*
 * Any bytes to a whole server over real sockets: nothing crashes, every connection gets the same answers however its bytes
 * are split, replies are well-formed, and at the end the server is idle with no memory accounted.
 *
 *     byte 0       bits choose settings: secrets, small bounds, trusted proxies, other response headers
 *     bytes 1-4    where to split, and the seed of the last run
 *     the rest     streams, separated by ff fe: each is a connection; with H first HTTP, else RESP
 *
 * Connections stay open at the same time, and each stream is sent to its end before the next begins: the answers depend
 * only on the bytes, because the clocks do not advance, except while a reply is delayed. (Timeouts are long, because the
 * split determines when one starts.) The link wraps clock_gettime.
 *
 * In the last run the connections alternate, clients close or do not read, and time passes: the answers are not compared,
 * because they depend on the order.
 *
 * With RATION_PLANTED_BUG the server has the bug that the environment variable of that name chooses, and this program
 * reports that it has found it.
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "base/random.h"
#include "server/net/loop_parts.h"
#include "server/ops/log.h"
#include "support/whole_server.h"

#define CUTS_SIZE    4
#define STREAMS_MAX  4
#define BYTEWISE_MAX 2048 /* the bytes of a longer stream that are sent one by one */
#define WALL_S       1794838999

#define UNORDERED_STEPS_MAX 3000
#define SEND_BUFFER_BYTES   4096 /* of the server in the run with clients that do not read */
#define REPLY_DEPTH_MAX     16
#define ARGUMENTS_MAX       24

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const char policy[] =
    "limits: [{name: user, key: user, rate: 2/s, burst: 3, max_keys: 16}, "
    "{name: all, rate: 100/s, burst: 50}, "
    "{name: window, match: {path: {prefix: /w}}, key: [ip, header.x-a], rate: 5/min, "
    "algorithm: sliding_window, max_keys: 16, shadow: true}]\n"
    "exempt: [{user: root}]\n"
    "banned: [{user: mallory}]\n";

/* The policy that a reload reads. */
static const char next_policy[] =
    "limits: [{name: user, key: user, rate: 3/s, burst: 4, max_keys: 16}, "
    "{name: other, match: {path: /w}, rate: 1/h, key: ip, max_keys: 16}]\n"
    "banned: [{user: a}]\n";

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

/* Planted bugs ---------------------------------------------------------------------------------- */

#ifdef RATION_PLANTED_BUG
/* A request that arrives in parts loses a byte. */
static size_t lose_a_byte(const struct ration_protocol *protocol,
                          struct ration_connection *connection, char *bytes, size_t size)
{
    size_t used = protocol->receive(connection, bytes, size);

    return used == 0 && size > 2 && !ration_connection_is_full(connection) ? 1 : used;
}

static size_t lose_a_byte_of_resp(struct ration_connection *connection, char *bytes, size_t size)
{
    return lose_a_byte(&ration_resp_protocol, connection, bytes, size);
}

static size_t lose_a_byte_of_http(struct ration_connection *connection, char *bytes, size_t size)
{
    return lose_a_byte(&ration_http_protocol, connection, bytes, size);
}

/* Memory of a transaction stays accounted if the client disconnects before EXEC. */
static void leave_accounted(struct ration_connection *connection,
                            enum ration_close_reason close_reason)
{
    if (connection->is_transaction)
        connection->loop->loops->memory_bytes++;
    ration_resp_protocol.close(connection, close_reason);
}

/* An array reply has a type that does not exist. */
static size_t write_no_type(struct ration_connection *connection, char *bytes, size_t size)
{
    struct ration_output *output = ration_connection_output(connection);
    size_t before = output->size, used = ration_resp_protocol.receive(connection, bytes, size);

    if (output->size > before && output->bytes[before] == '*')
        output->bytes[before] = '?';
    return used;
}

static void plant(struct whole_server_options *options)
{
    static struct ration_protocol http, resp;
    const char *bug = getenv("RATION_PLANTED_BUG");

    http = ration_http_protocol;
    resp = ration_resp_protocol;
    options->http_protocol = &http;
    options->resp_protocol = &resp;
    if (bug != NULL && strcmp(bug, "lose_a_byte_of_resp") == 0)
        resp.receive = lose_a_byte_of_resp;
    else if (bug != NULL && strcmp(bug, "lose_a_byte_of_http") == 0)
        http.receive = lose_a_byte_of_http;
    else if (bug != NULL && strcmp(bug, "leave_accounted") == 0)
        resp.close = leave_accounted;
    else if (bug != NULL && strcmp(bug, "write_no_type") == 0)
        resp.receive = write_no_type;
    else
        abort();
}
#endif

/* Settings ---------------------------------------------------------------------------------------- */

/* An anonymous file. */
static char *next_policy_path(void)
{
    static char path[32];

    if (path[0] == '\0') {
        int fd = memfd_create("policy", MFD_CLOEXEC);

        if (fd < 0 || write(fd, next_policy, sizeof(next_policy) - 1) != sizeof(next_policy) - 1)
            abort();
        snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
    }
    return path;
}

static const struct {
    uint8_t bit;
    const char *words[8];
} settings[] = {
    {1 << 0, {"--check-secret", "secret", "--admin-secret", "admin"}},
    {1 << 1, {"--max-pipeline=1", "--max-arguments=8", "--max-argument-size=64"}},
    {1 << 2, {"--max-header-size=1024", "--max-body-size=96", "--max-attribute-size=64"}},
    {1 << 3, {"--trusted-proxies=unix", "--client-ip-header=x-forwarded-for"}},
    {1 << 4, {"--trusted-proxies=unix", "--client-ip-header=forwarded"}},
    {1 << 5, {"--legacy-headers=unix", "--deny-status=503", "--retry-after-max=5s"}},
    {1 << 6, {"--top-keys=0", "--max-inline-fill=0"}},
};

static void set_options(uint8_t bits, char *arguments[ARGUMENTS_MAX],
                        struct whole_server_options *options)
{
    int count = 0;

    if ((bits & 24) == 24)
        bits &= (uint8_t)~16; /* one header at a time */
    for (size_t i = 0; i < sizeof(settings) / sizeof(settings[0]); i++)
        for (size_t k = 0; (settings[i].bit & bits) && settings[i].words[k] != NULL; k++)
            arguments[count++] = (char *)(uintptr_t)settings[i].words[k]; /* they are only read */
    arguments[count++] = (char *)(uintptr_t) "--policy";
    arguments[count++] = next_policy_path();
    options->policy = policy;
    options->arguments = arguments;
    options->argument_count = count;
#ifdef RATION_PLANTED_BUG
    plant(options);
#endif
}

/* One input, as sent to the server --------------------------------------------------------------- */

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

/* Waits until the server has read a piece before the next one is sent. */
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
        while (server->service.loops->delayed_count > 0) { /* until then nothing is read */
            whole_server_pass(server, RATION_DELAY_MS);
            whole_server_settle(server, client, 1);
        }
        given += piece;
    }
}

/* The clients have closed: the server must have freed everything for them. */
static void finish(struct whole_server *server, struct whole_client *clients, size_t count)
{
    for (int i = 0; i < 3; i++) { /* replies that are delayed */
        whole_server_pass(server, RATION_DELAY_MS);
        whole_server_settle(server, clients, count);
    }
    for (size_t i = 0; i < count; i++)
        if (clients[i].fd >= 0)
            close(clients[i].fd);
    whole_server_settle(server, NULL, 0);
    for (int i = 0; i < 30 && server->loop->connections != NULL;
         i++) { /* those whose close was not noticed */
        whole_server_pass(server, RATION_DELAY_MS);
        whole_server_settle(server, NULL, 0);
    }
    check(server->loop->connections == NULL, "a connection is left");
    check(server->service.loops->open_count == 0, "a connection is left counted");
    check(server->service.loops->memory_bytes == 0, "memory is left accounted");
    check(server->service.loops->unauthenticated_count == 0, "an unauthenticated client is left");
    check(server->service.loops->delayed_count == 0, "a delayed reply is left");
    whole_server_close(server);
}

static void run(const uint8_t *data, const struct stream *streams, size_t count,
                const uint8_t *cuts, struct whole_client clients[STREAMS_MAX])
{
    char *arguments[ARGUMENTS_MAX];
    struct whole_server_options options = {.limits = {.auth_timeout_s = 86400,
                                                      .multi_timeout_s = 86400,
                                                      .header_timeout_ms = 86400000,
                                                      .body_timeout_ms = 86400000}};
    struct whole_server server;

    set_options(data[0], arguments, &options);
    whole_server_open(&server, &options);
    for (size_t i = 0; i < count; i++) {
        whole_client_open(&server, &clients[i], streams[i].protocol);
        whole_server_settle(&server, &clients[i], 1);
        feed(&server, &clients[i], &streams[i], cuts);
    }
    finish(&server, clients, count);
}

/* One client acts: sends some bytes or all, reads, or disconnects. */
static void act(struct whole_client *client, const struct stream *stream, size_t *given,
                uint64_t *seed)
{
    uint64_t chance = ration_random_next(seed);
    size_t piece = (chance >> 32) % (chance & 64 ? 48 : 8192) + 1;
    ssize_t sent;

    switch (chance % 64) {
    case 0:
        close(client->fd);
        client->fd = -1;
        client->is_closed = true;
        break;
    case 1:
        shutdown(client->fd, SHUT_WR);
        *given = stream->size;
        break;
    case 2:
    case 3:
    case 4:
    case 5:
        whole_client_take(client);
        break;
    default:
        piece = piece < stream->size - *given ? piece : stream->size - *given;
        sent = piece > 0 ? send(client->fd, stream->bytes + *given, piece, MSG_NOSIGNAL) : 0;
        *given += sent > 0 ? (size_t)sent : 0;
    }
}

static void run_unordered(const uint8_t *data, const struct stream *streams, size_t count)
{
    static const uint64_t times_ms[] = {1, RATION_DELAY_MS, RATION_STALL_MS, 11000, 61000};
    char *arguments[ARGUMENTS_MAX];
    struct whole_server_options options = {
        .limits = {.output_bytes_max = 4096, .connection_memory_max = 1 << 20}};
    struct whole_client clients[STREAMS_MAX];
    size_t given[STREAMS_MAX] = {0};
    struct whole_server server;
    uint64_t seed = 0;

    memcpy(&seed, data, CUTS_SIZE + 1);
    set_options(data[0], arguments, &options);
    whole_server_open(&server, &options);
    for (size_t i = 0; i < count; i++) {
        whole_client_open(&server, &clients[i], streams[i].protocol);
        whole_server_settle(&server, NULL, 0);
        setsockopt(server.loop->connections->fd, SOL_SOCKET, SO_SNDBUF, &(int){SEND_BUFFER_BYTES},
                   sizeof(int));
    }
    for (int step = 0; count > 0 && step < UNORDERED_STEPS_MAX; step++) {
        size_t i = ration_random_next(&seed) % count;
        uint64_t chance = ration_random_next(&seed);
        bool is_left = false;

        if (!clients[i].is_closed)
            act(&clients[i], &streams[i], &given[i], &seed);
        if (chance % 64 == 0)
            whole_server_pass(&server, times_ms[(chance >> 32) % 5]);
        if (chance & 128)
            whole_server_turn(&server);
        for (size_t k = 0; k < count; k++)
            is_left |= !clients[k].is_closed && given[k] < streams[k].size;
        if (!is_left)
            break;
    }
    finish(&server, clients, count);
    for (size_t i = 0; i < count; i++)
        free(clients[i].answers);
}

/* Comparison -------------------------------------------------------------------------------------- */

static bool has(const struct whole_client *client, const char *text)
{
    return client->answer_size > 0 &&
           memmem(client->answers, client->answer_size, text, strlen(text)) != NULL;
}

/* Only a client that waits with its body gets this response. */
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

/* /metrics and INFO report on the process and the bytes sent so far: there numbers are not compared. */
static bool has_other_numbers(const struct whole_client *client)
{
    return has(client, "process_cpu_seconds_total") || has(client, "total_net_output_bytes");
}

static void drop_numbers(struct whole_client *client)
{
    size_t put = 0;

    for (size_t i = 0; i < client->answer_size; i++)
        if (client->answers[i] < '0' || client->answers[i] > '9')
            client->answers[put++] = client->answers[i];
    client->answer_size = put;
}

/* HTTP on the RESP port closes the connection at once, with unsent replies. */
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

    if (getenv("RATION_TEST_TRACE") != NULL) /* to understand a failure */
        fprintf(stderr, "== %d: %.*s\n== %d: %.*s\n", one->is_closed, (int)one->answer_size,
                one->answers, other->is_closed, (int)other->answer_size, other->answers);
    check(one->is_closed == other->is_closed, "closed and not closed");
    check(size == 0 || memcmp(one->answers, other->answers, size) == 0, "other answers");
    check(one->answer_size == other->answer_size || (one->is_closed && may_be_cut_off(stream)),
          "more answers");
}

/* Replies of the Redis protocol ------------------------------------------------------------------ */

/* The end of the value that begins here; NULL if it is invalid or incomplete. */
static const char *skip_value(const char *at, const char *end, int depth)
{
    const char *line_end = at < end ? memmem(at, (size_t)(end - at), "\r\n", 2) : NULL;
    long long number;

    if (line_end == NULL || depth > REPLY_DEPTH_MAX)
        return NULL;
    if (strchr("+-:_,#(", *at) != NULL)
        return line_end + 2;
    number = strtoll(at + 1, NULL, 10);
    if (number == -1 && strchr("$*", *at) != NULL)
        return line_end + 2;
    number *= *at == '%' ? 2 : 1;
    if (number < 0 || number > end - line_end)
        return NULL;
    if (strchr("$=!", *at) != NULL) {
        const char *bytes_end = line_end + 2 + number;

        return end - bytes_end >= 2 && memcmp(bytes_end, "\r\n", 2) == 0 ? bytes_end + 2 : NULL;
    }
    if (strchr("*~>%", *at) == NULL)
        return NULL;
    for (at = line_end + 2; at != NULL && number > 0; number--)
        at = skip_value(at, end, depth + 1);
    return at;
}

/* CLIENT REPLY OFF and SKIP between MULTI and EXEC leave an array short, as they do in Redis. */
static bool may_be_short(const struct stream *stream)
{
    for (size_t i = 0; i + 5 <= stream->size; i++)
        if (strncasecmp((const char *)stream->bytes + i, "reply", 5) == 0)
            return true;
    return false;
}

static void check_replies(const struct stream *stream, const struct whole_client *client)
{
    const char *at = client->answers, *end = client->answers + client->answer_size;

    if (stream->protocol != WHOLE_RESP || may_be_short(stream) ||
        (client->is_closed && may_be_cut_off(stream)))
        return;
    while (client->answer_size > 0 && at < end) {
        const char *next = skip_value(at, end, 0);

        if (next == NULL)
            fprintf(stderr, "%.*s\n", (int)(end - at), at);
        check(next != NULL, "a reply is not well-formed or not complete");
        at = next;
    }
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
        ration_log_open(null_fd, false, RATION_LOG_INFO);
    }
    count = split(data + CUTS_SIZE + 1, size - CUTS_SIZE - 1, streams);
    for (size_t i = 0; i < 3; i++)
        run(data, streams, count, cuts[i], clients[i]);
    run_unordered(data, streams, count);
    for (size_t i = 0; i < count; i++) {
        bool drops_numbers = false; /* in all three: one may have been closed before */

        for (size_t k = 0; k < 3; k++) {
            check_replies(&streams[i], &clients[k][i]);
            drop_continue(&clients[k][i]);
            drops_numbers |= has_other_numbers(&clients[k][i]);
        }
        for (size_t k = 0; k < 3 && drops_numbers; k++)
            drop_numbers(&clients[k][i]);
        check_same(&streams[i], &clients[0][i], &clients[1][i]);
        check_same(&streams[i], &clients[0][i], &clients[2][i]);
        for (size_t k = 0; k < 3; k++)
            free(clients[k][i].answers);
    }
    return 0;
}
