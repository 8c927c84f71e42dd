#include "redis/lookup.h"

#include <arpa/inet.h>
#include <netdb.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#define ADDRESSES_MAX 8
#define STACK_BYTES   ((size_t)1 << 20)

struct ration_redis_lookup {
    unsigned holder_count; /* the thread, and whoever waits */
    bool is_over;          /* what follows is written no more */
    int error;
    unsigned count;
    char addresses[ADDRESSES_MAX][RATION_REDIS_ADDRESS_SIZE];
    char host[];
};

bool ration_redis_is_address(const char *host)
{
    unsigned char address[sizeof(struct in6_addr)];

    /* with a zone (fe80::1%eth0) it is none for inet_pton(), and no name has a colon */
    return inet_pton(AF_INET, host, address) == 1 || strchr(host, ':') != NULL;
}

static void let_go(struct ration_redis_lookup *lookup)
{
    if (__atomic_sub_fetch(&lookup->holder_count, 1, __ATOMIC_ACQ_REL) == 0)
        free(lookup);
}

static void keep(struct ration_redis_lookup *lookup, const struct addrinfo *found, int family)
{
    for (; found != NULL && lookup->count < ADDRESSES_MAX; found = found->ai_next)
        if (found->ai_family == family &&
            getnameinfo(found->ai_addr, found->ai_addrlen, lookup->addresses[lookup->count],
                        RATION_REDIS_ADDRESS_SIZE, NULL, 0, NI_NUMERICHOST) == 0)
            lookup->count++;
}

static void *look_up(void *argument)
{
    struct ration_redis_lookup *lookup = argument;
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM};
    struct addrinfo *found = NULL;

    lookup->error = getaddrinfo(lookup->host, NULL, &hints, &found);
    if (lookup->error == 0) {
        keep(lookup, found, AF_INET);
        keep(lookup, found, AF_INET6);
        freeaddrinfo(found);
    }
    __atomic_store_n(&lookup->is_over, true, __ATOMIC_RELEASE);
    let_go(lookup);
    return NULL;
}

/* Signals are for the threads of whoever links this. */
static bool begin_thread(struct ration_redis_lookup *lookup)
{
    pthread_attr_t attributes;
    sigset_t all, before;
    pthread_t thread;
    int error;

    if (pthread_attr_init(&attributes) != 0)
        return false;
    sigfillset(&all);
    pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
    pthread_attr_setstacksize(&attributes, STACK_BYTES);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    error = pthread_create(&thread, &attributes, look_up, lookup);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    pthread_attr_destroy(&attributes);
    return error == 0;
}

struct ration_redis_lookup *ration_redis_lookup_create(const char *host)
{
    size_t size = strlen(host) + 1;
    struct ration_redis_lookup *lookup = calloc(1, sizeof(*lookup) + size);

    if (lookup == NULL)
        return NULL;
    memcpy(lookup->host, host, size);
    lookup->holder_count = 2;
    if (begin_thread(lookup))
        return lookup;
    free(lookup);
    return NULL;
}

void ration_redis_lookup_free(struct ration_redis_lookup *lookup)
{
    if (lookup != NULL)
        let_go(lookup);
}

enum ration_redis_looked ration_redis_lookup_look(const struct ration_redis_lookup *lookup,
                                                  unsigned number, const char **out_text)
{
    if (!__atomic_load_n(&lookup->is_over, __ATOMIC_ACQUIRE))
        return RATION_REDIS_LOOKING;
    if (lookup->count == 0) {
        *out_text = lookup->error != 0 ? gai_strerror(lookup->error) : "it has no address";
        return RATION_REDIS_NOT_FOUND;
    }
    *out_text = lookup->addresses[number % lookup->count];
    return RATION_REDIS_FOUND;
}
