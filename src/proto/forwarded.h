/*
 * forwarded: the address of a client who came through proxies.
 *
 * A proxy adds the address it was called from at the right of a list. Whoever called the last one
 * may have written anything to the left of it. So the list is walked from the right, beginning with
 * the peer, for as long as the address at hand is one of a trusted proxy:
 *
 *     X-Forwarded-For: 6.6.6.6, 1.2.3.4, 10.1.1.1        peer 10.0.0.1, trusted 10.0.0.0/8
 *                               ^ the client             6.6.6.6 is what it would like to be
 *
 * What cannot be read ends the walk at the last address that could. Nothing that stands to the left of an
 * element changes how it is read: a quote that a client left open does not hide what proxies appended. A peer that is not trusted is
 * the client, whatever its headers say.
 *
 * One header is believed, and it has to be named: a proxy that sets X-Forwarded-For passes a
 * client's own Forwarded on unchanged.
 */
#ifndef RATION_PROTO_FORWARDED_H
#define RATION_PROTO_FORWARDED_H

#include <stdbool.h>
#include <stddef.h>

#include "base/address.h"
#include "proto/http_request.h"

/* Addresses of one list that are looked at, from the right. */
#define RATION_FORWARDED_HOPS_MAX 64

enum ration_forwarded_header {
    RATION_FORWARDED_NONE = 0,
    RATION_FORWARDED_FOR, /* X-Forwarded-For */
    RATION_FORWARDED_RFC, /* Forwarded, RFC 7239 */
    RATION_FORWARDED_REAL /* X-Real-IP: one address */
};

struct ration_forwarded_trust {
    enum ration_forwarded_header header;
    const struct ration_network *proxies;
    size_t proxy_count;
    bool trusts_unix; /* a peer without an address, on a socket of this host */
    bool is_one_hop;  /* take the last of the list, and do not ask whether it is a proxy too */
};

/* The header of that name in a policy ("x-forwarded-for"), whatever its case. false: none. */
bool ration_forwarded_header_parse(const char *name, size_t size,
                                   enum ration_forwarded_header *out_header);

/*
 * The client of a request that came from peer. Its family is 0 for a peer on a unix socket, and so
 * is the answer's where that is all that is known. Cannot fail.
 */
struct ration_address ration_forwarded_client(const struct ration_forwarded_trust *trust,
                                              const struct ration_address *peer,
                                              const struct ration_http_header *headers,
                                              size_t header_count);

#endif
