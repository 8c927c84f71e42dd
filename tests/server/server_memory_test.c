/*
 * A whole server in this process, whose allocations fail in turn: the first one in the first run, the second one in
 * the second run, until a run needs no more allocations than have failed. Each run starts the server, sends checks,
 * reads every list, runs admin operations, reloads by HTTP, RESP and SIGHUP, and stops the server with SIGTERM.
 *
 * Whichever allocation fails: no crash, no hang, no leak. A failed reload is reported, and the previous policy stays in
 * force. Thread creation fails in turn, too.
 *
 * Calls of the project's code arrive here by --wrap, and those of the JSON library by its own hook. Allocations of
 * libuv do not fail here, because libuv aborts then (see reserve_watchers() in server/net/loop.c).
 */
#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "server/ops/server.h"
#include "server/ops/settings.h"
#include "support/allocations.h"
#include "support/unit.h"

#ifdef __SANITIZE_ADDRESS__
void __sanitizer_set_report_fd(void *file);
#endif

/* Allocations ---------------------------------------------------------------------------------- */

int __real_pthread_create(pthread_t *thread, const pthread_attr_t *attributes,
                          void *(*function)(void *argument), void *argument);
int __wrap_pthread_create(pthread_t *thread, const pthread_attr_t *attributes,
                          void *(*function)(void *argument), void *argument);

int __wrap_pthread_create(pthread_t *thread, const pthread_attr_t *attributes,
                          void *(*function)(void *argument), void *argument)
{
    return allocations_fail() ? EAGAIN
                              : __real_pthread_create(thread, attributes, function, argument);
}

/* The server ----------------------------------------------------------------------------------- */

#define HANG_SECONDS   60
#define ANSWER_SECONDS 20

static const char policy_a[] =
    "exempt: [{ip: 203.0.113.0/24}]\n"
    "limits: [{name: first, key: ip, rate: 10/h, max_keys: 100}, "
    "{name: window, key: ip, rate: 10/h, algorithm: fixed_window, max_keys: 100}]\n";
static const char policy_b[] =
    "limits: [{name: first, key: ip, rate: 20/h, max_keys: 100}, "
    "{name: second, key: [user, ip], rate: 9/h, algorithm: sliding_log, max_keys: 100}, "
    "{name: third, match: {path: [/a*, /b]}, rate: 100/s}]\n";

static char folder[] = "/tmp/ration-memory-XXXXXX";
static char http_path[64], resp_path[64], policy_path[64], state_path[64], log_path[64];
static bool is_over; /* the server's function has returned */

static void write_policy(const char *text)
{
    char temporary[80];
    int file;

    snprintf(temporary, sizeof(temporary), "%s.new", policy_path);
    file = open(temporary, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    assert_true(file >= 0);
    assert_int_equal(write(file, text, strlen(text)), strlen(text));
    close(file);
    assert_int_equal(rename(temporary, policy_path), 0);
}

static void *serve(void *settings)
{
    bool is_well = ration_server_run(settings);

    __atomic_store_n(&is_over, true, __ATOMIC_RELEASE);
    return (void *)(uintptr_t)is_well;
}

/* Clients -------------------------------------------------------------------------------------- */

static int connect_to(const char *path)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    struct timeval timeout = {.tv_sec = ANSWER_SECONDS};
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

    assert_true(fd >= 0);
    snprintf(address.sun_path, sizeof(address.sun_path), "%s", path);
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &timeout, sizeof(timeout));
    if (connect(fd, (struct sockaddr *)&address, sizeof(address)) == 0)
        return fd;
    close(fd);
    return -1;
}

/* Sends the request and reads until the server closes. A missing answer fails the test. */
static const char *exchange(const char *path, const char *request)
{
    static char answer[1 << 20];
    int fd = connect_to(path);
    size_t size = 0;

    answer[0] = '\0';
    if (fd < 0)
        return answer;
    (void)!send(fd, request, strlen(request), MSG_NOSIGNAL);
    for (;;) {
        ssize_t got = recv(fd, answer + size, sizeof(answer) - 1 - size, 0);

        if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK))
            fail_msg("no answer within %d s, %lu was refused: %s", ANSWER_SECONDS,
                     (unsigned long)allocations.fails_at, request);
        if (got <= 0)
            break;
        size += (size_t)got;
    }
    answer[size] = '\0';
    close(fd);
    return answer;
}

static const char *http(const char *method, const char *path, const char *body)
{
    char request[1024];

    snprintf(request, sizeof(request),
             "%s %s HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n"
             "Content-Type: application/json\r\nContent-Length: %zu\r\n\r\n%s",
             method, path, strlen(body), body);
    return exchange(http_path, request);
}

/* Sends inline commands, then QUIT. */
static const char *resp(const char *commands)
{
    char request[2048];

    snprintf(request, sizeof(request), "%sQUIT\r\n", commands);
    return exchange(resp_path, request);
}

/* 0: no answer, which is allowed if the connection found no memory. */
static int status_of(const char *answer)
{
    int status = 0;

    return sscanf(answer, "HTTP/1.1 %d", &status) == 1 ? status : 0;
}

/* The policy in force: 'a', 'b', or '?' without an answer. */
static char current_policy(void)
{
    for (int i = 0; i < 3; i++) { /* only one allocation fails */
        const char *answer = http("GET", "/v1/limits", "");

        if (status_of(answer) == 200 && strstr(answer, "\"window\"") != NULL)
            return 'a';
        if (status_of(answer) == 200 && strstr(answer, "\"second\"") != NULL)
            return 'b';
    }
    return '?';
}

/* Requests -------------------------------------------------------------------------------------- */

static void send_all_requests(void)
{
    static const char one[] =
        "{\"attributes\":{\"ip\":\"192.0.2.1\",\"user\":\"u\",\"path\":\"/a\"}}";
    char batch[512];

    snprintf(batch, sizeof(batch), "{\"checks\":[%s,%s,%s]}", one, one, one);
    http("GET", "/v1/check?ip=192.0.2.1&user=u&path=/a", "");
    http("POST", "/v1/check", batch);
    http("POST", "/v1/peek", one);
    http("POST", "/v1/refund", one);
    http("POST", "/v1/block",
         "{\"attributes\":{\"ip\":\"192.0.2.9\",\"user\":\"v\"},\"seconds\":60}");
    http("POST", "/v1/reset", one);
    http("GET", "/metrics", "");
    http("GET", "/v1/top", "");
    resp("HELLO 3\r\nRATION.CHECK ip 192.0.2.1 user u\r\nCL.THROTTLE k 1 2 3\r\nINFO\r\nDBSIZE\r\n"
         "RATION.LIMITS\r\nRATION.TOP\r\nRATION.BLOCK MS 5 ip 192.0.2.1 user u\r\n"
         "RATION.RESET ip 192.0.2.1 user u\r\nDEL k\r\n");
    resp("MULTI\r\nRATION.CHECK ip 192.0.2.1 user u\r\nCL.THROTTLE k 1 2 3\r\nEXEC\r\n");
}

/* A failed reload is reported and changes nothing. */
static void reload_by_http(const char *text, char name, char before)
{
    char reported[512];
    int status;
    char after;

    write_policy(text);
    snprintf(reported, sizeof(reported), "%s", http("POST", "/v1/reload", ""));
    status = status_of(reported);
    after = current_policy();
    if (status == 200)
        assert_true(after == name || after == '?');
    else if (status != 0 && before != '?' && after != before && after != '?')
        fail_msg("policy %c is in force, with %lu refused: %s", after,
                 (unsigned long)allocations.fails_at, reported);
    assert_true(status == 200 || status == 422 || status == 503 || status == 0);
}

static void reload_in_all_ways(void)
{
    const char *answer;
    char before = current_policy();
    char after;
    int fd;

    assert_true(before == 'a' || before == '?');
    reload_by_http(policy_b, 'b', before);
    before = current_policy();
    write_policy(policy_a);
    answer = resp("RATION.RELOAD\r\n");
    after = current_policy();
    if (answer[0] == '$')
        assert_true(after == 'a' || after == '?');
    else if (answer[0] == '-' && before != '?')
        assert_true(after == before || after == '?');
    fd = connect_to(resp_path); /* a client that does not wait for the answer */
    if (fd >= 0) {
        (void)!send(fd, "RATION.RELOAD\r\n", 15, MSG_NOSIGNAL);
        close(fd);
    }
    write_policy(policy_b);
    kill(getpid(), SIGHUP);
}

/*
 * Whether the server runs: then only a signal stops it. A server that fails to start may accept a connection before
 * it exits, and no handler would catch the signal.
 */
static bool is_ready(void)
{
    while (!__atomic_load_n(&is_over, __ATOMIC_ACQUIRE)) {
        if (status_of(http("GET", "/readyz", "")) == 200)
            return true;
        nanosleep(&(struct timespec){.tv_nsec = 200000}, NULL);
    }
    return false;
}

/* Runs one server from start to exit. Returns whether no allocation failed. */
static bool run_server(uint64_t refused)
{
    char http_address[80], resp_address[80];
    const char *const arguments[] = {
        "--http",     http_address, "--resp",        resp_address, "--policy",
        policy_path,  "--state",    state_path,      "--threads",  "2",
        "--top-keys", "4",          "--inline-keys", "100",        "--shutdown-timeout",
        "10s"};
    struct ration_settings settings;
    int64_t live_before = __atomic_load_n(&allocations.live_count, __ATOMIC_RELAXED);
    pthread_t thread;

    snprintf(http_address, sizeof(http_address), "unix:%s", http_path);
    snprintf(resp_address, sizeof(resp_address), "unix:%s", resp_path);
    write_policy(policy_a);
    unlink(state_path);
    alarm(HANG_SECONDS);
    ration_settings_init(&settings);
    assert_int_equal(ration_settings_read_arguments(&settings,
                                                    (int)(sizeof(arguments) / sizeof(arguments[0])),
                                                    (char **)(uintptr_t)arguments, NULL, NULL),
                     RATION_OK);
    is_over = false;
    assert_int_equal(__real_pthread_create(&thread, NULL, serve, &settings), 0);
    __atomic_store_n(&allocations.call_count, 0, __ATOMIC_RELAXED);
    __atomic_store_n(&allocations.fails_at, refused, __ATOMIC_RELAXED);
    if (is_ready()) {
        send_all_requests();
        reload_in_all_ways();
        kill(getpid(), SIGTERM);
    }
    pthread_join(thread, NULL);
    alarm(0);
    allocations.fails_at = 0;
    ration_settings_done(&settings);
    assert_int_equal(allocations.live_count, live_before);
    return allocations.call_count < refused;
}

static void hang(int signal_number)
{
    static const char text[] = "the server hangs\n";

    (void)signal_number;
    (void)!write(STDOUT_FILENO, text, sizeof(text) - 1);
    abort();
}

static void set_paths(void)
{
    assert_non_null(mkdtemp(folder));
    snprintf(http_path, sizeof(http_path), "%s/http", folder);
    snprintf(resp_path, sizeof(resp_path), "%s/resp", folder);
    snprintf(policy_path, sizeof(policy_path), "%s/policy", folder);
    snprintf(state_path, sizeof(state_path), "%s/state", folder);
    snprintf(log_path, sizeof(log_path), "%s/log", folder);
}

/* Hides the log from the test's output, but not the messages of sanitizers. */
static int hide_log(void)
{
    int saved = dup(STDERR_FILENO);
    int file = open(log_path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);

    assert_true(saved >= 0 && file >= 0);
#ifdef __SANITIZE_ADDRESS__
    __sanitizer_set_report_fd((void *)(uintptr_t)saved);
#endif
    dup2(file, STDERR_FILENO);
    close(file);
    return saved;
}

static void clear_folder(void)
{
    const char *const paths[] = {policy_path, state_path, log_path, http_path, resp_path};
    char lock_path[80];

    for (size_t i = 0; i < sizeof(paths) / sizeof(paths[0]); i++)
        unlink(paths[i]);
    snprintf(lock_path, sizeof(lock_path), "%s.lock", state_path);
    unlink(lock_path);
    rmdir(folder);
}

static void a_server_survives_every_failed_allocation(void **state)
{
    uint64_t refused = 1;
    int saved;

    (void)state;
    set_paths();
    json_set_alloc_funcs(__wrap_malloc, __wrap_free);
    signal(SIGALRM, hang);
    saved = hide_log();
    assert_true(run_server(UINT64_MAX)); /* one-time allocations exist now */
    while (!run_server(refused))
        refused++;
    dup2(saved, STDERR_FILENO);
    close(saved);
    clear_folder();
    print_message("  %lu allocations refused in turn\n", (unsigned long)refused);
    assert_true(refused > 200);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_server_survives_every_failed_allocation),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
