#include "limiter/calls.h"

#include <string.h>

/* A part of the same limiter with the same key, or part_count. */
static uint32_t find_same(const struct ration_call *call, const struct ration_op_part *part)
{
    uint32_t p = 0;

    for (; p < call->op.part_count; p++) {
        const struct ration_op_part *other = &call->parts[p];

        if (other->to.section_index == part->to.section_index &&
            other->to.key.size == part->to.key.size &&
            (part->to.key.size == 0 ||
             memcmp(other->to.key.bytes, part->to.key.bytes, part->to.key.size) == 0))
            break;
    }
    return p;
}

/* Adds what is asked for to the part of the same bucket. Costs stop at UINT64_MAX. */
static void merge(struct ration_op_part *part, const struct ration_op_part *other)
{
    part->own_cost_mask |= other->own_cost_mask;
    for (uint32_t i = 0; i < part->rule_count; i++) {
        uint64_t room = UINT64_MAX - part->costs[i];

        if (part->limits[i] == NULL) {
            part->limits[i] =
                other->limits[i] == &other->own_limits[i] ? &part->own_limits[i] : other->limits[i];
            part->costs[i] = other->costs[i];
        } else if (other->limits[i] != NULL) {
            part->costs[i] += other->costs[i] < room ? other->costs[i] : room;
        }
    }
}

/* A limit that came with the request, in place of the only rule's. */
static ration_status replace_limit(struct ration_op_part *part, const struct ration_limit *limit)
{
    if (part->rule_count != 1 || !ration_any_is_alike(&part->own_limits[0], limit))
        return RATION_EUNFIT;
    part->limits[0] = limit;
    return RATION_OK;
}

/* Whether several limiters are asked. */
static bool is_mixed(const struct ration_call *call)
{
    for (uint32_t p = 1; p < call->op.part_count; p++)
        if (call->limiters[p] != call->limiters[0])
            return true;
    return false;
}

/* Whether a turn would have to be waited for; see judge.h on why that is not for several limiters. */
static bool has_queue(const struct ration_call *call)
{
    for (uint32_t p = 0; p < call->op.part_count; p++)
        for (uint32_t i = 0; i < call->parts[p].rule_count; i++)
            if (call->parts[p].limits[i] != NULL &&
                call->parts[p].limits[i]->algorithm == RATION_LEAKY_QUEUE)
                return true;
    return false;
}

/* A key is reset and blocked under every limit that a rule chooses from, whichever it chose. */
static void widen(struct ration_op_part *part)
{
    const struct ration_config *config = part->to.config;

    for (uint32_t i = 0; i < part->rule_count; i++) {
        uint32_t first = ration_config_first_choice(config, i);
        uint64_t count = RATION_CONFIG_READ(config->rules[i].choice_count);

        for (uint32_t k = 0; part->limits[i] != NULL && k < count && first + k < part->rule_count;
             k++)
            part->limits[first + k] = &part->own_limits[first + k];
    }
}

static ration_status open_parts(struct ration_call *call, const struct ration_call_ask *asks,
                                size_t ask_count)
{
    uint32_t rule_count = 0;

    call->op.part_count = 0;
    for (size_t i = 0; i < ask_count; i++) {
        struct ration_op_part extra;
        bool is_last_room = call->op.part_count == RATION_CALL_KEYS_MAX;
        char extra_room[RATION_KEY_ROOM_SIZE];
        struct ration_op_part *part = is_last_room ? &extra : &call->parts[call->op.part_count];
        char *room = is_last_room ? extra_room : call->rooms[call->op.part_count];
        ration_status status;

        part->own_limits = &call->own_limits[rule_count];
        status = ration_limiter_open_part(asks[i].limiter, asks[i].request, room,
                                          asks[i].cost_tokens, part);

        if (status == RATION_OK && asks[i].limit != NULL)
            status = replace_limit(part, asks[i].limit);
        if (status == RATION_OK &&
            (call->op.kind == RATION_OP_RESET || call->op.kind == RATION_OP_BLOCK))
            widen(part);

        if (status != RATION_OK) {
            ration_tally_error(&asks[i].limiter->tally,
                               (uint32_t)ration_limiter_rule_count(asks[i].limiter));
            return status;
        }

        uint32_t same = find_same(call, part);

        if (same < call->op.part_count) {
            merge(&call->parts[same], part);
            continue;
        }
        rule_count += part->rule_count;
        if (is_last_room || rule_count > RATION_CALL_RULES_MAX)
            return RATION_EINVAL;
        call->limiters[call->op.part_count++] = asks[i].limiter;
    }
    return is_mixed(call) && has_queue(call) ? RATION_EUNFIT : RATION_OK;
}

static bool is_counted(enum ration_op_kind kind)
{
    return kind == RATION_OP_TAKE || kind == RATION_OP_RESERVE || kind == RATION_OP_UP_TO;
}

ration_status ration_call_run(struct ration_call *call, const struct ration_call_ask *asks,
                              size_t ask_count)
{
    struct ration_store *store = asks[0].limiter->store;
    ration_status status;

    call->op.parts = call->parts;
    do {
        call->op.is_outdated = false;
        status = open_parts(call, asks, ask_count);
        if (status == RATION_OK)
            status = store->calls->begin(store, &call->op);
    } while (status == RATION_OK && call->op.is_outdated);
    for (uint32_t p = 0; status == RATION_OK && p < call->op.part_count; p++) {
        ration_tally_places(&call->limiters[p]->tally, &call->parts[p]);
        if (is_counted(call->op.kind))
            ration_tally_part(&call->limiters[p]->tally, &call->op, &call->parts[p]);
    }
    return status;
}
