/*
 * nodes: the masters of a cluster, a link to each, and which of them has a slot.
 *
 * Links are made when a node is first heard of, and released by ration_redis_nodes_sweep() once nothing
 * was heard of it for a while.
 */
#ifndef RATION_REDIS_NODES_H
#define RATION_REDIS_NODES_H

#include "redis/route.h"
#include "redis/slots.h"

#define RATION_REDIS_NODES_MAX 128

struct ration_redis_node {
    struct ration_redis_address address;
    struct ration_redis_link *link; /* NULL: there is no such node */
    bool has_slots;
    uint64_t heard_at_ns;
};

struct ration_redis_nodes {
    struct ration_redis_route *route;
    void (*changed)(void *context); /* a link came up or went down */
    void *context;
    uint32_t count; /* places that were ever used */
    struct ration_redis_node all[RATION_REDIS_NODES_MAX];
    uint32_t uncovered_count; /* slots that nobody has */
    uint8_t owners[RATION_REDIS_SLOT_COUNT];
};

void ration_redis_nodes_init(struct ration_redis_nodes *nodes, struct ration_redis_route *route,
                             void (*changed)(void *context), void *context);

/* Whoever waits is told. */
void ration_redis_nodes_done(struct ration_redis_nodes *nodes);

/* The node at an address, which is connected if it is new. NULL: there are too many, or no memory. */
struct ration_redis_node *ration_redis_nodes_get(struct ration_redis_nodes *nodes,
                                                 const struct ration_redis_address *address);

/* Who has a slot; NULL: nobody, as far as is known. */
struct ration_redis_node *ration_redis_nodes_owner(struct ration_redis_nodes *nodes, uint16_t slot);
void ration_redis_nodes_set_owner(struct ration_redis_nodes *nodes, uint16_t slot,
                                  const struct ration_redis_node *owner);

/*
 * Takes over what a node answered to CLUSTER SLOTS; host is its own, which stands for one that is not
 * told. False: it is no such answer, or no slot has a node; nothing is changed then.
 */
bool ration_redis_nodes_read(struct ration_redis_nodes *nodes, const struct redisReply *reply,
                             const char *host);

/* Releases those that have no slots and were not heard of for a while. No link may be on the stack. */
void ration_redis_nodes_sweep(struct ration_redis_nodes *nodes);

#endif
