#include "server/ops/top.h"

#include <stdio.h>
#include <string.h>

static void insert_key(struct ration_top_list *list, const char *limit_name,
                       const struct ration_top_key *key)
{
    size_t index = list->count;

    while (index > 0 && list->items[index - 1].key.count < key->count)
        index--;
    if (index == list->items_max)
        return;
    if (list->count < list->items_max)
        list->count++;
    memmove(&list->items[index + 1], &list->items[index],
            (list->count - 1 - index) * sizeof(list->items[0]));
    list->items[index] = (struct ration_top_item){.key = *key};
    snprintf(list->items[index].limit_name, sizeof(list->items[index].limit_name), "%s",
             limit_name);
}

static void read_remaining(ration_limiter *limiter, struct ration_top_item *item, uint64_t now_ns)
{
    struct ration_key key = {item->key.name, (size_t)item->key.name_size};
    struct ration_decision decision;

    if (item->key.name_size > RATION_TOP_KEY_NAME_MAX ||
        ration_limiter_peek(limiter, &key, 0, now_ns, &decision, NULL) != RATION_OK)
        return;
    item->has_remaining = true;
    item->remaining_tokens = decision.remaining;
}

static void add_limiter(struct ration_top_list *list, ration_limiter *limiter, const char *name)
{
    static _Thread_local struct ration_top_key keys[RATION_TOP_MAX];
    size_t count;

    if (list->has_limit_name && strcmp(list->limit_name, name) != 0)
        return;
    count = ration_limiter_top_keys(limiter, list->by, keys, list->items_max, NULL);
    for (size_t i = 0; i < count; i++)
        insert_key(list, name, &keys[i]);
    for (size_t i = 0; i < list->count && count > 0; i++)
        if (strcmp(list->items[i].limit_name, name) == 0 && strcmp(name, RATION_POLICY_INLINE) != 0)
            read_remaining(limiter, &list->items[i], list->now_ns);
}

void ration_top_add(struct ration_top_list *list, const struct ration_engine_guard *guard,
                    size_t first, size_t count)
{
    const ration_policy *policy = ration_engine_policy(guard);

    for (size_t i = first; i < first + count; i++)
        add_limiter(list, ration_engine_limiter(guard, i),
                    ration_policy_limit_at(policy, i)->limit.name);
}

void ration_top_add_inline(struct ration_top_list *list, ration_engine *engine)
{
    add_limiter(list, ration_engine_inline_limiter(engine), RATION_POLICY_INLINE);
}

void ration_top_walk_begin(struct ration_walk *walk)
{
    ((struct ration_top_walk *)walk)->list.count = 0;
}

void ration_top_walk_visit(struct ration_walk *walk, const struct ration_engine_guard *guard,
                           size_t first, size_t count)
{
    ration_top_add(&((struct ration_top_walk *)walk)->list, guard, first, count);
}

void ration_top_walk_start(struct ration_walk *walk, enum ration_top by, size_t items_max,
                           const char *limit_name, uint64_t now_ns)
{
    struct ration_top_list *list = &((struct ration_top_walk *)walk)->list;

    list->by = by;
    list->items_max = items_max;
    list->now_ns = now_ns;
    list->has_limit_name = limit_name != NULL;
    if (limit_name != NULL)
        snprintf(list->limit_name, sizeof(list->limit_name), "%s", limit_name);
    ration_walk_start(walk);
}
