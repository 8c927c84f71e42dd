/* Clients that read or write slowly, and fast clients at the same time. */
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "server/kit.h"

static struct kit kit;

static void start(uint32_t output_bytes_max)
{
    struct ration_loops_options options = kit_options(&kit);

    options.limits.output_bytes_max = output_bytes_max;
    kit_start(&kit, &options, &kit_lines, NULL);
}

/* Sends requests and never reads the answers, until the server no longer reads requests. */
static void choke(int fd)
{
    static const char request[] = "big 30000\n";
    char requests[4000] = "";
    struct timeval blink = {.tv_usec = 50000};

    while (strlen(requests) + strlen(request) < sizeof(requests))
        strcat(requests, request);
    setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &blink, sizeof(blink));
    while (send(fd, requests, strlen(requests), MSG_NOSIGNAL) > 0)
        ;
}

/* The server reads nothing while unsent replies are at their bound, and closes after 2 s without progress. */
static void a_client_that_never_reads_is_paused_then_closed(void **unused)
{
    (void)unused;
    start(1 << 20);
    int fd = client_open(&kit);
    choke(fd);
    uint64_t received = kit_counters(&kit).received_bytes;
    assert_int_equal(kit_counters(&kit).open, 1);
    kit_pass(&kit, 1999);
    assert_int_equal(kit_counters(&kit).open, 1);
    assert_int_equal(kit_counters(&kit).received_bytes, received);
    kit_pass(&kit, 1);
    kit_pass(&kit, 2000); /* the kernel may have moved some data to the client's queue */
    kit_await_ended(&kit, RATION_CLOSE_REASON_MAX_OUTPUT, 1);
    assert_int_equal(kit_counters(&kit).open, 0);
    close(fd);
    kit_stop(&kit);
}

/* Below the bound replies wait until the write timeout. */
static void a_client_that_reads_nothing_is_closed_by_the_write_timeout(void **unused)
{
    (void)unused;
    start(64 << 20);
    int fd = client_open(&kit);
    client_say(fd, "big 20000000\n");
    kit_await_received(&kit, 13);
    kit_pass(&kit, 29999);
    assert_int_equal(kit_counters(&kit).open, 1);
    kit_pass(&kit, 1);
    kit_await_ended(&kit, RATION_CLOSE_REASON_WRITE_TIMEOUT, 1);
    close(fd);
    kit_stop(&kit);
}

/* A write timeout covers the data that waited when it began: a client that reads gets a new one each time. */
static void a_client_that_reads_all_waiting_data_gets_a_new_timeout(void **unused)
{
    (void)unused;
    start(64 << 20);
    int fd = client_open(&kit);
    for (int i = 0; i < 4; i++) {
        client_say(fd, "big 10000000\n");
        kit_await_received(&kit, (uint64_t)(i + 1) * 13);
        if (i > 0)
            client_expect_bytes(fd, 10000000); /* so 10 MB always wait */
        kit_pass(&kit, 20000);
    }
    assert_int_equal(kit_counters(&kit).open, 1);
    close(fd);
    kit_stop(&kit);
}

/*
 * Like redis-py, the client writes everything before it reads. It has no thread that reads, so a server that stops
 * receiving would wait for the client while the client waits for the server.
 */
static void a_client_may_write_everything_before_it_reads(void **unused)
{
    enum { COUNT = 32000, SIZE = 1000 }; /* 32 MB each way: more than the socket buffers hold */
    static char requests[100 * SIZE];

    (void)unused;
    start(64 << 20);
    int fd = client_open(&kit);
    for (size_t i = 0; i < sizeof(requests); i++)
        requests[i] = i % SIZE == SIZE - 1 ? '\n' : 'x';
    for (int i = 0; i < COUNT / 100; i++)
        client_send(fd, requests, sizeof(requests));
    client_expect_bytes(fd, (size_t)COUNT * SIZE);
    close(fd);
    kit_stop(&kit);
}

/* Requests beyond the bound are answered with an error, after the replies that fit. */
static void a_client_that_writes_beyond_the_bound_gets_an_error_at_the_end(void **unused)
{
    char requests[9 * 1000 + 1] = "", last[sizeof("max_output\n")] = "";
    char *got = malloc(1 << 20);
    struct ration_loops_options options = kit_options(&kit);
    ssize_t size;

    (void)unused;
    options.limits.output_bytes_max = 1 << 20;
    options.coarse_ms = NULL; /* with the real clock, the pause before the error expires */
    kit_start(&kit, &options, &kit_polite, NULL);
    int fd = client_open(&kit);
    for (int i = 0; i < 1000; i++)
        strcat(requests, "big 1000\n");
    for (int i = 0; i < 4000; i++) /* 36 MB: more than the socket buffers hold */
        client_send(fd, requests, strlen(requests));
    while ((size = recv(fd, got, 1 << 20, 0)) > 0)
        if (size >= (ssize_t)sizeof(last) - 1)
            memcpy(last, got + size - (sizeof(last) - 1), sizeof(last) - 1);
    assert_string_equal(last, "max_output\n");
    kit_await_ended(&kit, RATION_CLOSE_REASON_MAX_OUTPUT, 1);
    free(got);
    close(fd);
    kit_stop(&kit);
}

static void a_client_that_reads_late_gets_everything(void **unused)
{
    (void)unused;
    start(8 << 20);
    int fd = client_open(&kit);
    client_say(fd, "big 8000000\nbig 8000000\nend\n");
    kit_await_received(&kit, 28);
    for (int i = 0; i < 16; i++) { /* slowly, but each time within the timeout */
        client_expect_bytes(fd, 1000000);
        kit_pass(&kit, 1000);
    }
    client_expect(fd, "end\n");
    client_say(fd, "more\n");
    client_expect(fd, "more\n");
    close(fd);
    kit_stop(&kit);
}

static void an_answer_over_the_bound_closes(void **unused)
{
    (void)unused;
    start(100000);
    int fd = client_open(&kit);
    client_say(fd, "big 100001\n");
    client_expect_end(fd);
    close(fd);
    kit_await_ended(&kit, RATION_CLOSE_REASON_MAX_OUTPUT, 1);
    fd = client_open(&kit);
    client_say(fd, "big 100000\n");
    client_expect_bytes(fd, 100000);
    close(fd);
    kit_stop(&kit);
}

/* Data that the client did not request: nothing pauses it, so the bound must apply. */
static void pushed_data_has_the_same_bound(void **unused)
{
    enum { PUSH = 60000, PUSHES_MAX = 2000 };
    unsigned pushes = 0;

    (void)unused;
    start(100000);
    int fd = client_open(&kit);
    client_say(fd, "hold\n");
    kit_await_received(&kit, 5);
    while (kit_counters(&kit).open == 1 && ++pushes < PUSHES_MAX)
        kit_push(&kit, PUSH);
    kit_await_ended(&kit, RATION_CLOSE_REASON_MAX_OUTPUT, 1);
    close(fd);
    kit_stop(&kit);
}

/* Some clients never read, some never finish a request: each request of another client costs one read. */
static void slow_clients_do_not_delay_a_fast_one(void **unused)
{
    enum { SLOW = 20 };
    int slow[SLOW];

    (void)unused;
    start(1 << 20); /* the clock does not advance, so clients that never read stay connected */
    for (int i = 0; i < SLOW; i++) {
        slow[i] = client_open(&kit);
        if (i < 4)
            choke(slow[i]);
        else
            client_say(slow[i], "never finish");
    }
    kit_await_accepted(&kit, SLOW);
    int fast = client_open(&kit);
    client_say(fast, "hello\n");
    client_expect(fast, "hello\n");
    struct ration_loop_counters before = kit_counters(&kit), after;
    for (int i = 0; i < 1000; i++) {
        client_say(fast, "hello\n");
        client_expect(fast, "hello\n");
    }
    after = kit_counters(&kit);
    assert_int_equal(after.reads, before.reads + 1000);
    assert_in_range(after.turns, before.turns, before.turns + 1000 + 10); /* nothing spins */
    for (int i = 0; i < SLOW; i++)
        close(slow[i]);
    close(fast);
    kit_stop(&kit);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_client_that_never_reads_is_paused_then_closed),
        cmocka_unit_test(a_client_that_reads_nothing_is_closed_by_the_write_timeout),
        cmocka_unit_test(a_client_that_reads_all_waiting_data_gets_a_new_timeout),
        cmocka_unit_test(a_client_may_write_everything_before_it_reads),
        cmocka_unit_test(a_client_that_writes_beyond_the_bound_gets_an_error_at_the_end),
        cmocka_unit_test(a_client_that_reads_late_gets_everything),
        cmocka_unit_test(an_answer_over_the_bound_closes),
        cmocka_unit_test(pushed_data_has_the_same_bound),
        cmocka_unit_test(slow_clients_do_not_delay_a_fast_one),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
