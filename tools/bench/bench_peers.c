#include "bench_peers.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/random.h"

#define RUN_SECONDS_MAX  15.0
#define OUTPUT_BYTES_MAX 4096
#define PATH_BYTES_MAX   4096

static const struct peer {
    const char *program; /* in the folder of peers, and what its lines begin with */
    const char *name;
    const char *tool; /* that it needs to be built */
} peers[] = {
    {"go-xtime-mutex", "Go x/time/rate, Mutex", "go"},
    {"go-xtime-rwmutex", "Go x/time/rate, RWMutex", "go"},
    {"go-xtime-syncmap", "Go x/time/rate, sync.Map", "go"},
    {"go-juju-mutex", "Go juju/ratelimit, Mutex", "go"},
    {"java-guava", "Java Guava RateLimiter", "javac"},
    {"node-flexible", "Node rate-limiter-flexible", "npm"},
};

#define PEER_COUNT (sizeof(peers) / sizeof(peers[0]))

_Static_assert(PEER_COUNT <= PEERS_MAX, "a caller's PEERS_MAX holds them all");

static double now_seconds(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

/* Finding -------------------------------------------------------------------------------- */

static const char *peers_folder(void)
{
    const char *given = getenv("RATION_PEERS_DIR");

    return given != NULL ? given : "build/peers";
}

/* Whether a shell would find the command. */
static bool is_in_path(const char *command)
{
    const char *folder = getenv("PATH");
    char path[PATH_BYTES_MAX];

    while (folder != NULL && *folder != '\0') {
        size_t length = strcspn(folder, ":");

        snprintf(path, sizeof(path), "%.*s/%s", (int)length, folder, command);
        if (access(path, X_OK) == 0)
            return true;
        folder += length;
        folder += *folder == ':';
    }
    return false;
}

static void explain_absence(struct peer_result *result, const struct peer *peer)
{
    if (is_in_path(peer->tool))
        snprintf(result->note, sizeof(result->note), "not built: make bench-peers builds it");
    else
        snprintf(result->note, sizeof(result->note), "%s not found: make bench-peers installs it",
                 peer->tool);
}

/* Reading -------------------------------------------------------------------------------- */

/* Finds " field=" in line and reads the number after it. False if there is none. */
static bool read_number(const char *line, const char *field, double *out_number)
{
    char pattern[32];

    snprintf(pattern, sizeof(pattern), " %s=", field);

    const char *found = strstr(line, pattern);

    if (found == NULL)
        return false;

    const char *text = found + strlen(pattern);
    char *end;
    double number = strtod(text, &end);

    if (end == text)
        return false;
    *out_number = number;
    return true;
}

/* Whether line says " field=value", and no more of a word. */
static bool has_word(const char *line, const char *field, const char *value)
{
    char pattern[64];

    snprintf(pattern, sizeof(pattern), "%s=%s ", field, value);
    return strstr(line, pattern) != NULL;
}

static void read_line(struct peer_result *result, const struct peer *peer, const char *line)
{
    double value_ns;

    if (!has_word(line, "peer", peer->program) || !read_number(line, "ns_per_op", &value_ns))
        return;
    if (has_word(line, "case", "hot")) {
        result->hot_ns = value_ns;
        read_number(line, "admitted", &result->hot_admitted);
    } else if (has_word(line, "case", "million")) {
        result->million_ns = value_ns;
        read_number(line, "admitted", &result->million_admitted);
        read_number(line, "keys", &result->million_keys);
        read_number(line, "mem_bytes_per_key", &result->bytes_per_key);
    } else if (has_word(line, "case", "million_two_threads")) {
        result->million_two_threads_ns = value_ns;
    }
}

/* Cuts the output into lines, in place. */
static void read_output(struct peer_result *result, const struct peer *peer, char *output)
{
    char *rest;

    for (char *line = strtok_r(output, "\n", &rest); line != NULL;
         line = strtok_r(NULL, "\n", &rest))
        read_line(result, peer, line);
}

/* Running -------------------------------------------------------------------------------- */

/*
 * Reads from descriptor until it ends or the time has come; output becomes a string. What does
 * not fit is dropped. Returns whether it ended in time.
 */
static bool read_until(int descriptor, double end_seconds, char *output, size_t output_size)
{
    size_t used = 0;
    char dropped[256];

    for (;;) {
        double left_ms = (end_seconds - now_seconds()) * 1e3;
        struct pollfd wanted = {.fd = descriptor, .events = POLLIN};
        int ready = left_ms > 0 ? poll(&wanted, 1, (int)left_ms + 1) : 0;

        if (ready < 0 && errno == EINTR)
            continue;
        output[used] = '\0';
        if (ready <= 0)
            return false;

        bool is_full = used + 1 == output_size;
        ssize_t got = is_full ? read(descriptor, dropped, sizeof(dropped))
                              : read(descriptor, output + used, output_size - 1 - used);

        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0)
            return got == 0;
        used += is_full ? 0 : (size_t)got;
    }
}

/* Starts path with its output in a pipe. False, with errno set, if it does not start. */
static bool start_peer(const char *path, pid_t *out_pid, int *out_descriptor)
{
    posix_spawn_file_actions_t actions;
    char *arguments[] = {(char *)(uintptr_t)path, NULL};
    int ends[2];

    if (pipe2(ends, O_CLOEXEC) != 0)
        return false;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, ends[1], STDOUT_FILENO);

    int error = posix_spawn(out_pid, path, &actions, NULL, arguments, environ);

    posix_spawn_file_actions_destroy(&actions);
    close(ends[1]);
    if (error == 0) {
        *out_descriptor = ends[0];
        return true;
    }
    close(ends[0]);
    errno = error;
    return false;
}

/* The exit status, or -1 for a signal. */
static int wait_for(pid_t pid)
{
    int status;

    while (waitpid(pid, &status, 0) < 0) {
        if (errno != EINTR)
            return -1;
    }
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static void describe_failure(struct peer_result *result, bool has_ended)
{
    char fewer[48] = "";

    if (result->million_keys < PEER_KEYS_COUNT)
        snprintf(fewer, sizeof(fewer), "; only %.0f keys", result->million_keys);
    snprintf(result->note, sizeof(result->note), "admitted %.4f of hot, %.4f of million%s%s",
             result->hot_admitted, result->million_admitted, fewer,
             has_ended ? "" : "; stopped before its last case");
}

/* Fills result with what the program at path printed, or why it did not. */
static void run_peer(struct peer_result *result, const struct peer *peer, const char *path)
{
    char output[OUTPUT_BYTES_MAX];
    double start_seconds = now_seconds();
    pid_t pid;
    int descriptor;

    if (!start_peer(path, &pid, &descriptor)) {
        snprintf(result->note, sizeof(result->note), "does not start: %s", strerror(errno));
        return;
    }

    bool has_ended =
        read_until(descriptor, start_seconds + RUN_SECONDS_MAX, output, sizeof(output));

    if (!has_ended)
        kill(pid, SIGKILL); /* the program itself: its launcher became it */
    close(descriptor);

    int status = wait_for(pid);

    result->run_seconds = now_seconds() - start_seconds;
    read_output(result, peer, output);
    result->present = result->hot_ns > 0 && result->million_ns > 0;
    if (result->present)
        describe_failure(result, has_ended);
    else if (!has_ended)
        snprintf(result->note, sizeof(result->note), "took longer than %.0f s", RUN_SECONDS_MAX);
    else
        snprintf(result->note, sizeof(result->note), "ended with status %d and no figures", status);
}

size_t peers_run(struct peer_result *results, size_t max)
{
    size_t count = PEER_COUNT < max ? PEER_COUNT : max;
    char path[PATH_BYTES_MAX];

    for (size_t i = 0; i < count; i++) {
        results[i] = (struct peer_result){.present = false};
        snprintf(results[i].name, sizeof(results[i].name), "%s", peers[i].name);
        snprintf(path, sizeof(path), "%s/%s", peers_folder(), peers[i].program);
        if (access(path, X_OK) == 0)
            run_peer(&results[i], &peers[i], path);
        else
            explain_absence(&results[i], &peers[i]);
    }
    return count;
}

/* A number, or a dash for none. */
static void print_number(double number, int decimals)
{
    if (number > 0)
        printf(" %10.*f", decimals, number);
    else
        printf(" %10s", "-");
}

void peers_print(const struct peer_result *results, size_t count)
{
    printf("%-28s %10s %10s %10s %10s  %s\n", "peer", "hot ns", "million", "2 threads", "B/key",
           "note");
    for (size_t i = 0; i < count; i++) {
        const struct peer_result *result = &results[i];

        printf("%-28s", result->name);
        print_number(result->hot_ns, 1);
        print_number(result->million_ns, 1);
        print_number(result->million_two_threads_ns, 1);
        print_number(result->bytes_per_key, 0);
        printf("  %s\n", result->note);
    }
}

/* Keys ----------------------------------------------------------------------------------- */

/* The index-th key: 16 digits of a number that looks random. */
static struct peer_key key_make(uint64_t index)
{
    char digits[sizeof(struct peer_key) + 1];
    struct peer_key key;

    snprintf(digits, sizeof(digits), "%016" PRIx64, ration_random_next(&index));
    memcpy(key.bytes, digits, sizeof(key.bytes));
    return key;
}

struct peer_key *peer_keys_create(size_t count)
{
    struct peer_key *keys = malloc(count * sizeof(*keys));
    uint64_t random = 1;

    if (keys == NULL)
        return NULL;
    for (size_t i = 0; i < count; i++)
        keys[i] = key_make(i);
    for (size_t i = count; i > 1; i--) {
        size_t other = ration_random_next(&random) % i;
        struct peer_key kept = keys[i - 1];

        keys[i - 1] = keys[other];
        keys[other] = kept;
    }
    return keys;
}
