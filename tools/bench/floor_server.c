/*
 * floor_server: the least that a server does. One thread, epoll, a fixed answer to each request:
 * what `ration serve` is measured against.
 *
 *     floor_server PORT [--resp]
 */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "floor_answers.h"

#define EVENTS_MAX  1024
#define INPUT_SIZE  65536
#define OUTPUT_SIZE (4 << 20)
#define REST_SIZE   4096
#define FILES_MAX   65536

static char input[REST_SIZE + INPUT_SIZE], output[OUTPUT_SIZE];
static struct rest {
    char bytes[REST_SIZE];
    size_t size;
} * rests[FILES_MAX]; /* requests that have begun, by file */

static int listen_on(uint16_t port)
{
    int fd = socket(AF_INET, SOCK_STREAM, 0), on = 1;
    struct sockaddr_in address = {
        .sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};

    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
    if (bind(fd, (struct sockaddr *)&address, sizeof(address)) != 0 || listen(fd, 1024) != 0) {
        perror("floor_server");
        exit(1);
    }
    return fd;
}

static void end_connection(int fd)
{
    free(rests[fd]);
    rests[fd] = NULL;
    close(fd);
}

/* Answers what is complete; returns how much that was. */
static size_t answer_requests(const char *bytes, size_t size, bool resp, size_t *out_output_size)
{
    const char *text = resp ? floor_resp_answer : floor_http_answer;
    size_t text_size = strlen(text), output_size = 0, used = 0;
    const char *request_end;

    while (used < size && output_size + text_size <= OUTPUT_SIZE &&
           (request_end = resp ? floor_resp_end(bytes + used, size - used)
                               : floor_http_end(bytes + used, size - used)) != NULL) {
        memcpy(output + output_size, text, text_size);
        output_size += text_size;
        used = (size_t)(request_end - bytes);
    }
    *out_output_size = output_size;
    return used;
}

static void keep_rest(int fd, const char *bytes, size_t size)
{
    if (rests[fd] == NULL && size > 0)
        rests[fd] = malloc(sizeof(*rests[fd]));
    if (rests[fd] == NULL || size > REST_SIZE)
        return;
    memcpy(rests[fd]->bytes, bytes, size);
    rests[fd]->size = size;
}

static void serve_connection(int fd, bool resp)
{
    size_t begun = rests[fd] != NULL ? rests[fd]->size : 0, used, output_size;
    ssize_t size;

    if (begun > 0)
        memcpy(input, rests[fd]->bytes, begun);
    size = read(fd, input + begun, INPUT_SIZE);
    if (size <= 0) {
        end_connection(fd);
        return;
    }
    used = answer_requests(input, begun + (size_t)size, resp, &output_size);
    if (begun > 0 || used < (size_t)size)
        keep_rest(fd, input + used, begun + (size_t)size - used);
    if (output_size > 0 && write(fd, output, output_size) != (ssize_t)output_size)
        end_connection(fd); /* a client that does not read is no client of a benchmark */
}

int main(int argc, char **argv)
{
    static struct epoll_event events[EVENTS_MAX];
    bool resp = argc > 2 && strcmp(argv[2], "--resp") == 0;
    int listener, epoll = epoll_create1(0);

    if (argc < 2) {
        fprintf(stderr, "usage: floor_server PORT [--resp]\n");
        return 2;
    }
    signal(SIGPIPE, SIG_IGN);
    listener = listen_on((uint16_t)atoi(argv[1]));
    epoll_ctl(epoll, EPOLL_CTL_ADD, listener,
              &(struct epoll_event){.events = EPOLLIN, .data.fd = listener});
    for (;;) {
        int count = epoll_wait(epoll, events, EVENTS_MAX, -1);

        for (int i = 0; i < count; i++) {
            int fd = events[i].data.fd;

            if (fd != listener) {
                serve_connection(fd, resp);
            } else if ((fd = accept4(listener, NULL, NULL, SOCK_NONBLOCK)) >= FILES_MAX) {
                close(fd);
            } else if (fd >= 0) {
                epoll_ctl(epoll, EPOLL_CTL_ADD, fd,
                          &(struct epoll_event){.events = EPOLLIN, .data.fd = fd});
            }
        }
    }
}
