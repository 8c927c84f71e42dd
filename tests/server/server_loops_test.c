/* Loops: several on one port, messages between them, time, listeners, Unix sockets. */
#include "server/net/loops.h"

#include <semaphore.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "server/kit.h"
#include "server/net/loop_parts.h"

static struct kit kit;

/* Several on one port ------------------------------------------------------------------------ */

static void two_loops_serve_one_port(void **unused)
{
    enum { COUNT = 64 };
    struct ration_loops_options options = kit_options(&kit);
    struct ration_loop_counters counters[2];
    int fds[COUNT];

    (void)unused;
    options.loop_count = 2;
    kit_start(&kit, &options, &kit_lines, NULL);
    for (int i = 0; i < COUNT; i++) {
        fds[i] = client_open(&kit);
        client_say(fds[i], "hello\n");
    }
    for (int i = 0; i < COUNT; i++)
        client_expect(fds[i], "hello\n");
    for (unsigned i = 0; i < 2; i++)
        ration_loop_counters(ration_loops_at(kit.loops, i), &counters[i]);
    assert_int_equal(counters[0].accepted + counters[1].accepted, COUNT);
    assert_true(counters[0].accepted > 0 &&
                counters[1].accepted > 0); /* fails by chance with a probability of 2^-63 */
    for (int i = 0; i < COUNT; i++)
        close(fds[i]);
    kit_stop(&kit);
}

static void a_second_server_reports_that_the_port_is_in_use(void **unused)
{
    struct ration_loops_options options = kit_options(&kit);
    struct ration_loops *second;
    struct ration_error error;

    (void)unused;
    options.loop_count = 2;
    kit_start(&kit, &options, &kit_lines, NULL);
    assert_int_equal(ration_loops_create(&options, &second, &error), RATION_OK);
    struct ration_listen_options listen = {.address = ration_loops_address(kit.loops, 0),
                                           .protocol = &kit_lines};
    assert_int_equal(ration_loops_listen(second, &listen, &error), RATION_EINVAL);
    assert_non_null(strstr(error.message, "in use"));
    ration_loops_free(second);
    kit_stop(&kit);
}

/* Messages ----------------------------------------------------------------------------------- */

#define POSTERS 3
#define POSTS   3000

struct log {
    unsigned last[POSTERS];
    unsigned count;
    sem_t done;
};

struct post {
    struct ration_loop_message message;
    struct log *log;
    unsigned poster;
    unsigned number;
};

static void note(struct ration_loop *loop, void *argument)
{
    struct post *post = argument;

    assert_int_equal(loop->index, 1);
    assert_int_equal(post->log->last[post->poster] + 1, post->number);
    post->log->last[post->poster] = post->number;
    if (++post->log->count == POSTERS * POSTS)
        sem_post(&post->log->done);
    free(post);
}

static void *post_many(void *argument)
{
    struct post *first = argument;

    for (unsigned i = 1; i <= POSTS; i++) {
        struct post *post = malloc(sizeof(*post));

        *post = (struct post){{.function = note, .argument = post}, first->log, first->poster, i};
        if (!ration_loop_post(ration_loops_at(kit.loops, 1), &post->message))
            abort();
    }
    return NULL;
}

static void messages_arrive_once_and_in_order(void **unused)
{
    struct ration_loops_options options = kit_options(&kit);
    struct log log = {.count = 0};
    struct post posts[POSTERS];
    pthread_t threads[POSTERS];

    (void)unused;
    options.loop_count = 2;
    sem_init(&log.done, 0, 0);
    kit_start(&kit, &options, &kit_lines, NULL);
    for (unsigned i = 0; i < POSTERS; i++) {
        posts[i] = (struct post){.log = &log, .poster = i};
        pthread_create(&threads[i], NULL, post_many, &posts[i]);
    }
    for (unsigned i = 0; i < POSTERS; i++)
        pthread_join(threads[i], NULL);
    while (sem_wait(&log.done) != 0)
        ;
    kit_stop(&kit);
    sem_destroy(&log.done);
}

static void count_loop(struct ration_loop *loop, void *seen)
{
    __atomic_add_fetch(&((unsigned *)seen)[loop->index], 1, __ATOMIC_RELAXED);
}

static void a_call_reaches_each_loop_once(void **unused)
{
    struct ration_loops_options options = kit_options(&kit);
    unsigned seen[3] = {0};

    (void)unused;
    options.loop_count = 3;
    kit_start(&kit, &options, &kit_lines, NULL);
    kit_on_loops(&kit, count_loop, seen);
    for (unsigned i = 0; i < 3; i++)
        assert_int_equal(seen[i], 1);
    kit_stop(&kit);
}

static void a_stopped_loop_accepts_no_messages(void **unused)
{
    struct ration_loops_options options = kit_options(&kit);
    unsigned seen[1] = {0};
    struct ration_loop_message message = {.function = count_loop, .argument = seen};

    (void)unused;
    kit_start(&kit, &options, &kit_lines, NULL);
    ration_loops_drain(kit.loops, 0, NULL, NULL);
    assert_int_equal(pthread_join(kit.thread, NULL), 0);
    assert_false(ration_loop_post(ration_loops_at(kit.loops, 0), &message));
    assert_int_equal(seen[0], 0);
    ration_loops_free(kit.loops);
}

/* Time --------------------------------------------------------------------------------------- */

static unsigned clock_reads;

static uint64_t read_clock(void *unused)
{
    (void)unused;
    return ++clock_reads;
}

static void peek_often(struct ration_loop *loop, void *argument)
{
    uint64_t *first = argument;

    *first = ration_loop_now(loop);
    for (int i = 0; i < 100; i++)
        assert_int_equal(ration_loop_now(loop), *first);
}

static void now_is_read_once_per_turn(void **unused)
{
    struct ration_loops_options options = kit_options(&kit);
    uint64_t first, second;

    (void)unused;
    options.clock = (struct ration_clock){RATION_CLOCK_CUSTOM, read_clock, NULL};
    kit_start(&kit, &options, &kit_lines, NULL);
    kit_on_loops(&kit, peek_often, &first);
    kit_on_loops(&kit, peek_often, &second);
    assert_int_equal(second, first + 1);
    kit_stop(&kit);
}

static void *get_user(struct ration_loops *loops, unsigned index)
{
    return ration_loop_user(ration_loops_at(loops, index));
}

static void each_loop_has_a_user_pointer(void **unused)
{
    struct ration_loops_options options = kit_options(&kit);
    int users[2];

    (void)unused;
    options.loop_count = 2;
    kit_create(&kit, &options);
    for (unsigned i = 0; i < 2; i++)
        ration_loop_set_user(ration_loops_at(kit.loops, i), &users[i]);
    assert_ptr_equal(get_user(kit.loops, 0), &users[0]);
    assert_ptr_equal(get_user(kit.loops, 1), &users[1]);
    ration_loops_free(kit.loops); /* never run */
}

static void drain_at_once(struct ration_loop *loop, void *loops)
{
    (void)loop;
    ration_loops_drain(loops, 0, NULL, NULL);
}

static void a_signal_reaches_its_function(void **unused)
{
    struct ration_loops_options options = kit_options(&kit);

    (void)unused;
    kit_create(&kit, &options);
    kit_listen(&kit, &kit_lines, NULL, 0);
    assert_int_equal(ration_loops_on_signal(kit.loops, SIGUSR1, drain_at_once, kit.loops, NULL),
                     RATION_OK);
    kit_run(&kit);
    kill(getpid(), SIGUSR1);
    kit_join(&kit);
}

/* Unix sockets ------------------------------------------------------------------------------- */

static char path[sizeof(((struct sockaddr_un *)0)->sun_path)];
static char address[sizeof(path) + 8];

static int make_path(void **unused)
{
    char folder[] = "/tmp/ration-XXXXXX";

    (void)unused;
    assert_non_null(mkdtemp(folder));
    snprintf(path, sizeof(path), "%s/socket", folder);
    snprintf(address, sizeof(address), "unix:%s", path);
    return 0;
}

static int remove_path(void **unused)
{
    (void)unused;
    unlink(path);
    *strrchr(path, '/') = '\0';
    return rmdir(path);
}

static void start_unix(unsigned loop_count)
{
    struct ration_loops_options options = kit_options(&kit);

    options.loop_count = loop_count;
    kit_start(&kit, &options, &kit_lines, address);
}

static void unix_sockets_serve_and_are_removed(void **unused)
{
    struct stat there;
    int fds[20];

    (void)unused;
    start_unix(2);
    assert_int_equal(stat(path, &there), 0);
    assert_int_equal(there.st_mode & 0777, 0660);
    assert_string_equal(ration_loops_address(kit.loops, 0), address);
    for (int i = 0; i < 20; i++) {
        fds[i] = client_open(&kit);
        client_say(fds[i], "hello\n");
        client_expect(fds[i], "hello\n");
    }
    client_shut(fds[0]);
    client_expect_end(fds[0]);
    for (int i = 0; i < 20; i++)
        close(fds[i]);
    kit_stop(&kit);
    assert_int_not_equal(stat(path, &there), 0);
}

/* Creates the socket file that a killed server leaves behind. */
static void leave_stale_socket(void)
{
    struct sockaddr_un stale = {.sun_family = AF_UNIX};
    int fd = socket(AF_UNIX, SOCK_STREAM, 0);

    memcpy(stale.sun_path, path, strlen(path));
    assert_int_equal(bind(fd, (struct sockaddr *)&stale, sizeof(stale)), 0);
    close(fd);
}

static void a_stale_socket_is_replaced(void **unused)
{
    (void)unused;
    leave_stale_socket();
    start_unix(1);
    int fd = client_open(&kit);
    client_say(fd, "hello\n");
    client_expect(fd, "hello\n");
    close(fd);
    kit_stop(&kit);
}

static void expect_refusal(const char *reason)
{
    struct ration_loops_options options = kit_options(&kit);
    struct ration_listen_options listen = {.address = address, .protocol = &kit_lines};
    struct ration_loops *second;
    struct ration_error error = {.message = ""};

    assert_int_equal(ration_loops_create(&options, &second, &error), RATION_OK);
    assert_int_equal(ration_loops_listen(second, &listen, &error), RATION_EINVAL);
    if (strstr(error.message, reason) == NULL)
        fail_msg("'%s' does not say '%s'", error.message, reason);
    ration_loops_free(second);
}

static void a_socket_that_is_in_use_is_left_alone(void **unused)
{
    (void)unused;
    start_unix(1);
    expect_refusal("another server answers there");
    int fd = client_open(&kit); /* the first server's file still exists */
    client_say(fd, "hello\n");
    client_expect(fd, "hello\n");
    close(fd);
    kit_stop(&kit);
}

static void a_file_that_is_no_socket_is_left_alone(void **unused)
{
    struct stat there;
    FILE *file = fopen(path, "w");

    (void)unused;
    fputs("precious", file);
    fclose(file);
    expect_refusal("not a socket");
    assert_int_equal(stat(path, &there), 0);
    assert_int_equal(there.st_size, 8);
}

int main(void)
{
#define UNIX_TEST(name) cmocka_unit_test_setup_teardown(name, make_path, remove_path)
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(two_loops_serve_one_port),
        cmocka_unit_test(a_second_server_reports_that_the_port_is_in_use),
        cmocka_unit_test(messages_arrive_once_and_in_order),
        cmocka_unit_test(a_call_reaches_each_loop_once),
        cmocka_unit_test(a_stopped_loop_accepts_no_messages),
        cmocka_unit_test(now_is_read_once_per_turn),
        cmocka_unit_test(each_loop_has_a_user_pointer),
        cmocka_unit_test(a_signal_reaches_its_function),
        UNIX_TEST(unix_sockets_serve_and_are_removed),
        UNIX_TEST(a_stale_socket_is_replaced),
        UNIX_TEST(a_socket_that_is_in_use_is_left_alone),
        UNIX_TEST(a_file_that_is_no_socket_is_left_alone),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
