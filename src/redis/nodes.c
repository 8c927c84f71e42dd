#include "redis/nodes.h"

#include <hiredis/hiredis.h>
#include <stdio.h>
#include <string.h>

#include "ration/limit.h"

#define NOBODY       UINT8_MAX
#define FORGOTTEN_NS (10 * RATION_NS_PER_SECOND)

_Static_assert(RATION_REDIS_NODES_MAX <= NOBODY, "an owner is a byte");

void ration_redis_nodes_init(struct ration_redis_nodes *nodes, struct ration_redis_route *route,
                             void (*changed)(void *context), void *context)
{
    nodes->route = route;
    nodes->changed = changed;
    nodes->context = context;
    nodes->count = 0;
    nodes->uncovered_count = RATION_REDIS_SLOT_COUNT;
    memset(nodes->owners, NOBODY, sizeof(nodes->owners));
}

void ration_redis_nodes_done(struct ration_redis_nodes *nodes)
{
    for (uint32_t i = 0; i < nodes->count; i++) {
        ration_redis_link_free(nodes->all[i].link);
        nodes->all[i].link = NULL;
    }
}

static bool is_at(const struct ration_redis_node *node, const struct ration_redis_address *address)
{
    return node->link != NULL && node->address.port == address->port &&
           strcmp(node->address.host, address->host) == 0;
}

static struct ration_redis_node *add(struct ration_redis_nodes *nodes,
                                     const struct ration_redis_address *address)
{
    struct ration_redis_node *node;
    uint32_t place = 0;

    while (place < nodes->count && nodes->all[place].link != NULL)
        place++;
    if (place == RATION_REDIS_NODES_MAX)
        return NULL;
    node = &nodes->all[place];
    node->address = *address;
    node->has_slots = false;
    node->link = ration_redis_route_open(nodes->route, &node->address);
    if (node->link == NULL)
        return NULL;
    ration_redis_link_watch(node->link, nodes->changed, nodes->context);
    if (place == nodes->count)
        nodes->count++;
    return node;
}

struct ration_redis_node *ration_redis_nodes_get(struct ration_redis_nodes *nodes,
                                                 const struct ration_redis_address *address)
{
    struct ration_redis_node *node = NULL;

    for (uint32_t i = 0; i < nodes->count && node == NULL; i++)
        if (is_at(&nodes->all[i], address))
            node = &nodes->all[i];
    if (node == NULL)
        node = add(nodes, address);
    if (node != NULL)
        node->heard_at_ns = ration_redis_route_now(nodes->route);
    return node;
}

struct ration_redis_node *ration_redis_nodes_owner(struct ration_redis_nodes *nodes, uint16_t slot)
{
    return nodes->owners[slot] != NOBODY ? &nodes->all[nodes->owners[slot]] : NULL;
}

void ration_redis_nodes_set_owner(struct ration_redis_nodes *nodes, uint16_t slot,
                                  const struct ration_redis_node *owner)
{
    if (nodes->owners[slot] == NOBODY)
        nodes->uncovered_count--;
    nodes->owners[slot] = (uint8_t)(owner - nodes->all);
}

void ration_redis_nodes_sweep(struct ration_redis_nodes *nodes)
{
    uint64_t now_ns = ration_redis_route_now(nodes->route);

    for (uint32_t i = 0; i < nodes->count; i++) {
        struct ration_redis_node *node = &nodes->all[i];
        struct ration_redis_link *link = node->link;

        if (link == NULL || node->has_slots || now_ns - node->heard_at_ns < FORGOTTEN_NS)
            continue;
        for (size_t slot = 0; slot < RATION_REDIS_SLOT_COUNT; slot++) {
            if (nodes->owners[slot] != i)
                continue;
            nodes->owners[slot] = NOBODY;
            nodes->uncovered_count++;
        }
        node->link = NULL; /* whoever is told now may come here again */
        ration_redis_route_close(nodes->route, link);
    }
}

/* CLUSTER SLOTS -------------------------------------------------------------------------------- */

/* [first, last, [host, port, ...] of the master, replicas ...] */
static bool is_range(const redisReply *range)
{
    const redisReply *const *members = (const redisReply *const *)range->element;
    const redisReply *master;

    if (range->type != REDIS_REPLY_ARRAY || range->elements < 3 ||
        members[0]->type != REDIS_REPLY_INTEGER || members[1]->type != REDIS_REPLY_INTEGER ||
        members[2]->type != REDIS_REPLY_ARRAY)
        return false;
    master = members[2];
    return members[0]->integer >= 0 && members[0]->integer <= members[1]->integer &&
           members[1]->integer < RATION_REDIS_SLOT_COUNT && master->elements >= 2 &&
           (master->element[0]->type == REDIS_REPLY_NIL ||
            (master->element[0]->type == REDIS_REPLY_STRING &&
             (size_t)master->element[0]->len <= RATION_REDIS_TEXT_MAX)) &&
           master->element[1]->type == REDIS_REPLY_INTEGER && master->element[1]->integer > 0 &&
           master->element[1]->integer <= UINT16_MAX;
}

static void take_range(struct ration_redis_nodes *nodes, const redisReply *range, const char *host)
{
    const redisReply *master = range->element[2];
    const redisReply *told = master->element[0];
    struct ration_redis_address address = {.port = (unsigned)master->element[1]->integer};
    struct ration_redis_node *node;

    snprintf(address.host, sizeof(address.host), "%s",
             told->type == REDIS_REPLY_STRING && told->len > 0 ? told->str : host);
    node = ration_redis_nodes_get(nodes, &address);
    if (node == NULL)
        return;
    node->has_slots = true;
    for (long long slot = range->element[0]->integer; slot <= range->element[1]->integer; slot++)
        ration_redis_nodes_set_owner(nodes, (uint16_t)slot, node);
}

bool ration_redis_nodes_read(struct ration_redis_nodes *nodes, const struct redisReply *reply,
                             const char *host)
{
    if (reply->type != REDIS_REPLY_ARRAY || reply->elements == 0)
        return false;
    for (size_t i = 0; i < reply->elements; i++)
        if (!is_range(reply->element[i]))
            return false;
    for (uint32_t i = 0; i < nodes->count; i++)
        nodes->all[i].has_slots = false;
    memset(nodes->owners, NOBODY, sizeof(nodes->owners));
    nodes->uncovered_count = RATION_REDIS_SLOT_COUNT;
    for (size_t i = 0; i < reply->elements; i++)
        take_range(nodes, reply->element[i], host);
    return true;
}
