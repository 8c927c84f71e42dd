#include "server/kit.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <semaphore.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "server/net/endpoint.h"

/* The server --------------------------------------------------------------------------------- */

static uint64_t read_coarse(void *kit)
{
    return __atomic_load_n(&((struct kit *)kit)->coarse_ms, __ATOMIC_ACQUIRE);
}

struct ration_loops_options kit_options(struct kit *kit)
{
    return (struct ration_loops_options){.coarse_ms = read_coarse, .coarse_context = kit};
}

void kit_create(struct kit *kit, const struct ration_loops_options *options)
{
    struct ration_error error;

    kit->coarse_ms = 1000;
    if (ration_loops_create(options, &kit->loops, &error) != RATION_OK)
        fail_msg("%s", error.message);
}

void kit_listen(struct kit *kit, const struct ration_protocol *protocol, const char *address,
                uint32_t idle_timeout_ms)
{
    struct ration_listen_options options = {.address = address != NULL ? address : "127.0.0.1:0",
                                            .protocol = protocol,
                                            .context = kit,
                                            .idle_timeout_ms = idle_timeout_ms};
    struct ration_error error;

    if (ration_loops_listen(kit->loops, &options, &error) != RATION_OK)
        fail_msg("%s", error.message);
}

static void *run(void *kit)
{
    ration_status status = ration_loops_run(((struct kit *)kit)->loops, NULL);

    return (void *)(intptr_t)status;
}

void kit_run(struct kit *kit)
{
    assert_int_equal(pthread_create(&kit->thread, NULL, run, kit), 0);
}

void kit_start(struct kit *kit, const struct ration_loops_options *options,
               const struct ration_protocol *protocol, const char *address)
{
    kit_create(kit, options);
    kit_listen(kit, protocol, address, 0);
    kit_run(kit);
}

struct call {
    struct ration_loop_message messages[RATION_LOOPS_MAX];
    ration_loop_function *function;
    void *argument;
    sem_t done;
};

static void run_call(struct ration_loop *loop, void *argument)
{
    struct call *call = argument;

    call->function(loop, call->argument);
    sem_post(&call->done);
}

void kit_on_loops(struct kit *kit, ration_loop_function *function, void *argument)
{
    struct call call = {.function = function, .argument = argument};

    sem_init(&call.done, 0, 0);
    for (unsigned i = 0; i < ration_loops_count(kit->loops); i++) {
        call.messages[i] = (struct ration_loop_message){.function = run_call, .argument = &call};
        assert_true(ration_loop_post(ration_loops_at(kit->loops, i), &call.messages[i]));
    }
    for (unsigned i = 0; i < ration_loops_count(kit->loops); i++)
        while (sem_wait(&call.done) != 0)
            ;
    sem_destroy(&call.done);
}

static void tick(struct ration_loop *loop, void *unused)
{
    (void)unused;
    ration_loop_tick(loop);
}

static void nothing(struct ration_loop *loop, void *unused)
{
    (void)loop;
    (void)unused;
}

/* A client may receive its answer before the server has finished the request. */
static void settle(struct kit *kit)
{
    kit_on_loops(kit, nothing, NULL);
}

void kit_join(struct kit *kit)
{
    void *status;

    assert_int_equal(pthread_join(kit->thread, &status), 0);
    assert_int_equal((intptr_t)status, RATION_OK);
    ration_loops_free(kit->loops);
}

#define SETTLES 200

/* These calls wake each loop once, and earlier actions of clients may wake it a few more times. */
static void expect_no_spinning(struct kit *kit)
{
    uint64_t turns = kit_counters(kit).turns;

    for (int i = 0; i < SETTLES; i++)
        settle(kit);
    assert_in_range(kit_counters(kit).turns, turns,
                    turns + 2 * SETTLES * ration_loops_count(kit->loops));
}

void kit_stop(struct kit *kit)
{
    expect_no_spinning(kit);
    ration_loops_drain(kit->loops, 0, NULL, NULL);
    kit_join(kit);
}

void kit_pass(struct kit *kit, uint64_t ms)
{
    settle(kit);
    __atomic_add_fetch(&kit->coarse_ms, ms, __ATOMIC_RELEASE);
    kit_on_loops(kit, tick, NULL);
}

/* Waiting ------------------------------------------------------------------------------------ */

struct ration_loop_counters kit_counters(struct kit *kit)
{
    struct ration_loop_counters counters;

    settle(kit);
    ration_loops_counters(kit->loops, &counters);
    return counters;
}

static uint64_t counter_at(struct kit *kit, size_t offset)
{
    struct ration_loop_counters counters;

    ration_loops_counters(kit->loops, &counters);
    return *(uint64_t *)((char *)&counters + offset);
}

static void await(struct kit *kit, size_t offset, uint64_t wanted, bool exactly)
{
    time_t end = time(NULL) + KIT_PATIENCE_S;
    uint64_t counter;

    do {
        counter = counter_at(kit, offset);
        if (counter == wanted || (!exactly && counter > wanted))
            return;
        sched_yield();
    } while (time(NULL) < end);
    fail_msg("a counter is %lu instead of %lu", counter, wanted);
}

void kit_await_received(struct kit *kit, uint64_t bytes)
{
    await(kit, offsetof(struct ration_loop_counters, received_bytes), bytes, false);
}

void kit_await_accepted(struct kit *kit, uint64_t count)
{
    await(kit, offsetof(struct ration_loop_counters, accepted), count, false);
}

void kit_await_open(struct kit *kit, uint64_t count)
{
    await(kit, offsetof(struct ration_loop_counters, open), count, true);
}

void kit_await_accept_pauses(struct kit *kit, uint64_t count)
{
    await(kit, offsetof(struct ration_loop_counters, accept_pauses), count, false);
}

void kit_await_ended(struct kit *kit, enum ration_close_reason close_reason, uint64_t count)
{
    await(kit,
          offsetof(struct ration_loop_counters, ended) + (size_t)close_reason * sizeof(uint64_t),
          count, false);
}

/* Clients ------------------------------------------------------------------------------------ */

static struct ration_endpoint endpoint_of(struct kit *kit)
{
    struct ration_endpoint endpoint;

    assert_int_equal(ration_endpoint_parse(ration_loops_address(kit->loops, 0), &endpoint, NULL),
                     RATION_OK);
    return endpoint;
}

int client_socket(struct kit *kit)
{
    struct timeval patience = {.tv_sec = KIT_PATIENCE_S};
    int fd = socket(endpoint_of(kit).address.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0);

    if (fd < 0)
        fail_msg("socket: %s", strerror(errno));
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
    setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof(patience));
    return fd;
}

bool client_connect(struct kit *kit, int fd)
{
    struct ration_endpoint endpoint = endpoint_of(kit);

    return connect(fd, (struct sockaddr *)&endpoint.address, endpoint.address_size) == 0;
}

int client_open_from(struct kit *kit, const char *address)
{
    struct sockaddr_in own = {.sin_family = AF_INET};
    int fd = client_socket(kit);

    if (address != NULL) {
        assert_int_equal(inet_pton(AF_INET, address, &own.sin_addr), 1);
        assert_int_equal(bind(fd, (struct sockaddr *)&own, sizeof(own)), 0);
    }
    if (!client_connect(kit, fd))
        fail_msg("connect: %s", strerror(errno));
    return fd;
}

int client_open(struct kit *kit)
{
    return client_open_from(kit, NULL);
}

void client_send(int fd, const void *bytes, size_t size)
{
    for (size_t sent = 0; sent < size;) {
        ssize_t now = send(fd, (const char *)bytes + sent, size - sent, MSG_NOSIGNAL);

        if (now < 0)
            fail_msg("send: %s", strerror(errno));
        sent += (size_t)now;
    }
}

void client_say(int fd, const char *text)
{
    client_send(fd, text, strlen(text));
}

static size_t receive_up_to(int fd, char *bytes, size_t size)
{
    size_t got = 0;

    while (got < size) {
        ssize_t now = recv(fd, bytes + got, size - got, 0);

        if (now <= 0)
            break;
        got += (size_t)now;
    }
    return got;
}

void client_expect(int fd, const char *text)
{
    size_t size = strlen(text);
    char *got = calloc(1, size + 1);
    size_t got_size = receive_up_to(fd, got, size);

    if (got_size != size || memcmp(got, text, size) != 0)
        fail_msg("got '%.200s' (%zu bytes) instead of '%.200s'", got, got_size, text);
    free(got);
}

void client_expect_bytes(int fd, size_t size)
{
    char *got = malloc(size);

    assert_int_equal(receive_up_to(fd, got, size), size);
    free(got);
}

void client_expect_end(int fd)
{
    char byte;
    ssize_t got = recv(fd, &byte, 1, 0);

    if (got > 0)
        fail_msg("got '%c' instead of the end of the connection", byte);
    if (got < 0 && errno != ECONNRESET && errno != EPIPE)
        fail_msg("still open: %s", strerror(errno));
}

void client_shut(int fd)
{
    assert_int_equal(shutdown(fd, SHUT_WR), 0);
}

/* Protocols ---------------------------------------------------------------------------------- */

struct state {
    bool in_body;
    char guard; /* zero, as all of it is at first */
};

static unsigned closes, receives; /* atomic */
static struct ration_connection *paused;

unsigned kit_closes(void)
{
    return __atomic_load_n(&closes, __ATOMIC_ACQUIRE);
}

unsigned kit_receives(void)
{
    return __atomic_load_n(&receives, __ATOMIC_ACQUIRE);
}

static void resume(struct ration_loop *loop, void *unused)
{
    (void)unused;
    if (paused == NULL || ration_connection_loop(paused) != loop)
        return;
    struct ration_connection *connection = paused;

    paused = NULL;
    ration_output_append_text(ration_connection_output(connection), "held\n");
    ration_connection_resume(connection);
}

void kit_resume(struct kit *kit)
{
    kit_on_loops(kit, resume, NULL);
}

static void append_many(struct ration_output *output, size_t size)
{
    static const char many[1000];

    for (; size > sizeof(many); size -= sizeof(many))
        ration_output_append(output, many, sizeof(many));
    ration_output_append(output, many, size);
}

static void push(struct ration_loop *loop, void *argument)
{
    size_t size = *(size_t *)argument;

    if (paused == NULL || ration_connection_loop(paused) != loop)
        return;
    append_many(ration_connection_output(paused), size);
    ration_connection_flush(paused);
}

void kit_push(struct kit *kit, size_t size)
{
    kit_on_loops(kit, push, &size);
}

static void count_close(struct ration_connection *connection, enum ration_close_reason close_reason)
{
    assert_true(close_reason > RATION_CLOSE_REASON_NONE &&
                close_reason < RATION_CLOSE_REASON_COUNT);
    if (paused == connection)
        paused = NULL;
    ration_output_append_text(ration_connection_output(connection), "to nobody");
    __atomic_add_fetch(&closes, 1, __ATOMIC_RELEASE);
}

static size_t echo(struct ration_connection *connection, char *bytes, size_t size)
{
    __atomic_add_fetch(&receives, 1, __ATOMIC_RELEASE);
    ration_output_append(ration_connection_output(connection), bytes, size);
    return size;
}

/* Answers a line, which has size bytes without its end. */
static void answer(struct ration_connection *connection, const char *line, size_t size)
{
    struct ration_output *output = ration_connection_output(connection);
    char word[32] = "";
    unsigned number = 0;

    snprintf(word, sizeof(word), "%.*s", (int)size, line);
    if (sscanf(word, "big %u", &number) == 1) {
        append_many(output, number);
    } else if (sscanf(word, "need %u", &number) == 1) {
        ration_connection_need(connection, number);
    } else if (strcmp(word, "hold") == 0) {
        paused = connection;
        ration_connection_pause(connection);
    } else if (strcmp(word, "close") == 0) {
        ration_output_append_text(output, "bye\n");
        ration_connection_close(connection);
    } else if (strcmp(word, "abort") == 0) {
        ration_connection_abort(connection);
    } else {
        ration_output_append(output, line, size);
        ration_output_append_byte(output, '\n');
    }
}

/* Returns false after a line that must be the last of this receive(). */
static bool continues_after(const char *line, size_t size)
{
    static const char *const words[] = {"hold", "need", "close", "abort"};

    for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
        if (size >= strlen(words[i]) && memcmp(line, words[i], strlen(words[i])) == 0)
            return false;
    }
    return true;
}

static size_t lines(struct ration_connection *connection, char *bytes, size_t size)
{
    struct state *state = ration_connection_state(connection);
    size_t used = 0;
    char *end;

    __atomic_add_fetch(&receives, 1, __ATOMIC_RELEASE);
    assert_int_equal(state->guard, 0);
    while (used < size && !ration_connection_is_full(connection) &&
           (end = memchr(bytes + used, '\n', size - used)) != NULL) {
        char *line = bytes + used;
        size_t line_size = (size_t)(end - line);

        answer(connection, line, line_size);
        used += line_size + 1;
        if (!continues_after(line, line_size))
            break;
    }
    return used;
}

static void refuse(struct ration_connection *connection, enum ration_close_reason close_reason)
{
    struct ration_output *output = ration_connection_output(connection);

    ration_output_append_text(output, ration_protocol_close_reason_name(close_reason));
    ration_output_append_byte(output, '\n');
}

static size_t phases(struct ration_connection *connection, char *bytes, size_t size)
{
    struct state *state = ration_connection_state(connection);
    size_t used = lines(connection, bytes, size);

    if (used > 0) {
        ration_connection_phase(connection, RATION_PHASE_IDLE);
        state->in_body = used >= 5 && memcmp(bytes + used - 5, "body\n", 5) == 0;
    }
    if (state->in_body)
        ration_connection_phase(connection, RATION_PHASE_BODY);
    else if (used < size)
        ration_connection_phase(connection, RATION_PHASE_HEAD);
    return used;
}

const struct ration_protocol kit_echo = {.name = "echo", .receive = echo, .close = count_close};
const struct ration_protocol kit_lines = {
    .name = "lines", .state_size = sizeof(struct state), .receive = lines, .close = count_close};
const struct ration_protocol kit_polite = {.name = "polite",
                                           .state_size = sizeof(struct state),
                                           .receive = lines,
                                           .refuse = refuse,
                                           .close = count_close};
const struct ration_protocol kit_phases = {.name = "phases",
                                           .state_size = sizeof(struct state),
                                           .reports_phases = true,
                                           .receive = phases,
                                           .refuse = refuse,
                                           .close = count_close};
