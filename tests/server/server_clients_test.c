/*
 * What clients may hold: time without a credential, time and memory inside MULTI, places, and memory of
 * all together.
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "server/log.h"
#include "server/loop_parts.h"
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

static uint64_t ended(enum ration_ending ending)
{
    struct ration_loop_counters counters;

    ration_loop_counters(server.loop, &counters);
    return counters.ended[ending];
}

static bool says(const struct whole_client *client, const char *text)
{
    return client->answer_size > 0 &&
           memmem(client->answers, client->answer_size, text, strlen(text)) != NULL;
}

/* Sends, lets the server answer, and expects this in what it said since. */
static void ask(struct whole_client *client, const char *request, const char *expected)
{
    whole_client_forget(client);
    whole_client_send(&server, client, request, strlen(request));
    whole_server_settle(&server, client, 1);
    if (!says(client, expected))
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

/* Requests do not prolong it. */
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
    assert_true(says(&clients[0], "-ERR the client did not authenticate within auth-timeout"));
    assert_true(clients[0].is_closed);
    whole_server_pass(&server, 3600000);
    ask(&clients[1], "PING\r\n", "+PONG");
    ask(&clients[1], "RESET\r\n", "+RESET"); /* and it is where it began */
    whole_server_pass(&server, 3000);
    whole_server_settle(&server, clients, 2);
    assert_true(clients[1].is_closed);
    whole_server_pass(&server, 3000); /* for both to be heard out */
    assert_int_equal(ended(RATION_ENDING_AUTH_TIMEOUT), 2);
    close_clients(clients, 2);
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
    assert_true(says(&clients[0], "-ERR the transaction was open for longer than multi-timeout"));
    whole_server_pass(&server, 3600000);
    ask(&clients[1], "MULTI\r\nDISCARD\r\n", "+OK");
    whole_server_pass(&server, 3600000);
    ask(&clients[1], "PING\r\n", "+PONG");
    assert_int_equal(ended(RATION_ENDING_MULTI_TIMEOUT), 1);
    close_clients(clients, 2);
}

/* Places ------------------------------------------------------------------------------------- */

#define PLACES 16

/* A full server closes the one that has waited longest, and never one that has authenticated. */
static void unauthenticated_clients_make_room(void **unused)
{
    struct whole_client clients[3 * PLACES];

    (void)unused;
    start("secret", NULL, (struct ration_server_limits){.connections_max = PLACES});
    for (int i = 0; i < PLACES; i++)
        open_client(&clients[i], WHOLE_RESP);
    assert_int_equal(ended(RATION_ENDING_EVICTED), PLACES / 8); /* places that are reserved */
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
        assert_true(says(&clients[i], "max number of clients reached"));
    }
    for (int i = PLACES; i < 2 * PLACES; i++)
        ask(&clients[i], "PING\r\n", "+PONG");
    assert_int_equal(ended(RATION_ENDING_EVICTED), PLACES);
    assert_int_equal(ended(RATION_ENDING_CONNECTIONS_MAX), PLACES);
    close_clients(clients, 3 * PLACES);
}

/* So operators get in, and the client in the middle of a request is left alone. */
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
    ask(&clients[0], "thz HTTP/1.1\r\nHost: localhost\r\n\r\n", "200 OK");
    whole_client_take(&clients[1]);
    assert_true(clients[1].is_closed);
    ask(&operator, "GET /v1/top HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer token\r\n\r\n",
        "200 OK");
    ask(&another, "GET /v1/top HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer token\r\n\r\n",
        "200 OK");
    whole_client_close(&operator);
    whole_client_close(&another);
    close_clients(clients, PLACES - 2);
}

/* Guesses ------------------------------------------------------------------------------------ */

#define FREE_FAILURES 20

static const char wrong_token[] =
    "GET /v1/top HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer x\r\n\r\n";

/* Sends a wrong credential, whose reply must come after a second and not before. */
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
    assert_true(says(client, expected));
}

/* Those that guess wait; who knows the secret does not, from the same address. */
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
    for (int i = 0; i < 2; i++) { /* one by one, also where they came together */
        assert_false(says(&clients[0], "+OK"));
        whole_server_pass(&server, RATION_DELAY_MS);
        whole_server_settle(&server, clients, 1);
    }
    assert_true(says(&clients[0], "+OK"));
    ask(&clients[2], "AUTH secret\r\n", "+OK");
    ask(&clients[1],
        "GET /v1/top HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer token\r\n\r\n", "200 OK");
    ask(&clients[1], "GET /v1/top HTTP/1.1\r\nHost: localhost\r\n\r\n", "401"); /* is no guess */
    ration_manual_clock_advance(&server.manual, 6 * RATION_NS_PER_SECOND);
    ask(&clients[1], wrong_token, "401 Unauthorized"); /* 10 a minute are answered at once */
    expect_delay(&clients[1], wrong_token, "401 Unauthorized");
    assert_int_equal(server.service.loops->delayed_count, 0);
    close_clients(clients, 3);
}

/* What was logged since, in lines; then the log is the standard error again. */
static unsigned count_lines(const int pipe_fds[2])
{
    char text[65536];
    ssize_t size = read(pipe_fds[0], text, sizeof(text));
    unsigned count = 0;

    for (ssize_t i = 0; i < size; i++)
        count += text[i] == '\n';
    ration_log_open(2, false);
    close(pipe_fds[0]);
    close(pipe_fds[1]);
    return count;
}

/* Beyond it a client that guesses is closed, and nobody else. So many failures are few lines in the log. */
static void delayed_replies_are_bounded(void **unused)
{
    enum { CLIENTS = RATION_DELAYED_MAX + 8 };
    static struct whole_client clients[CLIENTS];
    struct whole_client beside;
    int pipe_fds[2];

    (void)unused;
    assert_int_equal(pipe2(pipe_fds, O_NONBLOCK | O_CLOEXEC), 0);
    ration_log_open(pipe_fds[1], false);
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
    assert_int_equal(ended(RATION_ENDING_AUTH_FAILURES), CLIENTS - RATION_DELAYED_MAX);
    assert_in_range(count_lines(pipe_fds), 1, 5);
    ask(&beside, "AUTH secret\r\n", "+OK");
    whole_server_pass(&server, RATION_DELAY_MS);
    whole_server_settle(&server, clients, CLIENTS);
    for (int i = 0; i < RATION_DELAYED_MAX; i++)
        assert_true(says(&clients[i], "-WRONGPASS"));
    whole_client_close(&beside);
    close_clients(clients, CLIENTS);
}

/* Memory ------------------------------------------------------------------------------------- */

static void expect_budget(uint64_t max)
{
    assert_true(server.service.loops->memory_bytes > 0);
    assert_true(server.service.loops->memory_bytes <= max);
}

/* Many of them hold no more than the budget, and a client with little needs is served beside them. */
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
        if (says(&clients[i], "-ERR the buffers of all connections exceed connection-memory-max")) {
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
        refused += says(&clients[i], "503 Service Unavailable");
    }
    assert_in_range(refused, 1, CLIENTS - 1);
    close_clients(clients, CLIENTS);
}

/* Nobody takes the replies of these. */
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
    assert_true(says(&clients[CLIENTS - 1], "connection-memory-max; try again later\r\n"));
    close_clients(clients, CLIENTS);
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
    ask(&client, echo, "+QUEUED"); /* as Redis: the error was told */
    ask(&client, "EXEC\r\n", "-EXECABORT Transaction discarded because of previous errors.");
    ask(&client, "MULTI\r\nPING\r\nEXEC\r\n", "*1\r\n+PONG");
    close_clients(&client, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_client_authenticates_in_time_or_is_closed),
        cmocka_unit_test(a_transaction_ends_in_time_or_is_closed),
        cmocka_unit_test(unauthenticated_clients_make_room),
        cmocka_unit_test(http_clients_without_the_token_make_room),
        cmocka_unit_test(wrong_credentials_are_delayed),
        cmocka_unit_test(delayed_replies_are_bounded),
        cmocka_unit_test(queues_of_transactions_share_the_budget),
        cmocka_unit_test(partial_requests_share_the_budget),
        cmocka_unit_test(unsent_replies_share_the_budget),
        cmocka_unit_test(a_transaction_over_its_bound_is_discarded),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
