/*
 * No request occupies a loop for long: every request whose cost grows with the policy or with its own size is served in
 * several turns (iterations of the loop), each of which takes little processor time. Other clients are answered in
 * between.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/output.h"
#include "server/net/loop_parts.h"
#include "support/turns.h"
#include "support/unit.h"

#define LIMITS 2048
#define GLOBS  1000

/* The number of checks whose globs search 1 MiB each, in one pipeline, EXEC or body. */
#define SLOW_CHECKS 80

/* The minimum of turns for these checks. */
#define SLOW_TURNS_MIN (SLOW_CHECKS / 2)

/* A step may begin with fewer units left than it uses. */
#define UNITS_MAX (RATION_TURN_UNITS_MAX + RATION_STEP_UNITS_MAX)

static struct whole_server server;

static void append_path_limits(struct ration_output *policy)
{
    for (unsigned i = 0; i < LIMITS; i++) {
        char line[128];

        snprintf(line, sizeof(line),
                 "- {name: limit%u, match: {path: /p%u}, key: ip, rate: 1/s, max_keys: 16}\n", i,
                 i);
        ration_output_append_text(policy, line);
    }
}

/* GLOBS globs that are compared with every check, and a limit that applies to all checks. */
static void append_glob_limits(struct ration_output *policy)
{
    ration_output_append_text(policy, "- {name: all, key: user, rate: 100000/h, max_keys: 64}\n");
    for (unsigned i = 0; i < GLOBS; i++) {
        char line[128];

        snprintf(
            line, sizeof(line),
            "- {name: glob%u, match: {agent: {glob: '*bot-0%03u*'}}, rate: 1/s, max_keys: 16}\n", i,
            i);
        ration_output_append_text(policy, line);
    }
}

static void open_server(void (*append_limits)(struct ration_output *policy))
{
    struct whole_server_options options = {.limits = {.input_bytes_max = 4 << 20}};
    struct ration_output policy;

    ration_output_init(&policy, 1 << 20);
    ration_output_append_text(&policy, "limits:\n");
    append_limits(&policy);
    ration_output_append_byte(&policy, '\0');
    assert_false(policy.is_failed);
    options.policy = policy.bytes;
    whole_server_open(&server, &options);
    ration_output_done(&policy);
}

/*
 * Serves the request and checks the bounds; at least busy_min turns must take long. Returns the client, which has the
 * answer; the caller closes it.
 */
static struct whole_client expect_busy_turns(const char *name, enum whole_protocol protocol,
                                             const struct ration_output *request,
                                             unsigned turns_min, unsigned busy_min)
{
    struct whole_client client;
    struct turns_cost cost = turns_serve(&server, protocol, request, &client);
    struct ration_loop_counters counters;

    for (int again = 0; again < 4 && cost.turn_ns_max > TURNS_NS_MAX; again++) {
        whole_client_close(&client); /* due to the machine, unless it happens each time */
        cost = turns_serve(&server, protocol, request, &client);
    }
    ration_loop_counters(server.loop, &counters);
    print_message("  %-28s %5u turns, the longest %5llu us; %zu bytes\n", name, cost.turn_count,
                  (unsigned long long)cost.turn_ns_max / 1000, client.answer_size);
    assert_true(cost.turn_ns_max <= TURNS_NS_MAX);
    assert_true(cost.turn_count >= turns_min);
    assert_true(cost.busy_count >= busy_min);
    assert_true(cost.answered_beside + 3 >= cost.turn_count);
    assert_true(counters.units_max <= UNITS_MAX);
    assert_true(client.answer_size > 0);
    return client;
}

static struct whole_client expect_turns(const char *name, enum whole_protocol protocol,
                                        const struct ration_output *request, unsigned turns_min)
{
    return expect_busy_turns(name, protocol, request, turns_min, 0);
}

static void multi(struct ration_output *request, const char *command, unsigned count)
{
    ration_output_append_text(request, "MULTI\r\n");
    turns_append_many(request, command, count);
    ration_output_append_text(request, "EXEC\r\n");
}

static void commands_are_served_in_turns(void **unused)
{
    static const struct {
        const char *name, *before, *repeated, *after;
        unsigned count, turns_min;
        bool is_multi;
    } rows[] = {
        {"RATION.LIMITS", "RATION.LIMITS\r\n", "", "", 0, LIMITS / 64, false},
        {"RATION.TOP", "RATION.TOP COUNT 100\r\n", "", "", 0, LIMITS / 64, false},
        {"INFO", "INFO\r\n", "", "", 0, LIMITS / 64, false},
        {"DBSIZE", "DBSIZE\r\n", "", "", 0, LIMITS / 64, false},
        {"COMMAND DOCS of many", "COMMAND DOCS", " ration.check", "\r\n", 1000, 1, false},
        {"DEL of many", "DEL", " somekey", "\r\n", 1000, 1, false},
        {"RATION.RESET of no limit", "RATION.RESET LIMIT limit x 1\r\n", "", "", 0, 1, false},
        {"EXEC of RATION.TOP", "", "RATION.TOP\r\n", "", 40, 40 * LIMITS / 64, true},
        {"EXEC of RATION.LIMITS", "", "RATION.LIMITS\r\n", "", 20, 20 * LIMITS / 64, true},
        {"EXEC of INFO", "", "INFO\r\n", "", 20, 20 * LIMITS / 64, true},
        {"EXEC of COMMAND DOCS", "", "COMMAND DOCS\r\n", "", 200, 200, true},
        {"EXEC of checks", "", "RATION.CHECK path /p1 ip a\r\n", "", 12000, 12, true},
        {"EXEC of CL.THROTTLE", "", "CL.THROTTLE k 1 1 1\r\n", "", 12000, 12, true},
        {"EXEC of no limit", "", "RATION.RESET LIMIT limit x 1\r\n", "", 200, 200, true},
        {"pipeline of RATION.LIMITS", "", "RATION.LIMITS\r\n", "", 20, 20 * LIMITS / 64, false},
    };

    (void)unused;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct ration_output request;
        struct whole_client client;

        ration_output_init(&request, 8 << 20);
        ration_output_append_text(&request, rows[i].before);
        if (rows[i].is_multi)
            multi(&request, rows[i].repeated, rows[i].count);
        else
            turns_append_many(&request, rows[i].repeated, rows[i].count);
        ration_output_append_text(&request, rows[i].after);
        client = expect_turns(rows[i].name, WHOLE_RESP, &request, rows[i].turns_min);
        assert_false(client.is_closed);
        assert_null(memmem(client.answers, client.answer_size, "EXECABORT", 9));
        whole_client_close(&client);
        ration_output_done(&request);
    }
}

static void paths_are_served_in_turns(void **unused)
{
    static const char *const paths[] = {"/metrics", "/v1/limits", "/v1/top?count=100"};

    (void)unused;
    for (size_t i = 0; i < sizeof(paths) / sizeof(paths[0]); i++) {
        struct ration_output request;
        struct whole_client client;

        ration_output_init(&request, 1 << 10);
        ration_output_append_text(&request, "GET ");
        ration_output_append_text(&request, paths[i]);
        ration_output_append_text(&request, " HTTP/1.1\r\nHost: localhost\r\n\r\n");
        client = expect_turns(paths[i], WHOLE_HTTP, &request, LIMITS / 64);
        assert_memory_equal(client.answers, "HTTP/1.1 200", 12);
        whole_client_close(&client);
        ration_output_done(&request);
    }
}

/* A cheap reply, requested many times: the bytes sent to one connection in one turn are bounded. */
static void a_pipeline_is_served_in_turns(void **unused)
{
    enum { REQUESTS = 1600 };
    extern const unsigned char ration_openapi[], ration_openapi_end[];
    size_t size = (size_t)(ration_openapi_end - ration_openapi);
    struct ration_loop_counters before, after;
    struct ration_output request;
    struct whole_client client;

    (void)unused;
    ration_output_init(&request, 1 << 20);
    turns_append_many(&request, "GET /openapi.yaml HTTP/1.1\r\nHost: localhost\r\n\r\n", REQUESTS);
    ration_loop_counters(server.loop, &before);
    client = expect_turns("pipeline of /openapi.yaml", WHOLE_HTTP, &request, 100);
    ration_loop_counters(server.loop, &after);
    assert_true(after.steps - before.steps >= REQUESTS * size / (2 * RATION_TURN_OUTPUT_SIZE));
    assert_true(client.answer_size > REQUESTS * size);
    whole_client_close(&client);
    ration_output_done(&request);
}

static struct ration_output post(const char *path, const struct ration_output *body)
{
    struct ration_output request;
    char head[256];

    ration_output_init(&request, 8 << 20);
    snprintf(head, sizeof(head),
             "POST %s HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
             "Content-Length: %zu\r\n\r\n",
             path, body->size);
    ration_output_append_text(&request, head);
    ration_output_append(&request, body->bytes, body->size);
    return request;
}

static void bodies_are_served_in_turns(void **unused)
{
    static const struct {
        const char *name, *path, *before, *repeated, *after;
        unsigned count;
        const char *status;
    } rows[] = {
        {"1000 checks", "/v1/check", "{\"checks\":[",
         "{\"attributes\":{\"path\":\"/p1\",\"ip\":\"b\"}},", "{\"attributes\":{}}]}", 999, "200"},
        {"1000 checks of 20", "/v1/peek", "{\"checks\":[",
         "{\"attributes\":{\"a\":1,\"b\":1,\"c\":1,\"d\":1,\"e\":1,\"f\":1,\"g\":1,\"h\":1,\"i\":1,"
         "\"j\":1,\"k\":1,\"l\":1,\"m\":1,\"n\":1,\"o\":1,\"p\":1,\"q\":1,\"r\":1,\"s\":1,\"t\":1}}"
         ",",
         "{\"attributes\":{}}]}", 999, "200"},
        {"500000 numbers", "/v1/check", "{\"checks\":[", "0,", "0]}", 500000, "400"},
        {"500000 numbers to reset", "/v1/reset", "{\"attributes\":[", "0,", "0]}", 500000, "400"},
    };

    (void)unused;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct ration_output body, request;
        struct whole_client client;

        ration_output_init(&body, 8 << 20);
        ration_output_append_text(&body, rows[i].before);
        turns_append_many(&body, rows[i].repeated, rows[i].count);
        ration_output_append_text(&body, rows[i].after);
        request = post(rows[i].path, &body);
        client = expect_turns(rows[i].name, WHOLE_HTTP, &request, 2);
        assert_memory_equal(client.answers + 9, rows[i].status, 3);
        whole_client_close(&client);
        ration_output_done(&request);
        ration_output_done(&body);
    }
}

/* Events while a list is built ----------------------------------------------------------------- */

static void reload(struct whole_server *of, unsigned limit_count)
{
    char text[256] = "limits:\n";
    ration_policy *policy;

    for (unsigned i = 0; i < limit_count; i++)
        snprintf(text + strlen(text), sizeof(text) - strlen(text), "- {name: new%u, rate: 1/s}\n",
                 i);
    assert_int_equal(ration_policy_parse(text, strlen(text), NULL, NULL, &policy), RATION_OK);
    assert_int_equal(ration_engine_reload(of->service.engine, policy, NULL, NULL, NULL), RATION_OK);
}

/* A list describes one whole policy: the new one if the policy has changed meanwhile. */
static void a_list_begins_again_if_the_policy_changes(void **unused)
{
    struct whole_client clients[2];

    (void)unused;
    whole_client_open(&server, &clients[0], WHOLE_RESP);
    whole_client_open(&server, &clients[1], WHOLE_HTTP);
    whole_client_send(&server, &clients[0], "CL.THROTTLE k 1 1 1\r\n", 21);
    whole_server_settle(&server, clients, 1);
    whole_client_forget(&clients[0]);
    whole_client_send(&server, &clients[0], "RATION.LIMITS\r\nDBSIZE\r\n", 23);
    whole_client_send(&server, &clients[1], "GET /v1/limits HTTP/1.0\r\n\r\n", 27);
    for (int i = 0; i < 5; i++)
        whole_server_turn(&server);
    assert_true(whole_server_is_busy(&server));
    reload(&server, 2);
    whole_server_settle(&server, clients, 2);
    assert_memory_equal(clients[0].answers, "*2\r\n", 4);
    assert_null(memmem(clients[0].answers, clients[0].answer_size, "limit1", 6));
    assert_memory_equal(clients[0].answers + clients[0].answer_size - 4, ":1\r\n",
                        4); /* CL.THROTTLE k */
    assert_non_null(memmem(clients[1].answers, clients[1].answer_size, "new1", 4));
    assert_null(memmem(clients[1].answers, clients[1].answer_size, "limit1", 6));
    assert_true(clients[1].is_closed);
    whole_client_close(&clients[0]);
    whole_client_close(&clients[1]);
}

/* When a connection closes, its list is freed. */
static void a_client_may_disconnect_while_its_reply_is_built(void **unused)
{
    static const char *const requests[] = {"RATION.LIMITS\r\n", "MULTI\r\nRATION.TOP\r\nEXEC\r\n",
                                           "GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n"};

    (void)unused;
    for (size_t i = 0; i < 6; i++) {
        const char *request = requests[i % 3];
        bool is_ended_by_server = i < 3;
        struct whole_client client;

        whole_client_open(&server, &client, i % 3 < 2 ? WHOLE_RESP : WHOLE_HTTP);
        whole_client_send(&server, &client, request, strlen(request));
        for (int turn = 0; turn < 5; turn++)
            whole_server_turn(&server);
        assert_true(whole_server_is_busy(&server));
        if (is_ended_by_server) { /* at once: the rest of the list would need more turns */
            ration_connection_end(server.loop->connections, RATION_CLOSE_REASON_SHUTDOWN);
            whole_server_turn(&server);
            assert_false(whole_server_is_busy(&server));
        }
        whole_client_close(&client); /* the server sees it when it writes the list */
        whole_server_settle(&server, NULL, 0);
        assert_null(server.loop->connections);
    }
}

/* Globs that search much ----------------------------------------------------------------------- */

/*
 * A value that contains all three-byte sequences of all globs, so that no filter helps, and matches none of the
 * globs. It contains every number from 000 to 999, after letters that are not those of a glob.
 */
static const char *slow_value(void)
{
    static char value[1600];
    static bool is_seen[1000];
    unsigned last = 0; /* the last two digits */
    size_t size;

    if (value[0] != '\0')
        return value;
    size = (size_t)snprintf(value, sizeof(value), "bot_ot-_t-0");
    for (unsigned i = 0; i < 10; i++)
        size += (size_t)snprintf(value + size, sizeof(value) - size, "_-0%u", i);
    size += (size_t)snprintf(value + size, sizeof(value) - size, "_00");
    for (unsigned i = 0; i < 1000;
         i++) { /* the highest digit that makes a new three-digit number */
        unsigned digit = 9;

        while (digit > 0 && is_seen[last * 10 + digit])
            digit--;
        is_seen[last * 10 + digit] = true;
        value[size++] = (char)('0' + digit);
        last = (last * 10 + digit) % 100;
    }
    assert_true(size < sizeof(value));
    for (unsigned i = 0; i < 1000; i++)
        assert_true(is_seen[i]);
    return value;
}

static void append_checks(struct ration_output *request, const char *before, const char *value,
                          const char *behind, unsigned count)
{
    for (unsigned i = 0; i < count; i++) {
        ration_output_append_text(request, before);
        ration_output_append_text(request, value);
        ration_output_append_text(request, behind);
    }
}

/* Each check leaves one token less in the limit "all": no answer is lost, doubled or out of order. */
static void expect_in_order(const struct whole_client *client, const char *before, unsigned count)
{
    const char *at = client->answers, *end = at + client->answer_size;

    for (unsigned i = 1; i <= count + 1; i++) {
        char text[64];
        size_t size = (size_t)snprintf(text, sizeof(text), "%s%u", before, 100000 - i);
        const char *found = memmem(at, (size_t)(end - at), text, size);

        if ((found != NULL) != (i <= count))
            fail_msg("%u checks: answer %u is missing, too early or too much", count, i);
        at = found != NULL ? found + size : at;
    }
}

static void slow_commands_are_served_in_turns(void **unused)
{
    static const struct {
        const char *name, *before, *behind;
        unsigned count, turns_min;
        bool is_multi, is_short, is_check;
    } rows[] = {
        {"pipeline of slow checks", "RATION.CHECK agent ", " user u\r\n", SLOW_CHECKS,
         SLOW_TURNS_MIN, false, false, true},
        {"EXEC of slow checks", "RATION.CHECK agent ", " user u\r\n", SLOW_CHECKS, SLOW_TURNS_MIN,
         true, false, true},
        {"pipeline of short checks", "RATION.CHECK agent ", " user u\r\n", 1000, 10, false, true,
         true},
        {"EXEC of short checks", "RATION.CHECK agent ", " user u\r\n", 1000, 10, true, true, true},
        {"pipeline of slow refunds", "RATION.REFUND agent ", " user u\r\n", SLOW_CHECKS,
         SLOW_TURNS_MIN, false, false, false},
        {"EXEC of slow refunds", "RATION.REFUND agent ", " user u\r\n", SLOW_CHECKS, SLOW_TURNS_MIN,
         true, false, false},
    };

    (void)unused;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        const char *value = rows[i].is_short ? "curl" : slow_value();
        struct ration_output request;
        struct whole_client client;

        ration_output_init(&request, 8 << 20);
        if (rows[i].is_multi)
            ration_output_append_text(&request, "MULTI\r\n");
        append_checks(&request, rows[i].before, value, rows[i].behind, rows[i].count);
        if (rows[i].is_multi)
            ration_output_append_text(&request, "EXEC\r\n");
        ration_output_append_text(&request, "RATION.RESET agent x user u\r\n");
        client = expect_turns(rows[i].name, WHOLE_RESP, &request, rows[i].turns_min);
        if (rows[i].is_check)
            expect_in_order(&client, "remaining\r\n:", rows[i].count);
        assert_memory_equal(client.answers + client.answer_size - 4, ":1\r\n", 4);
        whole_client_close(&client);
        ration_output_done(&request);
    }
}

/* Resets the tokens taken, in case the checks are repeated. */
static void append_reset(struct ration_output *request)
{
    struct ration_output body, reset;

    ration_output_init(&body, 1 << 10);
    ration_output_append_text(&body, "{\"attributes\":{\"agent\":\"x\",\"user\":\"u\"}}");
    reset = post("/v1/reset", &body);
    ration_output_append(request, reset.bytes, reset.size);
    ration_output_done(&reset);
    ration_output_done(&body);
}

static void slow_bodies_are_served_in_turns(void **unused)
{
    struct ration_output body, request;
    struct whole_client client;

    (void)unused;
    ration_output_init(&body, 8 << 20);
    ration_output_append_text(&body, "{\"checks\":[");
    append_checks(&body, "{\"attributes\":{\"user\":\"u\",\"agent\":\"", slow_value(), "\"}},",
                  SLOW_CHECKS - 1);
    append_checks(&body, "{\"attributes\":{\"user\":\"u\",\"agent\":\"", slow_value(), "\"}}]}", 1);
    request = post("/v1/check", &body);
    append_reset(&request);
    client = expect_busy_turns("body of slow checks", WHOLE_HTTP, &request, SLOW_TURNS_MIN,
                               SLOW_TURNS_MIN);
    expect_in_order(&client, "\"remaining\":", SLOW_CHECKS);
    whole_client_close(&client);
    ration_output_done(&request);
    ration_output_done(&body);
}

static void slow_gets_are_served_in_turns(void **unused)
{
    struct ration_output request;
    struct whole_client client;

    (void)unused;
    ration_output_init(&request, 8 << 20);
    append_checks(&request, "GET /v1/check?user=u&agent=", slow_value(),
                  " HTTP/1.1\r\nHost: localhost\r\n\r\n", SLOW_CHECKS);
    append_reset(&request);
    client = expect_turns("pipeline of slow GETs", WHOLE_HTTP, &request, SLOW_TURNS_MIN);
    expect_in_order(&client, "\"remaining\":", SLOW_CHECKS);
    whole_client_close(&client);
    ration_output_done(&request);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(commands_are_served_in_turns),
        cmocka_unit_test(paths_are_served_in_turns),
        cmocka_unit_test(a_pipeline_is_served_in_turns),
        cmocka_unit_test(bodies_are_served_in_turns),
        cmocka_unit_test(a_client_may_disconnect_while_its_reply_is_built),
        cmocka_unit_test(a_list_begins_again_if_the_policy_changes), /* removes the limits */
    };
    const struct CMUnitTest glob_tests[] = {
        cmocka_unit_test(slow_commands_are_served_in_turns),
        cmocka_unit_test(slow_bodies_are_served_in_turns),
        cmocka_unit_test(slow_gets_are_served_in_turns),
    };
    int failed;

    open_server(append_path_limits);
    failed = cmocka_run_group_tests(tests, NULL, NULL);
    whole_server_close(&server);
    open_server(append_glob_limits);
    failed += cmocka_run_group_tests(glob_tests, NULL, NULL);
    whole_server_close(&server);
    return failed;
}
