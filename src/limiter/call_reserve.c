/*
 * call_reserve: makes, settles and cancels reservations.
 *
 * A reservation has one share (struct ration_reservation_part) per enforced limit of each key.
 */
#include <string.h>

#include "limiter/call.h"

_Static_assert(sizeof(((struct ration_reservation_part *)0)->mark) ==
                   sizeof(union ration_bucket_words),
               "a reservation holds the state of a bucket of any algorithm");

static void write_reservation(const struct ration_call *call,
                              struct ration_reservation *out_reservation)
{
    out_reservation->ready_at_ns = call->op.ready_at_ns;
    out_reservation->part_count = 0;
    out_reservation->open = 1;
    for (uint32_t p = 0; p < call->op.part_count; p++) {
        const struct ration_key_part *part = &call->parts[p];
        const struct ration_limiter *limiter = call->limiters[p];

        for (uint32_t i = 0; i < part->rule_count; i++) {
            struct ration_reservation_part *share =
                &out_reservation->parts[out_reservation->part_count];

            if (part->limits[i] == NULL || ration_op_part_is_shadow(part, i))
                continue;
            *share = (struct ration_reservation_part){
                .cost_tokens = part->costs[i],
                .chosen = ration_op_part_is_one_budget(part, i) ? part->limits[i] : NULL,
                .limiter_index = limiter->section_index,
                .rule_index = i,
                .reserve_part = part->marks[i].part,
                .is_overflow = part->marks[i].is_overflow,
                .has_own_cost = part->own_cost_mask >> i & 1,
                .returned_tokens = part->marks[i].returned_tokens,
                .refunded_tokens = part->marks[i].refunded_tokens,
                .config_number = part->to.config_number,
            };
            memcpy(share->location, part->to.location.words, sizeof(share->location));
            memcpy(share->before, &part->marks[i].before, sizeof(share->before));
            memcpy(share->mark, &part->marks[i].state, sizeof(share->mark));
            out_reservation->part_count++;
        }
    }
}

ration_status ration_call_reserve(const struct ration_call_request *requests, size_t request_count,
                                  uint64_t max_wait_ns, uint64_t now_ns,
                                  struct ration_decision *out_decision,
                                  struct ration_reservation *out_reservation)
{
    struct ration_call call;
    ration_status status;

    call.op =
        (struct ration_op){.kind = RATION_OP_RESERVE, .now_ns = now_ns, .max_wait_ns = max_wait_ns};
    status = ration_call_take(&call, requests, request_count, out_decision, NULL);
    if (status == RATION_OK && call.op.decision.verdict == RATION_ALLOW)
        write_reservation(&call, out_reservation);
    return status;
}

/* Copies one limit's share of a reservation into the part of an op that settles it. */
static void read_share(const struct ration_reservation_part *share, struct ration_key_part *part)
{
    uint32_t i = share->rule_index;
    const struct ration_limit *limit = &part->own_limits[i];
    struct ration_op_mark *mark = &part->marks[i];

    if (share->chosen != NULL && ration_bucket_state_is_same_layout(limit, share->chosen))
        limit = share->chosen;
    part->limits[i] = limit;
    part->costs[i] = share->cost_tokens;
    part->own_cost_mask |= (uint32_t)(share->has_own_cost != 0) << i;
    /* the limits changed since: the bucket was converted, and the reserved tokens can no longer be identified */
    mark->is_kept = share->config_number != part->to.config_number ||
                    (share->chosen != NULL && limit != share->chosen);
    mark->part = (enum ration_reserve_part)share->reserve_part;
    mark->returned_tokens = share->returned_tokens;
    mark->refunded_tokens = share->refunded_tokens;
    memcpy(&mark->before, share->before, sizeof(mark->before));
    memcpy(&mark->state, share->mark, sizeof(mark->state));
}

/* Copies the shares of one limiter's key into a part of an op. */
static void read_shares(const struct ration_limiter *limiter,
                        const struct ration_reservation *reservation, uint32_t first,
                        struct ration_limit *room, struct ration_key_part *part)
{
    memset(part, 0, sizeof(*part));
    part->own_limits = room;
    ration_op_read_config(part, &limiter->configs);
    part->to.section_index = limiter->section_index;
    part->to.is_located = 1;
    part->overflow = limiter->overflow;
    memcpy(part->to.location.words, reservation->parts[first].location,
           sizeof(part->to.location.words));
    for (uint32_t k = first; k < reservation->part_count; k++) {
        const struct ration_reservation_part *share = &reservation->parts[k];

        if (share->limiter_index == limiter->section_index &&
            share->rule_index < part->rule_count &&
            memcmp(share->location, reservation->parts[first].location, sizeof(share->location)) ==
                0)
            read_share(share, part);
    }
    for (uint32_t i = 0; i < part->rule_count; i++)
        part->marks[i].is_overflow = reservation->parts[first].is_overflow;
}

/*
 * A log returns tokens in steps, and its share records how far they got; the other limits of the key return all
 * at once. Returns whether a step is left.
 */
static bool is_step_left(const struct ration_key_part *part, struct ration_reservation *reservation,
                         uint32_t first)
{
    bool is_left = false;

    for (uint32_t k = first; k < reservation->part_count; k++) {
        struct ration_reservation_part *share = &reservation->parts[k];
        uint32_t i = share->rule_index;

        if (share->limiter_index != part->to.section_index || i >= part->rule_count ||
            memcmp(share->location, reservation->parts[first].location, sizeof(share->location)) !=
                0)
            continue;
        if (part->limits[i] != NULL && part->limits[i]->algorithm == RATION_SLIDING_LOG &&
            part->marks[i].state.log.newest_ns != 0) {
            memcpy(share->mark, &part->marks[i].state, sizeof(share->mark));
            is_left = true;
        } else {
            share->limiter_index = UINT32_MAX; /* done: later steps skip it */
        }
    }
    return is_left;
}

/* Settles all shares that a reservation has of the key of its share at index first. */
static ration_status settle_key(struct ration_limiter *limiter,
                                struct ration_reservation *reservation, uint32_t first,
                                uint64_t used_tokens, uint64_t now_ns)
{
    struct ration_limit own_limits[RATION_RULES_MAX];
    struct ration_key_part part;
    struct ration_op op;
    ration_status status;

    do {
        read_shares(limiter, reservation, first, own_limits, &part);
        op = (struct ration_op){.kind = RATION_OP_SETTLE,
                                .now_ns = now_ns,
                                .used_tokens = used_tokens,
                                .ready_at_ns = reservation->ready_at_ns,
                                .part_count = 1,
                                .parts = &part};
        status = limiter->store->calls->begin(limiter->store, &op);
    } while (status == RATION_OK && (op.is_outdated || is_step_left(&part, reservation, first)));
    return status;
}

ration_status ration_call_settle(struct ration_limiter *const *limiters, uint32_t limiter_count,
                                 struct ration_reservation *reservation, uint64_t used_tokens,
                                 uint64_t now_ns)
{
    ration_status status = RATION_OK;

    if (!reservation->open)
        return RATION_ECLOSED;
    for (uint32_t k = 0; k < reservation->part_count; k++)
        if (reservation->parts[k].limiter_index >= limiter_count)
            return RATION_EINVAL;
    reservation->open = 0;
    for (uint32_t k = 0; k < reservation->part_count && status == RATION_OK; k++)
        if (reservation->parts[k].limiter_index != UINT32_MAX)
            status = settle_key(limiters[reservation->parts[k].limiter_index], reservation, k,
                                used_tokens, now_ns);
    return status;
}

ration_status ration_limiter_reserve(ration_limiter *limiter, const void *request,
                                     uint64_t cost_tokens, uint64_t max_wait_ns, uint64_t now_ns,
                                     struct ration_decision *out_decision,
                                     struct ration_reservation *out_reservation)
{
    return ration_call_reserve(&(struct ration_call_request){limiter, request, cost_tokens, NULL},
                               1, max_wait_ns, now_ns, out_decision, out_reservation);
}

/* Limiter indexes in a reservation are those of the stack that the limiter may belong to. */
ration_status ration_limiter_settle(ration_limiter *limiter, struct ration_reservation *reservation,
                                    uint64_t used_tokens, uint64_t now_ns)
{
    if (limiter->stack != NULL)
        return ration_stack_settle(limiter->stack, reservation, used_tokens, now_ns);
    return ration_call_settle(&limiter, 1, reservation, used_tokens, now_ns);
}

ration_status ration_limiter_cancel(ration_limiter *limiter, struct ration_reservation *reservation,
                                    uint64_t now_ns)
{
    return ration_limiter_settle(limiter, reservation, 0, now_ns);
}
