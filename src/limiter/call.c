#include "limiter/call.h"

#include <string.h>

/* Returns the index of a part of the same limiter with the same key, or part_count. */
static uint32_t find_same_bucket(const struct ration_call *call, const struct ration_key_part *part)
{
    uint32_t p = 0;

    for (; p < call->op.part_count; p++) {
        const struct ration_key_part *other = &call->parts[p];

        if (other->to.section_index == part->to.section_index &&
            other->to.key.size == part->to.key.size &&
            (part->to.key.size == 0 ||
             memcmp(other->to.key.bytes, part->to.key.bytes, part->to.key.size) == 0))
            break;
    }
    return p;
}

/* Adds the costs of another part to the part of the same bucket. Costs saturate at UINT64_MAX. */
static void merge_part(struct ration_key_part *part, const struct ration_key_part *other)
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

/* Uses an inline limit (one that came with the request) instead of the limit of the only rule. */
static ration_status replace_limit(struct ration_key_part *part, const struct ration_limit *limit)
{
    if (part->rule_count != 1 || !ration_bucket_state_is_same_layout(&part->own_limits[0], limit))
        return RATION_EUNSUPPORTED;
    part->limits[0] = limit;
    return RATION_OK;
}

static bool has_several_limiters(const struct ration_call *call)
{
    for (uint32_t p = 1; p < call->op.part_count; p++)
        if (call->limiters[p] != call->limiters[0])
            return true;
    return false;
}

/*
 * Whether the caller might have to wait for its start time; evaluation.h says why several limiters do not
 * support that.
 */
static bool has_queue(const struct ration_call *call)
{
    for (uint32_t p = 0; p < call->op.part_count; p++)
        for (uint32_t i = 0; i < call->parts[p].rule_count; i++)
            if (call->parts[p].limits[i] != NULL &&
                call->parts[p].limits[i]->algorithm == RATION_LEAKY_QUEUE)
                return true;
    return false;
}

/* A key is reset or blocked under every limit that a rule chooses from, whichever the rule chose. */
static void apply_to_all_choices(struct ration_key_part *part)
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

static ration_status open_parts(struct ration_call *call,
                                const struct ration_call_request *requests, size_t request_count)
{
    uint32_t rule_count = 0;

    call->op.part_count = 0;
    for (size_t i = 0; i < request_count; i++) {
        struct ration_key_part extra;
        bool is_one_too_many = call->op.part_count == RATION_CALL_KEYS_MAX;
        char extra_room[RATION_KEY_ROOM_SIZE];
        struct ration_key_part *part = is_one_too_many ? &extra : &call->parts[call->op.part_count];
        char *room = is_one_too_many ? extra_room : call->rooms[call->op.part_count];
        ration_status status;

        part->own_limits = &call->own_limits[rule_count];
        status = ration_limiter_open_part(requests[i].limiter, requests[i].request, room,
                                          requests[i].cost_tokens, part);

        if (status == RATION_OK && requests[i].limit != NULL)
            status = replace_limit(part, requests[i].limit);
        if (status == RATION_OK &&
            (call->op.kind == RATION_OP_RESET || call->op.kind == RATION_OP_BLOCK))
            apply_to_all_choices(part);

        if (status != RATION_OK) {
            ration_limiter_counts_add_error(
                &requests[i].limiter->counts,
                (uint32_t)ration_limiter_rule_count(requests[i].limiter));
            return status;
        }

        uint32_t same = find_same_bucket(call, part);

        if (same < call->op.part_count) {
            merge_part(&call->parts[same], part);
            continue;
        }
        rule_count += part->rule_count;
        if (is_one_too_many || rule_count > RATION_CALL_RULES_MAX)
            return RATION_EINVAL;
        call->limiters[call->op.part_count++] = requests[i].limiter;
    }
    return has_several_limiters(call) && has_queue(call) ? RATION_EUNSUPPORTED : RATION_OK;
}

static bool is_counted(enum ration_op_kind kind)
{
    return kind == RATION_OP_TAKE || kind == RATION_OP_RESERVE || kind == RATION_OP_UP_TO;
}

ration_status ration_call_run(struct ration_call *call, const struct ration_call_request *requests,
                              size_t request_count)
{
    struct ration_store *store = requests[0].limiter->store;
    ration_status status;

    call->op.parts = call->parts;
    do {
        call->op.is_outdated = false;
        status = open_parts(call, requests, request_count);
        if (status == RATION_OK)
            status = store->calls->begin(store, &call->op);
    } while (status == RATION_OK && call->op.is_outdated);
    for (uint32_t p = 0; status == RATION_OK && p < call->op.part_count; p++) {
        ration_limiter_counts_add_created(&call->limiters[p]->counts, &call->parts[p]);
        if (is_counted(call->op.kind))
            ration_limiter_counts_add_result(&call->limiters[p]->counts, &call->op,
                                             &call->parts[p]);
    }
    return status;
}
