/*
 * auth_failures: rate-limits wrong passwords and tokens by address, and logs them.
 *
 * A limiter of this library counts them: an address (IPv6: its /64; all Unix sockets count as one) may fail 20
 * times, and then 10 times per minute. The reply to each further failure is delayed by 1 s, during which its
 * connection is not served. Correct credentials are never delayed or refused, so an attacker cannot lock
 * out clients behind the same address.
 */
#ifndef RATION_SERVER_OPS_AUTH_FAILURES_H
#define RATION_SERVER_OPS_AUTH_FAILURES_H

#include "server/ops/service.h"

#define RATION_AUTH_FAILURES_LIMIT \
    "10/min burst 20"                    /* failures of one address before replies are delayed */
#define RATION_AUTH_FAILURES_KEYS  16384 /* addresses tracked; further ones share one bucket */
#define RATION_AUTH_FAILURES_LINES "1/s burst 5" /* lines about failures in the log */

struct ration_auth_failures;

/* clock: NULL for the default. Returns NULL without memory. Owned by the caller: ration_auth_failures_free(). */
struct ration_auth_failures *ration_auth_failures_create(const struct ration_clock *clock);
void ration_auth_failures_free(struct ration_auth_failures *failures);

/*
 * The protocol calls this, inside receive(), when a client has presented a wrong credential; what names it
 * ("secret"). Logs the failure, and delays the reply if the address is over the limit. Any loop thread.
 */
void ration_auth_failures_add(struct ration_service *service, struct ration_connection *connection,
                              const char *what);

#endif
