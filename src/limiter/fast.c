#include "limiter/fast.h"

#include "core/algorithm.h"
#include "core/gcra.h"
#include "limiter/fast_simd.h"
#include "table/entry.h"
#include "table/plain.h"

#define ALWAYS_INLINE inline __attribute__((always_inline))

/* The inputs of a call, loaded once. */
struct fast {
    struct ration_limiter *limiter;
    const struct ration_section *section;
    const struct ration_config *config;
    uint64_t config_number;
    uint64_t since_ns; /* now, in nanoseconds since the table's epoch */
};

static ALWAYS_INLINE bool fast_begin(struct ration_limiter *limiter, uint64_t now_ns,
                                     struct fast *out_fast)
{
    const struct ration_config *config = ration_config_table_current(&limiter->configs);
    uint64_t config_number = __atomic_load_n(&config->number, __ATOMIC_ACQUIRE);

    if (__builtin_expect(
            !RATION_CONFIG_READ(config->terms.is_simple) || config_number == UINT64_MAX, 0))
        return false;
    out_fast->limiter = limiter;
    out_fast->section = limiter->fast_section;
    out_fast->config = config;
    out_fast->config_number = config_number;
    out_fast->since_ns = ration_block_now(limiter->store->epoch_ns, now_ns);
    return true;
}

/* Returns the key of a request that is its own key, or NULL if it is not valid. */
static ALWAYS_INLINE const struct ration_key *request_key(const void *request)
{
    const struct ration_key *key = request;

    if (__builtin_expect(key == NULL || key->size > RATION_KEY_SIZE_MAX || key->bytes == NULL, 0))
        return NULL;
    return key;
}

/*
 * The bucket's TAT (theoretical arrival time, see gcra.h) after the cost: the arithmetic of ration_gcra_take()
 * without what denials need.
 */
static ALWAYS_INLINE struct ration_time gcra_next(struct ration_time tat, struct ration_time cost,
                                                  uint64_t now_ns)
{
    return ration_time_add(ration_time_max(tat, ration_time_from_ns(now_ns)), cost);
}

/* Takes from the only bucket of a key, whose slot was found with this value. */
static ALWAYS_INLINE int take_slot(const struct fast *fast, uint64_t tag, struct ration_pair *slot,
                                   struct ration_pair value, uint64_t cost_tokens)
{
    const struct ration_config *config = fast->config;
    struct ration_rate rate = ration_config_read_rate(&config->rules[0].limit.rate);

    while (ration_plain_is_member(value, tag) &&
           ration_slot_generation(value) == config->generation) {
        struct ration_time tat_max =
            ration_time_add(ration_time_from_ns(fast->since_ns), rate.capacity);
        struct ration_time cost = rate.token;
        struct ration_time next;

        if (__builtin_expect(cost_tokens != 1, 0)) {
            if (cost_tokens > rate.burst)
                return RATION_NEVER;
            if (cost_tokens == 0)
                return RATION_ALLOW;
            cost = ration_time_scale(cost, cost_tokens);
        }
        next = gcra_next(ration_slot_expires_at(value), cost, fast->since_ns);
        if (__builtin_expect(!ration_config_is_current(config, fast->config_number), 0))
            break;
        if (ration_time_less(tat_max, next))
            return RATION_DENY;
        /* sequentially consistent: pairs with the loads in ration_plain_find(), and with other swaps of slots */
        if (__builtin_expect(ration_atomic16_swap(slot, &value,
                                                  ration_slot_pack((struct ration_slot){
                                                      tag, config->established_flags, next})),
                             1))
            return RATION_ALLOW;
    }
    return RATION_FAST_MISS;
}

/* Counts a key that got a slot. */
static void count_created(const struct fast *fast, const struct ration_claim *claim)
{
    struct ration_counters *counters = fast->limiter->counts.counters;

    ration_counters_add_limiter(counters, RATION_COUNT_CREATED, 1);
    if (claim->is_reclaimed)
        ration_counters_add_limiter(counters, RATION_COUNT_RECLAIMED, 1);
}

/*
 * Takes from the bucket of an absent key: it has been full since the reclaim watermark of its sets. This thread
 * reads the watermark again after its claim is in the table, when nothing of this key can be reclaimed any
 * more. Cases that concern the overflow bucket are left to the whole op. The overflow watermark is checked
 * again too, since the overflow bucket may have been charged for this key until the claim was in the table.
 */
static int take_absent(const struct fast *fast, const struct ration_location *location,
                       const struct ration_rate *rate, uint64_t cost_tokens,
                       struct ration_time *out_tat)
{
    const struct ration_section *section = fast->section;
    struct ration_time tat_max =
        ration_time_add(ration_time_from_ns(fast->since_ns), rate->capacity);
    struct ration_slot member = {.tag = location->tag, .flags = fast->config->generation};
    /* whatever else a claim may reclaim is left to the whole op */
    struct ration_claim_request request;
    struct ration_claim claim;

    if (cost_tokens > rate->burst)
        return RATION_NEVER;
    if (cost_tokens == 0)
        return RATION_ALLOW;
    if (ration_section_overflow_watermark_ns(section, location) > fast->since_ns)
        return RATION_FAST_MISS;

    struct ration_time cost = ration_time_scale(rate->token, cost_tokens);

    if (ration_section_reclaim_watermark_ns(section, location) > fast->since_ns)
        return RATION_FAST_MISS; /* now_ns runs backwards */
    request.now_ns = fast->since_ns;
    request.reset_mask = 0;
    request.is_scarce = false;
    request.is_crowded = false;
    if (ration_claim_begin(&ration_plain_kind, section, location, &request, &claim) !=
        RATION_CLAIM_BEGUN)
        return RATION_FAST_MISS;
    member.expires_at =
        gcra_next(ration_time_from_ns(ration_section_reclaim_watermark_ns(section, location)), cost,
                  fast->since_ns);
    /* acquire: if a thread reclaimed the key's slot because limits were reset, this thread now sees the change */
    ration_fence_acquire();
    if (ration_time_less(tat_max, member.expires_at) ||
        ration_section_overflow_watermark_ns(section, location) > fast->since_ns ||
        ration_config_table_current(&fast->limiter->configs) != fast->config ||
        !ration_config_is_current(fast->config, fast->config_number)) {
        (void)ration_claim_abort(&ration_plain_kind, &claim);
        return RATION_FAST_MISS;
    }
    if (!ration_plain_complete(&claim, member))
        return RATION_FAST_MISS;
    count_created(fast, &claim);
    *out_tat = member.expires_at;
    return RATION_ALLOW;
}

/* Counts the verdict on a key with one bucket, and returns it. */
static ALWAYS_INLINE int count_verdict(const struct fast *fast, const struct ration_key *key,
                                       int verdict, uint64_t cost_tokens)
{
    struct ration_limiter_counts *counts = &fast->limiter->counts;

    if (__builtin_expect(cost_tokens == 0, 0))
        return verdict; /* a peek is not counted */
    if (__builtin_expect(verdict == RATION_ALLOW, 1)) {
        ration_counters_add_allowed(counts->counters, 0, cost_tokens);
        if (__builtin_expect(counts->top_cost != NULL, 0))
            ration_limiter_counts_add_key_cost(counts, *key, cost_tokens);
    } else if (verdict != RATION_FAST_MISS) {
        ration_counters_add(counts->counters, 0,
                            verdict == RATION_DENY ? RATION_COUNT_DENIED : RATION_COUNT_NEVER, 1);
        if (__builtin_expect(counts->top_denied != NULL, 0))
            ration_limiter_counts_add_denied_key(counts, *key);
    }
    return verdict;
}

/* Takes from several buckets in the cells of an entry. Writes the verdict of each. */
static int take_entry(const struct fast *fast, const struct ration_location *location,
                      uint64_t cost_tokens, enum ration_verdict *out_verdicts)
{
    const struct ration_config *config = fast->config;
    struct ration_entry_view view;
    struct ration_entry_next next;

    while (ration_entry_find(fast->section, location, &view) &&
           ration_entry_head_generation(view.value.words[1]) == config->generation) {
        enum ration_verdict verdict = RATION_ALLOW;

        for (uint32_t i = 0; i < fast->limiter->configs.rule_count; i++) {
            struct ration_rate rate = ration_config_read_rate(&config->rules[i].limit.rate);
            struct ration_gcra_step step =
                ration_gcra_take(view.cells[i], &rate, cost_tokens, 0, fast->since_ns);

            next.cells[i] = step.next;
            out_verdicts[i] = step.verdict;
            if (step.verdict > verdict)
                verdict = step.verdict;
        }
        if (!ration_config_is_current(config, fast->config_number))
            break;
        if (verdict != RATION_ALLOW || cost_tokens == 0)
            return (int)verdict;
        next.flags = config->established_flags;
        next.ring.modulus = 0;
        if (ration_entry_change(fast->section, &view, &next))
            return RATION_ALLOW;
    }
    return RATION_FAST_MISS;
}

static void count_entry(const struct fast *fast, const struct ration_key *key, int verdict,
                        uint64_t cost_tokens, const enum ration_verdict *verdicts)
{
    struct ration_limiter_counts *counts = &fast->limiter->counts;

    if (cost_tokens == 0)
        return; /* a peek is not counted */
    for (uint32_t i = 0; i < fast->limiter->configs.rule_count; i++)
        if (verdict == RATION_ALLOW)
            ration_counters_add_allowed(counts->counters, i, cost_tokens);
        else if (verdicts[i] != RATION_ALLOW)
            ration_counters_add(
                counts->counters, i,
                verdicts[i] == RATION_DENY ? RATION_COUNT_DENIED : RATION_COUNT_NEVER, 1);
    if (verdict == RATION_ALLOW)
        ration_limiter_counts_add_key_cost(counts, *key, cost_tokens);
    else
        ration_limiter_counts_add_denied_key(counts, *key);
}

/* Decides and counts a key whose location is known. Works with any hash on any machine. */
static int take_located(const struct fast *fast, const struct ration_key *key,
                        const struct ration_location *location, uint64_t cost_tokens)
{
    enum ration_verdict verdicts[RATION_RULES_MAX];
    struct ration_time tat;
    struct ration_pair value;
    struct ration_pair *slot;
    int verdict;

    if (!ration_section_is_plain(fast->section)) {
        verdict = take_entry(fast, location, cost_tokens, verdicts);
        if (verdict != RATION_FAST_MISS)
            count_entry(fast, key, verdict, cost_tokens, verdicts);
        return verdict;
    }
    slot = ration_plain_find(fast->section, location, &value);
    if (slot != NULL) {
        verdict = take_slot(fast, location->tag, slot, value, cost_tokens);
    } else {
        struct ration_rate rate = ration_config_read_rate(&fast->config->rules[0].limit.rate);

        verdict = take_absent(fast, location, &rate, cost_tokens, &tat);
    }
    if (verdict != RATION_ALLOW && !ration_config_is_current(fast->config, fast->config_number))
        return RATION_FAST_MISS;
    return count_verdict(fast, key, verdict, cost_tokens);
}

int ration_fast_take(struct ration_limiter *limiter, const void *request, uint64_t cost_tokens,
                     uint64_t now_ns)
{
    const struct ration_key *key;
    struct fast fast;

    /*
     * With a key function (then fast_section is NULL) the request is of the caller's own type, and may be
     * smaller than a key.
     */
    if (limiter->fast_section == NULL || !fast_begin(limiter, now_ns, &fast))
        return RATION_FAST_MISS;
    key = request_key(request);
    if (key == NULL)
        return RATION_FAST_MISS;

    struct ration_location location =
        ration_location_of(ration_hash_key(&fast.section->block->secret, key->bytes, key->size),
                           fast.section->set_count);

    return take_located(&fast, key, &location, cost_tokens);
}

/* Takes for one item of a batch. Returns false if it needs a whole op. */
static bool take_item(const struct fast *fast, struct ration_batch_item *item,
                      const struct ration_location *location, size_t *allowed)
{
    int verdict = take_located(fast, item->request, location, item->cost_tokens);

    if (verdict == RATION_FAST_MISS)
        return false;
    item->verdict = (enum ration_verdict)verdict;
    item->status = RATION_OK;
    *allowed += verdict == RATION_ALLOW;
    return true;
}

/*
 * Begins a chunk: finds the slots of its keys. Returns the number of keys, up to the first item without a valid
 * key.
 */
static size_t begin_simd_chunk(const struct fast *fast, const struct ration_batch_item *items,
                               size_t item_count, struct ration_fast_simd_chunk *out_chunk)
{
    out_chunk->limiter = fast->limiter;
    out_chunk->section = fast->section;
    out_chunk->config = fast->config;
    out_chunk->config_number = fast->config_number;
    out_chunk->since_ns = fast->since_ns;
    return ration_fast_simd_find(out_chunk, items, item_count);
}

/* Keys that are in the table are decided by fast_simd.c; the others one by one here, in order. */
static size_t take_chunk_simd(const struct fast *fast, struct ration_batch_item *items,
                              size_t item_count, size_t *allowed)
{
    struct ration_fast_simd_chunk chunk;
    size_t done = 0;

    item_count = begin_simd_chunk(fast, items, item_count, &chunk);
    while (done < item_count) {
        struct ration_location location;

        done = ration_fast_simd_take(&chunk, items, done, item_count, allowed);
        if (done == item_count)
            break;
        location = ration_location_of(chunk.hashes[done], fast->section->set_count);
        if (!take_item(fast, &items[done], &location, allowed))
            break;
        done++;
    }
    return done;
}

/* Hashes keys up to the first item without a valid key, and prefetches their slots. Returns the number of keys. */
static size_t prefetch_locations(const struct ration_section *section,
                                 const struct ration_batch_item *items, size_t item_count,
                                 struct ration_location *out_locations)
{
    for (size_t i = 0; i < item_count; i++) {
        const struct ration_key *key = request_key(items[i].request);

        if (key == NULL)
            return i;
        out_locations[i] = ration_location_of(
            ration_hash_key(&section->block->secret, key->bytes, key->size), section->set_count);
        ration_section_prefetch(section, &out_locations[i]);
    }
    return item_count;
}

/* Hashes and prefetches all keys, then decides them in order. */
static size_t take_chunk_portable(const struct fast *fast, struct ration_batch_item *items,
                                  size_t item_count, size_t *allowed)
{
    const struct ration_section *section = fast->section;
    struct ration_location locations[RATION_FAST_CHUNK];
    size_t i;

    item_count = prefetch_locations(section, items, item_count, locations);
    for (i = 0; i < item_count; i++)
        if (!take_item(fast, &items[i], &locations[i], allowed))
            break;
    return i;
}

bool ration_fast_is_possible(const struct ration_limiter *limiter)
{
    return limiter->fast_section != NULL &&
           RATION_CONFIG_READ(ration_config_table_current(&limiter->configs)->terms.is_simple);
}

size_t ration_fast_take_chunk(struct ration_limiter *limiter, struct ration_batch_item *items,
                              size_t item_count, uint64_t now_ns, size_t *allowed)
{
    struct fast fast;

    if (limiter->fast_section == NULL || !fast_begin(limiter, now_ns, &fast))
        return 0;
    if (limiter->allow == ration_fast_simd_allow)
        return take_chunk_simd(&fast, items, item_count, allowed);
    return take_chunk_portable(&fast, items, item_count, allowed);
}

/* Like take_slot(), under a given limit; also returns the step, for the decision. */
static int decide_slot(const struct fast *fast, uint64_t tag, struct ration_pair *slot,
                       struct ration_pair value, const struct ration_limit *limit,
                       uint64_t cost_tokens, struct ration_step *out_step)
{
    while (ration_plain_is_member(value, tag) &&
           ration_slot_generation(value) == fast->config->generation) {
        struct ration_gcra_step step = ration_gcra_take(ration_slot_expires_at(value), &limit->rate,
                                                        cost_tokens, 0, fast->since_ns);
        struct ration_slot next = {tag, fast->config->established_flags, step.next};

        *out_step = (struct ration_step){step.verdict, step.wait_ns, {.tat = step.next}};
        if (!ration_config_is_current(fast->config, fast->config_number))
            break;
        if (step.verdict != RATION_ALLOW || cost_tokens == 0)
            return (int)step.verdict;
        /* sequentially consistent: pairs with the loads in ration_plain_find(), and with other swaps of slots */
        if (ration_atomic16_swap(slot, &value, ration_slot_pack(next)))
            return RATION_ALLOW;
    }
    return RATION_FAST_MISS;
}

/* Like take_entry() for a single bucket under a given limit; also returns the step, for the decision. */
static int decide_entry(const struct fast *fast, const struct ration_location *location,
                        const struct ration_limit *limit, uint64_t cost_tokens,
                        struct ration_step *out_step)
{
    const struct ration_config *config = fast->config;
    struct ration_entry_view view;

    while (ration_entry_find(fast->section, location, &view) &&
           ration_entry_head_generation(view.value.words[1]) == config->generation) {
        struct ration_gcra_step step =
            ration_gcra_take(view.cells[0], &limit->rate, cost_tokens, 0, fast->since_ns);
        struct ration_entry_next next;

        *out_step = (struct ration_step){step.verdict, step.wait_ns, {.tat = step.next}};
        if (!ration_config_is_current(config, fast->config_number))
            break;
        if (step.verdict != RATION_ALLOW || cost_tokens == 0)
            return (int)step.verdict;
        next.flags = config->established_flags;
        next.ring.modulus = 0;
        next.cells[0] = step.next;
        if (ration_entry_change(fast->section, &view, &next))
            return RATION_ALLOW;
    }
    return RATION_FAST_MISS;
}

/* Writes the decision, and counts it if the bucket is near its limit. */
static void describe_decision(const struct fast *fast, const struct ration_limit *limit,
                              uint64_t cost_tokens, const struct ration_step *step,
                              struct ration_decision *out_decision)
{
    *out_decision = ration_algorithm_describe(limit, step, fast->since_ns);
    if (step->verdict == RATION_ALLOW && cost_tokens > 0 &&
        ration_limiter_counts_is_near_limit(out_decision))
        ration_counters_add(fast->limiter->counts.counters, 0, RATION_COUNT_NEAR_LIMIT, 1);
}

/* Takes from the only bucket of a key. found_slot is the slot in which the key was seen, or NULL. */
static int decide_plain(const struct fast *fast, const struct ration_location *location,
                        struct ration_pair *found_slot, const struct ration_limit *limit,
                        uint64_t cost_tokens, struct ration_step *out_step)
{
    struct ration_pair value;
    struct ration_pair *slot;

    if (found_slot != NULL) {
        int verdict = decide_slot(fast, location->tag, found_slot, ration_atomic16_load(found_slot),
                                  limit, cost_tokens, out_step);

        if (verdict != RATION_FAST_MISS)
            return verdict;
    }
    slot = ration_plain_find(fast->section, location, &value);
    if (slot != NULL)
        return decide_slot(fast, location->tag, slot, value, limit, cost_tokens, out_step);
    if (cost_tokens == 0 || cost_tokens > limit->burst)
        return RATION_FAST_MISS; /* the whole op computes what an absent key has left */
    return take_absent(fast, location, &limit->rate, cost_tokens, &out_step->next.tat);
}

/* Decides one item of a batch. Returns false if it needs a whole op. */
static bool decide_item(const struct fast *fast, const struct ration_limit *own_limit,
                        struct ration_batch_item *item, const struct ration_location *location,
                        struct ration_pair *found_slot, size_t *allowed)
{
    const struct ration_limit *limit = item->limit != NULL ? item->limit : own_limit;
    struct ration_step step = {.verdict = RATION_ALLOW};
    int verdict;

    if (!ration_algorithm_is_gcra(limit) || limit->start != RATION_START_FULL || item->is_peek)
        return false;
    if (ration_section_is_plain(fast->section))
        verdict = decide_plain(fast, location, found_slot, limit, item->cost_tokens, &step);
    else
        verdict = decide_entry(fast, location, limit, item->cost_tokens, &step);
    if (verdict == RATION_FAST_MISS)
        return false;
    item->verdict =
        (enum ration_verdict)count_verdict(fast, item->request, verdict, item->cost_tokens);
    item->status = RATION_OK;
    if (item->decision != NULL) {
        describe_decision(fast, limit, item->cost_tokens, &step, item->decision);
        item->decision->limiter_index = fast->limiter->section_index;
    }
    *allowed += verdict == RATION_ALLOW;
    return true;
}

/* Same as take_chunk_simd(), with decisions. */
static size_t decide_chunk_simd(const struct fast *fast, const struct ration_limit *own_limit,
                                struct ration_batch_item *items, size_t item_count, size_t *allowed)
{
    struct ration_fast_simd_chunk chunk;
    size_t count = begin_simd_chunk(fast, items, item_count, &chunk);
    size_t i;

    if (count > item_count)
        __builtin_unreachable();
    for (i = 0; i < count; i++) {
        struct ration_location location =
            ration_location_of(chunk.hashes[i], fast->section->set_count);

        if (!decide_item(fast, own_limit, &items[i], &location, chunk.slots[i], allowed))
            break;
    }
    return i;
}

size_t ration_fast_decide_chunk(struct ration_limiter *limiter, struct ration_batch_item *items,
                                size_t item_count, uint64_t now_ns, size_t *allowed)
{
    struct ration_location locations[RATION_FAST_CHUNK];
    struct ration_limit own_limit;
    struct fast fast;
    size_t i;

    if (limiter->fast_section == NULL || !fast_begin(limiter, now_ns, &fast) ||
        limiter->configs.rule_count != 1)
        return 0;
    ration_config_read_limit(&fast.config->rules[0].limit, &own_limit);
    if (ration_fast_simd_possible(fast.section))
        return decide_chunk_simd(&fast, &own_limit, items, item_count, allowed);
    item_count = prefetch_locations(fast.section, items, item_count, locations);
    for (i = 0; i < item_count; i++)
        if (!decide_item(&fast, &own_limit, &items[i], &locations[i], NULL, allowed))
            break;
    return i;
}

bool ration_fast_decide(struct ration_limiter *limiter, const void *request, uint64_t cost_tokens,
                        uint64_t now_ns, struct ration_decision *out_decision)
{
    struct ration_batch_item item = {
        .request = request, .cost_tokens = cost_tokens, .decision = out_decision};
    size_t allowed_count = 0;

    return limiter->configs.rule_count == 1 && ration_fast_is_possible(limiter) &&
           ration_fast_decide_chunk(limiter, &item, 1, now_ns, &allowed_count) == 1;
}

uint64_t ration_fast_full_after_ns(const struct ration_limiter *limiter,
                                   const struct ration_key *key, uint64_t now_ns)
{
    const struct ration_section *section = limiter->fast_section;
    struct ration_location location = ration_location_of(
        ration_hash_key(&section->block->secret, key->bytes, key->size), section->set_count);
    struct ration_pair value;

    if (ration_plain_find(section, &location, &value) == NULL)
        return 0;
    return ration_gcra_full_after_ns(ration_slot_expires_at(value),
                                     ration_block_now(limiter->store->epoch_ns, now_ns));
}
