/*
 * An HTTP/1.1 server that answers 429: one limit for all clients together, and one for each of them.
 *
 *     http_server [-p PORT] [-a LIMIT-OF-ALL] [-e LIMIT-OF-EACH] [-n REQUESTS] [-m]
 *
 * Either both limits allow a request, or nothing is taken from either: a client over its own limit takes nothing from
 * the others. A client is identified by the X-Client header, as a proxy in front would set it, or else by the peer's
 * address. The server listens on loopback only, prints its address, and shuts down on SIGTERM or after REQUESTS
 * requests. With -m its clock does not advance, for tests.
 *
 * One thread, poll() and libc: this shows the limiter, not how to write a server. The parser is minimal: GET of
 * HTTP/1.1 without a body; anything else is refused. A real server uses a real parser.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <ration/ration.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define CONNECTIONS_MAX   64
#define INPUT_SIZE_MAX    8192
#define RESPONSE_SIZE_MAX 1024
#define NAME_SIZE_MAX     64
#define CLIENTS_MAX       10000
#define IDLE_NS_MAX       (10 * RATION_NS_PER_SECOND)
#define BAD               "400 Bad Request"

enum { ALL, EACH, LIMITERS_COUNT }; /* the stack's limiters */

struct http_request {
    char client[NAME_SIZE_MAX + 16]; /* "name alice" or "address 127.0.0.1": never equal */
    int name_count;
    int host_count;
    bool is_last; /* the connection is closed after it */
};

struct connection {
    int socket; /* -1: free */
    struct sockaddr_in peer;
    uint64_t active_ns;
    bool is_closing; /* sends its output, and discards its input */
    size_t in_size;
    size_t out_size;
    char in[INPUT_SIZE_MAX];
    char out[16 * RESPONSE_SIZE_MAX];
};

static struct connection connections[CONNECTIONS_MAX];
static struct ration_rule rules[LIMITERS_COUNT];
static ration_stack *stack;
static uint64_t requests_left = UINT64_MAX;
static volatile sig_atomic_t is_stopped;

static uint64_t seconds_rounded_up(uint64_t ns)
{
    return ns / RATION_NS_PER_SECOND + (ns % RATION_NS_PER_SECOND > 0);
}

/* Writes a limit's member of RateLimit-Policy: its burst, and the time in which an empty bucket fills. */
static const char *policy_member(const struct ration_limit *limit, char text[128])
{
    unsigned __int128 fill_ns = (unsigned __int128)limit->period_ns * limit->burst / limit->tokens;

    snprintf(text, 128, "\"%s\";q=%" PRIu64 ";w=%" PRIu64, limit->name, limit->burst,
             seconds_rounded_up((uint64_t)fill_ns));
    return text;
}

/* Returns the time until one more token is available: the time until full, less that of the other missing tokens. */
static uint64_t next_token_ns(const struct ration_limit *limit,
                              const struct ration_decision *decision)
{
    uint64_t token_ns = limit->period_ns / limit->tokens;

    return decision->remaining < limit->burst
               ? decision->reset_after_ns - (limit->burst - decision->remaining - 1) * token_ns
               : 0;
}

/* Writes the response to a request, at most RESPONSE_SIZE_MAX bytes. Returns its size. */
static int write_response(const struct http_request *http, uint64_t now_ns, char *out)
{
    struct ration_key client = {http->client, strlen(http->client)};
    struct ration_stack_request requests[] = {{ALL, &RATION_KEY("all"), 1}, {EACH, &client, 1}};
    struct ration_decision decision;
    char retry[64] = "", all[128], each[128];

    if (ration_stack_take_all(stack, requests, 2, now_ns, &decision) != RATION_OK)
        return sprintf(out, "HTTP/1.1 500 Internal Server Error\r\nContent-Length: 0\r\n\r\n");

    bool allowed = decision.verdict == RATION_ALLOW;
    uint64_t wait_s =
        seconds_rounded_up(allowed ? next_token_ns(&rules[decision.limiter_index].limit, &decision)
                                   : decision.retry_after_ns);
    const char *body = allowed ? "hello\n" : "too many requests\n";

    if (!allowed)
        snprintf(retry, sizeof(retry), "Retry-After: %" PRIu64 "\r\n", wait_s);
    return snprintf(out, RESPONSE_SIZE_MAX,
                    "HTTP/1.1 %s\r\n%sRateLimit-Policy: %s, %s\r\n"
                    "RateLimit: \"%s\";r=%" PRIu64 ";t=%" PRIu64 "\r\nCache-Control: no-store\r\n"
                    "Content-Type: text/plain\r\nContent-Length: %zu\r\n%s\r\n%s",
                    allowed ? "200 OK" : "429 Too Many Requests", retry,
                    policy_member(&rules[EACH].limit, each), policy_member(&rules[ALL].limit, all),
                    rules[decision.limiter_index].limit.name, decision.remaining, wait_s,
                    strlen(body), http->is_last ? "Connection: close\r\n" : "", body);
}

/* Reads one header. Returns NULL, or the status with which the request is refused. */
static const char *read_header(char *line, struct http_request *http)
{
    char name[64];
    int name_size = 0; /* with the colon */

    if (sscanf(line, "%63[!#$%%&'*+.^_`|~0-9A-Za-z-]:%n", name, &name_size) < 1 || name_size == 0)
        return BAD;

    char *value = line + name_size + strspn(line + name_size, " \t");

    for (size_t size = strlen(value); size > 0 && strchr(" \t", value[size - 1]); size--)
        value[size - 1] = '\0';
    if (strcasecmp(name, "Transfer-Encoding") == 0 ||
        (strcasecmp(name, "Content-Length") == 0 && strcmp(value, "0") != 0))
        return "501 Not Implemented";
    if (strcasecmp(name, "Connection") == 0)
        http->is_last |= strcasestr(value, "close") != NULL;
    if (strcasecmp(name, "Host") == 0)
        http->host_count++;
    if (strcasecmp(name, "X-Client") == 0) {
        if (++http->name_count > 1 || value[0] == '\0' || strlen(value) > NAME_SIZE_MAX)
            return BAD;
        snprintf(http->client, sizeof(http->client), "name %s", value);
    }
    return NULL;
}

/* Reads the request line and the headers, all of them complete. Modifies them. Returns as read_header(). */
static const char *read_request(char *text, char *end_of_text, struct http_request *http)
{
    const char *refusal = NULL;

    for (char *line = text, *end; line < end_of_text && refusal == NULL; line = end + 2) {
        char method[16];
        int size = 0;

        end = memmem(line, (size_t)(end_of_text - line), "\r\n", 2);
        *end = '\0';
        for (const char *byte = line; byte < end; byte++)
            if ((unsigned char)*byte < ' ' && *byte != '\t')
                return BAD;
        if (line != text)
            refusal = read_header(line, http);
        else if (sscanf(line, "%15[A-Z]%*1[ ]%*[!-~]%*1[ ]HTTP/1.1%n", method, &size) < 1 ||
                 line + size != end)
            refusal = BAD;
        else if (strcmp(method, "GET") != 0)
            refusal = "501 Not Implemented";
    }
    return refusal != NULL || http->host_count == 1 ? refusal : BAD;
}

/* Answers complete requests, as long as there is room for the responses. */
static void serve(struct connection *c, uint64_t now_ns)
{
    while (!c->is_closing && !is_stopped && sizeof(c->out) - c->out_size >= RESPONSE_SIZE_MAX) {
        struct http_request http = {0};
        const char *refusal = "431 Request Header Fields Too Large";
        char *out = c->out + c->out_size;
        char *end = memmem(c->in, c->in_size, "\r\n\r\n", 4);

        if (end == NULL && c->in_size < sizeof(c->in))
            return;
        snprintf(http.client, sizeof(http.client), "address %s", inet_ntoa(c->peer.sin_addr));
        if (end != NULL)
            refusal = read_request(c->in, end + 2, &http);
        c->is_closing = refusal != NULL || http.is_last;
        is_stopped |= --requests_left == 0;
        if (refusal != NULL) {
            c->out_size += (size_t)sprintf(
                out, "HTTP/1.1 %s\r\nContent-Length: 0\r\nConnection: close\r\n\r\n", refusal);
            return;
        }
        c->out_size += (size_t)write_response(&http, now_ns, out);
        c->in_size -= (size_t)(end + 4 - c->in);
        memmove(c->in, end + 4, c->in_size);
    }
}

/* Receives once everything is sent, serves, and sends without blocking. Returns false to close the connection. */
static bool handle_ready(struct connection *c, uint64_t now_ns)
{
    ssize_t size;

    if (c->out_size == 0) {
        c->in_size = c->is_closing ? 0 : c->in_size;
        c->active_ns = c->is_closing ? c->active_ns : ration_clock_default_now();
        size = recv(c->socket, c->in + c->in_size, sizeof(c->in) - c->in_size, 0);
        if (size <= 0)
            return size < 0 && errno == EAGAIN;
        c->in_size += (size_t)size;
    }
    for (serve(c, now_ns); c->out_size > 0; serve(c, now_ns)) {
        size = send(c->socket, c->out, c->out_size, MSG_NOSIGNAL);
        if (size < 0)
            return errno == EAGAIN;
        c->out_size -= (size_t)size;
        memmove(c->out, c->out + size, c->out_size);
    }
    return !c->is_closing || shutdown(c->socket, SHUT_WR) == 0;
}

static void run(int listener)
{
    struct pollfd polls[CONNECTIONS_MAX + 1];

    while (!is_stopped) {
        struct connection *unused = NULL;

        for (size_t i = 0; i < CONNECTIONS_MAX; i++) {
            polls[i].fd = connections[i].socket;
            polls[i].events = connections[i].out_size > 0 ? POLLOUT : POLLIN;
            unused = connections[i].socket < 0 ? &connections[i] : unused;
        }
        polls[CONNECTIONS_MAX] = (struct pollfd){unused != NULL ? listener : -1, POLLIN, 0};
        if (poll(polls, CONNECTIONS_MAX + 1, 1000) < 0)
            continue; /* a signal */

        uint64_t now_ns = ration_stack_now(stack); /* read once for all decisions of this round */

        for (size_t i = 0; i < CONNECTIONS_MAX; i++) {
            struct connection *c = &connections[i];

            if (c->socket >= 0 &&
                (polls[i].revents != 0 ? !handle_ready(c, now_ns)
                                       : ration_clock_default_now() - c->active_ns > IDLE_NS_MAX)) {
                close(c->socket);
                c->socket = -1;
            }
        }
        if (polls[CONNECTIONS_MAX].revents != 0) {
            *unused = (struct connection){.active_ns = ration_clock_default_now()};
            unused->socket = accept4(listener, (struct sockaddr *)&unused->peer,
                                     &(socklen_t){sizeof(unused->peer)}, SOCK_NONBLOCK);
        }
    }
}

static void stop(int signal_number)
{
    is_stopped = signal_number;
}

/* Listens on loopback and prints the address. */
static int open_listener(uint16_t port)
{
    int listener = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
    struct sockaddr_in address = {AF_INET, htons(port), {htonl(INADDR_LOOPBACK)}, {0}};
    struct sockaddr *any = (struct sockaddr *)&address;

    if (bind(listener, any, sizeof(address)) != 0 || listen(listener, CONNECTIONS_MAX) != 0 ||
        getsockname(listener, any, &(socklen_t){sizeof(address)}) != 0) {
        perror("http_server");
        exit(1);
    }
    printf("listening on http://127.0.0.1:%d\n", ntohs(address.sin_port));
    fflush(stdout);
    return listener;
}

int main(int argument_count, char **arguments)
{
    const char *texts[] = {"1000/s name all", "10/s burst 20 name client"};
    struct ration_manual_clock manual = {0};
    struct ration_clock clock = ration_clock_tsc();
    struct ration_limiter_options limiters[] = {
        {sizeof(limiters[0]), &rules[ALL], 1, .keys_max = 1},
        {sizeof(limiters[0]), &rules[EACH], 1, .keys_max = CLIENTS_MAX}};
    struct ration_stack_options options = {sizeof(options), limiters, LIMITERS_COUNT,
                                           .clock = &clock};
    struct ration_error error;
    uint16_t port = 0;

    for (int option; (option = getopt(argument_count, arguments, "p:a:e:n:m")) != -1;) {
        if (option == 'p')
            port = (uint16_t)atoi(optarg);
        else if (option == 'a' || option == 'e')
            texts[option == 'a' ? ALL : EACH] = optarg;
        else if (option == 'n')
            requests_left = strtoull(optarg, NULL, 10);
        else if (option == 'm')
            clock = ration_clock_manual(&manual);
        else
            return 2;
    }
    if (ration_limit_parse(texts[ALL], &rules[ALL].limit, &error) != RATION_OK ||
        ration_limit_parse(texts[EACH], &rules[EACH].limit, &error) != RATION_OK ||
        ration_stack_create(&options, &stack, &error) != RATION_OK) {
        fprintf(stderr, "http_server: %s\n", error.message);
        return 1;
    }
    for (size_t i = 0; i < CONNECTIONS_MAX; i++)
        connections[i].socket = -1;
    signal(SIGTERM, stop);
    run(open_listener(port));
    ration_stack_free(stack);
}
