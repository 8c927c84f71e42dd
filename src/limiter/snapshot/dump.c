/*
 * dump: writes the state of limiters as of one now, while other threads decide.
 */
#include <stdlib.h>
#include <string.h>

#include "base/wall.h"
#include "limiter/limiter_internal.h"
#include "limiter/snapshot/saved.h"

struct dump {
    uint64_t now_ns;
    uint32_t limiter_index; /* the limiter being walked */
    uint32_t rule_count;    /* the number of its rules */
    const struct ration_config_rule *rules;
    uint64_t record_count;
    uint64_t *return_after_ns; /* memory for the return times of a log's tokens */
    struct ration_chunk_writer writer;
    struct ration_saved_header header;
};

/* Whether a key need not be saved: all its buckets are full and not remembered, under the current limits. */
static bool is_idle(const struct dump *dump, const struct ration_walk_item *item)
{
    for (uint32_t i = 0; i < dump->rule_count; i++)
        if (ration_bucket_state_full_after_ns(&item->buckets[i], dump->now_ns) > 0 ||
            item->kept_until_ns[i] > dump->now_ns)
            return false;
    return true;
}

static void put_states(struct dump *dump, const struct ration_walk_item *item)
{
    for (uint32_t i = 0; i < dump->rule_count; i++) {
        uint64_t remembered_until_ns = item->kept_until_ns[i];

        ration_saved_put_state(&dump->writer, &item->buckets[i], dump->now_ns,
                               dump->return_after_ns);
        if (dump->rules[i].stale_after_ns > 0)
            ration_chunks_put(&dump->writer,
                              ration_saved_duration_ns(remembered_until_ns, dump->now_ns), 8);
    }
}

static bool put_item(void *context, const struct ration_walk_item *item)
{
    struct dump *dump = context;
    struct ration_saved_record record = {.limiter_index = dump->limiter_index,
                                         .set_index = item->set_index};

    switch (item->kind) {
    case RATION_WALK_MARK:
        record.kind = RATION_SAVED_WATERMARK;
        record.word = ration_saved_duration_ns(item->kept_until_ns[0], dump->now_ns);
        break;
    case RATION_WALK_OVERFLOW:
        record.kind = RATION_SAVED_OVERFLOW;
        record.word = item->tag;
        break;
    default:
        record.kind = RATION_SAVED_KEY;
        record.word = item->tag | (item->is_established ? RATION_SAVED_ESTABLISHED : 0);
    }
    if (item->kind != RATION_WALK_MARK && is_idle(dump, item))
        return true;
    ration_saved_put_record(&dump->writer, &record);
    if (item->kind != RATION_WALK_MARK)
        put_states(dump, item);
    dump->record_count++;
    return dump->writer.status == RATION_OK;
}

static void describe_limiter(const struct ration_limiter *limiter,
                             struct ration_saved_header *header)
{
    const struct ration_config *config = ration_config_table_current(&limiter->configs);
    struct ration_saved_limiter *saved = &header->limiters[header->limiter_count++];
    struct ration_walk_shape shape;

    limiter->store->calls->shape(limiter->store, limiter->section_index, &shape);
    memcpy(header->seed, shape.seed, sizeof(header->seed));
    header->hash_kind = shape.hash_kind;
    saved->keys_max = shape.keys_max;
    saved->set_count = shape.set_count;
    saved->rule_count = limiter->configs.rule_count;
    for (uint32_t i = 0; i < saved->rule_count; i++)
        saved->rules[i] =
            (struct ration_saved_rule){config->rules[i].limit, config->rules[i].stale_after_ns};
}

/* Allocates room for the longest log. */
static bool allocate_return_times(struct dump *dump)
{
    uint64_t tokens_max = 0;

    for (uint32_t i = 0; i < dump->header.limiter_count; i++)
        for (uint32_t k = 0; k < dump->header.limiters[i].rule_count; k++) {
            const struct ration_limit *limit = &dump->header.limiters[i].rules[k].limit;

            if (limit->algorithm == RATION_SLIDING_LOG && limit->tokens > tokens_max)
                tokens_max = limit->tokens;
        }
    if (tokens_max > 0)
        dump->return_after_ns = malloc(tokens_max * sizeof(*dump->return_after_ns));
    return tokens_max == 0 || dump->return_after_ns != NULL;
}

static void walk_limiter(struct dump *dump, const struct ration_limiter *limiter,
                         uint32_t limiter_index)
{
    const struct ration_config *config = ration_config_table_current(&limiter->configs);
    struct ration_walk walk = {
        .configs = &limiter->configs,
        .section_index = limiter->section_index,
        .now_ns = dump->now_ns,
        .sets_max = UINT64_MAX,
        .is_whole = true,
        .visit = put_item,
        .context = dump,
    };

    dump->limiter_index = limiter_index;
    dump->rule_count = limiter->configs.rule_count;
    dump->rules = config->rules;
    (void)limiter->store->calls->walk(limiter->store, &walk, 0);
}

/* Writes the dump. The caller holds the locks of all limiters. */
static ration_status dump_locked(struct dump *dump, struct ration_limiter *const *limiters,
                                 uint32_t limiter_count, ration_writer *write, void *context)
{
    struct ration_saved_record end = {.kind = RATION_SAVED_END};

    dump->header.now_ns = dump->now_ns;
    dump->header.wall_ns = ration_wall_now();
    for (uint32_t i = 0; i < limiter_count; i++)
        describe_limiter(limiters[i], &dump->header);
    if (!allocate_return_times(dump))
        return RATION_ENOMEM;
    ration_chunks_create(&dump->writer, write, context);
    ration_saved_put_header(&dump->writer, &dump->header);
    for (uint32_t i = 0; i < limiter_count && dump->writer.status == RATION_OK; i++)
        walk_limiter(dump, limiters[i], i);
    end.word = dump->record_count;
    ration_saved_put_record(&dump->writer, &end);
    return ration_chunks_finish(&dump->writer);
}

static ration_status dump_limiters(struct ration_limiter *const *limiters, uint32_t limiter_count,
                                   uint64_t now_ns, ration_writer *write, void *context)
{
    const struct ration_store *store = limiters[0]->store;
    struct dump *dump;
    ration_status status;

    if (store->calls->walk == NULL || store->calls->shape == NULL)
        return RATION_EUNSUPPORTED;
    dump = calloc(1, sizeof(*dump));
    if (dump == NULL)
        return RATION_ENOMEM;
    dump->header.limiters = calloc(limiter_count, sizeof(dump->header.limiters[0]));
    if (dump->header.limiters == NULL) {
        free(dump);
        return RATION_ENOMEM;
    }
    dump->now_ns = ration_block_now(store->epoch_ns, now_ns) + store->epoch_ns;
    for (uint32_t i = 0; i < limiter_count; i++)
        ration_limiter_lock(limiters[i]);
    status = dump_locked(dump, limiters, limiter_count, write, context);
    for (uint32_t i = limiter_count; i-- > 0;)
        ration_limiter_unlock(limiters[i]);
    free(dump->return_after_ns);
    free(dump->header.limiters);
    free(dump);
    return status;
}

ration_status ration_limiter_dump(ration_limiter *limiter, uint64_t now_ns, ration_writer *write,
                                  void *context)
{
    return dump_limiters(&limiter, 1, now_ns, write, context);
}

ration_status ration_stack_dump(ration_stack *stack, uint64_t now_ns, ration_writer *write,
                                void *context)
{
    return dump_limiters(stack->limiters, ration_limiter_stack_count(stack), now_ns, write,
                         context);
}
