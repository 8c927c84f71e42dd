/*
 * save: a gate written down, and read back under a policy that may be another.
 *
 *     the limiters: their names, limits and keys | the stack's dump | the throttle's | the holds'
 *
 * each in chunks (limiter/chunks.h). When it is read the stack is made as it was, with limits as they
 * were; then the policy is adopted as in a reload, which knows what to keep.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/refuse.h"
#include "gate/gate.h"
#include "limiter/chunks.h"
#include "limiter/limiter.h"

#define SAVED_VERSION                  3
#define SAVED_VERSION_WITHOUT_REMOVALS 2 /* it does not say in which order limits were removed */
#define SAVED_VERSION_WITHOUT_HOLDS    1 /* nor which keys are blocked beside their buckets */

static void put_text(struct ration_chunk_writer *writer, const char *text)
{
    size_t size = strlen(text);

    ration_chunks_put(writer, size, 2);
    ration_chunks_put_bytes(writer, text, size);
}

static void put_limiter(struct ration_chunk_writer *writer, const struct ration_gate *gate,
                        size_t index)
{
    const struct ration_limiter *limiter = gate->stack->limiters[index];
    char text[RATION_LIMIT_TEXT_SIZE];
    struct ration_walk_shape shape;
    struct ration_rule rule;

    limiter->store->calls->shape(limiter->store, limiter->section_index, &shape);
    (void)ration_limiter_rule(limiter, 0, &rule);
    if (ration_limit_print(&rule.limit, text, sizeof(text)) != RATION_OK)
        text[0] = '\0'; /* cannot be: any limit fits */
    put_text(writer, text);
    put_text(writer, gate->tables[index].key_text);
    ration_chunks_put(writer, shape.keys_max, 8);
    ration_chunks_put(writer, rule.stale_after_ns, 8);
    ration_chunks_put(writer, limiter->overflow, 1);
    ration_chunks_put(writer, rule.is_shadow, 1);
    ration_chunks_put(writer, gate->tables[index].is_used, 1);
    ration_chunks_put(writer, gate->tables[index].removed_number, 8);
}

static ration_status save_locked(ration_gate *gate, struct ration_chunk_writer *writer,
                                 uint64_t now_ns, ration_writer *write, void *context)
{
    size_t count = ration_stack_limiter_count(gate->stack);
    ration_status status;

    ration_chunks_create(writer, write, context);
    ration_chunks_put(writer, SAVED_VERSION, 4);
    ration_chunks_put(writer, count, 4);
    for (size_t i = 0; i < count; i++)
        put_limiter(writer, gate, i);
    status = ration_chunks_finish(writer);
    if (status == RATION_OK)
        status = ration_stack_dump(gate->stack, now_ns, write, context);
    if (status == RATION_OK)
        status = ration_limiter_dump(gate->throttle, now_ns, write, context);
    if (status == RATION_OK)
        status = ration_limiter_dump(gate->holds, now_ns, write, context);
    return status;
}

ration_status ration_gate_save(ration_gate *gate, uint64_t now_ns, ration_writer *write,
                               void *context)
{
    struct ration_chunk_writer *writer = malloc(sizeof(*writer));
    ration_status status;

    if (writer == NULL)
        return RATION_ENOMEM;
    ration_gate_lock(gate);
    status = save_locked(gate, writer, now_ns, write, context);
    ration_gate_unlock(gate);
    free(writer);
    return status;
}

/* Limiters as they were saved. They grow with what is read. */
struct seeds {
    struct ration_gate_seed *items;
    size_t count;
    size_t room;
    bool has_holds;    /* the state goes on with them, behind the throttle */
    bool has_removals; /* each says when it was removed */
};

static void seeds_done(struct seeds *seeds)
{
    for (size_t i = 0; i < seeds->count; i++)
        free(seeds->items[i].key_text);
    free(seeds->items);
}

static struct ration_gate_seed *next_seed(struct seeds *seeds)
{
    if (seeds->count == seeds->room) {
        size_t room = seeds->room > 0 ? 2 * seeds->room : 16;
        struct ration_gate_seed *items = realloc(seeds->items, room * sizeof(*items));

        if (items == NULL)
            return NULL;
        seeds->items = items;
        seeds->room = room;
    }
    memset(&seeds->items[seeds->count], 0, sizeof(seeds->items[0]));
    return &seeds->items[seeds->count++];
}

static void get_text(struct ration_chunk_reader *reader, char *text, size_t text_size)
{
    uint64_t size = ration_chunks_get(reader, 2);

    if (size >= text_size) {
        ration_chunks_refuse(reader, "it has a text that is too long");
        size = 0;
    }
    ration_chunks_get_bytes(reader, text, size);
    text[size] = '\0';
}

static void lack_memory(struct ration_chunk_reader *reader)
{
    reader->status = RATION_ENOMEM;
    reader->fault = "there is no memory for its limits";
}

static void get_limiter(struct ration_chunk_reader *reader, struct seeds *seeds)
{
    struct ration_gate_seed *seed = next_seed(seeds);
    char text[RATION_LIMIT_TEXT_SIZE];
    char key_text[RATION_GATE_KEY_TEXT_SIZE];
    uint64_t overflow, is_used;

    if (seed == NULL) {
        lack_memory(reader);
        return;
    }
    get_text(reader, text, sizeof(text));
    get_text(reader, key_text, sizeof(key_text));
    seed->limit.keys_max = ration_chunks_get(reader, 8);
    seed->limit.stale_after_ns = ration_chunks_get(reader, 8);
    overflow = ration_chunks_get(reader, 1);
    seed->limit.overflow = (enum ration_overflow)overflow;
    seed->limit.is_shadow = (uint32_t)ration_chunks_get(reader, 1);
    is_used = ration_chunks_get(reader, 1);
    seed->is_used = is_used == 1;
    if (seeds->has_removals)
        seed->removed_number = ration_chunks_get(reader, 8);
    seed->limit.key_count = key_text[0] != '\0';
    if (reader->status == RATION_OK &&
        (ration_limit_parse(text, &seed->limit.limit, NULL) != RATION_OK ||
         overflow > RATION_OVERFLOW_ALLOW || seed->limit.is_shadow > 1 || is_used > 1))
        ration_chunks_refuse(reader, "one of its limits makes no sense");
    seed->key_text = strdup(key_text);
    if (seed->key_text == NULL)
        lack_memory(reader);
}

static ration_status get_limiters(ration_reader *read, void *context, struct seeds *seeds,
                                  struct ration_error *error)
{
    struct ration_chunk_reader *reader = malloc(sizeof(*reader));
    ration_status status;
    uint64_t version, count;

    if (reader == NULL)
        return ration_refuse(error, RATION_ENOMEM, "no memory to read a state with");
    ration_chunks_open(reader, read, context);
    version = ration_chunks_get(reader, 4);
    seeds->has_holds = version != SAVED_VERSION_WITHOUT_HOLDS;
    seeds->has_removals = version == SAVED_VERSION;
    if (version != SAVED_VERSION && version != SAVED_VERSION_WITHOUT_REMOVALS &&
        version != SAVED_VERSION_WITHOUT_HOLDS)
        ration_chunks_refuse(reader, "it has a format version that this release does not know");
    count = ration_chunks_get(reader, 4);
    if (count == 0 || count > RATION_STACK_MAX)
        ration_chunks_refuse(reader, "it has no limits, or too many");
    while (reader->status == RATION_OK && seeds->count < count)
        get_limiter(reader, seeds);
    if (reader->status == RATION_OK && !ration_chunks_is_used(reader))
        ration_chunks_refuse(reader, "it goes on behind its end");
    status = reader->status;
    if (status != RATION_OK)
        ration_refuse(error, status, "the state cannot be loaded: %s", reader->fault);
    free(reader);
    return status;
}

static ration_status load(struct ration_gate *gate, const struct ration_gate_options *options,
                          ration_policy *policy, ration_reader *read, void *context,
                          struct ration_error *error)
{
    struct seeds seeds = {0};
    ration_status status = get_limiters(read, context, &seeds, error);
    bool has_holds = seeds.has_holds;

    if (status == RATION_OK) {
        struct ration_gate_stack stack = {
            .seeds = seeds.items, .seed_count = seeds.count, .read = read, .context = context};

        status = ration_gate_make_stack(gate, options, &stack, error);
    }
    seeds_done(&seeds);
    if (status == RATION_OK)
        status = ration_gate_make_throttle(gate, options, read, context, error);
    if (status == RATION_OK)
        status = ration_gate_make_holds(gate, options, has_holds ? read : NULL, context, error);
    if (status == RATION_OK)
        status = ration_gate_adopt(gate, policy, NULL, NULL, error);
    return status;
}

ration_status ration_gate_load(const struct ration_gate_options *options, ration_policy *policy,
                               ration_reader *read, void *context, ration_gate **out_gate,
                               struct ration_error *error)
{
    struct ration_gate *gate;
    ration_status status = ration_gate_begin(options, &gate, error);

    if (status != RATION_OK)
        return status;
    status = load(gate, options, policy, read, context, error);
    if (status != RATION_OK) {
        ration_gate_free(gate);
        return status;
    }
    *out_gate = gate;
    return RATION_OK;
}
