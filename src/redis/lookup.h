/*
 * lookup: the addresses of a host's name, found beside the loop.
 *
 * A resolver that does not answer holds whoever asks it for seconds. So a thread of its own asks, and the
 * loop looks from time to time whether it has found something. One that is not waited for any more goes on to
 * its end alone.
 */
#ifndef RATION_REDIS_LOOKUP_H
#define RATION_REDIS_LOOKUP_H

#include <stdbool.h>
#include <stddef.h>

#define RATION_REDIS_ADDRESS_SIZE 64 /* of an address's text, with its zero */

struct ration_redis_lookup;

enum ration_redis_looked { RATION_REDIS_LOOKING, RATION_REDIS_FOUND, RATION_REDIS_NOT_FOUND };

/* Whether it is an address already. */
bool ration_redis_is_address(const char *host);

/* Release: ration_redis_lookup_free(). NULL: no memory, or no thread. */
struct ration_redis_lookup *ration_redis_lookup_create(const char *host);
void ration_redis_lookup_free(struct ration_redis_lookup *lookup);

/*
 * text is the address found, IPv4 before IPv6: the one of this number, which may be any; or why there is none.
 * It is borrowed.
 */
enum ration_redis_looked ration_redis_lookup_look(const struct ration_redis_lookup *lookup,
                                                  unsigned number, const char **out_text);

#endif
