/* Timeouts: the queues compared with a simple model, and each class on a connection. */
#include "server/net/deadlines.h"

#include <unistd.h>

#include "base/random.h"
#include "server/kit.h"

static struct kit kit;

/* The queues --------------------------------------------------------------------------------- */

#define ENTRIES 50
#define CLASSES 3

static void queues_agree_with_a_list_of_ends(void **unused)
{
    static struct ration_deadlines deadlines;
    static struct ration_deadline entries[ENTRIES];
    uint64_t ends[ENTRIES] = {0}; /* 0: not started */
    uint64_t now = 0, random = 1;

    (void)unused;
    ration_deadlines_init(&deadlines);
    for (unsigned i = 0; i < CLASSES; i++)
        ration_deadlines_set_length(&deadlines, i, 10 + 37 * i);
    for (int step = 0; step < 200000; step++) {
        size_t at = ration_random_up_to(&random, ENTRIES - 1);
        unsigned class_index =
            (unsigned)ration_random_up_to(&random, CLASSES); /* one class has no timeout */
        uint64_t next = UINT64_MAX;
        struct ration_deadline *passed;

        now += ration_random_up_to(&random, 3) / 3;
        if (ration_random_up_to(&random, 3) > 0) {
            ration_deadlines_start(&deadlines, &entries[at], class_index, now);
            ends[at] = class_index < CLASSES ? now + 10 + 37 * class_index : 0;
        } else {
            ration_deadlines_stop(&entries[at]);
            ends[at] = 0;
        }
        while ((passed = ration_deadlines_passed(&deadlines, now)) != NULL) {
            assert_true(ends[passed - entries] > 0 && ends[passed - entries] <= now);
            ends[passed - entries] = 0;
        }
        for (size_t i = 0; i < ENTRIES; i++) {
            assert_true(ends[i] == 0 || ends[i] > now);
            next = ends[i] > 0 && ends[i] < next ? ends[i] : next;
        }
        assert_int_equal(ration_deadlines_next_ms(&deadlines), next);
    }
}

/* On connections ----------------------------------------------------------------------------- */

static int start(const struct ration_protocol *protocol)
{
    struct ration_loops_options options = kit_options(&kit);

    options.limits = (struct ration_server_limits){.header_timeout_ms = 100,
                                                   .body_timeout_ms = 200,
                                                   .idle_timeout_ms = 400,
                                                   .write_timeout_ms = 800};
    kit_start(&kit, &options, protocol, NULL);
    int fd = client_open(&kit);
    kit_await_accepted(&kit, 1);
    return fd;
}

/* The timeout expires exactly at this millisecond. */
static void expect_deadline(uint64_t ms, enum ration_close_reason close_reason)
{
    uint64_t ended = kit_counters(&kit).ended[close_reason];

    kit_pass(&kit, ms - 1);
    assert_int_equal(kit_counters(&kit).ended[close_reason], ended);
    kit_pass(&kit, 1);
    kit_await_ended(&kit, close_reason, ended + 1);
}

static void an_idle_connection_is_closed(void **unused)
{
    (void)unused;
    int fd = start(&kit_lines);
    kit_pass(&kit, 399);
    client_say(fd, "a\n"); /* restarts the idle timeout */
    client_expect(fd, "a\n");
    expect_deadline(400, RATION_CLOSE_REASON_IDLE_TIMEOUT);
    client_expect_end(fd);
    close(fd);
    kit_stop(&kit);
}

static void a_client_that_sends_nothing_is_idle(void **unused)
{
    (void)unused;
    int fd = start(&kit_lines);
    expect_deadline(400, RATION_CLOSE_REASON_IDLE_TIMEOUT);
    client_expect_end(fd);
    close(fd);
    kit_stop(&kit);
}

/* Single bytes do not extend the timeout of a request. */
static void the_header_timeout_begins_with_the_first_byte(void **unused)
{
    (void)unused;
    int fd = start(&kit_lines);
    for (uint64_t i = 0; i < 10; i++) {
        client_say(fd, "x");
        kit_await_received(&kit, i + 1);
        kit_pass(&kit, 9);
    }
    expect_deadline(10, RATION_CLOSE_REASON_HEADER_TIMEOUT);
    client_expect_end(fd);
    close(fd);
    kit_stop(&kit);
}

static void each_request_has_its_own_timeout(void **unused)
{
    (void)unused;
    int fd = start(&kit_lines);
    client_say(fd, "a");
    kit_await_received(&kit, 1);
    for (uint64_t i = 0; i < 10;
         i++) { /* there is always a partial request, but each time one is completed */
        kit_pass(&kit, 99);
        client_say(fd, "\na");
        client_expect(fd, "a\n");
    }
    expect_deadline(100, RATION_CLOSE_REASON_HEADER_TIMEOUT);
    close(fd);
    kit_stop(&kit);
}

static void late_clients_get_an_error(void **unused)
{
    (void)unused;
    int fd = start(&kit_polite);
    client_say(fd, "GET");
    kit_await_received(&kit, 3);
    kit_pass(&kit, 100);
    client_expect(fd, "header_timeout\n");
    client_expect_end(fd);
    close(fd);
    kit_await_ended(&kit, RATION_CLOSE_REASON_HEADER_TIMEOUT, 1);
    kit_stop(&kit);
}

static void the_body_timeout_begins_after_the_headers(void **unused)
{
    (void)unused;
    int fd = start(&kit_phases);
    client_say(fd, "he");
    kit_await_received(&kit, 2);
    kit_pass(&kit, 99);
    client_say(fd, "ad\nbody\n");
    client_expect(fd, "head\nbody\n");
    kit_pass(&kit, 150);
    client_say(fd, "part of it");
    kit_await_received(&kit, 20);
    kit_pass(&kit, 49);
    assert_int_equal(kit_counters(&kit).open, 1);
    kit_pass(&kit, 1);
    client_expect(fd, "body_timeout\n");
    close(fd);
    kit_await_ended(&kit, RATION_CLOSE_REASON_BODY_TIMEOUT, 1);
    kit_stop(&kit);
}

static void setting_the_same_phase_does_not_restart_its_timeout(void **unused)
{
    (void)unused;
    int fd = start(&kit_phases);
    client_say(fd, "h");
    kit_await_received(&kit, 1);
    kit_pass(&kit, 60);
    client_say(fd, "e");
    kit_await_received(&kit, 2);
    kit_pass(&kit, 40);
    client_expect(fd, "header_timeout\n");
    close(fd);
    kit_stop(&kit);
}

static void paused_connections_have_no_timeout(void **unused)
{
    (void)unused;
    int fd = start(&kit_lines);
    client_say(fd, "hold\nrest");
    kit_await_received(&kit, 9);
    kit_pass(&kit, 1000000);
    assert_int_equal(kit_counters(&kit).open, 1);
    kit_resume(&kit);
    client_expect(fd, "held\n");
    expect_deadline(100, RATION_CLOSE_REASON_HEADER_TIMEOUT);
    close(fd);
    kit_stop(&kit);
}

static void each_listener_may_have_its_own_idle_timeout(void **unused)
{
    struct ration_loops_options options = kit_options(&kit);

    (void)unused;
    options.limits.idle_timeout_ms = 400;
    kit_create(&kit, &options);
    kit_listen(&kit, &kit_lines, NULL, RATION_LIMIT_NONE);
    kit_listen(&kit, &kit_lines, NULL, 50);
    kit_listen(&kit, &kit_lines, NULL, 0);
    kit_run(&kit);
    int fd = client_open(&kit); /* the first listener's */
    kit_await_accepted(&kit, 1);
    kit_pass(&kit, 1000000);
    assert_int_equal(kit_counters(&kit).open, 1);
    close(fd);
    kit_stop(&kit);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(queues_agree_with_a_list_of_ends),
        cmocka_unit_test(an_idle_connection_is_closed),
        cmocka_unit_test(a_client_that_sends_nothing_is_idle),
        cmocka_unit_test(the_header_timeout_begins_with_the_first_byte),
        cmocka_unit_test(each_request_has_its_own_timeout),
        cmocka_unit_test(late_clients_get_an_error),
        cmocka_unit_test(the_body_timeout_begins_after_the_headers),
        cmocka_unit_test(setting_the_same_phase_does_not_restart_its_timeout),
        cmocka_unit_test(paused_connections_have_no_timeout),
        cmocka_unit_test(each_listener_may_have_its_own_idle_timeout),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
