/* Draining: pending requests are answered, idle connections are closed, and nothing waits for ever. */
#include <string.h>
#include <unistd.h>

#include "server/kit.h"

static struct kit kit;
static unsigned drained_count;

static void note_drained(struct ration_loop *loop, void *argument)
{
    (void)loop;
    assert_ptr_equal(argument, &kit);
    __atomic_add_fetch(&drained_count, 1, __ATOMIC_RELEASE);
}

static void start(unsigned loop_count)
{
    struct ration_loops_options options = kit_options(&kit);

    drained_count = 0;
    options.loop_count = loop_count;
    kit_start(&kit, &options, &kit_lines, NULL);
}

static void drain(uint32_t deadline_ms)
{
    ration_loops_drain(kit.loops, deadline_ms, note_drained, &kit);
}

static void expect_drained(void)
{
    kit_join(&kit);
    assert_int_equal(drained_count, 1);
}

static void idle_connections_are_closed_at_once(void **unused)
{
    enum { COUNT = 30 };
    int fds[COUNT];

    (void)unused;
    start(3);
    for (int i = 0; i < COUNT; i++) {
        fds[i] = client_open(&kit);
        client_say(fds[i], "hello\n");
        client_expect(fds[i], "hello\n");
    }
    drain(1000000);
    for (int i = 0; i < COUNT; i++) {
        client_expect_end(fds[i]);
        close(fds[i]);
    }
    expect_drained();
}

static void a_request_that_has_begun_is_finished(void **unused)
{
    (void)unused;
    start(2);
    int fd = client_open(&kit), idle = client_open(&kit);
    client_say(fd, "hel");
    kit_await_received(&kit, 3);
    kit_await_accepted(&kit, 2);
    drain(1000000);
    client_expect_end(idle);
    client_say(fd, "lo\n");
    client_expect(fd, "hello\n");
    client_expect_end(fd);
    close(fd);
    close(idle);
    expect_drained();
}

static void a_pending_answer_is_awaited(void **unused)
{
    (void)unused;
    start(1);
    int fd = client_open(&kit);
    client_say(fd, "hold\n");
    kit_await_received(&kit, 5);
    drain(1000000);
    kit_resume(&kit);
    client_expect(fd, "held\n");
    client_expect_end(fd);
    close(fd);
    expect_drained();
}

static void a_large_answer_is_sent_to_its_end(void **unused)
{
    (void)unused;
    start(1);
    int fd = client_open(&kit);
    client_say(fd, "big 4000000\n");
    kit_await_received(&kit, 12);
    drain(1000000);
    client_expect_bytes(fd, 4000000);
    client_expect_end(fd);
    close(fd);
    expect_drained();
}

/* Blocks the loop while bytes and connections arrive. */
static void block(struct ration_loop *loop, void *lock)
{
    (void)loop;
    pthread_mutex_lock(lock);
    pthread_mutex_unlock(lock);
}

static void requests_that_arrived_before_are_answered(void **unused)
{
    pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    struct ration_loop_message message = {.function = block, .argument = &lock};

    (void)unused;
    start(1);
    int fd = client_open(&kit);
    kit_await_accepted(&kit, 1);
    pthread_mutex_lock(&lock);
    ration_loop_post(ration_loops_at(kit.loops, 0), &message);
    drain(1000000); /* will run right after it, before the loop polls any socket */
    client_say(fd, "hello\n");
    int newcomer = client_open(&kit);
    client_say(newcomer, "and me\n");
    pthread_mutex_unlock(&lock);
    client_expect(fd, "hello\n");
    client_expect_end(fd);
    client_expect(newcomer, "and me\n");
    client_expect_end(newcomer);
    close(fd);
    close(newcomer);
    expect_drained();
}

static void the_timeout_closes_the_remaining_connections(void **unused)
{
    (void)unused;
    start(1);
    int begun = client_open(&kit), paused = client_open(&kit);
    client_say(begun, "hel");
    client_say(paused, "hold\n");
    kit_await_received(&kit, 8);
    drain(5000);
    kit_pass(&kit, 4999);
    assert_int_equal(kit_counters(&kit).open, 2);
    __atomic_add_fetch(&kit.coarse_ms, 1, __ATOMIC_RELEASE);
    drain(1000000); /* a second drain does not extend the timeout; it checks the time */
    client_expect_end(begun);
    client_expect_end(paused);
    close(begun);
    close(paused);
    expect_drained();
}

static void a_second_drain_may_shorten_the_first(void **unused)
{
    (void)unused;
    start(2);
    int paused = client_open(&kit);
    client_say(paused, "hold\n");
    kit_await_received(&kit, 5);
    drain(1000000);
    drain(0);
    client_expect_end(paused);
    close(paused);
    expect_drained();
}

static void no_connection_is_accepted_while_draining(void **unused)
{
    (void)unused;
    start(1);
    int paused = client_open(&kit), late = client_socket(&kit);
    client_say(paused, "hold\n");
    kit_await_received(&kit, 5);
    drain(1000000);
    kit_pass(&kit, 0);
    assert_false(client_connect(&kit, late));
    kit_resume(&kit);
    client_expect(paused, "held\n");
    close(late);
    close(paused);
    expect_drained();
}

static unsigned last_words;

static void note_last_words(struct ration_loop *loop, void *unused)
{
    (void)loop;
    (void)unused;
    last_words++;
}

static size_t receive_nothing(struct ration_connection *connection, char *bytes, size_t size)
{
    (void)connection;
    (void)bytes;
    return size;
}

static void post_last_words(struct ration_connection *connection,
                            enum ration_close_reason close_reason)
{
    static struct ration_loop_message message = {.function = note_last_words};

    (void)close_reason;
    assert_true(ration_loop_post(ration_connection_loop(connection), &message));
}

static void messages_posted_until_the_end_are_run(void **unused)
{
    static const struct ration_protocol protocol = {
        .name = "last words", .receive = receive_nothing, .close = post_last_words};
    struct ration_loops_options options = kit_options(&kit);

    (void)unused;
    drained_count = 0;
    kit_start(&kit, &options, &protocol, NULL);
    int fd = client_open(&kit);
    kit_await_accepted(&kit, 1);
    drain(0);
    client_expect_end(fd);
    close(fd);
    expect_drained();
    assert_int_equal(last_words, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(idle_connections_are_closed_at_once),
        cmocka_unit_test(a_request_that_has_begun_is_finished),
        cmocka_unit_test(a_pending_answer_is_awaited),
        cmocka_unit_test(a_large_answer_is_sent_to_its_end),
        cmocka_unit_test(requests_that_arrived_before_are_answered),
        cmocka_unit_test(the_timeout_closes_the_remaining_connections),
        cmocka_unit_test(a_second_drain_may_shorten_the_first),
        cmocka_unit_test(no_connection_is_accepted_while_draining),
        cmocka_unit_test(messages_posted_until_the_end_are_run),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
