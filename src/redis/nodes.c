#include "redis/nodes.h"

#include <hiredis/hiredis.h>
#include <stdio.h>
#include <string.h>

#include "ration/limit.h"

/* CRC16/XMODEM, four bits at a time: polynomial 0x1021, initial value 0, not reflected. */
static uint16_t key_crc16(const char *bytes, size_t size)
{
    static const uint16_t table[16] = {0x0000, 0x1021, 0x2042, 0x3063, 0x4084, 0x50a5,
                                       0x60c6, 0x70e7, 0x8108, 0x9129, 0xa14a, 0xb16b,
                                       0xc18c, 0xd1ad, 0xe1ce, 0xf1ef};
    unsigned crc = 0;

    for (size_t i = 0; i < size; i++) {
        unsigned byte = (unsigned char)bytes[i];

        crc = (crc << 4 ^ table[(crc >> 12 ^ byte >> 4) & 15]) & 0xffff;
        crc = (crc << 4 ^ table[(crc >> 12 ^ byte) & 15]) & 0xffff;
    }
    return (uint16_t)crc;
}

uint16_t ration_redis_slot(const char *key, size_t key_size)
{
    const char *open = key_size > 0 ? memchr(key, '{', key_size) : NULL;
    const char *close =
        open != NULL ? memchr(open + 1, '}', key_size - (size_t)(open + 1 - key)) : NULL;

    if (close != NULL && close > open + 1)
        return key_crc16(open + 1, (size_t)(close - open - 1)) % RATION_REDIS_SLOT_COUNT;
    return key_crc16(key, key_size) % RATION_REDIS_SLOT_COUNT;
}

/* Reads a number of at most max. Returns the text after it; NULL: there is no such number. */
static const char *read_number(const char *text, unsigned max, unsigned *out_number)
{
    unsigned number = 0;
    const char *cursor = text;

    while (*cursor >= '0' && *cursor <= '9' && number <= max)
        number = number * 10 + (unsigned)(*cursor++ - '0');
    *out_number = number;
    return cursor > text && number <= max ? cursor : NULL;
}

bool ration_redis_redirect_read(const char *error, struct ration_redis_redirect *out_redirect)
{
    static const char moved[] = "MOVED ", ask[] = "ASK ";
    struct ration_redis_redirect redirect = {.is_ask = strncmp(error, ask, sizeof(ask) - 1) == 0};
    const char *host, *colon, *end;
    unsigned slot;

    if (!redirect.is_ask && strncmp(error, moved, sizeof(moved) - 1) != 0)
        return false;
    host = read_number(error + (redirect.is_ask ? sizeof(ask) : sizeof(moved)) - 1,
                       RATION_REDIS_SLOT_COUNT - 1, &slot);
    if (host == NULL || *host++ != ' ')
        return false;
    colon = strrchr(host, ':'); /* the last colon: an IPv6 address has others */
    if (colon == NULL || (size_t)(colon - host) >= sizeof(redirect.address.host))
        return false;
    end = read_number(colon + 1, UINT16_MAX, &redirect.address.port);
    if (end == NULL || *end != '\0' || redirect.address.port == 0)
        return false;
    memcpy(redirect.address.host, host, (size_t)(colon - host));
    redirect.slot = (uint16_t)slot;
    *out_redirect = redirect;
    return true;
}

#define NO_OWNER       UINT8_MAX
#define UNNAMED_MAX_NS (10 * RATION_NS_PER_SECOND)

_Static_assert(RATION_REDIS_NODES_MAX <= NO_OWNER, "an owner is a byte");

void ration_redis_nodes_init(struct ration_redis_nodes *nodes, struct ration_redis_router *router,
                             void (*changed)(void *context), void *context)
{
    nodes->router = router;
    nodes->changed = changed;
    nodes->context = context;
    nodes->count = 0;
    nodes->uncovered_count = RATION_REDIS_SLOT_COUNT;
    memset(nodes->owners, NO_OWNER, sizeof(nodes->owners));
}

void ration_redis_nodes_done(struct ration_redis_nodes *nodes)
{
    for (uint32_t i = 0; i < nodes->count; i++) {
        ration_redis_connection_free(nodes->all[i].connection);
        nodes->all[i].connection = NULL;
    }
}

static bool has_address(const struct ration_redis_node *node,
                        const struct ration_redis_address *address)
{
    return node->connection != NULL && node->address.port == address->port &&
           strcmp(node->address.host, address->host) == 0;
}

static struct ration_redis_node *add_node(struct ration_redis_nodes *nodes,
                                          const struct ration_redis_address *address)
{
    struct ration_redis_node *node;
    uint32_t index = 0;

    while (index < nodes->count && nodes->all[index].connection != NULL)
        index++;
    if (index == RATION_REDIS_NODES_MAX)
        return NULL;
    node = &nodes->all[index];
    node->address = *address;
    node->has_slots = false;
    node->connection = ration_redis_router_open(nodes->router, &node->address);
    if (node->connection == NULL)
        return NULL;
    ration_redis_connection_watch(node->connection, nodes->changed, nodes->context);
    if (index == nodes->count)
        nodes->count++;
    return node;
}

struct ration_redis_node *ration_redis_nodes_get(struct ration_redis_nodes *nodes,
                                                 const struct ration_redis_address *address)
{
    struct ration_redis_node *node = NULL;

    for (uint32_t i = 0; i < nodes->count && node == NULL; i++)
        if (has_address(&nodes->all[i], address))
            node = &nodes->all[i];
    if (node == NULL)
        node = add_node(nodes, address);
    if (node != NULL)
        node->last_named_ns = ration_redis_router_now(nodes->router);
    return node;
}

struct ration_redis_node *ration_redis_nodes_owner(struct ration_redis_nodes *nodes, uint16_t slot)
{
    return nodes->owners[slot] != NO_OWNER ? &nodes->all[nodes->owners[slot]] : NULL;
}

void ration_redis_nodes_set_owner(struct ration_redis_nodes *nodes, uint16_t slot,
                                  const struct ration_redis_node *owner)
{
    if (nodes->owners[slot] == NO_OWNER)
        nodes->uncovered_count--;
    nodes->owners[slot] = (uint8_t)(owner - nodes->all);
}

void ration_redis_nodes_sweep(struct ration_redis_nodes *nodes)
{
    uint64_t now_ns = ration_redis_router_now(nodes->router);

    for (uint32_t i = 0; i < nodes->count; i++) {
        struct ration_redis_node *node = &nodes->all[i];
        struct ration_redis_connection *connection = node->connection;

        if (connection == NULL || node->has_slots || now_ns - node->last_named_ns < UNNAMED_MAX_NS)
            continue;
        for (size_t slot = 0; slot < RATION_REDIS_SLOT_COUNT; slot++) {
            if (nodes->owners[slot] != i)
                continue;
            nodes->owners[slot] = NO_OWNER;
            nodes->uncovered_count++;
        }
        node->connection = NULL; /* a callback may call this module again */
        ration_redis_router_close(nodes->router, connection);
    }
}

/* CLUSTER SLOTS -------------------------------------------------------------------------------- */

/* [first slot, last slot, [host, port, ...] of the master, replicas ...] */
static bool is_valid_range(const redisReply *range)
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

static void apply_range(struct ration_redis_nodes *nodes, const redisReply *range, const char *host)
{
    const redisReply *master = range->element[2];
    const redisReply *host_reply = master->element[0];
    struct ration_redis_address address = {.port = (unsigned)master->element[1]->integer};
    struct ration_redis_node *node;

    snprintf(address.host, sizeof(address.host), "%s",
             host_reply->type == REDIS_REPLY_STRING && host_reply->len > 0 ? host_reply->str
                                                                           : host);
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
        if (!is_valid_range(reply->element[i]))
            return false;
    for (uint32_t i = 0; i < nodes->count; i++)
        nodes->all[i].has_slots = false;
    memset(nodes->owners, NO_OWNER, sizeof(nodes->owners));
    nodes->uncovered_count = RATION_REDIS_SLOT_COUNT;
    for (size_t i = 0; i < reply->elements; i++)
        apply_range(nodes, reply->element[i], host);
    return true;
}
