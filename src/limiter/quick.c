#include "limiter/quick.h"

#include "core/algorithm.h"
#include "core/gcra.h"
#include "limiter/quick_line.h"
#include "table/entry.h"
#include "table/plain.h"

#define ALWAYS_INLINE inline __attribute__((always_inline))

/* What the whole call rests on, loaded once. */
struct quick {
    struct ration_limiter *limiter;
    const struct ration_section *section;
    const struct ration_config *config;
    uint64_t config_number;
    uint64_t since_ns; /* now, from the epoch */
};

static ALWAYS_INLINE bool quick_begin(struct ration_limiter *limiter, uint64_t now_ns,
                                      struct quick *out_quick)
{
    const struct ration_config *config = ration_configs_current(&limiter->configs);
    uint64_t config_number = __atomic_load_n(&config->number, __ATOMIC_ACQUIRE);

    if (__builtin_expect(
            !RATION_CONFIG_READ(config->terms.is_simple) || config_number == UINT64_MAX, 0))
        return false;
    out_quick->limiter = limiter;
    out_quick->section = limiter->quick_section;
    out_quick->config = config;
    out_quick->config_number = config_number;
    out_quick->since_ns = ration_block_now(limiter->store->epoch_ns, now_ns);
    return true;
}

/* A request that is its own key, and a valid one. */
static ALWAYS_INLINE const struct ration_key *quick_key(const void *request)
{
    const struct ration_key *key = request;

    if (__builtin_expect(key == NULL || key->size > RATION_KEY_SIZE_MAX || key->bytes == NULL, 0))
        return NULL;
    return key;
}

/* Where a bucket would stand after cost more: gcra.h's first line, without what denials need. */
static ALWAYS_INLINE struct ration_time gcra_next(struct ration_time tat, struct ration_time cost,
                                                  uint64_t now_ns)
{
    return ration_time_add(ration_time_max(tat, ration_time_from_ns(now_ns)), cost);
}

/* One bucket in a slot of its own, which was found with this value. */
static ALWAYS_INLINE int take_slot(const struct quick *quick, uint64_t tag,
                                   struct ration_pair *slot, struct ration_pair value,
                                   uint64_t cost_tokens)
{
    const struct ration_config *config = quick->config;
    struct ration_rate rate = ration_config_read_rate(&config->rules[0].limit.rate);

    while (ration_plain_is_member(value, tag) &&
           ration_pair_generation(value) == config->generation) {
        struct ration_time room =
            ration_time_add(ration_time_from_ns(quick->since_ns), rate.capacity);
        struct ration_time cost = rate.token;
        struct ration_time next;

        if (__builtin_expect(cost_tokens != 1, 0)) {
            if (cost_tokens > rate.burst)
                return RATION_NEVER;
            if (cost_tokens == 0)
                return RATION_ALLOW;
            cost = ration_time_scale(cost, cost_tokens);
        }
        next = gcra_next(ration_pair_moment(value), cost, quick->since_ns);
        if (__builtin_expect(!ration_config_stands(config, quick->config_number), 0))
            break;
        if (ration_time_less(room, next))
            return RATION_DENY;
        /* sequentially consistent: pairs with the loads that find slots, and with itself */
        if (__builtin_expect(ration_atomic16_swap(slot, &value,
                                                  ration_slot_pack((struct ration_slot){
                                                      tag, config->established_mark, next})),
                             1))
            return RATION_ALLOW;
    }
    return RATION_QUICK_NOT;
}

/* Counts a key that got a place. */
static void count_created(const struct quick *quick, const struct ration_entrance *entrance)
{
    struct ration_counters *counters = quick->limiter->tally.counters;

    ration_counters_add_limiter(counters, RATION_COUNT_CREATED, 1);
    if (entrance->is_reclaimed)
        ration_counters_add_limiter(counters, RATION_COUNT_RECLAIMED, 1);
}

/*
 * A key that is absent: full since the moment that was last reclaimed from its sets. That is read
 * once more with the claim standing, when nothing of this key can be reclaimed any more. What
 * concerns the overflow bucket goes the long way: looked for once more, too, since it may have been
 * charged for this key until the claim stood.
 */
static int take_absent(const struct quick *quick, const struct ration_place *place,
                       const struct ration_rate *rate, uint64_t cost_tokens,
                       struct ration_time *out_tat)
{
    const struct ration_section *section = quick->section;
    struct ration_time room = ration_time_add(ration_time_from_ns(quick->since_ns), rate->capacity);
    struct ration_slot member = {.label = place->tag, .mark = quick->config->generation};
    struct ration_newcomer newcomer; /* what it may take besides is for the long way */
    struct ration_entrance entrance;

    if (cost_tokens > rate->burst)
        return RATION_NEVER;
    if (cost_tokens == 0)
        return RATION_ALLOW;
    if (ration_section_overflow_ns(section, place) > quick->since_ns)
        return RATION_QUICK_NOT;

    struct ration_time cost = ration_time_scale(rate->token, cost_tokens);

    if (ration_section_origin_ns(section, place) > quick->since_ns)
        return RATION_QUICK_NOT; /* a now that runs back */
    newcomer.now_ns = quick->since_ns;
    newcomer.reset_mask = 0;
    newcomer.is_scarce = false;
    newcomer.is_crowded = false;
    if (ration_create_enter(&ration_plain_kind, section, place, &newcomer, &entrance) !=
        RATION_ENTER_CLAIMED)
        return RATION_QUICK_NOT;
    member.moment = gcra_next(ration_time_from_ns(ration_section_origin_ns(section, place)), cost,
                              quick->since_ns);
    /* acquire: who took the key's place because limits were reset has seen the change */
    ration_fence_acquire();
    if (ration_time_less(room, member.moment) ||
        ration_section_overflow_ns(section, place) > quick->since_ns ||
        ration_configs_current(&quick->limiter->configs) != quick->config ||
        !ration_config_stands(quick->config, quick->config_number)) {
        (void)ration_create_withdraw(&ration_plain_kind, &entrance);
        return RATION_QUICK_NOT;
    }
    if (!ration_plain_complete(&entrance, member))
        return RATION_QUICK_NOT;
    count_created(quick, &entrance);
    *out_tat = member.moment;
    return RATION_ALLOW;
}

/* Counts what a bucket in a slot of its own was asked. */
static ALWAYS_INLINE int count(const struct quick *quick, const struct ration_key *key, int verdict,
                               uint64_t cost_tokens)
{
    struct ration_tally *tally = &quick->limiter->tally;

    if (__builtin_expect(cost_tokens == 0, 0))
        return verdict; /* a look */
    if (__builtin_expect(verdict == RATION_ALLOW, 1)) {
        ration_counters_add_allowed(tally->counters, 0, cost_tokens);
        if (__builtin_expect(tally->top_cost != NULL, 0))
            ration_tally_cost_of_key(tally, *key, cost_tokens);
    } else if (verdict != RATION_QUICK_NOT) {
        ration_counters_add(tally->counters, 0,
                            verdict == RATION_DENY ? RATION_COUNT_DENIED : RATION_COUNT_NEVER, 1);
        if (__builtin_expect(tally->top_denied != NULL, 0))
            ration_tally_denied_key(tally, *key);
    }
    return verdict;
}

/* Several buckets in the cells of an entry, and what each says. */
static int take_entry(const struct quick *quick, const struct ration_place *place,
                      uint64_t cost_tokens, enum ration_verdict *out_verdicts)
{
    const struct ration_config *config = quick->config;
    struct ration_entry_view view;
    struct ration_entry_next next;

    while (ration_entry_find(quick->section, place, &view) &&
           ration_head_generation(view.value.words[1]) == config->generation) {
        enum ration_verdict verdict = RATION_ALLOW;

        for (uint32_t i = 0; i < quick->limiter->configs.rule_count; i++) {
            struct ration_rate rate = ration_config_read_rate(&config->rules[i].limit.rate);
            struct ration_gcra_step step =
                ration_gcra_take(view.cells[i], &rate, cost_tokens, 0, quick->since_ns);

            next.cells[i] = step.next;
            out_verdicts[i] = step.verdict;
            if (step.verdict > verdict)
                verdict = step.verdict;
        }
        if (!ration_config_stands(config, quick->config_number))
            break;
        if (verdict != RATION_ALLOW || cost_tokens == 0)
            return (int)verdict;
        next.mark = config->established_mark;
        next.ring.modulus = 0;
        if (ration_entry_change(quick->section, &view, &next))
            return RATION_ALLOW;
    }
    return RATION_QUICK_NOT;
}

static void count_entry(const struct quick *quick, const struct ration_key *key, int verdict,
                        uint64_t cost_tokens, const enum ration_verdict *verdicts)
{
    struct ration_tally *tally = &quick->limiter->tally;

    if (cost_tokens == 0)
        return; /* a look */
    for (uint32_t i = 0; i < quick->limiter->configs.rule_count; i++)
        if (verdict == RATION_ALLOW)
            ration_counters_add_allowed(tally->counters, i, cost_tokens);
        else if (verdicts[i] != RATION_ALLOW)
            ration_counters_add(
                tally->counters, i,
                verdicts[i] == RATION_DENY ? RATION_COUNT_DENIED : RATION_COUNT_NEVER, 1);
    if (verdict == RATION_ALLOW)
        ration_tally_cost_of_key(tally, *key, cost_tokens);
    else
        ration_tally_denied_key(tally, *key);
}

/* Any hash, any machine. */
static int take_any(const struct quick *quick, const struct ration_key *key,
                    const struct ration_place *place, uint64_t cost_tokens)
{
    enum ration_verdict verdicts[RATION_RULES_MAX];
    struct ration_time tat;
    struct ration_pair value;
    struct ration_pair *slot;
    int verdict;

    if (!ration_section_is_plain(quick->section)) {
        verdict = take_entry(quick, place, cost_tokens, verdicts);
        if (verdict != RATION_QUICK_NOT)
            count_entry(quick, key, verdict, cost_tokens, verdicts);
        return verdict;
    }
    slot = ration_plain_find(quick->section, place, &value);
    if (slot != NULL) {
        verdict = take_slot(quick, place->tag, slot, value, cost_tokens);
    } else {
        struct ration_rate rate = ration_config_read_rate(&quick->config->rules[0].limit.rate);

        verdict = take_absent(quick, place, &rate, cost_tokens, &tat);
    }
    if (verdict != RATION_ALLOW && !ration_config_stands(quick->config, quick->config_number))
        return RATION_QUICK_NOT;
    return count(quick, key, verdict, cost_tokens);
}

int ration_quick_take(struct ration_limiter *limiter, const void *request, uint64_t cost_tokens,
                      uint64_t now_ns)
{
    const struct ration_key *key;
    struct quick quick;

    /* With a key function the request is of the caller's own type, and may be smaller than a key. */
    if (limiter->quick_section == NULL || !quick_begin(limiter, now_ns, &quick))
        return RATION_QUICK_NOT;
    key = quick_key(request);
    if (key == NULL)
        return RATION_QUICK_NOT;

    struct ration_place place =
        ration_place_of(ration_hash_key(&quick.section->block->secret, key->bytes, key->size),
                        quick.section->set_count);

    return take_any(&quick, key, &place, cost_tokens);
}

/* One item of a batch. False: it takes a whole op. */
static bool take_item(const struct quick *quick, struct ration_batch_item *item,
                      const struct ration_place *place, size_t *allowed)
{
    int verdict = take_any(quick, item->request, place, item->cost_tokens);

    if (verdict == RATION_QUICK_NOT)
        return false;
    item->verdict = (enum ration_verdict)verdict;
    item->status = RATION_OK;
    *allowed += verdict == RATION_ALLOW;
    return true;
}

/* Begins a chunk: where its keys are. Returns how many, up to the first that is no key. */
static size_t find_lines(const struct quick *quick, const struct ration_batch_item *items,
                         size_t item_count, struct ration_line_chunk *out_chunk)
{
    out_chunk->limiter = quick->limiter;
    out_chunk->section = quick->section;
    out_chunk->config = quick->config;
    out_chunk->config_number = quick->config_number;
    out_chunk->since_ns = quick->since_ns;
    return ration_quick_line_find(out_chunk, items, item_count);
}

/* Keys that are there are decided by the shortest way; the others as they come. */
static size_t take_chunk_lines(const struct quick *quick, struct ration_batch_item *items,
                               size_t item_count, size_t *allowed)
{
    struct ration_line_chunk chunk;
    size_t done = 0;

    item_count = find_lines(quick, items, item_count, &chunk);
    while (done < item_count) {
        struct ration_place place;

        done = ration_quick_line_take(&chunk, items, done, item_count, allowed);
        if (done == item_count)
            break;
        place = ration_place_of(chunk.hashes[done], quick->section->set_count);
        if (!take_item(quick, &items[done], &place, allowed))
            break;
        done++;
    }
    return done;
}

/* Hashes up to the first that is no key, and begins to fetch. Returns how many. */
static size_t find_places(const struct ration_section *section,
                          const struct ration_batch_item *items, size_t item_count,
                          struct ration_place *out_places)
{
    for (size_t i = 0; i < item_count; i++) {
        const struct ration_key *key = quick_key(items[i].request);

        if (key == NULL)
            return i;
        out_places[i] = ration_place_of(
            ration_hash_key(&section->block->secret, key->bytes, key->size), section->set_count);
        ration_section_prefetch(section, &out_places[i]);
    }
    return item_count;
}

/* Hashed and fetched ahead, then decided in their order. */
static size_t take_chunk_other(const struct quick *quick, struct ration_batch_item *items,
                               size_t item_count, size_t *allowed)
{
    const struct ration_section *section = quick->section;
    struct ration_place places[RATION_QUICK_CHUNK];
    size_t i;

    item_count = find_places(section, items, item_count, places);
    for (i = 0; i < item_count; i++)
        if (!take_item(quick, &items[i], &places[i], allowed))
            break;
    return i;
}

bool ration_quick_is_possible(const struct ration_limiter *limiter)
{
    return limiter->quick_section != NULL &&
           RATION_CONFIG_READ(ration_configs_current(&limiter->configs)->terms.is_simple);
}

size_t ration_quick_take_chunk(struct ration_limiter *limiter, struct ration_batch_item *items,
                               size_t item_count, uint64_t now_ns, size_t *allowed)
{
    struct quick quick;

    if (limiter->quick_section == NULL || !quick_begin(limiter, now_ns, &quick))
        return 0;
    if (limiter->allow == ration_quick_line_allow)
        return take_chunk_lines(&quick, items, item_count, allowed);
    return take_chunk_other(&quick, items, item_count, allowed);
}

/* One bucket in the slot of a key that is there, which was found with this value. */
static int tell_slot(const struct quick *quick, uint64_t tag, struct ration_pair *slot,
                     struct ration_pair value, const struct ration_limit *limit,
                     uint64_t cost_tokens, struct ration_step *out_step)
{
    while (ration_plain_is_member(value, tag) &&
           ration_pair_generation(value) == quick->config->generation) {
        struct ration_gcra_step step = ration_gcra_take(ration_pair_moment(value), &limit->rate,
                                                        cost_tokens, 0, quick->since_ns);
        struct ration_slot next = {tag, quick->config->established_mark, step.next};

        *out_step = (struct ration_step){step.verdict, step.wait_ns, {.tat = step.next}};
        if (!ration_config_stands(quick->config, quick->config_number))
            break;
        if (step.verdict != RATION_ALLOW || cost_tokens == 0)
            return (int)step.verdict;
        /* sequentially consistent: pairs with the loads that find slots, and with itself */
        if (ration_atomic16_swap(slot, &value, ration_slot_pack(next)))
            return RATION_ALLOW;
    }
    return RATION_QUICK_NOT;
}

/* One bucket in the cell of an entry. */
static int tell_entry(const struct quick *quick, const struct ration_place *place,
                      const struct ration_limit *limit, uint64_t cost_tokens,
                      struct ration_step *out_step)
{
    const struct ration_config *config = quick->config;
    struct ration_entry_view view;

    while (ration_entry_find(quick->section, place, &view) &&
           ration_head_generation(view.value.words[1]) == config->generation) {
        struct ration_gcra_step step =
            ration_gcra_take(view.cells[0], &limit->rate, cost_tokens, 0, quick->since_ns);
        struct ration_entry_next next;

        *out_step = (struct ration_step){step.verdict, step.wait_ns, {.tat = step.next}};
        if (!ration_config_stands(config, quick->config_number))
            break;
        if (step.verdict != RATION_ALLOW || cost_tokens == 0)
            return (int)step.verdict;
        next.mark = config->established_mark;
        next.ring.modulus = 0;
        next.cells[0] = step.next;
        if (ration_entry_change(quick->section, &view, &next))
            return RATION_ALLOW;
    }
    return RATION_QUICK_NOT;
}

/* What is told of a decision, and whether it came near. */
static void tell(const struct quick *quick, const struct ration_limit *limit, uint64_t cost_tokens,
                 const struct ration_step *step, struct ration_decision *out_decision)
{
    *out_decision = ration_algorithm_describe(limit, step, quick->since_ns);
    if (step->verdict == RATION_ALLOW && cost_tokens > 0 && ration_tally_is_near(out_decision))
        ration_counters_add(quick->limiter->tally.counters, 0, RATION_COUNT_NEAR, 1);
}

/* The bucket of a key in a slot of its own; found is where it was seen, or NULL. */
static int tell_plain(const struct quick *quick, const struct ration_place *place,
                      struct ration_pair *found, const struct ration_limit *limit,
                      uint64_t cost_tokens, struct ration_step *out_step)
{
    struct ration_pair value;
    struct ration_pair *slot;

    if (found != NULL) {
        int verdict = tell_slot(quick, place->tag, found, ration_atomic16_load(found), limit,
                                cost_tokens, out_step);

        if (verdict != RATION_QUICK_NOT)
            return verdict;
    }
    slot = ration_plain_find(quick->section, place, &value);
    if (slot != NULL)
        return tell_slot(quick, place->tag, slot, value, limit, cost_tokens, out_step);
    if (cost_tokens == 0 || cost_tokens > limit->burst)
        return RATION_QUICK_NOT; /* what an absent key has left is told by the long way */
    return take_absent(quick, place, &limit->rate, cost_tokens, &out_step->next.tat);
}

/* False: it takes a whole op. */
static bool tell_item(const struct quick *quick, const struct ration_limit *own,
                      struct ration_batch_item *item, const struct ration_place *place,
                      struct ration_pair *found, size_t *allowed)
{
    const struct ration_limit *limit = item->limit != NULL ? item->limit : own;
    struct ration_step step = {.verdict = RATION_ALLOW};
    int verdict;

    if (!ration_algorithm_is_gcra(limit) || limit->start != RATION_START_FULL || item->is_peek)
        return false;
    if (ration_section_is_plain(quick->section))
        verdict = tell_plain(quick, place, found, limit, item->cost_tokens, &step);
    else
        verdict = tell_entry(quick, place, limit, item->cost_tokens, &step);
    if (verdict == RATION_QUICK_NOT)
        return false;
    item->verdict = (enum ration_verdict)count(quick, item->request, verdict, item->cost_tokens);
    item->status = RATION_OK;
    if (item->decision != NULL) {
        tell(quick, limit, item->cost_tokens, &step, item->decision);
        item->decision->limiter_index = quick->limiter->section_index;
    }
    *allowed += verdict == RATION_ALLOW;
    return true;
}

/* As take_chunk_lines(). */
static size_t tell_chunk_lines(const struct quick *quick, const struct ration_limit *own,
                               struct ration_batch_item *items, size_t item_count, size_t *allowed)
{
    struct ration_line_chunk chunk;
    size_t i;

    item_count = find_lines(quick, items, item_count, &chunk);
    for (i = 0; i < item_count; i++) {
        struct ration_place place = ration_place_of(chunk.hashes[i], quick->section->set_count);

        if (!tell_item(quick, own, &items[i], &place, chunk.slots[i], allowed))
            break;
    }
    return i;
}

size_t ration_quick_tell_chunk(struct ration_limiter *limiter, struct ration_batch_item *items,
                               size_t item_count, uint64_t now_ns, size_t *allowed)
{
    struct ration_place places[RATION_QUICK_CHUNK];
    struct ration_limit own;
    struct quick quick;
    size_t i;

    if (limiter->quick_section == NULL || !quick_begin(limiter, now_ns, &quick) ||
        limiter->configs.rule_count != 1)
        return 0;
    ration_config_read_limit(&quick.config->rules[0].limit, &own);
    if (ration_quick_line_possible(quick.section))
        return tell_chunk_lines(&quick, &own, items, item_count, allowed);
    item_count = find_places(quick.section, items, item_count, places);
    for (i = 0; i < item_count; i++)
        if (!tell_item(&quick, &own, &items[i], &places[i], NULL, allowed))
            break;
    return i;
}

bool ration_quick_tell(struct ration_limiter *limiter, const void *request, uint64_t cost_tokens,
                       uint64_t now_ns, struct ration_decision *out_decision)
{
    struct ration_batch_item item = {
        .request = request, .cost_tokens = cost_tokens, .decision = out_decision};
    size_t allowed_count = 0;

    return limiter->configs.rule_count == 1 && ration_quick_is_possible(limiter) &&
           ration_quick_tell_chunk(limiter, &item, 1, now_ns, &allowed_count) == 1;
}

uint64_t ration_quick_full_after_ns(const struct ration_limiter *limiter,
                                    const struct ration_key *key, uint64_t now_ns)
{
    const struct ration_section *section = limiter->quick_section;
    struct ration_place place = ration_place_of(
        ration_hash_key(&section->block->secret, key->bytes, key->size), section->set_count);
    struct ration_pair value;

    if (ration_plain_find(section, &place, &value) == NULL)
        return 0;
    return ration_gcra_full_after_ns(ration_pair_moment(value),
                                     ration_block_now(limiter->store->epoch_ns, now_ns));
}
