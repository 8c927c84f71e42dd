/*
 * forwarded: finds the address of a client behind proxies.
 *
 * Each proxy appends the address that it was called from at the right of a list. The caller of the
 * last proxy may have written anything to the left of that. So the list is read from the right,
 * beginning with the peer, as long as the current address is that of a trusted proxy:
 *
 *     X-Forwarded-For: 6.6.6.6, 1.2.3.4, 10.1.1.1        peer 10.0.0.1, trusted 10.0.0.0/8
 *                               ^ the client             6.6.6.6 was forged by the client
 *
 * An element that cannot be parsed stops the search at the last valid address. Nothing to the left
 * of an element changes how it is parsed: an unclosed quote sent by a client does not hide what
 * proxies appended. A peer that is not trusted is the client, whatever its headers contain.
 *
 * Only one header is trusted, and it must be configured: a proxy that sets X-Forwarded-For passes a
 * client's own Forwarded header on unchanged.
 */
#ifndef RATION_CODEC_HTTP_FORWARDED_H
#define RATION_CODEC_HTTP_FORWARDED_H

#include <stdbool.h>
#include <stddef.h>

#include "base/address.h"
#include "codec/http/http_request.h"

/* The number of addresses of one list that are examined, from the right. */
#define RATION_FORWARDED_HOPS_MAX 64

enum ration_forwarded_header {
    RATION_FORWARDED_NONE = 0,
    RATION_FORWARDED_FOR, /* X-Forwarded-For */
    RATION_FORWARDED_RFC, /* Forwarded, RFC 7239 */
    RATION_FORWARDED_REAL /* X-Real-IP: a single address */
};

struct ration_forwarded_trust {
    enum ration_forwarded_header header;
    const struct ration_network *proxies;
    size_t proxy_count;
    bool trusts_unix; /* trust a peer without an address, on a Unix socket */
    /* Take the last address of the list without checking whether it is a proxy too */
    bool is_one_hop;
};

/*
 * Returns the client address of a request that came from peer. The family of peer is 0 for a Unix
 * socket, and so is that of the result if no address is known. Cannot fail.
 */
struct ration_address ration_forwarded_client(const struct ration_forwarded_trust *trust,
                                              const struct ration_address *peer,
                                              const struct ration_http_header *headers,
                                              size_t header_count);

#endif
