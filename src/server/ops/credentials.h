/*
 * credentials: the access level of a client (codec/resp/access.h defines the levels).
 *
 * The level of a client without a secret depends on the settings and on the client's address:
 *
 *     secrets set         a client without a secret has
 *     none                admin on this host (loopback, Unix sockets), check from any other host
 *     admin               check
 *     check, or both      open
 *
  * So a server without secrets trusts its own host, and one with a check secret but no admin secret allows no
 * admin operations. A wrong secret grants the same level as no secret.
 */
#ifndef RATION_SERVER_OPS_CREDENTIALS_H
#define RATION_SERVER_OPS_CREDENTIALS_H

#include <stdio.h>

#include "base/address.h"
#include "codec/resp/access.h"
#include "ration/limiter.h"
#include "server/ops/settings.h"

/* The level of a client that has presented no secret. The family of a peer on a Unix socket is 0. */
enum ration_access ration_credentials_without_secret(const struct ration_settings *settings,
                                                     const struct ration_address *peer);

/* The level that a secret grants; RATION_ACCESS_UNSET: the secret is wrong. Constant time for a given secret_size. */
enum ration_access ration_credentials_of_secret(const struct ration_settings *settings,
                                                const void *secret, size_t secret_size);

/* Prints every route and command with the level that it requires, one per line, fields separated by tabs. */
void ration_credentials_print_list(FILE *stream);

#endif
