/*
 * resolver: resolves a host name without blocking the event loop.
 *
 * getaddrinfo() can block for seconds if the name server does not answer. So a helper thread calls it, and the loop
 * polls for the result. If the resolver is freed before that, the helper finishes alone and releases the memory.
 */
#ifndef RATION_REDIS_RESOLVER_H
#define RATION_REDIS_RESOLVER_H

#include <stdbool.h>
#include <stddef.h>

#define RATION_REDIS_ADDRESS_SIZE 64 /* of the text of an address, with its terminating zero */

struct ration_redis_resolver;

enum ration_redis_resolved { RATION_REDIS_LOOKING, RATION_REDIS_FOUND, RATION_REDIS_NOT_FOUND };

/* Whether host is a numeric address, which needs no lookup. */
bool ration_redis_is_address(const char *host);

/* Release: ration_redis_resolver_free(). NULL: no memory, or no thread. */
struct ration_redis_resolver *ration_redis_resolver_create(const char *host);
void ration_redis_resolver_free(struct ration_redis_resolver *resolver);

/*
 * On FOUND, *out_text is the address with index number modulo the count, IPv4 before IPv6. On NOT_FOUND it
 * says why. It is borrowed from the resolver.
 */
enum ration_redis_resolved ration_redis_resolver_resolve(
    const struct ration_redis_resolver *resolver, unsigned number, const char **out_text);

#endif
