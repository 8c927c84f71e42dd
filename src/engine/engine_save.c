/*
 * engine_save: writes the state of an engine, and loads it, possibly under another policy.
 *
 *     limiters: names, limits, keys | dump of the stack | dump of the inline limiter | dump of the blocks
 *
 * Each part is a sequence of chunks (limiter/snapshot/chunks.h). Loading first creates the stack with the saved limits;
 * then it applies the policy as a reload does, which decides what is preserved.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "engine/engine_internal.h"
#include "limiter/limiter_internal.h"
#include "limiter/snapshot/chunks.h"

#define SAVED_VERSION                  3
#define SAVED_VERSION_WITHOUT_REMOVALS 2 /* without the order in which limits were removed */
#define SAVED_VERSION_WITHOUT_BLOCKS   1 /* also without the blocks of blocks.c */

static void put_text(struct ration_chunk_writer *writer, const char *text)
{
    size_t size = strlen(text);

    ration_chunks_put(writer, size, 2);
    ration_chunks_put_bytes(writer, text, size);
}

static void put_limiter(struct ration_chunk_writer *writer, const struct ration_engine *engine,
                        size_t index)
{
    const struct ration_limiter *limiter = engine->stack->limiters[index];
    char text[RATION_LIMIT_TEXT_SIZE];
    struct ration_walk_shape shape;
    struct ration_rule rule;

    limiter->store->calls->shape(limiter->store, limiter->section_index, &shape);
    (void)ration_limiter_rule(limiter, 0, &rule);
    if (ration_limit_print(&rule.limit, text, sizeof(text)) != RATION_OK)
        text[0] = '\0'; /* not reached: every limit fits */
    put_text(writer, text);
    put_text(writer, engine->tables[index].key_text);
    ration_chunks_put(writer, shape.keys_max, 8);
    ration_chunks_put(writer, rule.stale_after_ns, 8);
    ration_chunks_put(writer, limiter->overflow, 1);
    ration_chunks_put(writer, rule.is_shadow, 1);
    ration_chunks_put(writer, engine->tables[index].is_used, 1);
    ration_chunks_put(writer, engine->tables[index].removed_number, 8);
}

static ration_status save_locked(ration_engine *engine, struct ration_chunk_writer *writer,
                                 uint64_t now_ns, ration_writer *write, void *context)
{
    size_t count = ration_stack_limiter_count(engine->stack);
    ration_status status;

    ration_chunks_create(writer, write, context);
    ration_chunks_put(writer, SAVED_VERSION, 4);
    ration_chunks_put(writer, count, 4);
    for (size_t i = 0; i < count; i++)
        put_limiter(writer, engine, i);
    status = ration_chunks_finish(writer);
    if (status == RATION_OK)
        status = ration_stack_dump(engine->stack, now_ns, write, context);
    if (status == RATION_OK)
        status = ration_limiter_dump(engine->inline_limit, now_ns, write, context);
    if (status == RATION_OK)
        status = ration_limiter_dump(engine->blocks, now_ns, write, context);
    return status;
}

ration_status ration_engine_save(ration_engine *engine, uint64_t now_ns, ration_writer *write,
                                 void *context)
{
    struct ration_chunk_writer *writer = malloc(sizeof(*writer));
    ration_status status;

    if (writer == NULL)
        return RATION_ENOMEM;
    ration_engine_lock_reload(engine);
    status = save_locked(engine, writer, now_ns, write, context);
    ration_engine_unlock_reload(engine);
    free(writer);
    return status;
}

/* The saved limiters. The array grows while they are read. */
struct saved_limiters {
    struct ration_engine_limiter_plan *items;
    size_t count;
    size_t capacity;
    bool has_blocks;   /* a dump of the blocks follows the inline limiter's */
    bool has_removals; /* each limiter has its removed_number */
};

static void saved_limiters_done(struct saved_limiters *saved)
{
    for (size_t i = 0; i < saved->count; i++)
        free(saved->items[i].key_text);
    free(saved->items);
}

static struct ration_engine_limiter_plan *add_saved_limiter(struct saved_limiters *saved)
{
    if (saved->count == saved->capacity) {
        size_t capacity = saved->capacity > 0 ? 2 * saved->capacity : 16;
        struct ration_engine_limiter_plan *items = realloc(saved->items, capacity * sizeof(*items));

        if (items == NULL)
            return NULL;
        saved->items = items;
        saved->capacity = capacity;
    }
    memset(&saved->items[saved->count], 0, sizeof(saved->items[0]));
    return &saved->items[saved->count++];
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

static void fail_without_memory(struct ration_chunk_reader *reader)
{
    reader->status = RATION_ENOMEM;
    reader->reason = "there is no memory for its limits";
}

static void get_limiter(struct ration_chunk_reader *reader, struct saved_limiters *saved)
{
    struct ration_engine_limiter_plan *limiter_plan = add_saved_limiter(saved);
    char text[RATION_LIMIT_TEXT_SIZE];
    char key_text[RATION_ENGINE_KEY_TEXT_SIZE];
    uint64_t overflow, is_used;

    if (limiter_plan == NULL) {
        fail_without_memory(reader);
        return;
    }
    get_text(reader, text, sizeof(text));
    get_text(reader, key_text, sizeof(key_text));
    limiter_plan->limit.keys_max = ration_chunks_get(reader, 8);
    limiter_plan->limit.stale_after_ns = ration_chunks_get(reader, 8);
    overflow = ration_chunks_get(reader, 1);
    limiter_plan->limit.overflow = (enum ration_overflow)overflow;
    limiter_plan->limit.is_shadow = (uint32_t)ration_chunks_get(reader, 1);
    is_used = ration_chunks_get(reader, 1);
    limiter_plan->is_used = is_used == 1;
    if (saved->has_removals)
        limiter_plan->removed_number = ration_chunks_get(reader, 8);
    limiter_plan->limit.key_count = key_text[0] != '\0';
    if (reader->status == RATION_OK &&
        (ration_limit_parse(text, &limiter_plan->limit.limit, NULL) != RATION_OK ||
         overflow > RATION_OVERFLOW_ALLOW || limiter_plan->limit.is_shadow > 1 || is_used > 1))
        ration_chunks_refuse(reader, "one of its limits is not valid");
    limiter_plan->key_text = strdup(key_text);
    if (limiter_plan->key_text == NULL)
        fail_without_memory(reader);
}

static ration_status get_limiters(ration_reader *read, void *context, struct saved_limiters *saved,
                                  struct ration_error *error)
{
    struct ration_chunk_reader *reader = malloc(sizeof(*reader));
    ration_status status;
    uint64_t version, count;

    if (reader == NULL)
        return ration_error_set(error, RATION_ENOMEM, "no memory to read a state with");
    ration_chunks_open(reader, read, context);
    version = ration_chunks_get(reader, 4);
    saved->has_blocks = version != SAVED_VERSION_WITHOUT_BLOCKS;
    saved->has_removals = version == SAVED_VERSION;
    if (version != SAVED_VERSION && version != SAVED_VERSION_WITHOUT_REMOVALS &&
        version != SAVED_VERSION_WITHOUT_BLOCKS)
        ration_chunks_refuse(reader, "it has a format version that this release does not know");
    count = ration_chunks_get(reader, 4);
    if (count == 0 || count > RATION_STACK_MAX)
        ration_chunks_refuse(reader, "it has no limits, or too many");
    while (reader->status == RATION_OK && saved->count < count)
        get_limiter(reader, saved);
    if (reader->status == RATION_OK && !ration_chunks_is_used(reader))
        ration_chunks_refuse(reader, "it has bytes after its end");
    status = reader->status;
    if (status != RATION_OK)
        ration_error_set(error, status, "the state cannot be loaded: %s", reader->reason);
    free(reader);
    return status;
}

static ration_status load_engine(struct ration_engine *engine,
                                 const struct ration_engine_options *options, ration_policy *policy,
                                 ration_reader *read, void *context, struct ration_error *error)
{
    struct saved_limiters saved = {0};
    ration_status status = get_limiters(read, context, &saved, error);
    bool has_blocks = saved.has_blocks;

    if (status == RATION_OK) {
        struct ration_engine_stack stack = {.limiter_plans = saved.items,
                                            .limiter_plan_count = saved.count,
                                            .read = read,
                                            .context = context};

        status = ration_engine_make_stack(engine, options, &stack, error);
    }
    saved_limiters_done(&saved);
    if (status == RATION_OK)
        status = ration_engine_make_inline_limiter(engine, options, read, context, error);
    if (status == RATION_OK)
        status =
            ration_engine_make_blocks(engine, options, has_blocks ? read : NULL, context, error);
    if (status == RATION_OK)
        status = ration_engine_adopt(engine, policy, NULL, NULL, error);
    return status;
}

ration_status ration_engine_load(const struct ration_engine_options *options, ration_policy *policy,
                                 ration_reader *read, void *context, ration_engine **out_engine,
                                 struct ration_error *error)
{
    struct ration_engine *engine;
    ration_status status = ration_engine_begin(options, &engine, error);

    if (status != RATION_OK)
        return status;
    status = load_engine(engine, options, policy, read, context, error);
    if (status != RATION_OK) {
        ration_engine_free(engine);
        return status;
    }
    *out_engine = engine;
    return RATION_OK;
}
