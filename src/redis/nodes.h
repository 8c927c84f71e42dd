/*
 * nodes: the masters of a cluster, a connection to each, which of them owns a slot, and redirections to it.
 *
 * A connection is opened when a node is first named, and closed by ration_redis_nodes_sweep() once the node owns no
 * slots and has not been named for 10 s.
 */
#ifndef RATION_REDIS_NODES_H
#define RATION_REDIS_NODES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "redis/router.h"
#include "redis/url.h"

#define RATION_REDIS_NODES_MAX 128

/*
 * Each key belongs to one of 16384 slots:
 *
 *     slot = CRC16(key) modulo 16384; only the part between the first { and the next } is hashed, if it is not empty
 */
#define RATION_REDIS_SLOT_COUNT 16384

uint16_t ration_redis_slot(const char *key, size_t key_size);

/* A redirection: an error reply such as "MOVED 3999 10.0.0.5:6381". */
struct ration_redis_redirect {
    bool is_ask; /* ASK, for this request only; else MOVED, permanently */
    uint16_t slot;
    struct ration_redis_address address; /* host "": the host of the node that replied */
};

/* False: the error is not a redirection. */
bool ration_redis_redirect_read(const char *error, struct ration_redis_redirect *out_redirect);

struct ration_redis_node {
    struct ration_redis_address address;
    struct ration_redis_connection *connection; /* NULL: this entry is free */
    bool has_slots;
    uint64_t last_named_ns;
};

struct ration_redis_nodes {
    struct ration_redis_router *router;
    void (*changed)(void *context); /* called when a connection came up or went down */
    void *context;
    uint32_t count; /* entries that were ever used */
    struct ration_redis_node all[RATION_REDIS_NODES_MAX];
    uint32_t uncovered_count; /* slots without an owner */
    uint8_t owners[RATION_REDIS_SLOT_COUNT];
};

void ration_redis_nodes_init(struct ration_redis_nodes *nodes, struct ration_redis_router *router,
                             void (*changed)(void *context), void *context);

/* Completes all commands in flight. */
void ration_redis_nodes_done(struct ration_redis_nodes *nodes);

/* Returns the node at an address, and connects to it if it is new. NULL: too many nodes, or no memory. */
struct ration_redis_node *ration_redis_nodes_get(struct ration_redis_nodes *nodes,
                                                 const struct ration_redis_address *address);

/* The owner of a slot; NULL: none is known. */
struct ration_redis_node *ration_redis_nodes_owner(struct ration_redis_nodes *nodes, uint16_t slot);
void ration_redis_nodes_set_owner(struct ration_redis_nodes *nodes, uint16_t slot,
                                  const struct ration_redis_node *owner);

/*
 * Replaces the map by a node's reply to CLUSTER SLOTS. host is that of the replying node, used where the reply
 * names none. False: the reply is malformed or lists no slots; then nothing is changed.
 */
bool ration_redis_nodes_read(struct ration_redis_nodes *nodes, const struct redisReply *reply,
                             const char *host);

/*
 * Closes connections to nodes that own no slots and have not been named for 10 s. Must not be called from a
 * callback of a connection.
 */
void ration_redis_nodes_sweep(struct ration_redis_nodes *nodes);

#endif
