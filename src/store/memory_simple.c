/*
 * The short way: token buckets, all of one key, and nothing wanted but the verdict. A key that is
 * absent, or whose buckets are of an older generation, goes the long way (memory_op.c).
 */
#include "core/gcra.h"
#include "store/memory.h"

/* One bucket in a slot of its own. */
static int take_slot(const struct ration_section *section, const struct ration_place *place,
                     const struct ration_target *target, uint64_t cost_tokens, uint64_t since_ns)
{
    const struct ration_config *config = target->config;
    const struct ration_rate *rate = &config->rules[0].limit.rate;
    struct ration_pair value;
    struct ration_pair *slot = ration_plain_find(section, place, &value);

    while (slot != NULL && ration_plain_is_member(value, place->tag) &&
           ration_pair_mark(value) == config->generation) {
        struct ration_gcra_step step =
            ration_gcra_take(ration_pair_moment(value), rate, cost_tokens, 0, since_ns);
        struct ration_slot next = {place->tag, config->generation, step.next};

        if (!ration_config_stands(config, target->config_number))
            break;
        if (step.verdict != RATION_ALLOW || cost_tokens == 0)
            return (int)step.verdict;
        /* sequentially consistent: pairs with the loads in ration_plain_find() and with itself */
        if (ration_atomic16_swap(slot, &value, ration_slot_pack(next)))
            return RATION_ALLOW;
    }
    return RATION_TAKE_LONG;
}

/* Several buckets in the cells of an entry. */
static int take_entry(const struct ration_section *section, const struct ration_place *place,
                      const struct ration_target *target, uint64_t cost_tokens, uint64_t since_ns,
                      uint32_t *out_denied_mask)
{
    const struct ration_config *config = target->config;
    struct ration_entry_view view;
    struct ration_entry_next next;

    while (ration_entry_find(section, place, &view) &&
           ration_head_unpack(view.value.words[1]).generation == config->generation) {
        enum ration_verdict verdict = RATION_ALLOW;

        *out_denied_mask = 0;
        for (uint32_t i = 0; i < config->rule_count; i++) {
            struct ration_gcra_step step = ration_gcra_take(
                view.cells[i], &config->rules[i].limit.rate, cost_tokens, 0, since_ns);

            next.cells[i] = step.next;
            if (step.verdict != RATION_ALLOW)
                *out_denied_mask |= 1u << i;
            if (step.verdict > verdict)
                verdict = step.verdict;
        }
        if (!ration_config_stands(config, target->config_number))
            break;
        if (verdict != RATION_ALLOW || cost_tokens == 0)
            return (int)verdict;
        next.generation = config->generation;
        next.ring.modulus = 0;
        if (ration_entry_change(section, &view, &next))
            return RATION_ALLOW;
    }
    return RATION_TAKE_LONG;
}

int ration_memory_take_simple(struct ration_store *store, const struct ration_target *target,
                              uint64_t cost_tokens, uint64_t now_ns, uint32_t *out_denied_mask)
{
    const struct ration_memory *memory = (const struct ration_memory *)store;
    const struct ration_section *section = &memory->sections[target->section_index];
    struct ration_place place = ration_memory_place(memory, target);
    uint64_t since_ns = ration_block_now(store->epoch_ns, now_ns);

    if (section->shape.cell_count > 0)
        return take_entry(section, &place, target, cost_tokens, since_ns, out_denied_mask);
    *out_denied_mask = 1;
    return take_slot(section, &place, target, cost_tokens, since_ns);
}
