/*
 * host: normalizes the host of a request.
 *
 *     example.com   EXAMPLE.com   example.com:80   example.com.      all become example.com
 *     [2001:DB8::1]:443                                              becomes [2001:db8::1]
 */
#ifndef RATION_CODEC_HTTP_HOST_H
#define RATION_CODEC_HTTP_HOST_H

#include <stdbool.h>

#include "ration/limiter.h"

/*
 * Converts to lower case and removes the port and the dot at the end. The result is written over
 * the bytes of host; an empty host stays empty. Returns false if it is neither a name (letters,
 * digits, '-', '_' and '.') nor an address.
 */
bool ration_host_normalize(char *host, size_t size, struct ration_key *out_host);

#endif
