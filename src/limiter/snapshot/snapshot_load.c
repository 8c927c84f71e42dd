#include "limiter/snapshot/snapshot_load.h"

#include <inttypes.h>
#include <stdlib.h>

#include "base/error.h"
#include "base/wall.h"

static ration_status set_error(const struct ration_chunk_reader *reader, struct ration_error *error)
{
    if (reader->status == RATION_OK)
        return RATION_OK;
    return ration_error_set(error, reader->status, "the dump cannot be loaded: %s", reader->reason);
}

ration_status ration_snapshot_load_open(struct ration_snapshot_load *load, ration_reader *read,
                                        void *context, size_t limiter_count,
                                        struct ration_error *error)
{
    ration_chunks_open(&load->reader, read, context);
    ration_saved_get_header(&load->reader, &load->header);
    if (load->reader.status != RATION_OK)
        return set_error(&load->reader, error);
    if (load->header.limiter_count != limiter_count) {
        ration_snapshot_load_done(load);
        return ration_error_set(error, RATION_EUNSUPPORTED,
                                "the dump is of %" PRIu32 " limiters (got %zu)",
                                load->header.limiter_count, limiter_count);
    }
    return RATION_OK;
}

ration_status ration_snapshot_load_check(const struct ration_saved_limiter *saved,
                                         const struct ration_limiter_options *options,
                                         const struct ration_config_table *configs,
                                         struct ration_error *error)
{
    const struct ration_config *config = &configs->configs[0];

    if (configs->rule_count != saved->rule_count)
        return ration_error_set(error, RATION_EUNSUPPORTED,
                                "the dumped limiter has %" PRIu32 " rules (got %" PRIu32 ")",
                                saved->rule_count, configs->rule_count);
    if (options->keys_max != 0 && options->keys_max != saved->keys_max)
        return ration_error_set(
            error, RATION_EUNSUPPORTED,
            "the dumped limiter has keys_max %" PRIu64
            ", and a key's slot depends on it; set the same value, or 0 (got %" PRIu64 ")",
            saved->keys_max, options->keys_max);
    for (uint32_t i = 0; i < saved->rule_count; i++) {
        struct ration_bucket_state_layout old = ration_bucket_state_layout(&saved->rules[i].limit);
        struct ration_bucket_state_layout new = ration_bucket_state_layout(&config->rules[i].limit);

        if (old.cell_count != new.cell_count || old.expiry_mask != new.expiry_mask ||
            (old.ring_cells > 0) != (new.ring_cells > 0))
            return ration_error_set(
                error, RATION_EUNSUPPORTED,
                "rule %" PRIu32 ": the limit is of another kind than the dumped one", i);
    }
    return RATION_OK;
}

/* Whether a state written under one limit is the same state under the other. */
static bool is_same_limit(const struct ration_limit *a, const struct ration_limit *b)
{
    return a->algorithm == b->algorithm && a->refill == b->refill && a->tokens == b->tokens &&
           a->period_ns == b->period_ns && a->burst == b->burst &&
           a->reserve_tokens == b->reserve_tokens && a->reserve_period_ns == b->reserve_period_ns &&
           a->reserve_burst == b->reserve_burst;
}

/* Converts a bucket to the current limit, with the same tokens. */
static void convert_bucket(struct ration_bucket_state *bucket, const struct ration_limit *limit,
                           struct ration_saved_log *log, uint64_t now_ns)
{
    if (is_same_limit(bucket->limit, limit)) {
        bucket->limit = limit;
        return;
    }
    *bucket = ration_bucket_state_change(bucket, limit, now_ns);
    if (limit->algorithm != RATION_SLIDING_LOG)
        return;
    ration_saved_log_set(log, bucket);
    bucket->reader = ration_saved_log_reader(log);
    bucket->write = (struct ration_log_ring_write){0};
}

/*
 * Until when a full bucket is remembered under the current rule; 0 if it is not. If it is full sooner under
 * that rule's limit, after full_ns, it is remembered only from then on.
 */
static uint64_t remembered_until(uint64_t left_ns, uint64_t old_stale_ns, uint64_t new_stale_ns,
                                 uint64_t full_ns, uint64_t now_ns)
{
    if (left_ns == 0 || left_ns + new_stale_ns <= old_stale_ns)
        return 0;
    if (left_ns > full_ns + old_stale_ns)
        left_ns = full_ns + old_stale_ns;
    return now_ns + left_ns + new_stale_ns - old_stale_ns;
}

struct target {
    struct ration_limiter *limiter;
    const struct ration_saved_limiter *saved;
    struct ration_saved_time time;
    struct ration_saved_log *log; /* a limiter has at most one log */
};

/* Reads the buckets of a key, or an overflow bucket. Returns false if nothing of it need be remembered. */
static bool get_states(struct ration_chunk_reader *reader, const struct target *target,
                       struct ration_walk_item *item)
{
    const struct ration_config *config = ration_config_table_current(&target->limiter->configs);
    uint64_t now_ns = target->time.now_ns;
    bool is_idle = true;

    for (uint32_t i = 0; i < target->limiter->configs.rule_count; i++) {
        const struct ration_saved_rule *saved = &target->saved->rules[i];
        struct ration_bucket_state *bucket = &item->buckets[i];
        uint64_t remembered_ns = 0, full_ns;

        item->kept_until_ns[i] = 0;
        ration_saved_get_state(reader, &saved->limit, target->time, target->log, bucket);
        if (saved->stale_after_ns > 0)
            remembered_ns = ration_chunks_get(reader, 8);
        if (remembered_ns > RATION_SAVED_DURATION_NS_MAX)
            ration_chunks_refuse(reader, "it has a time that is too long");
        if (reader->status != RATION_OK)
            return false;
        convert_bucket(bucket, &config->rules[i].limit, target->log, now_ns);
        full_ns = ration_bucket_state_full_after_ns(bucket, now_ns);
        if (config->rules[i].stale_after_ns > 0)
            item->kept_until_ns[i] = remembered_until(
                ration_saved_left_ns(target->time, remembered_ns), saved->stale_after_ns,
                config->rules[i].stale_after_ns, full_ns, now_ns);
        if (item->kept_until_ns[i] > 0 || full_ns > 0)
            is_idle = false;
    }
    return !is_idle;
}

static void put_item(struct ration_chunk_reader *reader, const struct target *target,
                     const struct ration_walk_item *item)
{
    struct ration_store *store = target->limiter->store;

    if (store->calls->put(store, &target->limiter->configs, target->limiter->section_index, item,
                          target->time.now_ns) != RATION_OK)
        ration_chunks_refuse(reader, "it has more keys for a set than the set has slots");
}

static void load_record(struct ration_chunk_reader *reader, const struct target *target,
                        const struct ration_saved_record *record)
{
    struct ration_walk_item item = {.set_index = record->set_index};

    switch (record->kind) {
    case RATION_SAVED_WATERMARK:
        item.kind = RATION_WALK_MARK;
        item.kept_until_ns[0] =
            target->time.now_ns + ration_saved_left_ns(target->time, record->word);
        if (reader->status == RATION_OK && item.kept_until_ns[0] > target->time.now_ns)
            put_item(reader, target, &item);
        return;
    case RATION_SAVED_OVERFLOW:
        item.kind = RATION_WALK_OVERFLOW;
        item.tag = record->word;
        break;
    default:
        item.kind = RATION_WALK_KEY;
        item.tag = record->word & ~RATION_SAVED_ESTABLISHED;
        item.is_established = record->word & RATION_SAVED_ESTABLISHED;
    }
    if (get_states(reader, target, &item) && reader->status == RATION_OK)
        put_item(reader, target, &item);
}

void ration_snapshot_load_done(struct ration_snapshot_load *load)
{
    free(load->header.limiters);
    load->header.limiters = NULL;
}

ration_status ration_snapshot_load_keys(struct ration_snapshot_load *load,
                                        struct ration_limiter *const *limiters,
                                        struct ration_error *error)
{
    struct ration_chunk_reader *reader = &load->reader;
    struct ration_saved_log log = {0};
    struct ration_saved_record record;
    const struct ration_store *store = limiters[0]->store;
    uint64_t now_ns =
        ration_block_now(store->epoch_ns, ration_limiter_now(limiters[0])) + store->epoch_ns;
    struct ration_saved_time time = ration_saved_time(&load->header, now_ns, ration_wall_now());
    uint64_t record_count = 0;

    for (;; record_count++) {
        ration_saved_get_record(reader, &load->header, &record);
        if (reader->status != RATION_OK || record.kind == RATION_SAVED_END)
            break;

        struct target target = {limiters[record.limiter_index],
                                &load->header.limiters[record.limiter_index], time, &log};

        load_record(reader, &target, &record);
    }
    if (reader->status == RATION_OK && record.word != record_count)
        ration_chunks_refuse(reader, "records are missing");
    if (reader->status == RATION_OK && !ration_chunks_is_used(reader))
        ration_chunks_refuse(reader, "it has bytes after its end");
    free(log.runs);
    return set_error(reader, error);
}
