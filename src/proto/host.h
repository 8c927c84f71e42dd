/*
 * host: one way to write the host of a request.
 *
 *     example.com   EXAMPLE.com   example.com:80   example.com.      all are example.com
 *     [2001:DB8::1]:443                                              is [2001:db8::1]
 */
#ifndef RATION_PROTO_HOST_H
#define RATION_PROTO_HOST_H

#include <stdbool.h>

#include "ration/limiter.h"

/*
 * In lower case, without port and without the dot at the end. Written over the host's own bytes, where the
 * result lies; an empty host stays empty.
 * False: it is neither a name, of letters, digits, '-', '_' and '.', nor an address.
 */
bool ration_host_normalize(char *host, size_t size, struct ration_key *out_host);

#endif
