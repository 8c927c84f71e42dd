/*
 * service_fake: a fake connection, its loop and its loops, on which a protocol's service runs without sockets. The input
 * is passed in pieces, and the output is collected as one text.
 *
 *     struct fake fake;
 *     fake_open(&fake, &ration_http_protocol);
 *     fake_feed(&fake, bytes, size);          as server/net/connection_io.c would: all that is unconsumed
 *     ... fake.answers, fake.answer_size, fake.is_closed
 *     fake_close(&fake);
 *
 * Each has a new engine, with a clock that only RATION.CLOCK advances, so the output depends only on the bytes. The link
 * wraps clock_gettime, so that dates do not change.
 */
#ifndef RATION_TESTS_SERVICE_FAKE_H
#define RATION_TESTS_SERVICE_FAKE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "ration/ration.h"
#include "server/net/connection.h"
#include "server/ops/log.h"
#include "server/ops/reloader.h"
#include "server/ops/service.h"
#include "support/resp_limits.h"

/* Aborts in every build, so that a release build finds what a debug build does. */
#define CHECK(condition)  \
    do {                  \
        if (!(condition)) \
            abort();      \
    } while (0)

#define FAKE_MATCH_STEPS 100 /* a turn decides a few checks */
#define FAKE_STATE_SIZE  512
#define FAKE_FULL_SIZE   4096    /* small, so that it is reached */
#define FAKE_OUTPUT_MAX  1048576 /* of one receive() */
#define FAKE_ANSWERS_MAX ((size_t)64 << 20)
#define FAKE_NOW_NS      (UINT64_C(1000) * RATION_NS_PER_SECOND)
#define FAKE_WALL_S      1794838999

static const char fake_policy[] =
    "limits: [{name: user, key: user, rate: 2/s, burst: 3, max_keys: 16}, "
    "{name: all, rate: 100/s, burst: 50}, "
    "{name: window, match: {path: {prefix: /w}}, key: [ip, header.x-a], rate: 5/min, "
    "algorithm: sliding_window, max_keys: 16, shadow: true}, "
    "{name: skip, match: {method: POST}, key: plan, rate: 1/s, missing: skip, max_keys: 16, cost: "
    "price}]\n"
    "exempt: [{user: root}]\n"
    "banned: [{user: mallory}]\n";

struct ration_loop {
    void *user;
    struct ration_job *job; /* the pending job: a connection has one at a time */
};

struct ration_loops {
    struct ration_loop *loop;
};

struct ration_connection {
    struct ration_loop *loop;
    struct ration_service *service;
    struct ration_output output;
    struct ration_address peer;
    size_t need_bytes;
    uint64_t match_steps; /* since the service was called */
    bool is_closed;
    bool is_aborted;
    bool yields;
    bool is_paused;
    _Alignas(max_align_t) char state[FAKE_STATE_SIZE];
};

struct fake {
    const struct ration_protocol *protocol;
    struct ration_manual_clock manual;
    struct ration_clock clock;
    struct ration_settings settings;
    struct ration_service service;
    struct ration_loop loop;
    struct ration_loops loops;
    struct ration_connection connection;
    char *unconsumed; /* unconsumed */
    size_t kept_size;
    char *answers;
    size_t answer_size;
    bool is_closed; /* nothing more is received */
};

/* Functions that the services call -------------------------------------------------------------- */

int __wrap_clock_gettime(clockid_t clock, struct timespec *out_time);
int __real_clock_gettime(clockid_t clock, struct timespec *out_time);
int __wrap_clock_gettime(clockid_t clock, struct timespec *out_time)
{
    if (clock != CLOCK_REALTIME && clock != CLOCK_REALTIME_COARSE)
        return __real_clock_gettime(clock, out_time);
    *out_time = (struct timespec){.tv_sec = FAKE_WALL_S};
    return 0;
}

/* The same for all of one run. */
uint64_t __wrap_ration_metrics_resident_bytes(void);
uint64_t __wrap_ration_metrics_resident_bytes(void)
{
    return 1 << 20;
}

void *ration_connection_state(struct ration_connection *connection)
{
    return connection->state;
}

void *ration_connection_context(const struct ration_connection *connection)
{
    return connection->service;
}

struct ration_loop *ration_connection_loop(const struct ration_connection *connection)
{
    return connection->loop;
}

const struct ration_address *ration_connection_peer(const struct ration_connection *connection)
{
    return &connection->peer;
}

struct ration_output *ration_connection_output(struct ration_connection *connection)
{
    return &connection->output;
}

bool ration_connection_is_full(const struct ration_connection *connection)
{
    return connection->yields || connection->is_paused || connection->output.size >= FAKE_FULL_SIZE;
}

void ration_connection_yield(struct ration_connection *connection)
{
    connection->yields = true;
}

uint64_t ration_connection_match_steps_left(const struct ration_connection *connection)
{
    return connection->match_steps < FAKE_MATCH_STEPS ? FAKE_MATCH_STEPS - connection->match_steps
                                                      : 0;
}

void ration_connection_charge(struct ration_connection *connection, uint64_t match_steps)
{
    connection->match_steps += match_steps;
    if (!connection->is_paused && ration_connection_match_steps_left(connection) == 0)
        connection->yields = true;
}

void ration_connection_close(struct ration_connection *connection)
{
    connection->is_closed = true;
    connection->is_paused = false;
}

void ration_connection_abort(struct ration_connection *connection)
{
    connection->is_aborted = true;
}

void ration_connection_need(struct ration_connection *connection, size_t size)
{
    connection->need_bytes = size;
}

void ration_connection_hide_input(struct ration_connection *connection, bool is_secret)
{
    (void)connection, (void)is_secret;
}

void ration_connection_phase(struct ration_connection *connection, enum ration_phase phase)
{
    (void)connection;
    CHECK(phase <= RATION_PHASE_BODY);
}

bool ration_connection_is_paused(const struct ration_connection *connection)
{
    return connection->is_paused;
}

void ration_connection_pause(struct ration_connection *connection)
{
    connection->is_paused = true;
}

void ration_connection_resume(struct ration_connection *connection)
{
    connection->is_paused = false;
}

void ration_connection_run(struct ration_connection *connection,
                           void (*function)(struct ration_connection *connection))
{
    connection->is_paused = false;
    function(connection);
}

/* Steps of one reply follow each other, and are sent together. */
void ration_connection_flush(struct ration_connection *connection)
{
    CHECK(connection->is_paused);
}

void ration_connection_set_partial(struct ration_connection *connection, bool is_partial)
{
    (void)connection;
    (void)is_partial;
}

void ration_connection_set_authenticated(struct ration_connection *connection,
                                         bool is_authenticated)
{
    (void)connection;
    (void)is_authenticated;
}

void ration_connection_delay(struct ration_connection *connection)
{
    (void)connection;
    abort(); /* nothing counts failures */
}

void ration_log_fields(enum ration_log_level level, const struct ration_log_field *fields,
                       size_t field_count, const char *format, ...)
{
    (void)level;
    (void)fields;
    (void)field_count;
    (void)format;
}

void ration_connection_set_transaction(struct ration_connection *connection, bool is_transaction)
{
    (void)connection;
    (void)is_transaction;
}

bool ration_buffer_account(struct ration_connection *connection, size_t *accounted_bytes,
                           size_t bytes)
{
    (void)connection;
    *accounted_bytes = bytes;
    return true;
}

void ration_loop_queue(struct ration_loop *loop, struct ration_job *job)
{
    CHECK(loop->job == NULL);
    loop->job = job;
}

void ration_loop_cancel_job(struct ration_job *job)
{
    (void)job; /* it runs before anything else */
}

bool ration_loop_run_beside(struct ration_loop *loop, void (*work)(void *argument),
                            void (*done)(void *argument), void *argument)
{
    (void)loop;
    (void)done; /* a body that is too large to be read at once is refused */
    (void)work;
    (void)argument;
    return false;
}

bool ration_connection_is_draining(const struct ration_connection *connection)
{
    (void)connection;
    return false;
}

void *ration_loop_user(const struct ration_loop *loop)
{
    return loop->user;
}

void ration_loop_set_user(struct ration_loop *loop, void *user)
{
    loop->user = user;
}

uint64_t ration_loop_now(struct ration_loop *loop)
{
    (void)loop;
    abort(); /* the clock is manual: the services use the engine's */
}

unsigned ration_loops_count(const struct ration_loops *loops)
{
    (void)loops;
    return 1;
}

struct ration_loop *ration_loops_at(struct ration_loops *loops, unsigned index)
{
    CHECK(index == 0);
    return loops->loop;
}

void ration_loops_counters(const struct ration_loops *loops,
                           struct ration_loop_counters *out_counters)
{
    (void)loops;
    *out_counters = (struct ration_loop_counters){0};
}

/* Runs at once. A reload fails, so that its lines must fit into an error. */
bool ration_reloader_serve(struct ration_reloader *reloader, enum ration_reloader_task task,
                           struct ration_connection *connection, ration_reload_answer *answer,
                           struct ration_reload **place)
{
    struct ration_reload_result result = {.is_done = false,
                                          .text = "limit user is kept\nnothing \"else\"\r\n"};

    (void)reloader;
    (void)place;
    if (task == RATION_RELOADER_CLEAR_INLINE)
        result = (struct ration_reload_result){
            .is_done = ration_engine_clear_inline(connection->service->engine) == RATION_OK};
    answer(connection, &result);
    return true;
}

void ration_reloader_forget(struct ration_reload *reload)
{
    CHECK(reload == NULL);
}

/* A connection --------------------------------------------------------------------------------- */

static void fake_open_engine(struct fake *fake)
{
    struct ration_engine_options options = {.struct_size = sizeof(options),
                                            .clock = &fake->clock,
                                            .inline_keys_max = 16,
                                            .top_keys = 4,
                                            .spare_bytes = 1 << 16,
                                            .threads_max = 1};
    ration_policy *policy = NULL;

    CHECK(ration_policy_parse(fake_policy, sizeof(fake_policy) - 1, NULL, NULL, &policy) ==
          RATION_OK);
    CHECK(ration_engine_create(&options, policy, &fake->service.engine, NULL) == RATION_OK);
}

static char fake_host[] = "h"; /* in the corpus */

/* secret: the admin secret; then there is a check secret, too. "": no secrets, and everything is allowed. */
static void fake_open(struct fake *fake, const struct ration_protocol *protocol, const char *secret)
{
    memset(fake, 0, sizeof(*fake));
    fake->protocol = protocol;
    fake->manual.ns = FAKE_NOW_NS;
    fake->clock = ration_clock_manual(&fake->manual);
    fake->settings.deny_status = 429;
    fake->settings.pipeline_max = 8;
    fake->settings.inline_keys = 16;
    fake->settings.resp_limits = resp_limits_default;
    fake->settings.http_limits = RATION_HTTP_LIMITS_DEFAULT;
    if (secret[0] != '\0') {
        CHECK(ration_secret_set(&fake->settings.admin_secret, secret, strlen(secret)));
        CHECK(ration_secret_set(&fake->settings.check_secret, "check", strlen("check")));
    }
    fake->settings.allowed_hosts[0] = fake_host;
    fake->settings.allowed_host_count = 1;
    fake_open_engine(fake);
    fake->loops.loop = &fake->loop;
    fake->service.loops = &fake->loops;
    fake->service.settings = &fake->settings;
    fake->service.manual = &fake->manual;
    fake->service.started_wall_s = FAKE_WALL_S;
    fake->service.is_ready = true;
    CHECK(ration_service_open_loop(&fake->service, &fake->loop) == RATION_OK);
    CHECK(protocol->state_size <= FAKE_STATE_SIZE);
    fake->connection.loop = &fake->loop;
    fake->connection.service = &fake->service;
    fake->connection.peer = (struct ration_address){.bytes = {127, 0, 0, 1}, .family = 4};
    ration_output_init(&fake->connection.output, FAKE_OUTPUT_MAX);
    if (protocol->open != NULL)
        protocol->open(&fake->connection);
}

static void fake_close(struct fake *fake)
{
    if (fake->protocol->close != NULL)
        fake->protocol->close(&fake->connection, RATION_CLOSE_REASON_CLIENT);
    ration_service_close_loop(&fake->loop);
    ration_engine_free(fake->service.engine);
    ration_output_done(&fake->connection.output);
    free(fake->unconsumed);
    free(fake->answers);
}

/* Collects the output; an abort discards unsent output. */
static void fake_send(struct fake *fake)
{
    struct ration_output *output = &fake->connection.output;

    CHECK(!output->is_failed);
    fake->is_closed = fake->connection.is_closed || fake->connection.is_aborted;
    if (output->size > 0 && !fake->connection.is_aborted) {
        CHECK(fake->answer_size + output->size <= FAKE_ANSWERS_MAX);
        fake->answers = realloc(fake->answers, fake->answer_size + output->size);
        CHECK(fake->answers != NULL);
        memcpy(fake->answers + fake->answer_size, output->bytes, output->size);
        fake->answer_size += output->size;
    }
    ration_output_reset(output);
}

/* Runs the pending steps; afterwards nothing is paused. */
static void fake_take_steps(struct fake *fake)
{
    while (fake->loop.job != NULL) {
        struct ration_job *job = fake->loop.job;

        fake->loop.job = NULL;
        (void)job->step(job);
    }
    CHECK(!fake->connection.is_paused);
}

/* Passes the unconsumed bytes to the protocol, repeatedly while it stops only because its output is full. */
static void fake_serve(struct fake *fake)
{
    struct ration_connection *connection = &fake->connection;
    bool again = true;

    while (again && !fake->is_closed && fake->kept_size > 0 &&
           fake->kept_size >= connection->need_bytes) {
        size_t used;

        connection->need_bytes = 0;
        connection->yields = false;
        connection->match_steps = 0;
        used = fake->protocol->receive(connection, fake->unconsumed, fake->kept_size);
        CHECK(used <= fake->kept_size);
        again = connection->is_paused || connection->yields ||
                (used > 0 && ration_connection_is_full(connection));
        fake_take_steps(fake);
        fake->kept_size -= used;
        memmove(fake->unconsumed, fake->unconsumed + used, fake->kept_size);
        fake_send(fake);
    }
}

/* Passes one more piece. Unconsumed bytes are in memory of exactly their size, so that sanitizers check it. */
static void fake_feed(struct fake *fake, const uint8_t *bytes, size_t size)
{
    char *moved;

    if (fake->is_closed || size == 0)
        return;
    moved = malloc(fake->kept_size + size);
    CHECK(moved != NULL);
    if (fake->kept_size > 0)
        memcpy(moved, fake->unconsumed, fake->kept_size);
    memcpy(moved + fake->kept_size, bytes, size);
    free(fake->unconsumed);
    fake->unconsumed = moved;
    fake->kept_size += size;
    fake_serve(fake);
}

#define FAKE_CUTS_SIZE 4

/* All of a stream, cuts[i % FAKE_CUTS_SIZE] % 64 + 1 bytes at a time; NULL: at once. */
static void fake_feed_all(struct fake *fake, const uint8_t *stream, size_t size,
                          const uint8_t *cuts)
{
    size_t given = 0, turn = 0;

    while (given < size && !fake->is_closed) {
        size_t piece = cuts != NULL ? (size_t)cuts[turn++ % FAKE_CUTS_SIZE] % 64 + 1 : size;

        piece = piece < size - given ? piece : size - given;
        fake_feed(fake, stream + given, piece);
        given += piece;
    }
}

#endif
