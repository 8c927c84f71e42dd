/*
 * peers: how many connections each address has open.
 *
 * One table for all loops, under a lock that is taken when a connection comes or goes and never
 * for a request. IPv6 addresses count by their /64, which one host has all of. The hash is keyed:
 * who chooses addresses cannot make the table slow.
 */
#ifndef RATION_SERVER_PEERS_H
#define RATION_SERVER_PEERS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/address.h"

struct ration_peers;

/*
 * Room for as many addresses as there are connections. Owned by the caller: ration_peers_free().
 * NULL if memory or randomness is short.
 */
struct ration_peers *ration_peers_create(uint32_t connections_max, uint32_t per_peer_max);
void ration_peers_free(struct ration_peers *peers);

/* Counts one more of this address; false, and nothing is counted, if that is too many. */
bool ration_peers_enter(struct ration_peers *peers, const struct ration_address *address);

/* Takes back one enter() that returned true. */
void ration_peers_leave(struct ration_peers *peers, const struct ration_address *address);

/* How many addresses have connections open. */
uint32_t ration_peers_count(struct ration_peers *peers);

#endif
