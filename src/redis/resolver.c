#include "redis/resolver.h"

#include <arpa/inet.h>
#include <netdb.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#define ADDRESSES_MAX 8
#define STACK_BYTES   ((size_t)1 << 20)

struct ration_redis_resolver {
    unsigned reference_count; /* the helper thread, and the owner */
    /* published with release by resolve_host(): the members below are final */
    bool is_done;
    int error;
    unsigned address_count;
    char addresses[ADDRESSES_MAX][RATION_REDIS_ADDRESS_SIZE];
    char host[];
};

bool ration_redis_is_address(const char *host)
{
    unsigned char address[sizeof(struct in6_addr)];

    /* inet_pton() rejects an IPv6 address with a zone (fe80::1%eth0); no host name has a colon */
    return inet_pton(AF_INET, host, address) == 1 || strchr(host, ':') != NULL;
}

static void drop_reference(struct ration_redis_resolver *resolver)
{
    if (__atomic_sub_fetch(&resolver->reference_count, 1, __ATOMIC_ACQ_REL) == 0)
        free(resolver);
}

static void add_addresses(struct ration_redis_resolver *resolver, const struct addrinfo *found,
                          int family)
{
    for (; found != NULL && resolver->address_count < ADDRESSES_MAX; found = found->ai_next)
        if (found->ai_family == family &&
            getnameinfo(found->ai_addr, found->ai_addrlen,
                        resolver->addresses[resolver->address_count], RATION_REDIS_ADDRESS_SIZE,
                        NULL, 0, NI_NUMERICHOST) == 0)
            resolver->address_count++;
}

static void *resolve_host(void *argument)
{
    struct ration_redis_resolver *resolver = argument;
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM};
    struct addrinfo *found = NULL;

    resolver->error = getaddrinfo(resolver->host, NULL, &hints, &found);
    if (resolver->error == 0) {
        add_addresses(resolver, found, AF_INET);
        add_addresses(resolver, found, AF_INET6);
        freeaddrinfo(found);
    }
    __atomic_store_n(&resolver->is_done, true, __ATOMIC_RELEASE);
    drop_reference(resolver);
    return NULL;
}

/* Signals stay with the application's own threads. */
static bool start_helper(struct ration_redis_resolver *resolver)
{
    pthread_attr_t attributes;
    sigset_t all_signals, old_mask;
    pthread_t thread;
    int error;

    if (pthread_attr_init(&attributes) != 0)
        return false;
    sigfillset(&all_signals);
    pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
    pthread_attr_setstacksize(&attributes, STACK_BYTES);
    pthread_sigmask(SIG_SETMASK, &all_signals, &old_mask);
    error = pthread_create(&thread, &attributes, resolve_host, resolver);
    pthread_sigmask(SIG_SETMASK, &old_mask, NULL);
    pthread_attr_destroy(&attributes);
    return error == 0;
}

struct ration_redis_resolver *ration_redis_resolver_create(const char *host)
{
    size_t size = strlen(host) + 1;
    struct ration_redis_resolver *resolver = calloc(1, sizeof(*resolver) + size);

    if (resolver == NULL)
        return NULL;
    memcpy(resolver->host, host, size);
    resolver->reference_count = 2;
    if (start_helper(resolver))
        return resolver;
    free(resolver);
    return NULL;
}

void ration_redis_resolver_free(struct ration_redis_resolver *resolver)
{
    if (resolver != NULL)
        drop_reference(resolver);
}

enum ration_redis_resolved ration_redis_resolver_resolve(
    const struct ration_redis_resolver *resolver, unsigned number, const char **out_text)
{
    if (!__atomic_load_n(&resolver->is_done, __ATOMIC_ACQUIRE))
        return RATION_REDIS_LOOKING;
    if (resolver->address_count == 0) {
        *out_text = resolver->error != 0 ? gai_strerror(resolver->error) : "it has no address";
        return RATION_REDIS_NOT_FOUND;
    }
    *out_text = resolver->addresses[number % resolver->address_count];
    return RATION_REDIS_FOUND;
}
