/*
 * acceptor: one loop's listening sockets.
 *
 * When the process has no files left, a connection cannot even be refused: it stays in the
 * system's queue, and the loop would be woken for it for ever. So each loop keeps a spare file,
 * gives it up to accept the newcomer, closes that, and takes the spare back. Meanwhile no other loop
 * accepts: it would be faster to the place, and this loop's newcomers would wait until somebody
 * leaves. Should another part of the program be faster, accepting rests for a while.
 */
#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include "base/refuse.h"
#include "server/loop_parts.h"

int ration_acceptors_open_spare(void)
{
    return open("/dev/null", O_RDONLY | O_CLOEXEC);
}

static void watch_all(struct ration_loop *loop);

static void on_pause_over(uv_timer_t *timer)
{
    watch_all(timer->data);
}

static void rest(struct ration_loop *loop)
{
    ration_count(&loop->counters.accept_pauses, 1);
    for (unsigned i = 0; i < loop->acceptor_count; i++)
        uv_poll_stop(&loop->acceptors[i].poll);
    uv_timer_start(&loop->accept_pause, on_pause_over, RATION_ACCEPT_PAUSE_MS, 0);
}

/*
 * Closes those that there are no files for: all that wait, since without a file the system does
 * not even say whether there are more. false if that did not work, or the spare is lost. Under the
 * lock.
 */
static bool shed(struct ration_acceptor *acceptor)
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
    loop->spare_fd = ration_acceptors_open_spare();
    ration_count(&loop->counters.ended[RATION_ENDING_FILES], count);
    return (count > 0 || none_waits) && loop->spare_fd >= 0;
}

/* The next who waits: a file, or -1 with errno. Without files those who wait are closed, if possible. */
static int accept_or_shed(struct ration_acceptor *acceptor, struct sockaddr_storage *peer,
                          bool *out_is_shed)
{
    pthread_mutex_t *lock = &acceptor->loop->loops->accept_lock;
    socklen_t size = sizeof(*peer);
    int fd, fault;

    pthread_mutex_lock(lock);
    fd = accept4(acceptor->fd, (struct sockaddr *)peer, &size, SOCK_NONBLOCK | SOCK_CLOEXEC);
    fault = errno;
    *out_is_shed = fd < 0 && (fault == EMFILE || fault == ENFILE) && shed(acceptor);
    pthread_mutex_unlock(lock);
    errno = fault;
    return fd;
}

/* Accepts one connection; false if there is none, or none can be. */
static bool accept_one(struct ration_acceptor *acceptor)
{
    struct sockaddr_storage peer = {0};
    bool is_shed;
    int fd = accept_or_shed(acceptor, &peer, &is_shed);

    if (fd >= 0) {
        ration_connection_accept(acceptor->loop, acceptor->listener, fd, &peer);
        return true;
    }
    switch (errno) {
    case EAGAIN:
        return false;
    case EMFILE:
    case ENFILE:
        if (is_shed)
            return false;
        break;
    case ENOMEM:
    case ENOBUFS:
        break;
    default: /* the newcomer is gone already (ECONNABORTED and the network's errors), or a signal */
        return true;
    }
    rest(acceptor->loop);
    return false;
}

static void accept_some(struct ration_acceptor *acceptor)
{
    for (unsigned i = 0; i < RATION_ACCEPTS_PER_TURN && accept_one(acceptor); i++)
        ;
}

static void on_newcomer(uv_poll_t *poll, int status, int events)
{
    struct ration_acceptor *acceptor = poll->data;

    (void)events;
    if (status < 0)
        rest(acceptor->loop);
    else
        accept_some(acceptor);
}

static void watch_all(struct ration_loop *loop)
{
    if (loop->spare_fd < 0)
        loop->spare_fd = ration_acceptors_open_spare();
    for (unsigned i = 0; i < loop->acceptor_count; i++)
        uv_poll_start(&loop->acceptors[i].poll, UV_READABLE, on_newcomer);
}

ration_status ration_acceptor_add(struct ration_loop *loop, const struct ration_listener *listener,
                                  int fd, struct ration_error *error)
{
    struct ration_acceptor *acceptor = &loop->acceptors[loop->acceptor_count];
    int result = uv_poll_init(&loop->uv, &acceptor->poll, fd);

    if (result != 0)
        return ration_refuse(error, RATION_ENOMEM, "cannot watch %s: %s", listener->address,
                             uv_strerror(result));
    acceptor->poll.data = acceptor;
    acceptor->loop = loop;
    acceptor->listener = listener;
    acceptor->fd = fd;
    loop->acceptor_count++;
    return RATION_OK;
}

void ration_acceptors_start(struct ration_loop *loop)
{
    loop->has_started = true;
    watch_all(loop);
}

/*
 * Those who wait in the queue are let in first: closing would reset them. Not by a loop that never ran: then
 * the server could not start, and what would serve them is gone.
 */
void ration_acceptors_stop(struct ration_loop *loop)
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
