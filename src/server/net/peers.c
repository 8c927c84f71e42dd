#include "server/net/peers.h"

#include <assert.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "base/hash.h"

#define IPV6_HOST_BITS 64

/* A slot of an open-addressed table with linear probing. */
struct slot {
    struct ration_address address;
    uint32_t open; /* connections; 0: the slot is free */
};

struct ration_peers {
    struct ration_hash_secret secret;
    pthread_mutex_t lock;
    uint32_t per_peer_max;
    uint32_t count;
    uint32_t mask;
    struct slot *slots; /* mask + 1 of them, at most half in use */
};

struct ration_peers *ration_peers_create(uint32_t connections_max, uint32_t per_peer_max)
{
    uint8_t seed[RATION_HASH_SEED_SIZE];
    struct ration_peers *peers = aligned_alloc(64, sizeof(*peers) / 64 * 64 + 64);
    size_t slot_count = 16;

    if (peers == NULL || getrandom(seed, sizeof(seed), 0) != sizeof(seed)) {
        free(peers);
        return NULL;
    }
    memset(peers, 0, sizeof(*peers));
    ration_hash_secret_init(&peers->secret, seed);
    while (slot_count < 2 * (size_t)connections_max)
        slot_count *= 2;
    peers->slots = calloc(slot_count, sizeof(*peers->slots));
    if (peers->slots == NULL) {
        free(peers);
        return NULL;
    }
    pthread_mutex_init(&peers->lock, NULL);
    peers->mask = (uint32_t)(slot_count - 1);
    peers->per_peer_max = per_peer_max;
    return peers;
}

void ration_peers_free(struct ration_peers *peers)
{
    if (peers == NULL)
        return;
    pthread_mutex_destroy(&peers->lock);
    free(peers->slots);
    free(peers);
}

static struct ration_address counted_address(const struct ration_address *address)
{
    struct ration_address counted = *address;

    if (counted.family == 6)
        ration_address_mask(&counted, IPV6_HOST_BITS);
    return counted;
}

static uint32_t home_slot(const struct ration_peers *peers, const struct ration_address *address)
{
    struct ration_hash hash = ration_hash_key(&peers->secret, address, sizeof(*address));

    return (uint32_t)hash.words[0] & peers->mask;
}

/* The index of the address's slot, or of the free slot where it would be inserted. */
static uint32_t find_slot(const struct ration_peers *peers, const struct ration_address *address)
{
    uint32_t index = home_slot(peers, address);

    while (peers->slots[index].open > 0 &&
           memcmp(&peers->slots[index].address, address, sizeof(*address)) != 0)
        index = (index + 1) & peers->mask;
    return index;
}

/* Frees a slot, and moves back the entries after it that probing would no longer find. */
static void free_slot(struct ration_peers *peers, uint32_t hole)
{
    uint32_t index = hole;

    for (;;) {
        index = (index + 1) & peers->mask;
        if (peers->slots[index].open == 0)
            break;
        uint32_t home = home_slot(peers, &peers->slots[index].address);
        if (((index - home) & peers->mask) < ((index - hole) & peers->mask))
            continue; /* its home slot is after the hole: still found */
        peers->slots[hole] = peers->slots[index];
        hole = index;
    }
    peers->slots[hole].open = 0;
}

bool ration_peers_enter(struct ration_peers *peers, const struct ration_address *address)
{
    struct ration_address counted = counted_address(address);

    pthread_mutex_lock(&peers->lock);
    struct slot *slot = &peers->slots[find_slot(peers, &counted)];
    bool is_admitted = slot->open < peers->per_peer_max && peers->count <= peers->mask / 2;

    if (is_admitted && slot->open++ == 0) {
        slot->address = counted;
        peers->count++;
    }
    pthread_mutex_unlock(&peers->lock);
    return is_admitted;
}

void ration_peers_leave(struct ration_peers *peers, const struct ration_address *address)
{
    struct ration_address counted = counted_address(address);

    pthread_mutex_lock(&peers->lock);
    uint32_t index = find_slot(peers, &counted);

    assert(peers->slots[index].open > 0);
    if (peers->slots[index].open == 1) {
        free_slot(peers, index);
        peers->count--;
    } else {
        peers->slots[index].open--;
    }
    pthread_mutex_unlock(&peers->lock);
}
