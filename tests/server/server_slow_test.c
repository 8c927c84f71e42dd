/* Clients that read or write slowly, and those beside them that do not. */
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

/* Asks for answers, and never reads them, until the server no longer takes requests. */
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

static void a_client_that_never_reads_is_paused_then_closed(void **unused)
{
    (void)unused;
    start(1 << 20);
    int fd = client_open(&kit);
    choke(fd);
    uint64_t received = kit_counters(&kit).received_bytes;
    assert_int_equal(kit_counters(&kit).open, 1); /* paused, not closed: its bound is not hit */
    kit_pass(&kit, 29999);
    assert_int_equal(kit_counters(&kit).open, 1);
    assert_int_equal(kit_counters(&kit).received_bytes, received);
    kit_pass(&kit, 1);
    kit_await_ended(&kit, RATION_ENDING_WRITE_DEADLINE, 1);
    assert_int_equal(kit_counters(&kit).open, 0);
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
    for (int i = 0; i < 16; i++) { /* slowly, but each time within the deadline */
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
    kit_await_ended(&kit, RATION_ENDING_OUTPUT_MAX, 1);
    fd = client_open(&kit);
    client_say(fd, "big 100000\n");
    client_expect_bytes(fd, 100000);
    close(fd);
    kit_stop(&kit);
}

/* Not asked for: nothing pauses it, so the bound must hold. */
static void what_is_pushed_has_the_same_bound(void **unused)
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
    kit_await_ended(&kit, RATION_ENDING_OUTPUT_MAX, 1);
    close(fd);
    kit_stop(&kit);
}

/* Some never read, some never finish a request: another one's requests cost one read each. */
static void slow_ones_do_not_delay_a_fast_one(void **unused)
{
    enum { SLOW = 20 };
    int slow[SLOW];

    (void)unused;
    start(1 << 20);
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
        cmocka_unit_test(a_client_that_reads_late_gets_everything),
        cmocka_unit_test(an_answer_over_the_bound_closes),
        cmocka_unit_test(what_is_pushed_has_the_same_bound),
        cmocka_unit_test(slow_ones_do_not_delay_a_fast_one),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
