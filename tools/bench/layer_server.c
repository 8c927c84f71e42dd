/*
 * layer_server: the same answers as floor_server, through the server's loops and connections. The
 * difference is what that layer costs.
 *
 *     layer_server ADDRESS [--resp] [LOOPS]
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>

#include "floor_answers.h"
#include "server/net/connection.h"
#include "server/net/loops.h"

static size_t receive_http(struct ration_connection *connection, char *bytes, size_t size)
{
    struct ration_output *output = ration_connection_output(connection);
    size_t used = 0;
    const char *end;

    while (used < size && !ration_connection_is_full(connection) &&
           (end = floor_http_end(bytes + used, size - used)) != NULL) {
        ration_output_append(output, floor_http_answer, strlen(floor_http_answer));
        used = (size_t)(end - bytes);
    }
    return used;
}

static size_t receive_resp(struct ration_connection *connection, char *bytes, size_t size)
{
    struct ration_output *output = ration_connection_output(connection);
    size_t used = 0;
    const char *end;

    while (used < size && !ration_connection_is_full(connection) &&
           (end = floor_resp_end(bytes + used, size - used)) != NULL) {
        ration_output_append(output, floor_resp_answer, strlen(floor_resp_answer));
        used = (size_t)(end - bytes);
    }
    return used;
}

static void stop_loops(struct ration_loop *loop, void *loops)
{
    struct ration_loop_counters counters;

    (void)loop;
    ration_loops_counters(loops, &counters);
    fprintf(stderr, "accepted %lu, reads %lu, bytes in %lu, out %lu\n", counters.accepted,
            counters.reads, counters.received_bytes, counters.sent_bytes);
    ration_loops_drain(loops, 1000, NULL, NULL);
}

int main(int argc, char **argv)
{
    static const struct ration_protocol http = {.name = "http", .receive = receive_http};
    static const struct ration_protocol resp = {.name = "resp", .receive = receive_resp};
    bool speaks_resp = argc > 2 && strcmp(argv[2], "--resp") == 0;
    int loops_at = speaks_resp ? 3 : 2;
    struct ration_loops_options options = {.loop_count =
                                               argc > loops_at ? (unsigned)atoi(argv[loops_at]) : 1,
                                           .limits = {.idle_timeout_ms = 60000}};
    struct ration_loops *loops = NULL;
    struct ration_error error;
    int failed = 1;

    if (argc < 2) {
        fprintf(stderr, "usage: layer_server ADDRESS [--resp] [LOOPS]\n");
        return 2;
    }
    if (ration_loops_create(&options, &loops, &error) == RATION_OK &&
        ration_loops_listen(loops,
                            &(struct ration_listen_options){
                                .address = argv[1], .protocol = speaks_resp ? &resp : &http},
                            &error) == RATION_OK &&
        ration_loops_on_signal(loops, SIGTERM, stop_loops, loops, &error) == RATION_OK &&
        ration_loops_on_signal(loops, SIGINT, stop_loops, loops, &error) == RATION_OK) {
        fprintf(stderr, "listening on %s\n", ration_loops_address(loops, 0));
        failed = ration_loops_run(loops, &error) != RATION_OK;
    }
    if (failed)
        fprintf(stderr, "layer_server: %s\n", error.message);
    ration_loops_free(loops);
    return failed;
}
