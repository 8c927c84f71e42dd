/*
 * auth_failures: wrong passwords and tokens, slowed down by address and logged.
 *
 * The limiter that this server is about counts them: an address (IPv6: its /64; all Unix sockets are one)
 * may fail 20 times, and then 10 times a minute. The reply to any other failure waits for a second, during
 * which its connection is not served. Right credentials are never delayed or refused, so an
 * attacker cannot lock out clients behind the same address.
 */
#ifndef RATION_SERVER_AUTH_FAILURES_H
#define RATION_SERVER_AUTH_FAILURES_H

#include "server/service.h"

#define RATION_AUTH_FAILURES_LIMIT \
    "10/min burst 20" /* of one address, before replies are delayed */
#define RATION_AUTH_FAILURES_KEYS \
    16384 /* addresses; when more fail at one time they share one bucket */
#define RATION_AUTH_FAILURES_LINES "1/s burst 5" /* in the log */

struct ration_auth_failures;

/* clock: that of the service; NULL: the default. NULL: no memory. Release: ration_auth_failures_free(). */
struct ration_auth_failures *ration_auth_failures_create(const struct ration_clock *clock);
void ration_auth_failures_free(struct ration_auth_failures *failures);

/*
 * The client has shown a wrong credential, named what. Logs it, and delays the reply if its address has
 * failed often. Inside the connection's receive(). Any loop's thread.
 */
void ration_auth_failures_add(struct ration_service *service, struct ration_connection *connection,
                              const char *what);

#endif
