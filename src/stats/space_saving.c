#include "stats/space_saving.h"

#include <stdbool.h>
#include <string.h>

/* A slot holds an index plus one; 0 is an empty slot. */
typedef uint16_t slot;

_Static_assert(RATION_SPACE_SAVING_KEYS_MAX < UINT16_MAX, "an index fits a slot");
_Static_assert(sizeof(struct ration_space_saving) % sizeof(uint64_t) == 0, "counts are aligned");

/* The block ----------------------------------------------------------------------------- */

/* At most half full, so that a search ends after a slot or two. */
static uint32_t slot_count_for(uint32_t key_max)
{
    uint32_t count = 2;

    while (count < 2 * key_max)
        count *= 2;
    return count;
}

/* These three cast const away, so that functions that only read do not need copies of them. */
static uint64_t *counts_of(const struct ration_space_saving *sketch)
{
    return (uint64_t *)(uintptr_t)(sketch + 1);
}

static struct ration_space_saving_entry *entries_of(const struct ration_space_saving *sketch)
{
    return (struct ration_space_saving_entry *)(uintptr_t)(counts_of(sketch) + sketch->key_max);
}

static slot *slots_of(const struct ration_space_saving *sketch)
{
    return (slot *)(uintptr_t)(entries_of(sketch) + sketch->key_max);
}

size_t ration_space_saving_size(uint32_t key_max)
{
    return sizeof(struct ration_space_saving) +
           key_max * (sizeof(uint64_t) + sizeof(struct ration_space_saving_entry)) +
           slot_count_for(key_max) * sizeof(slot);
}

void ration_space_saving_init(struct ration_space_saving *sketch, uint32_t key_max)
{
    memset(sketch, 0, ration_space_saving_size(key_max));
    sketch->key_max = key_max;
    sketch->hand_index = key_max; /* the first replacement starts a round */
    sketch->slot_mask = slot_count_for(key_max) - 1;
}

/* The hash table: linear probing, without tombstones ------------------------------------ */

static uint32_t home_of(const struct ration_space_saving *sketch, const uint64_t hash[2])
{
    return (uint32_t)hash[0] & sketch->slot_mask;
}

/* The slot of a key, or the empty one where it would be. */
static uint32_t slot_find(const struct ration_space_saving *sketch, const uint64_t hash[2])
{
    const struct ration_space_saving_entry *entries = entries_of(sketch);
    const slot *slots = slots_of(sketch);
    uint32_t slot_index = home_of(sketch, hash);

    for (; slots[slot_index] != 0; slot_index = (slot_index + 1) & sketch->slot_mask) {
        const struct ration_space_saving_entry *entry = &entries[slots[slot_index] - 1];

        if (entry->hash[0] == hash[0] && entry->hash[1] == hash[1])
            break;
    }
    return slot_index;
}

/* Empties a slot. Later keys that it displaced from their home move up. */
static void slot_empty(struct ration_space_saving *sketch, uint32_t slot_index)
{
    const struct ration_space_saving_entry *entries = entries_of(sketch);
    slot *slots = slots_of(sketch);
    uint32_t mask = sketch->slot_mask;

    for (uint32_t next = (slot_index + 1) & mask; slots[next] != 0; next = (next + 1) & mask) {
        uint32_t home = home_of(sketch, entries[slots[next] - 1].hash);

        /* is the gap between its home and its slot? */
        if (((next - home) & mask) >= ((next - slot_index) & mask)) {
            slots[slot_index] = slots[next];
            slot_index = next;
        }
    }
    slots[slot_index] = 0;
}

uint32_t ration_space_saving_find(const struct ration_space_saving *sketch, const uint64_t hash[2])
{
    slot found = slots_of(sketch)[slot_find(sketch, hash)];

    return found != 0 ? found - 1u : sketch->key_count;
}

/* Counting ------------------------------------------------------------------------------ */

static uint64_t lowest_of(const uint64_t *counts, uint32_t count)
{
    uint64_t lowest = counts[0];

    for (uint32_t i = 1; i < count; i++)
        lowest = counts[i] < lowest ? counts[i] : lowest;
    return lowest;
}

/* Returns the index of a key with the lowest count, which becomes floor. All K keys are in use. */
static uint32_t find_lowest(struct ration_space_saving *sketch)
{
    const uint64_t *counts = counts_of(sketch);

    for (;;) {
        while (sketch->hand_index < sketch->key_max) {
            uint32_t index = sketch->hand_index++;

            if (counts[index] == sketch->floor)
                return index;
        }
        /* at least one count equals it, so the second round returns above */
        sketch->floor = lowest_of(counts, sketch->key_max);
        sketch->hand_index = 0;
    }
}

/* Returns an index for a new key: an unused one, or that of a dropped key. */
static uint32_t claim_index(struct ration_space_saving *sketch)
{
    if (sketch->key_count < sketch->key_max)
        return sketch->key_count++;

    uint32_t index = find_lowest(sketch);

    slot_empty(sketch, slot_find(sketch, entries_of(sketch)[index].hash));
    return index;
}

void ration_space_saving_add(struct ration_space_saving *sketch,
                             const struct ration_top_key_ref *key, uint64_t weight)
{
    uint64_t *counts = counts_of(sketch);
    slot *slots = slots_of(sketch);
    uint32_t slot_index = slot_find(sketch, key->hash);

    if (slots[slot_index] != 0) {
        uint64_t *count = &counts[slots[slot_index] - 1];

        *count = ration_space_saving_add_or_max(*count, weight);
        return;
    }

    uint32_t index = claim_index(sketch);
    struct ration_space_saving_entry *entry = &entries_of(sketch)[index];
    size_t stored_size =
        key->name_size < sizeof(entry->name) ? key->name_size : sizeof(entry->name);

    counts[index] = ration_space_saving_add_or_max(sketch->floor, weight);
    entry->error = sketch->floor;
    entry->hash[0] = key->hash[0];
    entry->hash[1] = key->hash[1];
    entry->name_size = key->name_size;
    if (stored_size > 0)
        memcpy(entry->name, key->name, stored_size);
    /* searched again: dropping a key may have moved others */
    slots[slot_find(sketch, key->hash)] = (slot)(index + 1);
}

const struct ration_space_saving_entry *ration_space_saving_entry(
    const struct ration_space_saving *sketch, uint32_t index)
{
    return &entries_of(sketch)[index];
}

uint64_t ration_space_saving_count(const struct ration_space_saving *sketch, uint32_t index)
{
    return counts_of(sketch)[index];
}
