#include "table/descriptor.h"

#include <errno.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <unistd.h>

#include "base/fence.h"
#include "base/os.h"
#include "base/thread_index.h"
#include "base/yield.h"
#include "table/commit.h"

static bool try_take(struct ration_descriptor *descriptor, uint64_t expected_owner)
{
    uint64_t owner = expected_owner;

    ration_yield_point();
    /* acquire: pairs with the release in ration_descriptor_leave() */
    return __atomic_load_n(&descriptor->owner, __ATOMIC_RELAXED) == owner &&
           __atomic_compare_exchange_n(&descriptor->owner, &owner, ration_os_process_id(), false,
                                       __ATOMIC_ACQUIRE, __ATOMIC_RELAXED);
}

static void begin_sequence(struct ration_descriptor *descriptor)
{
    uint64_t sequence = ration_descriptor_get(&descriptor->sequence) / 4;

    ration_yield_point();
    ration_descriptor_put(&descriptor->sequence, (sequence + 1) * 4 + RATION_DESCRIPTOR_IDLE);
    /* release: a thread that sees words of this sequence sees its number; pairs with the fence in read_plan() */
    ration_fence_release();
}

/* Whether a process has ended, even if its parent has not waited for it yet. */
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
 * In private memory only threads of this process run. Descriptors of other owners were copied by fork(), in whatever
 * state they were.
 */
static bool is_gone(const struct ration_section *section, uint64_t owner)
{
    if (owner == 0 || owner == ration_os_process_id())
        return false;
    return !section->block->is_shared || has_ended((pid_t)owner);
}

/* Takes over a descriptor whose owner is dead, and finishes the change that the owner had begun. */
static bool try_recover(const struct ration_section *section, struct ration_descriptor *descriptor)
{
    uint64_t owner = ration_descriptor_get(&descriptor->owner);

    if (!is_gone(section, owner) || !try_take(descriptor, owner))
        return false;
    ration_commit_finish(section, descriptor);
    return true;
}

struct ration_descriptor *ration_descriptor_take(const struct ration_section *section)
{
    uint32_t first = ration_thread_index();

    for (uint32_t round = 0;; round++) {
        for (uint32_t i = 0; i < section->descriptor_count; i++) {
            struct ration_descriptor *descriptor =
                &section->descriptors[(first + i) & (section->descriptor_count - 1)];

            if (try_take(descriptor, 0) || (round > 0 && try_recover(section, descriptor))) {
                begin_sequence(descriptor);
                return descriptor;
            }
        }
        /* Running threads have taken all: more threads change entries at once than there are descriptors. */
        sched_yield();
    }
}

void ration_descriptor_leave(struct ration_descriptor *descriptor)
{
    ration_yield_point();
    /* release: pairs with the acquire in try_take() */
    __atomic_store_n(&descriptor->owner, 0, __ATOMIC_RELEASE);
}
