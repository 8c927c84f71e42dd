#include "support/unit.h"

#include <errno.h>
#include <hiredis/async.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "redis/poll_loop.h"

static char path[64];

static int listen_here(void)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    int listener = socket(AF_UNIX, SOCK_STREAM, 0);

    snprintf(path, sizeof(path), "/tmp/ration-poll-loop-%d", (int)getpid());
    strcpy(address.sun_path, path);
    unlink(path);
    assert_int_equal(bind(listener, (struct sockaddr *)&address, sizeof(address)), 0);
    assert_int_equal(listen(listener, 1), 0);
    return listener;
}

static void note_answer(struct redisAsyncContext *redis, void *reply, void *context)
{
    (void)redis;
    *(int *)context += reply == NULL ? 1 : 100;
}

/* Connects, and is closed before the first byte is written. */
static void write_to_a_closed_connection(void)
{
    struct ration_poll_loop *loop = ration_poll_loop_create();
    const struct ration_redis_loop *hooks = ration_poll_loop_hooks(loop);
    int listener = listen_here(), accepted, lost_count = 0;
    struct redisAsyncContext *redis = redisAsyncConnectUnix(path);

    assert_non_null(redis);
    assert_true(hooks->attach(hooks->context, redis));
    assert_int_equal(redisAsyncCommand(redis, note_answer, &lost_count, "PING"), REDIS_OK);
    accepted = accept(listener, NULL, NULL);
    assert_true(accepted >= 0);
    close(accepted);
    for (int i = 0; i < 3; i++)
        ration_poll_loop_poll(loop);
    assert_int_equal(lost_count, 1);
    ration_poll_loop_free(loop);
    close(listener);
    unlink(path);
}

static bool is_pipe_pending(void)
{
    sigset_t pending;

    sigpending(&pending);
    return sigismember(&pending, SIGPIPE) == 1;
}

/* By default SIGPIPE ends the program. */
static void a_closed_connection_raises_no_signal(void **state)
{
    (void)state;
    signal(SIGPIPE, SIG_DFL);
    write_to_a_closed_connection();
    assert_false(is_pipe_pending());
}

/* A SIGPIPE that was already pending stays pending; none is added otherwise. */
static void signals_of_others_stay(void **state)
{
    sigset_t pipe;

    (void)state;
    sigemptyset(&pipe);
    sigaddset(&pipe, SIGPIPE);
    sigprocmask(SIG_BLOCK, &pipe, NULL);
    write_to_a_closed_connection();
    assert_false(is_pipe_pending());
    raise(SIGPIPE);
    write_to_a_closed_connection();
    assert_true(is_pipe_pending());
    signal(SIGPIPE, SIG_IGN);
    sigprocmask(SIG_UNBLOCK, &pipe, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_closed_connection_raises_no_signal),
        cmocka_unit_test(signals_of_others_stay),
    };
    return cmocka_run_group_tests_name("redis_poll_loop", tests, NULL, NULL);
}
