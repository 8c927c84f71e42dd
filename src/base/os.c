#include "base/os.h"

#include <pthread.h>
#include <sys/random.h>
#include <unistd.h>

bool ration_os_random(void *bytes, size_t size)
{
    return getrandom(bytes, size, 0) == (ssize_t)size;
}

static uint64_t process_id;

static void cache_process_id(void)
{
    __atomic_store_n(&process_id, (uint64_t)getpid(), __ATOMIC_RELAXED);
}

static void init_once(void)
{
    cache_process_id();
    (void)pthread_atfork(NULL, NULL, cache_process_id);
}

uint64_t ration_os_process_id(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    uint64_t id = __atomic_load_n(&process_id, __ATOMIC_RELAXED);

    if (__builtin_expect(id != 0, 1))
        return id;
    (void)pthread_once(&once, init_once);
    return __atomic_load_n(&process_id, __ATOMIC_RELAXED);
}
