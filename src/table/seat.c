#include "table/seat.h"

#include <errno.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <unistd.h>

#include "base/fence.h"
#include "base/process.h"
#include "base/thread_index.h"
#include "base/yield.h"
#include "table/commit.h"

static bool try_take(struct ration_seat *seat, uint64_t expected_owner)
{
    uint64_t owner = expected_owner;

    ration_yield_point();
    /* acquire: pairs with the release in ration_seat_leave() */
    return __atomic_load_n(&seat->owner, __ATOMIC_RELAXED) == owner &&
           __atomic_compare_exchange_n(&seat->owner, &owner, ration_process_id(), false,
                                       __ATOMIC_ACQUIRE, __ATOMIC_RELAXED);
}

static void begin_turn(struct ration_seat *seat)
{
    uint64_t turn = ration_seat_get(&seat->turn) / 4;

    ration_yield_point();
    ration_seat_put(&seat->turn, (turn + 1) * 4 + RATION_SEAT_IDLE);
    /* release: who sees what this turn writes sees the turn; pairs with the one in commit.c */
    ration_fence_release();
}

/* Whether a process has ended, also if its parent has not asked for it yet. */
static bool has_ended(pid_t process)
{
    struct pollfd poll_fd = {.fd = (int)syscall(SYS_pidfd_open, process, 0), .events = POLLIN};
    bool ended;

    if (poll_fd.fd < 0) /* Linux before 5.3 has no pidfd_open */
        return errno == ESRCH || (errno == ENOSYS && kill(process, 0) != 0 && errno == ESRCH);
    ended = poll(&poll_fd, 1, 0) == 1;
    (void)close(poll_fd.fd);
    return ended;
}

/*
 * In memory of one's own only this process's threads run. Others' seats were copied by fork(), in
 * whatever they were doing.
 */
static bool is_gone(const struct ration_section *section, uint64_t owner)
{
    if (owner == 0 || owner == ration_process_id())
        return false;
    return !section->block->is_shared || has_ended((pid_t)owner);
}

/* A seat whose owner is gone: what it had begun is finished, then it is free. */
static bool try_inherit(const struct ration_section *section, struct ration_seat *seat)
{
    uint64_t owner = ration_seat_get(&seat->owner);

    if (!is_gone(section, owner) || !try_take(seat, owner))
        return false;
    ration_commit_finish(section, seat);
    return true;
}

struct ration_seat *ration_seat_take(const struct ration_section *section)
{
    uint32_t first = ration_thread_index();

    for (uint32_t round = 0;; round++) {
        for (uint32_t i = 0; i < section->seat_count; i++) {
            struct ration_seat *seat = &section->seats[(first + i) & (section->seat_count - 1)];

            if (try_take(seat, 0) || (round > 0 && try_inherit(section, seat))) {
                begin_turn(seat);
                return seat;
            }
        }
        /* All are taken by running threads: more at once than there are seats. */
        sched_yield();
    }
}

void ration_seat_leave(struct ration_seat *seat)
{
    ration_yield_point();
    /* release: pairs with the acquire in try_take() */
    __atomic_store_n(&seat->owner, 0, __ATOMIC_RELEASE);
}
