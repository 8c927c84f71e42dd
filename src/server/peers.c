#include "server/peers.h"

#include <assert.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "base/hash.h"

#define IPV6_HOST_BITS 64

/* An open-addressed place: free if open is 0. Places that follow each other are probed in turn. */
struct place {
    struct ration_address address;
    uint32_t open;
};

struct ration_peers {
    struct ration_hash_secret secret;
    pthread_mutex_t lock;
    uint32_t per_peer_max;
    uint32_t count;
    uint32_t mask;
    struct place *places; /* mask + 1, of which at most half are taken */
};

struct ration_peers *ration_peers_create(uint32_t connections_max, uint32_t per_peer_max)
{
    uint8_t seed[RATION_HASH_SEED_SIZE];
    struct ration_peers *peers = aligned_alloc(64, sizeof(*peers) / 64 * 64 + 64);
    size_t place_count = 16;

    if (peers == NULL || getrandom(seed, sizeof(seed), 0) != sizeof(seed)) {
        free(peers);
        return NULL;
    }
    memset(peers, 0, sizeof(*peers));
    ration_hash_secret_init(&peers->secret, seed);
    while (place_count < 2 * (size_t)connections_max)
        place_count *= 2;
    peers->places = calloc(place_count, sizeof(*peers->places));
    if (peers->places == NULL) {
        free(peers);
        return NULL;
    }
    pthread_mutex_init(&peers->lock, NULL);
    peers->mask = (uint32_t)(place_count - 1);
    peers->per_peer_max = per_peer_max;
    return peers;
}

void ration_peers_free(struct ration_peers *peers)
{
    if (peers == NULL)
        return;
    pthread_mutex_destroy(&peers->lock);
    free(peers->places);
    free(peers);
}

static struct ration_address counted_as(const struct ration_address *address)
{
    struct ration_address counted = *address;

    if (counted.family == 6)
        ration_address_mask(&counted, IPV6_HOST_BITS);
    return counted;
}

static uint32_t home_of(const struct ration_peers *peers, const struct ration_address *address)
{
    struct ration_hash hash = ration_hash_key(&peers->secret, address, sizeof(*address));

    return (uint32_t)hash.words[0] & peers->mask;
}

/* The place of the address, or the free one where it would go. */
static uint32_t find(const struct ration_peers *peers, const struct ration_address *address)
{
    uint32_t at = home_of(peers, address);

    while (peers->places[at].open > 0 &&
           memcmp(&peers->places[at].address, address, sizeof(*address)) != 0)
        at = (at + 1) & peers->mask;
    return at;
}

/* Frees a place, and moves up those behind it that would no longer be found. */
static void vacate(struct ration_peers *peers, uint32_t hole)
{
    uint32_t at = hole;

    for (;;) {
        at = (at + 1) & peers->mask;
        if (peers->places[at].open == 0)
            break;
        uint32_t home = home_of(peers, &peers->places[at].address);
        if (((at - home) & peers->mask) < ((at - hole) & peers->mask))
            continue; /* its home lies behind the hole */
        peers->places[hole] = peers->places[at];
        hole = at;
    }
    peers->places[hole].open = 0;
}

bool ration_peers_enter(struct ration_peers *peers, const struct ration_address *address)
{
    struct ration_address counted = counted_as(address);

    pthread_mutex_lock(&peers->lock);
    struct place *place = &peers->places[find(peers, &counted)];
    bool entered = place->open < peers->per_peer_max && peers->count <= peers->mask / 2;

    if (entered && place->open++ == 0) {
        place->address = counted;
        peers->count++;
    }
    pthread_mutex_unlock(&peers->lock);
    return entered;
}

void ration_peers_leave(struct ration_peers *peers, const struct ration_address *address)
{
    struct ration_address counted = counted_as(address);

    pthread_mutex_lock(&peers->lock);
    uint32_t at = find(peers, &counted);

    assert(peers->places[at].open > 0);
    if (peers->places[at].open == 1) {
        vacate(peers, at);
        peers->count--;
    } else {
        peers->places[at].open--;
    }
    pthread_mutex_unlock(&peers->lock);
}

uint32_t ration_peers_count(struct ration_peers *peers)
{
    pthread_mutex_lock(&peers->lock);
    uint32_t count = peers->count;
    pthread_mutex_unlock(&peers->lock);
    return count;
}
