/*
 * peers: counts the open connections of each client address.
 *
 * One table for all loops, under a lock that a loop thread takes when a connection is accepted or closed, never
 * for a request. IPv6 addresses are counted by /64, because one host usually has a whole /64. The hash is keyed:
 * clients that choose their addresses cannot cause collisions.
 */
#ifndef RATION_SERVER_NET_PEERS_H
#define RATION_SERVER_NET_PEERS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/address.h"

struct ration_peers;

/*
 * Has room for connections_max addresses. Owned by the caller: ration_peers_free().
 * NULL: no memory, or no random bytes for the hash key.
 */
struct ration_peers *ration_peers_create(uint32_t connections_max, uint32_t per_peer_max);
void ration_peers_free(struct ration_peers *peers);

/* Counts one more connection of the address. False: per_peer_max is reached, and nothing is counted. Any thread. */
bool ration_peers_enter(struct ration_peers *peers, const struct ration_address *address);

/* Undoes one ration_peers_enter() that returned true. Any thread. */
void ration_peers_leave(struct ration_peers *peers, const struct ration_address *address);

#endif
