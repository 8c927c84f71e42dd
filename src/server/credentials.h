/*
 * credentials: which level of access a client of this server has (proto/access.h says what the levels are).
 *
 * Without a secret the level depends on the settings alone, and on where the client is:
 *
 *     secrets set         a client without a secret has
 *     none                admin on this host (loopback, Unix sockets), check from any other host
 *     admin               check
 *     check, or both      open
 *
 * So a server with no secret at all trusts its own host, and one with a check secret but no admin secret
 * has no admin operations. A secret that is wrong grants what no secret grants.
 */
#ifndef RATION_SERVER_CREDENTIALS_H
#define RATION_SERVER_CREDENTIALS_H

#include <stdio.h>

#include "base/address.h"
#include "proto/access.h"
#include "ration/limiter.h"
#include "server/settings.h"

/* The level of a client that has presented no secret. The family of a peer on a Unix socket is 0. */
enum ration_access ration_credentials_without_secret(const struct ration_settings *settings,
                                                     const struct ration_address *peer);

/* The level that a secret grants; RATION_ACCESS_UNSET: it is none of the server's. Constant time. */
enum ration_access ration_credentials_of_secret(const struct ration_settings *settings,
                                                const void *secret, size_t secret_size);

/* Every route and command with the level that it needs, one per line, fields separated by tabs. */
void ration_credentials_print_list(FILE *stream);

#endif
