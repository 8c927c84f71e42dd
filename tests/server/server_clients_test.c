/*
 * Bounds on clients: time without a credential, time and memory inside MULTI, the number of connections, and the memory
 * of all connections together.
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "server/net/loop_parts.h"
#include "server/ops/log.h"
#include "support/unit.h"
#include "support/whole_server.h"

#define POLICY "limits: [{name: all, rate: 1000/s}]\n"
#define MIB    (1u << 20)

static struct whole_server server;

static void start(const char *check_secret, const char *admin_secret,
                  struct ration_server_limits limits)
{
    struct whole_server_options options = {.policy = POLICY,
                                           .check_secret = check_secret,
                                           .admin_secret = admin_secret,
                                           .limits = limits};

    whole_server_open(&server, &options);
}

static uint64_t ended(enum ration_close_reason close_reason)
{
    struct ration_loop_counters counters;

    ration_loop_counters(server.loop, &counters);
    return counters.ended[close_reason];
}

static bool has_answer(const struct whole_client *client, const char *text)
{
    return client->answer_size > 0 &&
           memmem(client->answers, client->answer_size, text, strlen(text)) != NULL;
}

/* Sends a request, lets the server answer, and expects the text in the answer. */
static void ask(struct whole_client *client, const char *request, const char *expected)
{
    whole_client_forget(client);
    whole_client_send(&server, client, request, strlen(request));
    whole_server_settle(&server, client, 1);
    if (!has_answer(client, expected))
        fail_msg("%s: got '%.*s' instead of '%s'", request, (int)client->answer_size,
                 client->answers != NULL ? client->answers : "", expected);
}

static void open_client(struct whole_client *client, enum whole_protocol protocol)
{
    whole_client_open(&server, client, protocol);
    whole_server_settle(&server, client, 1);
}

static void close_clients(struct whole_client *clients, size_t count)
{
    for (size_t i = 0; i < count; i++)
        whole_client_close(&clients[i]);
    whole_server_settle(&server, NULL, 0);
    assert_int_equal(server.service.loops->memory_bytes, 0);
    assert_int_equal(server.service.loops->unauthenticated_count, 0);
    assert_int_equal(server.service.loops->open_count, 0);
    whole_server_close(&server);
}

/* Time --------------------------------------------------------------------------------------- */

/* Requests do not extend the timeout. */
static void a_client_authenticates_in_time_or_is_closed(void **unused)
{
    struct whole_client clients[2];

    (void)unused;
    start("secret", NULL, (struct ration_server_limits){.auth_timeout_s = 3});
    open_client(&clients[0], WHOLE_RESP);
    open_client(&clients[1], WHOLE_RESP);
    for (int i = 0; i < 2; i++) {
        whole_server_pass(&server, 1000);
        ask(&clients[0], "PING\r\n", "-NOAUTH");
    }
    ask(&clients[1], "AUTH secret\r\n", "+OK");
    whole_server_pass(&server, 999);
    ask(&clients[0], "PING\r\n", "-NOAUTH");
    whole_server_pass(&server, 1);
    whole_server_settle(&server, clients, 2);
    assert_true(
        has_answer(&clients[0], "-ERR the client did not authenticate within auth-timeout"));
    assert_true(clients[0].is_closed);
    whole_server_pass(&server, 3600000);
    ask(&clients[1], "PING\r\n", "+PONG");
    ask(&clients[1], "RESET\r\n", "+RESET"); /* and it is unauthenticated again */
    whole_server_pass(&server, 3000);
    whole_server_settle(&server, clients, 2);
    assert_true(clients[1].is_closed);
    whole_server_pass(&server, 3000); /* until both have received their errors */
    assert_int_equal(ended(RATION_CLOSE_REASON_AUTH_TIMEOUT), 2);
    close_clients(clients, 2);
}

#define CHECK_SECRET "Authorization: Bearer secret\r\n"

/* Only a completed request extends it, and not beyond the timeout of a client with the secret. */
static void an_http_client_authenticates_in_time_or_is_closed(void **unused)
{
    enum { IDLE, EMPTY_LINES, HEADERS, OPEN, HEALTH_WITH_SECRET, AUTHENTICATED, CLIENTS };
    struct whole_client clients[CLIENTS];

    (void)unused;
    start("secret", NULL, (struct ration_server_limits){.auth_timeout_s = 3});
    for (int i = 0; i < CLIENTS; i++)
        open_client(&clients[i], WHOLE_HTTP);
    whole_server_pass(&server, 2000);
    whole_client_send(&server, &clients[EMPTY_LINES], "\r\n", 2);
    whole_client_send(&server, &clients[HEADERS], "GET / HTTP/1.1\r\nX: y", 20);
    ask(&clients[OPEN], "GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n", "200 OK");
    ask(&clients[HEALTH_WITH_SECRET],
        "GET /healthz HTTP/1.1\r\nHost: localhost\r\n" CHECK_SECRET "\r\n", "200 OK");
    ask(&clients[AUTHENTICATED],
        "GET /v1/limits HTTP/1.1\r\nHost: localhost\r\n" CHECK_SECRET "\r\n", "200 OK");
    whole_server_pass(&server, 999);
    whole_server_settle(&server, clients, CLIENTS);
    for (int i = 0; i < CLIENTS; i++)
        assert_false(clients[i].is_closed);
    whole_server_pass(&server, 1);
    whole_server_settle(&server, clients, CLIENTS);
    for (int i = 0; i < CLIENTS; i++)
        assert_int_equal(clients[i].is_closed, i <= HEADERS);
    assert_true(has_answer(&clients[HEADERS], "HTTP/1.1 408 "));
    assert_int_equal(clients[IDLE].answer_size, 0);
    whole_server_pass(&server, 3000);
    whole_server_settle(&server, clients, CLIENTS);
    assert_true(clients[OPEN].is_closed);
    /* otherwise the lifetime of a connection would reveal a correct guess without counting wrong ones */
    assert_true(clients[HEALTH_WITH_SECRET].is_closed);
    assert_false(clients[AUTHENTICATED].is_closed);
    assert_int_equal(ended(RATION_CLOSE_REASON_AUTH_TIMEOUT), HEADERS + 1 + 2);
    close_clients(clients, CLIENTS);
}

static void a_transaction_ends_in_time_or_is_closed(void **unused)
{
    struct whole_client clients[2];

    (void)unused;
    start(NULL, NULL, (struct ration_server_limits){.multi_timeout_s = 5});
    open_client(&clients[0], WHOLE_RESP);
    open_client(&clients[1], WHOLE_RESP);
    ask(&clients[0], "MULTI\r\n", "+OK");
    ask(&clients[1], "MULTI\r\n", "+OK");
    for (int i = 0; i < 4; i++) {
        whole_server_pass(&server, 1000);
        ask(&clients[0], "PING\r\n", "+QUEUED");
    }
    ask(&clients[1], "PING\r\nEXEC\r\n", "*1\r\n+PONG");
    whole_server_pass(&server, 999);
    ask(&clients[0], "PING\r\n", "+QUEUED");
    whole_server_pass(&server, 1);
    whole_server_settle(&server, clients, 2);
    assert_true(
        has_answer(&clients[0], "-ERR the transaction was open for longer than multi-timeout"));
    whole_server_pass(&server, 3600000);
    ask(&clients[1], "MULTI\r\nDISCARD\r\n", "+OK");
    whole_server_pass(&server, 3600000);
    ask(&clients[1], "PING\r\n", "+PONG");
    assert_int_equal(ended(RATION_CLOSE_REASON_MULTI_TIMEOUT), 1);
    close_clients(clients, 2);
}

/* The number of connections ------------------------------------------------------------------ */

#define PLACES 16

/* A full server closes the client that has waited longest, and never an authenticated client. */
static void unauthenticated_clients_make_room(void **unused)
{
    struct whole_client clients[3 * PLACES];

    (void)unused;
    start("secret", NULL, (struct ration_server_limits){.connections_max = PLACES});
    for (int i = 0; i < PLACES; i++)
        open_client(&clients[i], WHOLE_RESP);
    assert_int_equal(ended(RATION_CLOSE_REASON_EVICTED), PLACES / 8); /* the reserved places */
    for (int i = PLACES; i < 2 * PLACES; i++) {
        open_client(&clients[i], WHOLE_RESP);
        ask(&clients[i], "AUTH secret\r\n", "+OK");
    }
    for (int i = 0; i < PLACES; i++) {
        whole_client_take(&clients[i]);
        assert_true(clients[i].is_closed);
    }
    for (int i = 2 * PLACES; i < 3 * PLACES; i++) {
        open_client(&clients[i], WHOLE_RESP);
        assert_true(has_answer(&clients[i], "max number of clients reached"));
    }
    for (int i = PLACES; i < 2 * PLACES; i++)
        ask(&clients[i], "PING\r\n", "+PONG");
    assert_int_equal(ended(RATION_CLOSE_REASON_EVICTED), PLACES);
    assert_int_equal(ended(RATION_CLOSE_REASON_MAX_CONNECTIONS), PLACES);
    close_clients(clients, 3 * PLACES);
}

/* So an operator can connect. A client in the middle of a request is closed like any other. */
static void http_clients_without_the_token_make_room(void **unused)
{
    struct whole_client clients[PLACES], operator, another;

    (void)unused;
    start("secret", "token", (struct ration_server_limits){.connections_max = PLACES});
    for (int i = 0; i < PLACES - 2; i++) {
        open_client(&clients[i], WHOLE_HTTP);
        ask(&clients[i], "GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n", "200 OK");
    }
    whole_client_send(&server, &clients[0], "GET /heal", 9);
    whole_server_settle(&server, clients, 1);
    for (int i = 0; i < 2; i++) {
        open_client(&operator, WHOLE_HTTP);
        ask(&operator,
            "GET /v1/top HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer token\r\n\r\n",
            "200 OK");
        if (i == 0)
            another = operator;
    }
    for (int i = 0; i < 4; i++) {
        struct whole_client newcomer;

        open_client(&newcomer, WHOLE_HTTP);
        ask(&newcomer, "GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n", "200 OK");
        whole_client_close(&newcomer);
        whole_server_settle(&server, NULL, 0);
    }
    whole_client_take(&clients[0]);
    assert_true(clients[0].is_closed);
    ask(&clients[PLACES - 3], "GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n", "200 OK");
    ask(&operator, "GET /v1/top HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer token\r\n\r\n",
        "200 OK");
    ask(&another, "GET /v1/top HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer token\r\n\r\n",
        "200 OK");
    whole_client_close(&operator);
    whole_client_close(&another);
    close_clients(clients, PLACES - 2);
}

/* Whatever unauthenticated clients have begun, a client with a secret can connect, and stays connected. */
static void requests_that_never_end_make_room(void **unused)
{
    static const struct {
        enum whole_protocol protocol;
        const char *part;
    } rows[] = {
        {WHOLE_HTTP, "GET / HTTP/1.1\r\nX: y"},
        {WHOLE_HTTP, "\r\n"},
        {WHOLE_HTTP, "GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\nG"},
        {WHOLE_HTTP, "POST /v1/check HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9\r\n\r\n"},
        {WHOLE_HTTP, "X"},
        {WHOLE_RESP, "*2\r\n$4\r\nAU"},
        {WHOLE_RESP, "*x\r\n"}};
    static const char request[] =
        "GET /v1/limits HTTP/1.1\r\nHost: localhost\r\n" CHECK_SECRET "\r\n";
    enum { ATTACKERS = 3 * PLACES };

    (void)unused;
    for (size_t row = 0; row < sizeof(rows) / sizeof(rows[0]); row++) {
        struct whole_client attackers[ATTACKERS], operators[2];

        start("secret", "token", (struct ration_server_limits){.connections_max = PLACES});
        for (int i = 0; i < ATTACKERS; i++) {
            if (i == 2 * PLACES) { /* these connect, then others, and then these authenticate */
                open_client(&operators[0], WHOLE_RESP);
                open_client(&operators[1], WHOLE_HTTP);
            }
            if (i == 2 * PLACES + PLACES / 2) {
                ask(&operators[0], "AUTH token\r\n", "+OK");
                ask(&operators[1], request, "200 OK");
            }
            open_client(&attackers[i], rows[row].protocol);
            whole_client_send(&server, &attackers[i], rows[row].part, strlen(rows[row].part));
            whole_server_settle(&server, NULL, 0);
        }
        ask(&operators[0], "PING\r\n", "+PONG");
        ask(&operators[1], request, "200 OK");
        assert_true(server.service.loops->unauthenticated_count <= PLACES - PLACES / 8);
        whole_client_close(&operators[0]);
        whole_client_close(&operators[1]);
        close_clients(attackers, ATTACKERS);
    }
}

/* Even if more clients connect at once than allowed: the server reads what has arrived before it closes a client. */
static void a_secret_that_has_arrived_is_read_before_room_is_made(void **unused)
{
    enum { ATTACKERS = 3 * PLACES };
    struct whole_client attackers[ATTACKERS], operator;

    (void)unused;
    start("secret", "token", (struct ration_server_limits){.connections_max = PLACES});
    open_client(&operator, WHOLE_RESP);
    for (int i = 0; i < ATTACKERS; i++)
        whole_client_open(&server, &attackers[i], WHOLE_HTTP);
    ask(&operator, "AUTH token\r\n", "+OK");
    ask(&operator, "PING\r\n", "+PONG");
    whole_client_close(&operator);
    close_clients(attackers, ATTACKERS);
}

/* Guesses ------------------------------------------------------------------------------------ */

#define FREE_FAILURES 20

static const char wrong_token[] =
    "GET /v1/top HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer x\r\n\r\n";

/* Sends a wrong credential; the reply must arrive after one second and not earlier. */
static void expect_delay(struct whole_client *client, const char *request, const char *expected)
{
    whole_client_forget(client);
    whole_client_send(&server, client, request, strlen(request));
    whole_server_settle(&server, client, 1);
    assert_int_equal(client->answer_size, 0);
    whole_server_pass(&server, RATION_DELAY_MS - 1);
    whole_server_settle(&server, client, 1);
    assert_int_equal(client->answer_size, 0);
    whole_server_pass(&server, 1);
    whole_server_settle(&server, client, 1);
    assert_true(has_answer(client, expected));
}

/* Clients that guess wait; a client with the secret does not, even from the same address. */
static void wrong_credentials_are_delayed(void **unused)
{
    struct whole_client clients[3];

    (void)unused;
    start("secret", "token", (struct ration_server_limits){.auth_timeout_s = 60});
    open_client(&clients[0], WHOLE_RESP);
    open_client(&clients[1], WHOLE_HTTP);
    open_client(&clients[2], WHOLE_RESP);
    for (int i = 0; i < FREE_FAILURES / 2; i++) {
        ask(&clients[0], "AUTH wrong\r\n", "-WRONGPASS");
        ask(&clients[1], wrong_token, "401 Unauthorized");
    }
    expect_delay(&clients[0], "AUTH wrong\r\n", "-WRONGPASS");
    expect_delay(&clients[0], "HELLO 3 AUTH default wrong\r\n", "-WRONGPASS");
    expect_delay(&clients[1], wrong_token, "401 Unauthorized");
    expect_delay(&clients[1],
                 "GET /metrics HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer x\r\n\r\n",
                 "401 Unauthorized");
    whole_client_forget(&clients[0]);
    whole_client_send(&server, &clients[0], "AUTH wrong\r\nAUTH wrong\r\nAUTH secret\r\n", 37);
    whole_server_settle(&server, clients, 1);
    for (int i = 0; i < 2; i++) { /* one by one, even if they arrived together */
        assert_false(has_answer(&clients[0], "+OK"));
        whole_server_pass(&server, RATION_DELAY_MS);
        whole_server_settle(&server, clients, 1);
    }
    assert_true(has_answer(&clients[0], "+OK"));
    ask(&clients[2], "AUTH secret\r\n", "+OK");
    ask(&clients[1],
        "GET /v1/top HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer token\r\n\r\n", "200 OK");
    ask(&clients[1], "GET /v1/top HTTP/1.1\r\nHost: localhost\r\n\r\n", "401"); /* not a guess */
    ration_clock_manual_advance(&server.manual, 6 * RATION_NS_PER_SECOND);
    ask(&clients[1], wrong_token, "401 Unauthorized"); /* 10 a minute are answered at once */
    expect_delay(&clients[1], wrong_token, "401 Unauthorized");
    assert_int_equal(server.service.loops->delayed_count, 0);
    close_clients(clients, 3);
}

/* Counts the lines logged since; then the log is the standard error again. */
static unsigned count_lines(const int pipe_fds[2])
{
    char text[65536];
    ssize_t size = read(pipe_fds[0], text, sizeof(text));
    unsigned count = 0;

    for (ssize_t i = 0; i < size; i++)
        count += text[i] == '\n';
    ration_log_open(2, false, RATION_LOG_INFO);
    close(pipe_fds[0]);
    close(pipe_fds[1]);
    return count;
}

/* Beyond the bound the server closes clients that guess, and no others. Many failures make few log lines. */
static void delayed_replies_are_bounded(void **unused)
{
    enum { CLIENTS = RATION_DELAYED_MAX + 8 };
    static struct whole_client clients[CLIENTS];
    struct whole_client beside;
    int pipe_fds[2];

    (void)unused;
    assert_int_equal(pipe2(pipe_fds, O_NONBLOCK | O_CLOEXEC), 0);
    ration_log_open(pipe_fds[1], false, RATION_LOG_INFO);
    start("secret", NULL, (struct ration_server_limits){0});
    open_client(&beside, WHOLE_RESP);
    for (int i = 0; i < FREE_FAILURES; i++)
        ask(&beside, "AUTH wrong\r\n", "-WRONGPASS");
    for (int i = 0; i < CLIENTS; i++) {
        whole_client_open(&server, &clients[i], WHOLE_RESP);
        whole_client_send(&server, &clients[i], "AUTH wrong\r\n", 12);
        whole_server_turn(&server); /* accepts */
        whole_server_turn(&server); /* and receives */
        whole_client_take(&clients[i]);
        assert_int_equal(clients[i].answer_size, 0);
        assert_int_equal(clients[i].is_closed, i >= RATION_DELAYED_MAX);
    }
    assert_int_equal(ended(RATION_CLOSE_REASON_AUTH_FAILURES), CLIENTS - RATION_DELAYED_MAX);
    assert_in_range(count_lines(pipe_fds), 1, 5);
    ask(&beside, "AUTH secret\r\n", "+OK");
    whole_server_pass(&server, RATION_DELAY_MS);
    whole_server_settle(&server, clients, CLIENTS);
    for (int i = 0; i < RATION_DELAYED_MAX; i++)
        assert_true(has_answer(&clients[i], "-WRONGPASS"));
    whole_client_close(&beside);
    close_clients(clients, CLIENTS);
}

/* Memory ------------------------------------------------------------------------------------- */

static void expect_budget(uint64_t max)
{
    assert_true(server.service.loops->memory_bytes > 0);
    assert_true(server.service.loops->memory_bytes <= max);
}

/* Many queues together use no more than the budget, and a small request of another client is served. */
static void queues_of_transactions_share_the_budget(void **unused)
{
    enum { CLIENTS = 64 };
    struct whole_client clients[CLIENTS], beside;
    static char queued[20000];
    int refused = 0;

    (void)unused;
    snprintf(queued, sizeof(queued), "MULTI\r\nECHO %0*d\r\n", 15000, 1);
    start(NULL, NULL, (struct ration_server_limits){.connection_memory_max = MIB});
    for (int i = 0; i < CLIENTS; i++) {
        open_client(&clients[i], WHOLE_RESP);
        for (int round = 0; round < 8; round++) {
            whole_client_send(&server, &clients[i], round == 0 ? queued : queued + 7,
                              strlen(round == 0 ? queued : queued + 7));
            whole_server_settle(&server, &clients[i], 1);
            expect_budget(MIB);
        }
        if (has_answer(&clients[i],
                       "-ERR the buffers of all connections exceed max-connection-memory")) {
            ask(&clients[i], "EXEC\r\n", "-EXECABORT Transaction discarded because of previous");
            refused++;
        }
    }
    assert_in_range(refused, 1, CLIENTS - 1);
    open_client(&beside, WHOLE_RESP);
    ask(&beside, "MULTI\r\nPING\r\nEXEC\r\n", "*1\r\n+PONG");
    whole_client_close(&beside);
    close_clients(clients, CLIENTS);
}

static void partial_requests_share_the_budget(void **unused)
{
    enum { CLIENTS = 8 };
    struct whole_client clients[CLIENTS];
    static const char head[] =
        "POST /v1/check HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
        "Content-Length: 1000000\r\n\r\n";
    static char part[700000];
    int refused = 0;

    (void)unused;
    memset(part, ' ', sizeof(part));
    start(NULL, NULL,
          (struct ration_server_limits){.connection_memory_max = 2 * MIB,
                                        .input_bytes_max = 2 * MIB});
    memcpy(part, head, sizeof(head) - 1);
    for (int i = 0; i < CLIENTS; i++) {
        open_client(&clients[i], WHOLE_HTTP);
        whole_client_send(&server, &clients[i], part, sizeof(part));
        whole_server_settle(&server, &clients[i], 1);
        expect_budget(2 * MIB);
        refused += has_answer(&clients[i], "503 Service Unavailable");
    }
    assert_in_range(refused, 1, CLIENTS - 1);
    close_clients(clients, CLIENTS);
}

/* These clients do not read their replies. */
static void unsent_replies_share_the_budget(void **unused)
{
    enum { CLIENTS = 16 };
    struct whole_client clients[CLIENTS], beside;
    static char echo[30000];

    (void)unused;
    snprintf(echo, sizeof(echo), "ECHO %0*d\r\n", 20000, 1);
    start(NULL, NULL, (struct ration_server_limits){.connection_memory_max = 2 * MIB});
    for (int i = 0; i < CLIENTS; i++) {
        open_client(&clients[i], WHOLE_RESP);
        for (int round = 0; round < 100; round++) {
            (void)!send(clients[i].fd, echo, strlen(echo), MSG_NOSIGNAL);
            whole_server_settle(&server, NULL, 0);
        }
        expect_budget(2 * MIB + 16 * CLIENTS * 1024); /* errors that are the last replies */
    }
    assert_true(server.service.loops->memory_bytes > MIB);
    open_client(&beside, WHOLE_RESP);
    ask(&beside, "PING\r\n", "+PONG");
    whole_client_close(&beside);
    for (int i = 0; i < CLIENTS; i++)
        whole_client_take(&clients[i]);
    whole_server_settle(&server, clients, CLIENTS);
    assert_true(has_answer(&clients[CLIENTS - 1], "max-connection-memory; try again later\r\n"));
    close_clients(clients, CLIENTS);
}

/* Sends a batch of checks with the secret, of as many bytes as unauthenticated clients must leave free. */
static void expect_batch(size_t size)
{
    struct whole_client client;
    struct ration_output request;
    char head[256];

    snprintf(head, sizeof(head),
             "POST /v1/check HTTP/1.1\r\nHost: localhost\r\n" CHECK_SECRET
             "Content-Type: application/json\r\nContent-Length: %zu\r\n\r\n",
             size + 17);
    ration_output_init(&request, MIB);
    ration_output_append_text(&request, head);
    for (size_t i = 0; i < size; i++)
        ration_output_append_byte(&request, ' ');
    ration_output_append_text(&request, "{\"attributes\":{}}");
    assert_false(request.is_failed);
    open_client(&client, WHOLE_HTTP);
    whole_client_send(&server, &client, request.bytes, request.size);
    whole_server_settle(&server, &client, 1);
    assert_true(has_answer(&client, "HTTP/1.1 200 "));
    whole_client_close(&client);
    ration_output_done(&request);
}

/* However many there are: here with endless headers, and with replies that they do not read. */
static void unauthenticated_clients_leave_memory_to_others(void **unused)
{
    enum { CLIENTS = 100, PIPELINE = 200 };
    static const char get[] = "GET /openapi.yaml HTTP/1.1\r\nHost: localhost\r\n\r\n";
    static char part[12000], pipeline[PIPELINE * (sizeof(get) - 1)];

    (void)unused;
    snprintf(part, sizeof(part), "GET / HTTP/1.1\r\nX: %0*d", 11000, 1);
    for (size_t i = 0; i < PIPELINE; i++)
        memcpy(pipeline + i * (sizeof(get) - 1), get, sizeof(get) - 1);
    for (int is_pipeline = 0; is_pipeline < 2; is_pipeline++) {
        struct whole_client clients[CLIENTS];

        start("secret", NULL, (struct ration_server_limits){.connection_memory_max = 2 * MIB});
        for (int i = 0; i < CLIENTS; i++) {
            open_client(&clients[i], WHOLE_HTTP);
            (void)!send(clients[i].fd, is_pipeline ? pipeline : part,
                        is_pipeline ? sizeof(pipeline) : strlen(part), MSG_NOSIGNAL);
            whole_server_settle(&server, NULL, 0);
            assert_true(server.service.loops->memory_bytes <= MIB);
        }
        assert_true(server.service.loops->unauthenticated_bytes > 0);
        expect_batch(40000);
        close_clients(clients, CLIENTS);
    }
}

/* Even a single unauthenticated client gets little memory. */
static void an_unauthenticated_client_that_does_not_read_has_little_memory(void **unused)
{
    struct whole_client client;

    (void)unused;
    start("secret", NULL, (struct ration_server_limits){0});
    open_client(&client, WHOLE_HTTP);
    for (int i = 0; i < 1000; i++) {
        (void)!send(client.fd, "GET /openapi.yaml HTTP/1.1\r\nHost: localhost\r\n\r\n", 47,
                    MSG_NOSIGNAL | MSG_DONTWAIT);
        whole_server_settle(&server, NULL, 0);
    }
    assert_in_range(server.service.loops->memory_bytes, 1, 4 * 65536);
    close_clients(&client, 1);
}

/* If the headers suffice to refuse a request, the server does not wait for the body, and the reply does not depend on it. */
static void requests_are_refused_before_their_body(void **unused)
{
    static const struct {
        const char *target, *header, *status;
    } rows[] = {{"/v1/check", "Expect: 100-continue\r\n", "HTTP/1.1 401 "},
                {"/v1/check", "Authorization: Bearer wrong\r\n", "HTTP/1.1 401 "},
                {"/v1/reset", CHECK_SECRET, "HTTP/1.1 403 "},
                {"/nowhere", "X: y\r\n", "HTTP/1.1 404 "},
                {"/nowhere", CHECK_SECRET, "HTTP/1.1 404 "},
                {"/healthz", "X: y\r\n", "HTTP/1.1 405 "},
                {"/v1/check", CHECK_SECRET "Origin: http://evil.example\r\n", "HTTP/1.1 403 "},
                {"/v1/peek", CHECK_SECRET "Content-Type: application/json\r\n", NULL}};
    static const char *const bodies[][2] = {
        {"Content-Length: 17", "{\"attributes\":{}}"},
        {"Transfer-Encoding: chunked", "11\r\n{\"attributes\":{}}\r\n0\r\n\r\n"}};

    (void)unused;
    start("secret", "token", (struct ration_server_limits){0});
    for (size_t i = 0; i < 2 * sizeof(rows) / sizeof(rows[0]); i++) {
        struct whole_client clients[2];
        char text[512], *body;

        snprintf(text, sizeof(text), "POST %s HTTP/1.1\r\nHost: localhost\r\n%s%s\r\n\r\n%s",
                 rows[i / 2].target, rows[i / 2].header, bodies[i % 2][0], bodies[i % 2][1]);
        body = strstr(text, "\r\n\r\n") + 4;
        open_client(&clients[0], WHOLE_HTTP);
        open_client(&clients[1], WHOLE_HTTP);
        whole_client_send(&server, &clients[0], text, (size_t)(body - text));
        whole_server_settle(&server, clients, 1);
        if (rows[i / 2].status == NULL) {
            assert_int_equal(clients[0].answer_size, 0);
            whole_client_send(&server, &clients[0], body, strlen(body));
            whole_server_settle(&server, clients, 1);
        }
        whole_client_send(&server, &clients[1], text, strlen(text));
        whole_server_settle(&server, clients, 2);
        assert_true(
            has_answer(&clients[0], rows[i / 2].status == NULL ? "200 OK" : rows[i / 2].status));
        assert_int_equal(clients[0].is_closed, rows[i / 2].status != NULL);
        assert_int_equal(clients[1].is_closed, rows[i / 2].status != NULL);
        assert_int_equal(clients[0].answer_size, clients[1].answer_size);
        assert_memory_equal(clients[0].answers, clients[1].answers, clients[0].answer_size);
        whole_client_close(&clients[0]);
        whole_client_close(&clients[1]);
    }
    close_clients(NULL, 0);
}

static void a_transaction_over_its_bound_is_discarded(void **unused)
{
    struct whole_client client;
    static char echo[40000];

    (void)unused;
    snprintf(echo, sizeof(echo), "ECHO %0*d\r\n", 30000, 1);
    start(NULL, NULL, (struct ration_server_limits){0});
    open_client(&client, WHOLE_RESP);
    ask(&client, "MULTI\r\n", "+OK");
    for (int i = 0; i < 34; i++)
        ask(&client, echo, "+QUEUED");
    ask(&client, echo, "-ERR the requests of one MULTI are at most 1048576 bytes");
    assert_int_equal(server.service.loops->memory_bytes, 0);
    ask(&client, echo, "+QUEUED"); /* as Redis: the error was reported */
    ask(&client, "EXEC\r\n", "-EXECABORT Transaction discarded because of previous errors.");
    ask(&client, "MULTI\r\nPING\r\nEXEC\r\n", "*1\r\n+PONG");
    close_clients(&client, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_client_authenticates_in_time_or_is_closed),
        cmocka_unit_test(an_http_client_authenticates_in_time_or_is_closed),
        cmocka_unit_test(a_transaction_ends_in_time_or_is_closed),
        cmocka_unit_test(unauthenticated_clients_make_room),
        cmocka_unit_test(http_clients_without_the_token_make_room),
        cmocka_unit_test(requests_that_never_end_make_room),
        cmocka_unit_test(a_secret_that_has_arrived_is_read_before_room_is_made),
        cmocka_unit_test(wrong_credentials_are_delayed),
        cmocka_unit_test(delayed_replies_are_bounded),
        cmocka_unit_test(queues_of_transactions_share_the_budget),
        cmocka_unit_test(partial_requests_share_the_budget),
        cmocka_unit_test(unsent_replies_share_the_budget),
        cmocka_unit_test(unauthenticated_clients_leave_memory_to_others),
        cmocka_unit_test(an_unauthenticated_client_that_does_not_read_has_little_memory),
        cmocka_unit_test(requests_are_refused_before_their_body),
        cmocka_unit_test(a_transaction_over_its_bound_is_discarded),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
