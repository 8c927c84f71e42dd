/* Bounds on the number of connections, in all and from one address. */
#include "server/net/limits.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/random.h"
#include "server/kit.h"
#include "server/net/peers.h"

static struct kit kit;

/* The bounds themselves ---------------------------------------------------------------------- */

static void limits_have_defaults_and_bounds(void **unused)
{
    struct ration_server_limits limits = {0}, completed = {0};
    struct ration_error error;

    (void)unused;
    assert_int_equal(ration_server_limits_complete(&limits, &completed, &error), RATION_OK);
    assert_int_equal(completed.header_timeout_ms, 10000);
    assert_int_equal(completed.connections_per_peer_max, RATION_LIMIT_NONE);
    limits.idle_timeout_ms = RATION_LIMIT_NONE;
    limits.header_timeout_ms = 5;
    assert_int_equal(ration_server_limits_complete(&limits, &completed, &error), RATION_OK);
    assert_int_equal(completed.header_timeout_ms, 5);
    limits.input_bytes_max = RATION_LIMIT_NONE;
    completed.header_timeout_ms = 77;
    assert_int_equal(ration_server_limits_complete(&limits, &completed, &error), RATION_EINVAL);
    assert_non_null(strstr(error.message, "input_bytes_max must be 64 to"));
    assert_int_equal(completed.header_timeout_ms, 77);
}

static struct ration_address random_address(uint64_t *random)
{
    struct ration_address address = {.family = 6};

    if (ration_random_up_to(random, 1) == 0) {
        address.family = 4;
        address.bytes[3] = (uint8_t)ration_random_up_to(random, 40);
    } else {
        address.bytes[7] = (uint8_t)ration_random_up_to(random, 40);
        address.bytes[15] = (uint8_t)ration_random_up_to(random, 255); /* within the /64 */
    }
    return address;
}

static void peers_agree_with_a_simple_count(void **unused)
{
    enum { MOST = 300, EACH = 5 };
    struct ration_peers *peers = ration_peers_create(MOST, EACH);
    static struct ration_address entered[MOST];
    uint32_t open[2][41] = {{0}};
    uint64_t random = 7;
    size_t count = 0;

    (void)unused;
    for (int step = 0; step < 100000; step++) {
        if (count < MOST && ration_random_up_to(&random, 2) > 0) {
            struct ration_address address = random_address(&random);
            uint32_t *own =
                address.family == 4 ? &open[0][address.bytes[3]] : &open[1][address.bytes[7]];

            assert_int_equal(ration_peers_enter(peers, &address), *own < EACH);
            if (*own < EACH) {
                entered[count++] = address;
                (*own)++;
            }
        } else if (count > 0) {
            size_t at = ration_random_up_to(&random, count - 1);
            struct ration_address address = entered[at];

            entered[at] = entered[--count];
            ration_peers_leave(peers, &address);
            (*(address.family == 4 ? &open[0][address.bytes[3]] : &open[1][address.bytes[7]]))--;
        }
    }
    ration_peers_free(peers);
}

/* On connections ----------------------------------------------------------------------------- */

static void one_connection_too_many_gets_an_error(void **unused)
{
    struct ration_loops_options options = kit_options(&kit);
    int fds[4];

    (void)unused;
    options.loop_count = 2; /* the bound applies to all loops together */
    options.limits.connections_max = 3;
    kit_start(&kit, &options, &kit_polite, NULL);
    for (int i = 0; i < 3; i++) {
        fds[i] = client_open(&kit);
        client_say(fds[i], "in\n");
        client_expect(fds[i], "in\n");
    }
    fds[3] = client_open(&kit);
    client_expect(fds[3], "max_connections\n");
    client_expect_end(fds[3]);
    kit_await_ended(&kit, RATION_CLOSE_REASON_MAX_CONNECTIONS, 1);
    close(fds[3]);
    close(fds[0]);
    kit_await_open(&kit, 2);
    fds[0] = client_open(&kit);
    client_say(fds[0], "in again\n");
    client_expect(fds[0], "in again\n");
    assert_int_equal(kit_counters(&kit).accepted, 4);
    for (int i = 0; i < 3; i++)
        close(fds[i]);
    kit_stop(&kit);
}

static void one_address_cannot_take_all_connections(void **unused)
{
    struct ration_loops_options options = kit_options(&kit);
    int fds[4];

    (void)unused;
    options.loop_count = 2;
    options.limits.connections_per_peer_max = 2;
    kit_start(&kit, &options, &kit_polite, NULL);
    for (int i = 0; i < 2; i++) {
        fds[i] = client_open_from(&kit, "127.0.0.7");
        client_say(fds[i], "in\n");
        client_expect(fds[i], "in\n");
    }
    fds[2] = client_open_from(&kit, "127.0.0.7");
    client_expect(fds[2], "max_connections_per_peer\n");
    client_expect_end(fds[2]);
    fds[3] = client_open_from(&kit, "127.0.0.8");
    client_say(fds[3], "another\n");
    client_expect(fds[3], "another\n");
    close(fds[2]);
    close(fds[0]);
    kit_await_open(&kit, 2);
    fds[0] = client_open_from(&kit, "127.0.0.7");
    client_say(fds[0], "again\n");
    client_expect(fds[0], "again\n");
    assert_int_equal(kit_counters(&kit).ended[RATION_CLOSE_REASON_MAX_CONNECTIONS_PER_PEER], 1);
    close(fds[0]);
    close(fds[1]);
    close(fds[3]);
    kit_stop(&kit);
}

/* The counts must return to zero, however connections end. */
static void closed_connections_are_uncounted(void **unused)
{
    struct ration_loops_options options = kit_options(&kit);

    (void)unused;
    options.limits.connections_max = 2;
    options.limits.connections_per_peer_max = 1;
    kit_start(&kit, &options, &kit_polite, NULL);
    for (uint64_t i = 0; i < 200; i++) {
        int fd = client_open(&kit), refused = client_open(&kit);

        client_expect(refused, "max_connections_per_peer\n");
        client_say(fd, i % 2 == 0 ? "abort\n" : "close\n");
        client_expect(fd, i % 2 == 0 ? "" : "bye\n");
        close(refused);
        close(fd);
        kit_await_ended(&kit, RATION_CLOSE_REASON_PROTOCOL, i + 1);
    }
    kit_stop(&kit);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(limits_have_defaults_and_bounds),
        cmocka_unit_test(peers_agree_with_a_simple_count),
        cmocka_unit_test(one_connection_too_many_gets_an_error),
        cmocka_unit_test(one_address_cannot_take_all_connections),
        cmocka_unit_test(closed_connections_are_uncounted),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
