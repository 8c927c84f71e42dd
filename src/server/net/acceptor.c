/*
 * acceptor: one loop's listening sockets.
 *
 * When the process has no file descriptors left, a loop cannot even refuse a connection: it stays in the
 * kernel's accept queue and wakes the loop forever. So each loop holds a spare descriptor. The loop thread
 * closes it, accepts a waiting connection, closes that, and reopens the spare. accept_lock stops the other
 * loops from accepting meanwhile: one of them could take the free descriptor, and this loop's clients would wait
 * until some connection closes. If another part of the program takes it, the loop thread pauses accepting for
 * RATION_ACCEPT_PAUSE_MS.
 */
#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include "base/error.h"
#include "server/net/loop_parts.h"

int ration_acceptor_open_spare(void)
{
    return open("/dev/null", O_RDONLY | O_CLOEXEC);
}

static void watch_listeners(struct ration_loop *loop);

static void on_pause_over(uv_timer_t *timer)
{
    watch_listeners(timer->data);
}

static void pause_accepting(struct ration_loop *loop)
{
    ration_loop_count(&loop->counters.accept_pauses, 1);
    for (unsigned i = 0; i < loop->acceptor_count; i++)
        uv_poll_stop(&loop->acceptors[i].poll);
    uv_timer_start(&loop->accept_pause, on_pause_over, RATION_ACCEPT_PAUSE_MS, 0);
}

/*
 * Accepts and closes the waiting connections, up to RATION_ACCEPTS_PER_TURN: without a free descriptor the kernel
 * does not even report whether more are waiting. False: none could be accepted, or the spare descriptor could not
 * be reopened. The caller holds accept_lock.
 */
static bool close_waiting(struct ration_acceptor *acceptor)
{
    struct ration_loop *loop = acceptor->loop;
    unsigned count = 0;
    bool none_waits;
    int fd;

    if (loop->spare_fd >= 0)
        close(loop->spare_fd);
    while ((fd = accept4(acceptor->fd, NULL, NULL, SOCK_CLOEXEC)) >= 0) {
        close(fd);
        if (++count == RATION_ACCEPTS_PER_TURN)
            break;
    }
    none_waits = fd < 0 && errno == EAGAIN;
    loop->spare_fd = ration_acceptor_open_spare();
    ration_loop_count(&loop->counters.ended[RATION_CLOSE_REASON_FILES], count);
    return (count > 0 || none_waits) && loop->spare_fd >= 0;
}

/* Accepts the next connection: a descriptor, or -1 with errno. If no descriptors are left, closes the waiting ones. */
static int accept_or_close_waiting(struct ration_acceptor *acceptor, struct sockaddr_storage *peer,
                                   bool *out_are_closed)
{
    pthread_mutex_t *lock = &acceptor->loop->loops->accept_lock;
    socklen_t size = sizeof(*peer);
    int fd, saved_errno;

    pthread_mutex_lock(lock);
    fd = accept4(acceptor->fd, (struct sockaddr *)peer, &size, SOCK_NONBLOCK | SOCK_CLOEXEC);
    saved_errno = errno;
    *out_are_closed =
        fd < 0 && (saved_errno == EMFILE || saved_errno == ENFILE) && close_waiting(acceptor);
    pthread_mutex_unlock(lock);
    errno = saved_errno;
    return fd;
}

/* Accepts one connection; false if none waits or none can be accepted. */
static bool accept_one(struct ration_acceptor *acceptor)
{
    struct sockaddr_storage peer = {0};
    bool are_closed;
    int fd = accept_or_close_waiting(acceptor, &peer, &are_closed);

    if (fd >= 0) {
        ration_connection_accept(acceptor->loop, acceptor->listener, fd, &peer);
        return true;
    }
    switch (errno) {
    case EAGAIN:
        return false;
    case EMFILE:
    case ENFILE:
        if (are_closed)
            return false;
        break;
    case ENOMEM:
    case ENOBUFS:
        break;
    default: /* the client has disconnected (ECONNABORTED, network errors), or a signal interrupted the call */
        return true;
    }
    pause_accepting(acceptor->loop);
    return false;
}

static void accept_some(struct ration_acceptor *acceptor)
{
    for (unsigned i = 0; i < RATION_ACCEPTS_PER_TURN && accept_one(acceptor); i++)
        ;
}

static void on_acceptable(uv_poll_t *poll, int status, int events)
{
    struct ration_acceptor *acceptor = poll->data;

    (void)events;
    if (status < 0)
        pause_accepting(acceptor->loop);
    else
        accept_some(acceptor);
}

static void watch_listeners(struct ration_loop *loop)
{
    if (loop->spare_fd < 0)
        loop->spare_fd = ration_acceptor_open_spare();
    for (unsigned i = 0; i < loop->acceptor_count; i++)
        uv_poll_start(&loop->acceptors[i].poll, UV_READABLE, on_acceptable);
}

ration_status ration_acceptor_add(struct ration_loop *loop, const struct ration_listener *listener,
                                  int fd, struct ration_error *error)
{
    struct ration_acceptor *acceptor = &loop->acceptors[loop->acceptor_count];
    int result = uv_poll_init(&loop->uv, &acceptor->poll, fd);

    if (result != 0)
        return ration_error_set(error, RATION_ENOMEM, "cannot watch %s: %s", listener->address,
                                uv_strerror(result));
    acceptor->poll.data = acceptor;
    acceptor->loop = loop;
    acceptor->listener = listener;
    acceptor->fd = fd;
    loop->acceptor_count++;
    return RATION_OK;
}

void ration_acceptor_start_all(struct ration_loop *loop)
{
    loop->has_started = true;
    watch_listeners(loop);
}

/*
 * Accepts the connections that wait in the queue before closing the listening socket, which would reset them. A
 * loop that never ran does not: the server failed to start, and the objects that would serve them are freed.
 */
void ration_acceptor_stop_all(struct ration_loop *loop)
{
    for (unsigned i = 0; i < loop->acceptor_count; i++) {
        if (loop->has_started)
            accept_some(&loop->acceptors[i]);
        uv_close((uv_handle_t *)&loop->acceptors[i].poll, NULL);
        close(loop->acceptors[i].fd);
    }
    loop->acceptor_count = 0;
    uv_timer_stop(&loop->accept_pause);
    if (loop->spare_fd >= 0)
        close(loop->spare_fd);
    loop->spare_fd = -1;
}
