#include "server/top.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* What is collected so far: the highest, in order. */
struct collection {
    struct ration_top_item *items;
    size_t count;
    size_t max;
};

static void insert(struct collection *collection, const char *limit_name,
                   const struct ration_top_key *key)
{
    size_t place = collection->count;

    while (place > 0 && collection->items[place - 1].key.count < key->count)
        place--;
    if (place == collection->max)
        return;
    if (collection->count < collection->max)
        collection->count++;
    memmove(&collection->items[place + 1], &collection->items[place],
            (collection->count - 1 - place) * sizeof(collection->items[0]));
    collection->items[place] = (struct ration_top_item){.key = *key};
    snprintf(collection->items[place].limit_name, sizeof(collection->items[place].limit_name), "%s",
             limit_name);
}

static void look(ration_limiter *limiter, struct ration_top_item *item, uint64_t now_ns)
{
    struct ration_key key = {item->key.name, (size_t)item->key.name_size};
    struct ration_decision decision;

    if (item->key.name_size > RATION_TOP_KEY_NAME_MAX ||
        ration_limiter_look(limiter, &key, 0, now_ns, &decision, NULL) != RATION_OK)
        return;
    item->has_left = true;
    item->left_tokens = decision.remaining;
}

static void collect(struct collection *collection, ration_limiter *limiter, const char *name,
                    enum ration_top by, uint64_t now_ns, struct ration_top_key *room)
{
    size_t count = ration_limiter_top_keys(limiter, by, room, collection->max, NULL);

    for (size_t i = 0; i < count; i++)
        insert(collection, name, &room[i]);
    for (size_t i = 0; i < collection->count; i++)
        if (strcmp(collection->items[i].limit_name, name) == 0 &&
            strcmp(name, RATION_POLICY_THROTTLE) != 0)
            look(limiter, &collection->items[i], now_ns);
}

size_t ration_top_collect(ration_gate *gate, enum ration_top by, const char *limit_name,
                          uint64_t now_ns, struct ration_top_item *items, size_t items_max)
{
    struct collection collection = {items, 0, items_max};
    struct ration_top_key *room = calloc(items_max, sizeof(*room));
    struct ration_visit visit;
    const ration_policy *policy;

    if (room == NULL)
        return 0;
    ration_gate_enter(gate, &visit);
    policy = ration_gate_policy(&visit);
    for (size_t i = 0; i < ration_policy_limit_count(policy); i++) {
        const char *name = ration_policy_limit_at(policy, i)->limit.name;

        if (limit_name == NULL || strcmp(limit_name, name) == 0)
            collect(&collection, ration_gate_limiter(&visit, i), name, by, now_ns, room);
    }
    if (limit_name == NULL || strcmp(limit_name, RATION_POLICY_THROTTLE) == 0)
        collect(&collection, ration_gate_throttle(gate), RATION_POLICY_THROTTLE, by, now_ns, room);
    ration_gate_leave(&visit);
    free(room);
    return collection.count;
}
