/*
 * Whole runs against a server in this process, which counts requests and answers as the case requires: the client's
 * counts of requests and answers must equal the server's.
 */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "load/load.h"
#include "support/unit.h"

#define CONNECTIONS_MAX 64
#define BUFFER_SIZE     65536
#define DENIED_EACH     4 /* every fourth answer of a scene with denials is one */

enum send_options {
    ANSWER_ALWAYS,
    ANSWER_IN_PIECES, /* a few bytes at a time */
    CLOSE_AFTER_SOME, /* closes each connection after ten answers */
    ANSWER_TOO_MUCH,  /* two answers to a request */
    ANSWER_IN_ANOTHER_PROTOCOL
};

struct server {
    int listener_fd;
    enum load_protocol protocol;
    enum send_options send_options;
    size_t request_size;
    pthread_t thread;
    int stop_pipe[2];

    uint64_t request_count;
    uint64_t denied_count;
    uint64_t connection_count;
    bool saw_foreign_bytes; /* a request did not begin where the last one ended */

    struct pollfd polled[CONNECTIONS_MAX + 2];
    size_t partial_sizes[CONNECTIONS_MAX + 2];
    uint64_t answered_counts[CONNECTIONS_MAX + 2];
    nfds_t polled_count;
};

static struct load_plan plan;
static struct load_result result;
static struct load_error error;

/* The server ----------------------------------------------------------------------------- */

static const char *answer_of(struct server *server, bool denied)
{
    if (server->send_options == ANSWER_IN_ANOTHER_PROTOCOL)
        return server->protocol == LOAD_RESP ? "HTTP/1.1 400 Bad\r\nContent-Length: 0\r\n\r\n"
                                             : "+PONG\r\n";
    if (server->protocol == LOAD_RESP)
        return denied ? "*5\r\n:1\r\n:16\r\n:0\r\n:2\r\n:32\r\n"
                      : "*5\r\n:0\r\n:16\r\n:15\r\n:-1\r\n:2\r\n";
    return denied ? "HTTP/1.1 429 Too Many Requests\r\nContent-Length: 4\r\n\r\nlate"
                  : "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";
}

static void send_all(int socket_fd, const char *bytes, size_t size, size_t piece_size)
{
    while (size > 0) {
        ssize_t sent = send(socket_fd, bytes, size < piece_size ? size : piece_size, MSG_NOSIGNAL);

        if (sent <= 0)
            return; /* the client has disconnected: the case says whether it may */
        bytes += sent;
        size -= (size_t)sent;
    }
}

static void answer(struct server *server, nfds_t index)
{
    bool denied = ++server->request_count % DENIED_EACH == 0;
    const char *text = answer_of(server, denied);
    int times = server->send_options == ANSWER_TOO_MUCH ? 2 : 1;

    server->denied_count += denied;
    server->answered_counts[index]++;
    for (int i = 0; i < times; i++)
        send_all(server->polled[index].fd, text, strlen(text),
                 server->send_options == ANSWER_IN_PIECES ? 3 : SIZE_MAX);
}

static void drop(struct server *server, nfds_t index)
{
    close(server->polled[index].fd);
    server->polled[index].fd = -1;
}

/* Requests have one size, so they are counted by it; each begins with the same byte. */
static void serve(struct server *server, nfds_t index)
{
    char bytes[BUFFER_SIZE];
    ssize_t received = recv(server->polled[index].fd, bytes, sizeof(bytes), 0);

    if (received <= 0) {
        drop(server, index);
        return;
    }
    for (ssize_t i = 0; i < received; i++) {
        size_t *partial_size = &server->partial_sizes[index];

        if (*partial_size == 0 && bytes[i] != (server->protocol == LOAD_RESP ? '*' : 'G'))
            server->saw_foreign_bytes = true;
        if (++*partial_size < server->request_size)
            continue;
        *partial_size = 0;
        answer(server, index);
        if (server->send_options == CLOSE_AFTER_SOME && server->answered_counts[index] == 10) {
            drop(server, index);
            return;
        }
    }
}

static void accept_one(struct server *server)
{
    int socket_fd = accept(server->listener_fd, NULL, NULL);
    int on = 1;

    if (socket_fd < 0 || server->polled_count == CONNECTIONS_MAX + 2)
        abort();
    setsockopt(socket_fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
    server->connection_count++;
    server->polled[server->polled_count++] = (struct pollfd){.fd = socket_fd, .events = POLLIN};
}

static void *run_server(void *argument)
{
    struct server *server = argument;

    server->polled[0] = (struct pollfd){.fd = server->stop_pipe[0], .events = POLLIN};
    server->polled[1] = (struct pollfd){.fd = server->listener_fd, .events = POLLIN};
    server->polled_count = 2;
    while (poll(server->polled, server->polled_count, -1) > 0 && server->polled[0].revents == 0) {
        nfds_t count = server->polled_count;

        for (nfds_t i = 2; i < count; i++) {
            if (server->polled[i].fd >= 0 && server->polled[i].revents != 0)
                serve(server, i);
        }
        if (server->polled[1].revents != 0)
            accept_one(server);
    }
    return NULL;
}

static void start_with(struct server *server, enum load_protocol protocol,
                       enum send_options send_options, const char *command)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t address_size = sizeof(address);
    char text[64];

    memset(server, 0, sizeof(*server));
    server->protocol = protocol;
    server->send_options = send_options;
    server->listener_fd = socket(AF_INET, SOCK_STREAM, 0);
    assert_int_equal(pipe(server->stop_pipe), 0);
    assert_int_equal(bind(server->listener_fd, (struct sockaddr *)&address, address_size), 0);
    assert_int_equal(listen(server->listener_fd, CONNECTIONS_MAX), 0);
    assert_int_equal(getsockname(server->listener_fd, (struct sockaddr *)&address, &address_size),
                     0);

    memset(&plan, 0, sizeof(plan));
    plan = (struct load_plan){.protocol = protocol,
                              .connection_count = 4,
                              .pipeline_count = 1,
                              .thread_count = 1,
                              .seed = 1};
    snprintf(text, sizeof(text), "127.0.0.1:%d", ntohs(address.sin_port));
    assert_true(load_target_parse(text, &plan.target, &error));
    assert_true(load_keys_parse("uniform:1000", &plan.keys, &error));
    if (protocol == LOAD_RESP)
        assert_true(load_request_resp(command, NULL, &plan.request, &error));
    else
        assert_true(
            load_request_http(&(struct load_http_parts){.path = "/v1/check?ip={ip}", .host = text},
                              &plan.request, &error));
    server->request_size = plan.request.size;
    assert_int_equal(pthread_create(&server->thread, NULL, run_server, server), 0);
}

static void start(struct server *server, enum load_protocol protocol,
                  enum send_options send_options)
{
    start_with(server, protocol, send_options, "CL.THROTTLE {key} 15 30 60 1");
}

static void stop(struct server *server)
{
    assert_int_equal(write(server->stop_pipe[1], "", 1), 1);
    assert_int_equal(pthread_join(server->thread, NULL), 0);
    for (nfds_t i = 2; i < server->polled_count; i++) {
        if (server->polled[i].fd >= 0)
            close(server->polled[i].fd);
    }
    close(server->listener_fd);
    close(server->stop_pipe[0]);
    close(server->stop_pipe[1]);
}

/* Cases ---------------------------------------------------------------------------------- */

static void check_counts(const struct server *server)
{
    assert_false(server->saw_foreign_bytes);
    assert_int_equal(result.sent_count, server->request_count);
    assert_int_equal(load_totals_total(&result.totals), server->request_count);
    assert_int_equal(result.totals.denied_count, server->denied_count);
    assert_int_equal(result.totals.allowed_count, server->request_count - server->denied_count);
    assert_int_equal(result.totals.error_count, 0);
    assert_int_equal(server->connection_count, plan.connection_count + plan.idle_count);
}

static void run_counted(struct server *server, uint64_t request_count)
{
    plan.request_count = request_count;
    if (!load_run(&plan, NULL, NULL, &result, &error))
        fail_msg("%s", error.message);
    stop(server);
    check_counts(server);
    assert_int_equal(result.sent_count, request_count);
    assert_int_equal(result.latency.count, request_count);
    assert_true(result.latency.max_ns > 0);
    assert_true(result.latency.max_ns <= result.total_ns);
}

static void requests_are_sent_and_counted_exactly(void **state)
{
    static const struct {
        uint32_t connection_count;
        uint32_t pipeline_count;
        uint32_t thread_count;
        uint64_t request_count;
    } rows[] = {{1, 1, 1, 1},    {1, 1, 1, 100},      {4, 1, 1, 1001}, {3, 7, 1, 1000},
                {5, 64, 2, 999}, {16, 500, 3, 30000}, {8, 3, 8, 7}};
    struct server server;

    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        for (int protocol = LOAD_RESP; protocol <= LOAD_HTTP; protocol++) {
            start(&server, (enum load_protocol)protocol, ANSWER_ALWAYS);
            plan.connection_count = rows[i].connection_count;
            plan.pipeline_count = rows[i].pipeline_count;
            plan.thread_count = rows[i].thread_count;
            run_counted(&server, rows[i].request_count);
        }
    }
}

static void answers_in_pieces_are_put_together(void **state)
{
    struct server server;

    (void)state;
    for (int protocol = LOAD_RESP; protocol <= LOAD_HTTP; protocol++) {
        start(&server, (enum load_protocol)protocol, ANSWER_IN_PIECES);
        plan.pipeline_count = 5;
        run_counted(&server, 200);
    }
}

/* The kernel does not take 4096 large requests at once from a client that does not yet read. */
static void what_the_socket_does_not_take_is_sent_later(void **state)
{
    static char command[12000];
    struct server server;

    (void)state;
    memset(command, 'x', sizeof(command) - 1);
    memcpy(command, "CL.THROTTLE {key} ", 18);
    for (double rate_per_second = 0; rate_per_second <= 1e9; rate_per_second += 1e9) {
        start_with(&server, LOAD_RESP, ANSWER_ALWAYS, command);
        plan.rate_per_second = rate_per_second; /* an open loop adds to what is unsent */
        plan.pipeline_count = 1000;
        plan.connection_count = 2;
        run_counted(&server, 4000);
    }
}

static void an_open_loop_keeps_its_schedule(void **state)
{
    struct server server;

    (void)state;
    for (int protocol = LOAD_RESP; protocol <= LOAD_HTTP; protocol++) {
        start(&server, (enum load_protocol)protocol, ANSWER_ALWAYS);
        plan.rate_per_second = 20000;
        plan.pipeline_count = 8;
        plan.thread_count = 2;
        run_counted(&server, 2000);
        /* The last of 2000 is due after 1999 intervals of 50 us. */
        assert_true(result.total_ns >= UINT64_C(1999) * 50000);
        assert_int_equal(result.interval_ns, 0);
    }
}

/* At a rate that no server reaches, the wait for the schedule counts: the slowest waited most of the run. */
static void an_open_loop_counts_the_wait_for_a_turn(void **state)
{
    struct server server;

    (void)state;
    start(&server, LOAD_RESP, ANSWER_ALWAYS);
    plan.rate_per_second = 1e9;
    plan.connection_count = 1;
    run_counted(&server, 2000);
    assert_true(result.latency.max_ns > result.total_ns / 2);

    start(&server, LOAD_RESP, ANSWER_ALWAYS);
    plan.rate_per_second = 1e9;
    plan.duration_ns = 20000000;
    assert_true(load_run(&plan, NULL, NULL, &result, &error));
    stop(&server);
    check_counts(&server);
    assert_in_range(result.sent_count + result.never_sent_count, 19999999, 20000001);
}

/* Requests that are due at once are sent at once: at least one of some runs is not delayed by other load. */
static void an_open_loop_does_not_wait_for_what_is_due(void **state)
{
    struct server server;
    uint64_t shortest_ns = UINT64_MAX;

    (void)state;
    for (int i = 0; i < 20 && shortest_ns > 40000000; i++) {
        start(&server, LOAD_RESP, ANSWER_ALWAYS);
        plan.rate_per_second = 1e9;
        run_counted(&server, 1);
        if (result.total_ns < shortest_ns)
            shortest_ns = result.total_ns;
    }
    assert_true(shortest_ns <= 40000000);
}

static void a_run_by_time_ends_and_leaves_its_warm_up_out(void **state)
{
    struct server server;

    (void)state;
    start(&server, LOAD_RESP, ANSWER_ALWAYS);
    plan.warmup_ns = 20000000;
    plan.duration_ns = 50000000;
    assert_true(load_run(&plan, NULL, NULL, &result, &error));
    stop(&server);
    check_counts(&server);
    assert_true(result.latency.count > 0);
    assert_true(result.latency.count < result.sent_count);
    assert_true(result.total_ns >= 70000000);
    assert_true(result.measured_ns <= result.total_ns - 20000000);
    assert_true(result.interval_ns > 0);
}

static void idle_connections_are_opened_and_asked_once(void **state)
{
    struct server server;

    (void)state;
    start(&server, LOAD_HTTP, ANSWER_ALWAYS);
    plan.idle_count = 20;
    plan.request_count = 100;
    plan.server_pid = getpid();
    assert_true(load_run(&plan, NULL, NULL, &result, &error));
    stop(&server);
    assert_int_equal(server.connection_count, 24);
    assert_int_equal(server.request_count, 101);
    assert_int_equal(result.sent_count, 100);
    assert_true(result.server_cpu_ns > 0);
    assert_true(result.server_idle_bytes > 0);
}

static void expect_failure(enum load_protocol protocol, enum send_options send_options,
                           const char *words)
{
    struct server server;

    start(&server, protocol, send_options);
    plan.request_count = 1000;
    assert_false(load_run(&plan, NULL, NULL, &result, &error));
    stop(&server);
    if (strstr(error.message, words) == NULL)
        fail_msg("no '%s' in: %s", words, error.message);
}

static void servers_that_misbehave_end_the_run(void **state)
{
    (void)state;
    expect_failure(LOAD_RESP, CLOSE_AFTER_SOME, "closed");
    expect_failure(LOAD_HTTP, CLOSE_AFTER_SOME, "closed");
    expect_failure(LOAD_RESP, ANSWER_TOO_MUCH, "without a request");
    expect_failure(LOAD_HTTP, ANSWER_TOO_MUCH, "without a request");
    expect_failure(LOAD_RESP, ANSWER_IN_ANOTHER_PROTOCOL, "not a Redis server");
    expect_failure(LOAD_HTTP, ANSWER_IN_ANOTHER_PROTOCOL, "not HTTP");
}

static void nobody_listens(void **state)
{
    struct server server;

    (void)state;
    start(&server, LOAD_RESP, ANSWER_ALWAYS);
    stop(&server);
    plan.request_count = 1;
    assert_false(load_run(&plan, NULL, NULL, &result, &error));
    assert_non_null(strstr(error.message, "Connection refused"));
}

static void check_target(const char *text, bool good, bool is_loopback)
{
    struct load_target target;

    if (load_target_parse(text, &target, &error) != good)
        fail_msg("%s: %s", text, good ? error.message : "was taken");
    if (good)
        assert_int_equal(target.is_loopback, is_loopback);
}

static void targets_are_this_host_or_not(void **state)
{
    (void)state;
    check_target("127.0.0.1:1", true, true);
    check_target("127.9.9.9:65535", true, true);
    check_target("[::1]:80", true, true);
    check_target("localhost:80", true, true);
    check_target("unix:/tmp/x", true, true);
    check_target("128.0.0.1:80", true, false);
    check_target("0.0.0.0:80", true, false);
    check_target("10.1.2.3:80", true, false);
    check_target("[::]:80", true, false);
    check_target("[2001:db8::1]:80", true, false);
    check_target("example.com:80", false, false);
    check_target("127.0.0.1", false, false);
    check_target("127.0.0.1:0", false, false);
    check_target("127.0.0.1:65536", false, false);
    check_target("127.0.0.1:-1", false, false);
    check_target("127.0.0.1:80x", false, false);
    check_target("127.1:80", false, false);
    check_target("::1:80", false, false);
    check_target("[]:80", false, false);
    check_target("[:80", false, false);
    check_target(":80", false, false);
    check_target("unix:", false, false);
    check_target("", false, false);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(requests_are_sent_and_counted_exactly),
        cmocka_unit_test(answers_in_pieces_are_put_together),
        cmocka_unit_test(what_the_socket_does_not_take_is_sent_later),
        cmocka_unit_test(an_open_loop_keeps_its_schedule),
        cmocka_unit_test(an_open_loop_counts_the_wait_for_a_turn),
        cmocka_unit_test(an_open_loop_does_not_wait_for_what_is_due),
        cmocka_unit_test(a_run_by_time_ends_and_leaves_its_warm_up_out),
        cmocka_unit_test(idle_connections_are_opened_and_asked_once),
        cmocka_unit_test(servers_that_misbehave_end_the_run),
        cmocka_unit_test(nobody_listens),
        cmocka_unit_test(targets_are_this_host_or_not),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
