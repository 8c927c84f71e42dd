#include "store/lookup.h"

#include <string.h>

#include "base/fence.h"
#include "base/yield.h"
#include "limiter/log_ring.h"

static uint64_t read_ring(const struct ration_log_ring_reader *reader, uint64_t index)
{
    if (reader->head == NULL)
        return 0; /* of an absent key that has no slot yet: all times are long past */

    struct ration_time back_at =
        ration_entry_ring_at(reader->context, reader->head, (uint32_t)index);

    return back_at.ns == 0 ? 0 : back_at.ns + reader->epoch_ns;
}

/*
 * Adds stale_after_ns to the expiry times in cells, or subtracts it. Stored expiry times include the time for which a
 * key is remembered after its bucket is full.
 */
static void shift_expiry_times(uint64_t stale_after_ns, uint32_t expiry_mask,
                               struct ration_time *cells, bool is_written)
{
    struct ration_time stale = ration_time_from_ns(stale_after_ns);

    for (uint32_t i = 0; stale.ns > 0 && expiry_mask >> i != 0; i++)
        if (expiry_mask >> i & 1)
            cells[i] = is_written ? ration_time_add(cells[i], stale)
                                  : ration_time_sub_or_zero(cells[i], stale);
}

/* Reads the log's ring of the bucket that was found; for an absent key that of its claim. */
static struct ration_log_ring_reader ring_reader_of(const struct ration_memory_run *run,
                                                    const struct ration_lookup *lookup)
{
    return (struct ration_log_ring_reader){
        .read = read_ring,
        .context = lookup->section,
        .head = lookup->is_present ? lookup->view.head : lookup->slot.head,
        .epoch_ns = run->memory->store.epoch_ns,
    };
}

/* The limit of a rule, whether it applies to this op or not. */
static const struct ration_limit *limit_of(const struct ration_key_part *part, uint32_t rule_index)
{
    return part->limits[rule_index] != NULL ? part->limits[rule_index]
                                            : &part->own_limits[rule_index];
}

/* Reads cells that the config of the given generation wrote, as states under the current config. */
static void read_states(const struct ration_memory_run *run, const struct ration_key_part *part,
                        struct ration_lookup *lookup, struct ration_time *cells,
                        uint32_t generation)
{
    const struct ration_config *config = part->to.config;
    const struct ration_config *writer = ration_config_table_of(part->configs, generation);
    uint64_t writer_number = __atomic_load_n(&writer->number, __ATOMIC_ACQUIRE);
    bool is_older = generation != config->generation;
    uint64_t epoch_ns = run->memory->store.epoch_ns;
    uint64_t idle_at_ns = is_older ? ration_memory_idle_at_ns(lookup->section, cells, epoch_ns) : 0;

    shift_expiry_times(is_older ? RATION_CONFIG_READ(writer->terms.stale_after_ns)
                                : part->stale_after_ns,
                       ration_section_expiry_mask(lookup->section), cells, false);
    for (uint32_t i = 0; i < part->rule_count; i++) {
        const struct ration_config_place *location = &part->configs->places[i];
        const struct ration_limit *limit = limit_of(part, i);
        struct ration_bucket_state bucket = {.limit = limit};
        struct ration_limit old_limit;

        if (is_older) {
            ration_config_read_limit(&writer->rules[i].limit, &old_limit);
            bucket.limit = &old_limit;
        }
        if (location->has_ring)
            bucket.reader = ring_reader_of(run, lookup);
        ration_bucket_state_read(&bucket, &cells[location->first_cell], epoch_ns);
        if (is_older)
            bucket = ration_config_table_convert(part->configs, config, generation, i, &bucket,
                                                 limit, idle_at_ns, run->now_ns);
        lookup->buckets[i] = bucket;
        lookup->has_ring_write |= !ration_log_ring_may_go_on(&bucket);
    }
    /* Converting back to limits that were replaced meanwhile would leave a full bucket full, and so create tokens. */
    lookup->is_stale |= is_older && (ration_config_table_current(part->configs) != config ||
                                     !ration_config_is_current(writer, writer_number));
}

static uint64_t since_epoch_ns(const struct ration_memory_run *run, uint64_t ns)
{
    return ns > run->memory->store.epoch_ns ? ns - run->memory->store.epoch_ns : 0;
}

void ration_lookup_next(const struct ration_memory_run *run, const struct ration_key_part *part,
                        const struct ration_lookup *lookup, struct ration_entry_next *out_next)
{
    out_next->flags = part->to.config->generation;
    out_next->ring = (struct ration_ring_write){0};
    for (uint32_t i = 0; i < part->rule_count; i++) {
        const struct ration_bucket_state *bucket = &lookup->buckets[i];
        uint64_t written = bucket->write.older_count + bucket->write.count;

        struct ration_time *cells = &out_next->cells[part->configs->places[i].first_cell];

        ration_bucket_state_write(bucket, cells, run->memory->store.epoch_ns);
        if (part->stale_after_ns > 0 && ration_bucket_state_full_after_ns(bucket, run->now_ns) == 0)
            ration_bucket_state_remember(bucket, cells, run->since_ns, run->memory->store.epoch_ns);
        if (written > 0)
            out_next->ring = (struct ration_ring_write){
                .modulus = (uint32_t)bucket->limit->tokens,
                .first_index = (uint32_t)bucket->write.first_index,
                .older_count = (uint32_t)bucket->write.older_count,
                .count = (uint32_t)bucket->write.count,
                .older_ns = since_epoch_ns(run, bucket->write.older_ns),
                .newer_ns = since_epoch_ns(run, bucket->write.moment_ns),
            };
    }
    shift_expiry_times(part->stale_after_ns, ration_section_expiry_mask(lookup->section),
                       out_next->cells, true);
}

/* Reads the key's own bucket, or the overflow bucket. False if the key is absent. */
static bool read_bucket(struct ration_lookup *lookup, bool is_overflow)
{
    const struct ration_section *section = lookup->section;

    if (!ration_lookup_is_plain(lookup)) {
        if (is_overflow) {
            ration_entry_open_overflow(lookup->overflow);
            return ration_entry_read(section, lookup->overflow, RATION_OVERFLOW_TAG, &lookup->view);
        }
        return ration_entry_find(section, &lookup->location, &lookup->view);
    }
    if (is_overflow)
        lookup->slot =
            (struct ration_claim){lookup->overflow, ration_atomic16_load(lookup->overflow), false};
    else
        lookup->slot.head = ration_plain_find(section, &lookup->location, &lookup->slot.value);
    return lookup->slot.head != NULL;
}

static uint32_t copy_cells(const struct ration_lookup *lookup, struct ration_time *out_cells)
{
    if (ration_lookup_is_plain(lookup)) {
        out_cells[0] = ration_slot_expires_at(lookup->slot.value);
        return ration_slot_generation(lookup->slot.value);
    }
    memcpy(out_cells, lookup->view.cells, sizeof(lookup->view.cells));
    return ration_entry_head_generation(lookup->view.value.words[1]);
}

/* Raises each rule's tokens in use to at least those of the other lookup. */
static void join_buckets(const struct ration_memory_run *run, const struct ration_key_part *part,
                         struct ration_lookup *lookup, const struct ration_lookup *other)
{
    for (uint32_t i = 0; i < part->rule_count; i++)
        lookup->buckets[i] =
            ration_bucket_state_join(&lookup->buckets[i], &other->buckets[i], run->now_ns);
}

/* Makes the pending swap of each thread that has read the overflow bucket fail. False if the bucket has changed. */
static bool touch_overflow(const struct ration_lookup *shared)
{
    struct ration_entry_next next;

    if (ration_lookup_is_plain(shared))
        return ration_plain_touch_overflow(shared->overflow, shared->slot.value);
    next.flags = ration_entry_head_unpack(shared->view.value.words[1]).flags;
    next.ring.modulus = 0;
    memcpy(next.cells, shared->view.cells, sizeof(next.cells));
    return ration_entry_change(shared->section, &shared->view, &next);
}

/*
 * The tokens that a key may have in use in the overflow bucket are back at the overflow watermark, whatever other
 * keys have taken since. So at most the bucket counts as empty until then.
 */
static void bound_by_watermark(const struct ration_memory_run *run,
                               const struct ration_key_part *part, struct ration_lookup *shared,
                               uint64_t overflow_watermark_ns)
{
    uint64_t epoch_ns = run->memory->store.epoch_ns;

    for (uint32_t i = 0; i < part->rule_count; i++) {
        struct ration_bucket_state *bucket = &shared->buckets[i];
        struct ration_time cells[2];

        if (ration_bucket_state_full_after_ns(bucket, run->now_ns) <=
            overflow_watermark_ns - run->since_ns)
            continue;
        ration_bucket_state_at_watermark(bucket->limit, cells, overflow_watermark_ns, epoch_ns);
        ration_bucket_state_read(bucket, cells, epoch_ns);
    }
}

/* A new key starts with the tokens in use in the overflow bucket, if it may have a share in them. */
static void inherit_overflow(const struct ration_memory_run *run,
                             const struct ration_key_part *part, struct ration_lookup *lookup)
{
    struct ration_lookup shared = {.section = lookup->section,
                                   .location = lookup->location,
                                   .overflow = lookup->overflow,
                                   .is_present = true};
    struct ration_time cells[RATION_SECTION_CELLS_MAX];
    uint32_t generation;

    uint64_t overflow_watermark_ns =
        ration_section_overflow_watermark_ns(lookup->section, &lookup->location);

    if (overflow_watermark_ns <= run->since_ns)
        return;
    do {
        if (!read_bucket(&shared, true))
            return;
        ration_yield_point();
    } while (lookup->is_claimed && !touch_overflow(&shared));
    generation = copy_cells(&shared, cells);
    read_states(run, part, &shared, cells, generation);
    bound_by_watermark(run, part, &shared, overflow_watermark_ns);
    join_buckets(run, part, lookup, &shared);
    lookup->is_stale |= shared.is_stale;
}

/*
 * Whether the log's ring of a new key may contain times of the key that had the slot before. They are in another
 * order and, for a caller whose now runs backwards, still in the future.
 */
static bool has_used_ring(const struct ration_lookup *lookup, uint64_t watermark_ns)
{
    return watermark_ns > 0 ||
           (lookup->is_claimed && !ration_entry_is_first_claim(lookup->slot.value));
}

/* The states of a key that is created now. */
static void read_fresh(const struct ration_memory_run *run, const struct ration_key_part *part,
                       struct ration_lookup *lookup)
{
    uint64_t epoch_ns = run->memory->store.epoch_ns;
    uint64_t watermark_ns = ration_section_reclaim_watermark_ns(lookup->section, &lookup->location);

    ration_yield_point();
    lookup->is_before_watermark = watermark_ns > run->since_ns;
    for (uint32_t i = 0; i < part->rule_count; i++) {
        const struct ration_limit *limit = limit_of(part, i);
        bool has_ring = part->configs->places[i].has_ring;
        struct ration_time cells[2];
        struct ration_bucket_state bucket = {.limit = limit};

        if (has_ring)
            bucket.reader = ring_reader_of(run, lookup);
        ration_bucket_state_at_watermark(limit, cells, watermark_ns, epoch_ns);
        ration_bucket_state_read(&bucket, cells, epoch_ns);
        if (has_ring && has_used_ring(lookup, watermark_ns))
            bucket = ration_log_ring_empty_until(&bucket,
                                                 watermark_ns > 0 ? watermark_ns + epoch_ns : 0);
        /* a key reclaimed after now may have held no more than a key that was new at the watermark */
        if (limit->start != RATION_START_FULL)
            bucket = ration_bucket_state_start(
                &bucket, lookup->is_before_watermark ? watermark_ns + epoch_ns : run->now_ns);
        lookup->buckets[i] = bucket;
    }
    inherit_overflow(run, part, lookup);
    for (uint32_t i = 0; i < part->rule_count; i++)
        lookup->has_ring_write |= !ration_log_ring_may_go_on(&lookup->buckets[i]);
}

/*
 * Whether a key that still has its slot counts as new: its bucket was full, and no op charged it, for as long as its
 * rules remember a key.
 */
static bool is_key_expired(const struct ration_memory_run *run, const struct ration_key_part *part,
                           const struct ration_lookup *lookup)
{
    struct ration_time expires_at = ration_memory_expires_at(lookup->section, lookup->cells);

    return part->stale_after_ns > 0 && !lookup->is_full &&
           !ration_time_less(ration_time_from_ns(run->since_ns), expires_at);
}

/*
 * A key that is no longer remembered, but still has its slot, starts again as a new key. But for a caller whose now
 * runs backwards it holds no more than it did at that time. A log that starts full stays as it was: its ring still
 * exists.
 */
static void read_expired(const struct ration_memory_run *run, const struct ration_key_part *part,
                         struct ration_lookup *lookup, uint32_t generation)
{
    struct ration_lookup old = *lookup;

    read_states(run, part, &old, old.cells, generation);
    lookup->is_stale |= old.is_stale;
    read_fresh(run, part, lookup);
    for (uint32_t i = 0; i < part->rule_count; i++) {
        bool keeps_log = part->configs->places[i].has_ring &&
                         lookup->buckets[i].write.older_count + lookup->buckets[i].write.count == 0;

        if (keeps_log)
            lookup->buckets[i] = old.buckets[i];
        else
            lookup->buckets[i] =
                ration_bucket_state_join(&lookup->buckets[i], &old.buckets[i], run->now_ns);
    }
}

/*
 * Reads the states that the key would have in a slot of its own. For a caller whose now runs backwards the overflow
 * bucket holds no more than a reclaimed key might have held.
 */
static void read_fresh_beside_overflow(const struct ration_memory_run *run,
                                       const struct ration_key_part *part,
                                       struct ration_lookup *lookup)
{
    struct ration_lookup fresh = {
        .section = lookup->section, .location = lookup->location, .overflow = lookup->overflow};

    read_fresh(run, part, &fresh);
    lookup->is_stale |= fresh.is_stale;
    memcpy(lookup->fresh_buckets, fresh.buckets, sizeof(lookup->fresh_buckets));
    if (fresh.is_before_watermark)
        join_buckets(run, part, lookup, &fresh);
}

static struct ration_claim_request claim_request_of(const struct ration_memory_run *run,
                                                    const struct ration_key_part *part)
{
    const struct ration_config *config = part->to.config;
    struct ration_claim_request request = {.current = (const void *const *)&part->configs->current,
                                           .config = &config->number,
                                           .config_number = part->to.config_number,
                                           .now_ns = run->since_ns,
                                           .generation = config->generation,
                                           .stale_after_ns = part->stale_after_ns};

    for (uint32_t generation = 0; generation < RATION_GENERATION_COUNT; generation++)
        if (generation != config->generation &&
            ration_config_table_is_reset(part->configs, config, generation))
            request.reset_mask |= 1u << generation;
    return request;
}

/*
 * Whether the request may also claim slots of keys that hold no less than a new key; if so, sets bounds to the state
 * of a new key. Not if a rule starts full: then such slots are idle, and the first attempt has tried them.
 */
static bool allow_scarce(const struct ration_memory_run *run, const struct ration_key_part *part,
                         struct ration_claim_request *request)
{
    for (uint32_t i = 0; i < part->rule_count; i++) {
        const struct ration_limit *limit = &part->own_limits[i];
        struct ration_bucket_state bucket = {.limit = limit};
        struct ration_time *bounds = &request->bounds[part->configs->places[i].first_cell];

        if (!ration_bucket_state_is_ordered(limit) || limit->start == RATION_START_FULL ||
            part->limits[i] != limit)
            return false;
        bucket = ration_bucket_state_start(&bucket, run->now_ns);
        ration_bucket_state_write(&bucket, bounds, run->memory->store.epoch_ns);
    }
    shift_expiry_times(part->stale_after_ns, UINT32_MAX >> (32 - part->configs->cell_count),
                       request->bounds, true);
    request->is_scarce = true;
    return true;
}

enum ration_claim_result ration_lookup_claim(const struct ration_memory_run *run,
                                             const struct ration_key_part *part,
                                             struct ration_lookup *lookup)
{
    struct ration_claim_request request = claim_request_of(run, part);
    enum ration_claim_result result;

    do
        result = ration_claim_begin(ration_lookup_kind(lookup), lookup->section, &lookup->location,
                                    &request, &lookup->slot);
    while (result == RATION_CLAIM_FULL && !request.is_scarce && allow_scarce(run, part, &request));
    return result;
}

bool ration_lookup_has_room(const struct ration_memory_run *run, const struct ration_key_part *part,
                            const struct ration_lookup *lookup)
{
    struct ration_claim_request request = claim_request_of(run, part);
    bool has_room;

    do
        has_room = ration_claim_has_room(ration_lookup_kind(lookup), lookup->section,
                                         &lookup->location, &request);
    while (!has_room && !request.is_scarce && allow_scarce(run, part, &request));
    return has_room;
}

/*
 * Whether an absent key that may have a share in the overflow bucket still gets no slot. Evaluated as a new key, with
 * the tokens in use there, it could be denied tokens that the overflow bucket has.
 */
static bool must_use_overflow(const struct ration_memory_run *run,
                              const struct ration_key_part *part,
                              const struct ration_lookup *lookup)
{
    bool is_charged = false;

    if (lookup->is_claimed || lookup->needs_no_slot || run->op->kind > RATION_OP_RESERVE ||
        ration_section_overflow_watermark_ns(lookup->section, &lookup->location) <= run->since_ns)
        return false;
    for (uint32_t i = 0; i < part->rule_count; i++)
        is_charged |= part->limits[i] != NULL && part->costs[i] > 0;
    return is_charged && !ration_lookup_has_room(run, part, lookup);
}

void ration_lookup_read(const struct ration_memory_run *run, uint32_t part_index,
                        struct ration_lookup *lookup)
{
    const struct ration_key_part *part = &run->op->parts[part_index];
    uint32_t generation;

    lookup->is_stale = false;
    lookup->is_expired = false;
    lookup->is_before_watermark = false;
    lookup->has_ring_write = false;
    lookup->is_claimed = lookup->is_claimed && ration_lookup_claim_is_current(lookup);
    if (!lookup->is_claimed) {
        lookup->slot.head = NULL;
        lookup->is_present = read_bucket(lookup, false);
        if (lookup->is_present)
            lookup->is_full = false;
    }
    lookup->watermark_ns = ration_section_reclaim_watermark_ns(lookup->section, &lookup->location);
    if (!lookup->is_present && part->overflow == RATION_OVERFLOW_SHARED) {
        lookup->is_full = lookup->is_full || must_use_overflow(run, part, lookup);
        if (lookup->is_full)
            lookup->is_present = read_bucket(lookup, true);
    }
    if (!lookup->is_present) {
        read_fresh(run, part, lookup);
        /*
         * After a config change that resets buckets, other threads may take the key's slot. An op under the old
         * limits must not create the key again. acquire: a thread that took the slot has seen the new config.
         */
        ration_fence_acquire();
        lookup->is_stale |= ration_config_table_current(part->configs) != part->to.config;
        return;
    }
    generation = copy_cells(lookup, lookup->cells);
    lookup->is_expired = is_key_expired(run, part, lookup);
    if (lookup->is_expired)
        read_expired(run, part, lookup, generation);
    else
        read_states(run, part, lookup, lookup->cells, generation);
    if (lookup->is_full)
        read_fresh_beside_overflow(run, part, lookup);
}

enum ration_lookup_slot ration_lookup_read_at(const struct ration_memory_run *run,
                                              const struct ration_key_part *part,
                                              struct ration_pair *head,
                                              struct ration_lookup *lookup,
                                              uint32_t *out_generation)
{
    struct ration_pair value = ration_atomic16_load(head);
    bool is_overflow = ration_section_is_overflow(lookup->section, head);
    struct ration_time expires_at;

    lookup->is_present = true;
    if (ration_lookup_is_plain(lookup)) {
        lookup->slot = (struct ration_claim){head, value, false};
        if (!is_overflow && ration_plain_kind.role(value) != RATION_CLAIM_ROLE_MEMBER)
            return RATION_LOOKUP_EMPTY;
    } else if (!ration_entry_read(lookup->section, head, ration_slot_tag(value), &lookup->view)) {
        return RATION_LOOKUP_EMPTY;
    }
    *out_generation = copy_cells(lookup, lookup->cells);
    expires_at = ration_memory_expires_at(lookup->section, lookup->cells);
    if (!ration_time_less(ration_time_from_ns(run->since_ns), expires_at))
        return RATION_LOOKUP_IDLE;
    read_states(run, part, lookup, lookup->cells, *out_generation);
    return RATION_LOOKUP_IN_USE;
}

bool ration_lookup_change(const struct ration_lookup *lookup, const struct ration_entry_next *next)
{
    if (!ration_lookup_is_plain(lookup))
        return ration_entry_change(lookup->section, &lookup->view, next);

    struct ration_pair expected = lookup->slot.value;
    struct ration_slot slot = {ration_slot_tag(expected), next->flags, next->cells[0]};

    ration_yield_point();
    return ration_atomic16_swap(lookup->slot.head, &expected, ration_slot_pack(slot));
}
