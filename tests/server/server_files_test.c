/* A process without free file descriptors: new connections are closed, nothing spins, and the server recovers. */
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "server/kit.h"
#include "server/net/loop_parts.h"

#define FILES_MAX   120
#define CLIENTS_MAX 100

static struct kit kit;

/* Takes all free file descriptors. */
static int take_files(int *files)
{
    int count = 0;

    while (count < FILES_MAX && (files[count] = dup(STDERR_FILENO)) >= 0)
        count++;
    return count;
}

static void newcomers_without_a_file_are_closed(void **unused)
{
    struct ration_loops_options options = kit_options(&kit);
    struct rlimit limit = {.rlim_cur = FILES_MAX, .rlim_max = FILES_MAX};
    int files[FILES_MAX], clients[CLIENTS_MAX], file_count;

    (void)unused;
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
    kit_start(&kit, &options, &kit_lines, NULL);
    assert_true(kit.loops->limits.connections_max < FILES_MAX);
    int guest = client_open(&kit);
    client_say(guest, "in\n");
    client_expect(guest, "in\n");

    file_count = take_files(files);
    for (uint64_t i = 0; i < CLIENTS_MAX; i++) {
        close(files[--file_count]); /* one for the client's side, none for the server's */
        clients[i] = client_open(&kit);
        kit_await_ended(&kit, RATION_CLOSE_REASON_FILES, i + 1);
        client_expect_end(clients[i]);
        close(clients[i]);
        assert_true((files[file_count++] = dup(STDERR_FILENO)) >= 0);
    }
    assert_int_equal(kit_counters(&kit).accept_pauses, 0);
    client_say(guest, "still served\n");
    client_expect(guest, "still served\n");

    while (file_count > 0)
        close(files[--file_count]);
    int later = client_open(&kit);
    client_say(later, "room again\n");
    client_expect(later, "room again\n");
    assert_int_equal(kit_counters(&kit).accepted, 2);
    close(later);
    close(guest);
    kit_stop(&kit);
}

static uint64_t now_ms(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

static void set_files_max(rlim_t files_max)
{
    struct rlimit limit;

    assert_int_equal(getrlimit(RLIMIT_NOFILE, &limit), 0);
    limit.rlim_cur = files_max;
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
}

/* With a limit below the open descriptors the spare one does not help: new clients wait, and nothing spins. */
static void accepting_pauses_if_the_spare_does_not_help(void **unused)
{
    struct ration_loops_options options = kit_options(&kit);
    uint64_t begin_ms = now_ms();

    (void)unused;
    kit_start(&kit, &options, &kit_lines, NULL);
    int guest = client_open(&kit), newcomer = client_socket(&kit);
    client_say(guest, "in\n");
    client_expect(guest, "in\n");
    set_files_max(3);
    assert_true(client_connect(&kit, newcomer)); /* to the kernel's queue */
    client_say(newcomer, "patient\n");
    kit_await_accept_pauses(&kit, 1);
    for (int i = 0; i < 1000; i++) {
        client_say(guest, "hello\n");
        client_expect(guest, "hello\n");
    }
    assert_in_range(kit_counters(&kit).accept_pauses, 1, 1 + (now_ms() - begin_ms) / 100);
    set_files_max(FILES_MAX);
    client_expect(newcomer, "patient\n");
    close(newcomer);
    close(guest);
    kit_stop(&kit);
}

static int run_all(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(newcomers_without_a_file_are_closed),
        cmocka_unit_test(accepting_pauses_if_the_spare_does_not_help),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* Runs in a child, which has a limit of its own. */
int main(void)
{
    pid_t child = fork();
    int status = 1;

    if (child == 0)
        _exit(run_all());
    waitpid(child, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 1;
}
