/* Requests and answers of one connection: whole, in pieces, at the end of the connection. */
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "server/kit.h"

static struct kit kit;

static void start(const struct ration_protocol *protocol)
{
    struct ration_loops_options options = kit_options(&kit);

    options.limits.input_bytes_max = 1000;
    kit_start(&kit, &options, protocol, NULL);
}

static void what_is_sent_comes_back(void **unused)
{
    (void)unused;
    start(&kit_echo);
    int fd = client_open(&kit);

    for (int i = 0; i < 100; i++) {
        client_say(fd, "hello");
        client_expect(fd, "hello");
    }
    struct ration_loop_counters counters = kit_counters(&kit);
    assert_int_equal(counters.received_bytes, 500);
    assert_int_equal(counters.sent_bytes, 500);
    assert_int_equal(counters.reads, 100); /* one read, one write */
    close(fd);
    kit_await_ended(&kit, RATION_CLOSE_REASON_CLIENT, 1);
    kit_await_open(&kit, 0);
    kit_stop(&kit);
}

/* The server has received the first piece before the test sends the second. */
static void requests_may_be_split_anywhere(void **unused)
{
    static const char text[] = "one\ntwo\n\nthree\n";
    size_t size = strlen(text);
    uint64_t received = 0;

    (void)unused;
    start(&kit_lines);
    int fd = client_open(&kit);
    for (size_t first = 1; first < size; first++) {
        for (size_t second = first; second < size; second++) {
            client_send(fd, text, first);
            kit_await_received(&kit, received += first);
            client_send(fd, text + first, second - first);
            kit_await_received(&kit, received += second - first);
            client_send(fd, text + second, size - second);
            kit_await_received(&kit, received += size - second);
            client_expect(fd, text);
        }
    }
    close(fd);
    kit_stop(&kit);
}

static void many_requests_at_once_are_answered_in_order(void **unused)
{
    enum { COUNT = 20000 };
    char *text = malloc(COUNT * 8);
    size_t size = 0;

    (void)unused;
    start(&kit_lines);
    int fd = client_open(&kit);
    for (int i = 0; i < COUNT; i++)
        size += (size_t)sprintf(text + size, "%d\n", i);
    client_send(fd, text, size);
    client_expect(fd, text);
    close(fd);
    kit_stop(&kit);
    free(text);
}

/* 200 answers of 1000 bytes from one read: more than an output may hold before it is sent. */
static void a_protocol_that_stops_when_full_is_called_again(void **unused)
{
    char text[200 * 9 + 1] = "";

    (void)unused;
    start(&kit_lines);
    int fd = client_open(&kit);
    for (int i = 0; i < 200; i++)
        strcat(text, "big 1000\n");
    client_say(fd, text);
    client_expect_bytes(fd, 200 * 1000);
    client_say(fd, "still here\n");
    client_expect(fd, "still here\n");
    close(fd);
    kit_stop(&kit);
}

static void a_client_that_stopped_sending_still_gets_answers(void **unused)
{
    (void)unused;
    start(&kit_lines);
    int fd = client_open(&kit);
    client_say(fd, "a\nb\nrest");
    client_shut(fd);
    client_expect(fd, "a\nb\n");
    client_expect_end(fd);
    kit_await_ended(&kit, RATION_CLOSE_REASON_CLIENT, 1);
    close(fd);
    kit_stop(&kit);
}

static void a_large_answer_is_sent_after_the_client_stopped_sending(void **unused)
{
    enum { SIZE = 4000000 };

    (void)unused;
    struct ration_loops_options options = kit_options(&kit);
    kit_start(&kit, &options, &kit_lines, NULL);
    int fd = client_open(&kit);
    client_say(fd, "big 4000000\n");
    client_shut(fd);
    kit_await_received(&kit, 12);
    client_expect_bytes(fd, SIZE);
    client_expect_end(fd);
    close(fd);
    kit_stop(&kit);
}

static void paused_answers_come_later_and_in_order(void **unused)
{
    (void)unused;
    start(&kit_lines);
    int fd = client_open(&kit);
    client_say(fd, "a\nhold\nb\n");
    client_expect(fd, "a\n");
    client_say(fd, "c\n");
    kit_resume(&kit);
    client_expect(fd, "held\nb\nc\n");
    client_say(fd, "hold\n");
    kit_await_received(&kit, 16);
    client_shut(fd); /* no further request, but an answer is pending */
    kit_resume(&kit);
    client_expect(fd, "held\n");
    client_expect_end(fd);
    close(fd);
    kit_stop(&kit);
}

static void a_protocol_can_close_after_its_answer(void **unused)
{
    (void)unused;
    start(&kit_lines);
    int fd = client_open(&kit);
    client_say(fd, "a\nclose\nb\n");
    kit_await_received(&kit, 10);
    client_say(fd, "unheard\n"); /* must not discard the answer */
    client_expect(fd, "a\nbye\n");
    client_expect_end(fd);
    close(fd);
    kit_await_ended(&kit, RATION_CLOSE_REASON_PROTOCOL, 1);
    kit_stop(&kit);
}

static void a_client_that_never_closes_after_the_last_answer_is_closed(void **unused)
{
    (void)unused;
    start(&kit_lines);
    int fd = client_open(&kit);
    client_say(fd, "close\n");
    client_expect(fd, "bye\n");
    client_expect_end(fd);
    assert_int_equal(kit_counters(&kit).open, 1);
    kit_pass(&kit, 1999);
    assert_int_equal(kit_counters(&kit).open, 1);
    kit_pass(&kit, 1);
    assert_int_equal(kit_counters(&kit).open, 0);
    close(fd);
    kit_stop(&kit);
}

static void a_protocol_can_close_at_once(void **unused)
{
    unsigned closes = kit_closes();

    (void)unused;
    start(&kit_lines);
    int fd = client_open(&kit);
    client_say(fd, "a\nabort\nb\n");
    client_expect(fd, "");
    client_expect_end(fd);
    close(fd);
    kit_await_ended(&kit, RATION_CLOSE_REASON_PROTOCOL, 1);
    assert_int_equal(kit_closes(), closes + 1);
    kit_stop(&kit);
}

static void receive_is_not_called_before_the_bytes_it_needs_arrive(void **unused)
{
    char bytes[300];

    (void)unused;
    start(&kit_lines);
    int fd = client_open(&kit);
    unsigned receives = kit_receives();
    client_say(fd, "need 300\n");
    kit_await_received(&kit, 9);
    while (kit_receives() == receives) /* the loop counts bytes before it calls receive() */
        sched_yield();
    receives++;
    memset(bytes, '\n', sizeof(bytes));
    for (unsigned i = 0; i < 299; i++) {
        client_send(fd, bytes, 1);
        kit_await_received(&kit, 10 + i);
    }
    assert_int_equal(kit_receives(), receives);
    client_send(fd, bytes, 1);
    client_expect_bytes(fd, 300);
    assert_int_equal(kit_receives(), receives + 1);
    close(fd);
    kit_stop(&kit);
}

static void bytes_that_are_never_consumed_have_a_bound(void **unused)
{
    char bytes[1000];

    (void)unused;
    memset(bytes, 'x', sizeof(bytes));
    start(&kit_polite);
    int fd = client_open(&kit);
    client_send(fd, bytes, 1000);
    kit_await_received(&kit, 1000);
    assert_int_equal(kit_counters(&kit).open, 1);
    client_send(fd, bytes, 1);
    client_expect(fd, "max_input\n");
    client_expect_end(fd);
    close(fd);
    kit_await_ended(&kit, RATION_CLOSE_REASON_MAX_INPUT, 1);

    fd = client_open(&kit); /* all at once, to a protocol that answers nothing */
    client_say(fd, "need 999999999\n");
    client_send(fd, bytes, 1000);
    client_send(fd, bytes, 1);
    client_expect(fd, "max_input\n");
    close(fd);
    kit_await_ended(&kit, RATION_CLOSE_REASON_MAX_INPUT, 2);
    kit_stop(&kit);
}

static void a_reset_is_quiet(void **unused)
{
    struct linger at_once = {.l_onoff = 1};

    (void)unused;
    start(&kit_lines);
    for (uint64_t i = 1; i <= 20; i++) {
        int fd = client_open(&kit);
        client_say(fd, "big 100000\nhalf");
        setsockopt(fd, SOL_SOCKET, SO_LINGER, &at_once, sizeof(at_once));
        close(fd);
        kit_await_accepted(&kit, i);
    }
    kit_await_open(&kit, 0);
    struct ration_loop_counters counters = kit_counters(&kit);
    assert_int_equal(
        counters.ended[RATION_CLOSE_REASON_RESET] + counters.ended[RATION_CLOSE_REASON_CLIENT], 20);
    assert_true(counters.ended[RATION_CLOSE_REASON_RESET] > 0);
    kit_stop(&kit);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_sent_comes_back),
        cmocka_unit_test(requests_may_be_split_anywhere),
        cmocka_unit_test(many_requests_at_once_are_answered_in_order),
        cmocka_unit_test(a_protocol_that_stops_when_full_is_called_again),
        cmocka_unit_test(a_client_that_stopped_sending_still_gets_answers),
        cmocka_unit_test(a_large_answer_is_sent_after_the_client_stopped_sending),
        cmocka_unit_test(paused_answers_come_later_and_in_order),
        cmocka_unit_test(a_protocol_can_close_after_its_answer),
        cmocka_unit_test(a_client_that_never_closes_after_the_last_answer_is_closed),
        cmocka_unit_test(a_protocol_can_close_at_once),
        cmocka_unit_test(receive_is_not_called_before_the_bytes_it_needs_arrive),
        cmocka_unit_test(bytes_that_are_never_consumed_have_a_bound),
        cmocka_unit_test(a_reset_is_quiet),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
