/*
 * Another thread flushes inline limits: the loop serves other clients meanwhile, clients may disconnect and the server
 * may close while the flush runs.
 */
#include <string.h>

#include "server/net/loop_parts.h"
#include "support/turns.h"
#include "support/unit.h"

#define INLINE_KEYS (TURNS_IS_MEASURED ? 500000 : 32768)

/* Twice as many slots as keys: each key has a slot of its own. */
#define INLINE_KEYS_MAX (2 * INLINE_KEYS)

/* From the seventh on each flush visits every slot of the table. */
#define FLUSHES 9

static const struct whole_server_options options = {.policy = "limits:\n- {name: a, rate: 1/s}\n",
                                                    .inline_keys_max = INLINE_KEYS_MAX};

static struct whole_server server;

#define FLUSH "RATION.FLUSH INLINE\r\n"
#define HTTP_FLUSH                                                                     \
    "POST /v1/reset HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n" \
    "Content-Length: 16\r\n\r\n{\"inline\": true}"

/* Takes the only token of every inline key; every key must have it. */
static void drain_inline_keys(struct whole_server *of)
{
    ration_limiter *limiter = ration_engine_inline_limiter(of->service.engine);

    for (uint32_t i = 0; i < INLINE_KEYS; i++)
        assert_true(ration_limiter_allow_at(limiter, &(struct ration_key){&i, sizeof(i)}, 1,
                                            of->manual.ns));
}

static unsigned count_texts(const struct whole_client *client, const char *text)
{
    const char *at = client->answers;
    unsigned count = 0;

    while (at != NULL) {
        size_t left = client->answer_size - (size_t)(at - client->answers);

        at = memmem(at, left, text, strlen(text));
        count += at != NULL;
        at = at != NULL ? at + strlen(text) : NULL;
    }
    return count;
}

static void flushes_do_not_block_the_loop(void **unused)
{
    static const struct {
        const char *name;
        enum whole_protocol protocol;
        const char *before, *repeated, *after, *answer;
    } rows[] = {
        {"pipeline of RATION.FLUSH", WHOLE_RESP, "", FLUSH, "", "+OK\r\n"},
        {"EXEC of RATION.FLUSH", WHOLE_RESP, "MULTI\r\n", FLUSH, "EXEC\r\n", "+OK\r\n"},
        {"resets of inline keys", WHOLE_HTTP, "", HTTP_FLUSH, "", "HTTP/1.1 200 OK\r\n"},
    };

    (void)unused;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        bool is_exec = rows[i].before[0] != '\0';
        struct turns_cost cost = {.turn_ns_max = UINT64_MAX};
        struct ration_output request;

        ration_output_init(&request, 1 << 16);
        ration_output_append_text(&request, rows[i].before);
        turns_append_many(&request, rows[i].repeated, FLUSHES);
        ration_output_append_text(&request, rows[i].after);
        /* repeated: one slow turn may be due to the machine, several are not */
        for (int tries = 0; tries < 5 && cost.turn_ns_max > TURNS_NS_MAX; tries++) {
            struct whole_client client;

            drain_inline_keys(&server); /* which fails if an earlier flush left a token in use */
            cost = turns_serve(&server, rows[i].protocol, &request, &client);
            assert_int_equal(count_texts(&client, rows[i].answer), FLUSHES + is_exec);
            assert_true(cost.answered_beside + 3 >= cost.turn_count);
            whole_client_close(&client);
        }
        print_message("  %-28s %5u turns, the longest %5llu us\n", rows[i].name, cost.turn_count,
                      (unsigned long long)cost.turn_ns_max / 1000);
        assert_true(cost.turn_ns_max <= TURNS_NS_MAX);
        ration_output_done(&request);
    }
}

/* Sends a request that another thread serves, and runs turns until the loop has handed it over. */
static void begin_flush(struct whole_server *of, struct whole_client *client,
                        enum whole_protocol protocol)
{
    const char *request = protocol == WHOLE_RESP ? FLUSH : HTTP_FLUSH;
    const struct ration_connection *before =
        of->loop->connections; /* the newest one is the first */

    whole_client_open(of, client, protocol);
    whole_client_send(of, client, request, strlen(request));
    for (int i = 0; i < 100; i++) {
        whole_server_turn(of);
        if (of->loop->connections != before && of->loop->connections->paused)
            return;
    }
    fail_msg("the request was not handed to another thread");
}

static void two_clients_flush_at_once(void **unused)
{
    struct whole_client clients[2];

    (void)unused;
    drain_inline_keys(&server);
    begin_flush(&server, &clients[0], WHOLE_RESP);
    begin_flush(&server, &clients[1], WHOLE_HTTP);
    whole_server_settle(&server, clients, 2);
    assert_int_equal(clients[0].answer_size, 5);
    assert_memory_equal(clients[0].answers, "+OK\r\n", 5);
    assert_memory_equal(clients[1].answers, "HTTP/1.1 200", 12);
    drain_inline_keys(&server);
    whole_client_close(&clients[0]);
    whole_client_close(&clients[1]);
}

static void a_client_may_disconnect_during_its_flush(void **unused)
{
    (void)unused;
    for (int i = 0; i < 4; i++) {
        struct whole_client client;

        begin_flush(&server, &client, i < 2 ? WHOLE_RESP : WHOLE_HTTP);
        if (i % 2 == 0)
            ration_connection_end(server.loop->connections, RATION_CLOSE_REASON_SHUTDOWN);
        whole_client_close(&client);
        whole_server_settle(&server, NULL, 0);
        assert_null(server.loop->connections);
    }
    drain_inline_keys(&server);
}

static void a_server_may_close_during_a_flush(void **unused)
{
    (void)unused;
    for (int i = 0; i < 2; i++) {
        struct whole_server other;
        struct whole_client clients[2];

        whole_server_open(&other, &options);
        drain_inline_keys(&other);
        begin_flush(&other, &clients[0], i == 0 ? WHOLE_RESP : WHOLE_HTTP);
        begin_flush(&other, &clients[1], i == 0 ? WHOLE_HTTP : WHOLE_RESP);
        whole_server_close(&other);
        whole_client_close(&clients[0]);
        whole_client_close(&clients[1]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(flushes_do_not_block_the_loop),
        cmocka_unit_test(two_clients_flush_at_once),
        cmocka_unit_test(a_client_may_disconnect_during_its_flush),
        cmocka_unit_test(a_server_may_close_during_a_flush),
    };
    int failed;

    whole_server_open(&server, &options);
    failed = cmocka_run_group_tests(tests, NULL, NULL);
    whole_server_close(&server);
    return failed;
}
