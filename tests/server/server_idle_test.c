/* The memory of idle connections. The clients are in a process of their own, with their own file descriptors. */
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "server/kit.h"
#include "server/net/loop_parts.h"

#define CONNECTIONS_MAX 10000u
#define OUR_BYTES_MAX   1024

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define IS_SANITIZED 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define IS_SANITIZED 1
#endif
#endif

static struct kit kit;

/* As many connections as the limit of open files allows one process. */
static unsigned connection_count(void)
{
    unsigned most = kit.loops->limits.connections_max;

    return most < CONNECTIONS_MAX ? most : CONNECTIONS_MAX;
}

static size_t allocated_bytes(void)
{
    struct mallinfo2 info = mallinfo2();

    return info.uordblks + info.hblkhd;
}

/* Opens all connections, each with a request in two pieces, then waits for a byte from go_fd. */
static void be_clients(unsigned count, int go_fd)
{
    int *fds = calloc(count, sizeof(*fds));
    char byte;

    for (unsigned i = 0; i < count; i++) {
        fds[i] = client_open(&kit);
        client_say(fds[i], "hel");
        client_say(fds[i], "lo\n");
        client_expect(fds[i], "hello\n");
    }
    _exit(read(go_fd, &byte, 1) == 0 ? 0 : 1);
}

static void an_idle_connection_needs_less_than_1024_bytes(void **unused)
{
    struct ration_loops_options options = kit_options(&kit);
    int go[2], status;

    (void)unused;
    mallopt(M_ARENA_MAX, 1); /* mallinfo2() counts the first arena only */
    assert_int_equal(pipe(go), 0);
    kit_create(&kit, &options);
    kit_listen(&kit, &kit_lines, NULL, 0);
    unsigned count = connection_count();
    pid_t child = fork();
    if (child == 0) {
        close(go[1]);
        be_clients(count, go[0]);
    }
    close(go[0]);
    size_t before = allocated_bytes();
    kit_run(&kit);
    kit_await_received(&kit, 6 * (uint64_t)count);
    assert_int_equal(kit_counters(&kit).open, count);
    size_t each = (allocated_bytes() - before) / count;
    print_message("%u idle connections: %zu bytes each\n", count, each);
#ifndef IS_SANITIZED
    assert_in_range(each, 100, OUR_BYTES_MAX);
#endif
    close(go[1]);
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    kit_await_open(&kit, 0);
#ifndef IS_SANITIZED
    kit_pass(&kit, 0);
    assert_true(allocated_bytes() < before + count * 100); /* and nothing after they are closed */
#endif
    kit_stop(&kit);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_idle_connection_needs_less_than_1024_bytes),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
