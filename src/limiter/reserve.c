/*
 * reserve: places in line, and how they end.
 */
#include <string.h>

#include "limiter/calls.h"

_Static_assert(sizeof(((struct ration_ticket_part *)0)->mark) == sizeof(union ration_any_state),
               "a ticket holds the state of a bucket of any algorithm");

static void write_ticket(const struct ration_call *call, struct ration_ticket *out_ticket)
{
    out_ticket->ready_at_ns = call->op.ready_at_ns;
    out_ticket->part_count = 0;
    out_ticket->open = 1;
    for (uint32_t p = 0; p < call->op.part_count; p++) {
        const struct ration_op_part *part = &call->parts[p];
        const struct ration_limiter *limiter = call->limiters[p];

        for (uint32_t i = 0; i < part->rule_count; i++) {
            struct ration_ticket_part *slip = &out_ticket->parts[out_ticket->part_count];

            if (part->limits[i] == NULL || ration_part_is_shadow(part, i))
                continue;
            *slip = (struct ration_ticket_part){
                .cost_tokens = part->costs[i],
                .chosen = ration_part_is_one_budget(part, i) ? part->limits[i] : NULL,
                .limiter_index = limiter->section_index,
                .rule_index = i,
                .reserve_part = part->marks[i].part,
                .is_overflow = part->marks[i].is_overflow,
                .has_own_cost = part->own_cost_mask >> i & 1,
                .returned_tokens = part->marks[i].returned_tokens,
                .refunded_tokens = part->marks[i].refunded_tokens,
                .config_number = part->to.config_number,
            };
            memcpy(slip->spot, part->to.spot.words, sizeof(slip->spot));
            memcpy(slip->before, &part->marks[i].before, sizeof(slip->before));
            memcpy(slip->mark, &part->marks[i].state, sizeof(slip->mark));
            out_ticket->part_count++;
        }
    }
}

ration_status ration_call_reserve(const struct ration_call_ask *asks, size_t ask_count,
                                  uint64_t max_wait_ns, uint64_t now_ns,
                                  struct ration_decision *out_decision,
                                  struct ration_ticket *out_ticket)
{
    struct ration_call call;
    ration_status status;

    call.op =
        (struct ration_op){.kind = RATION_OP_RESERVE, .now_ns = now_ns, .max_wait_ns = max_wait_ns};
    status = ration_call_take(&call, asks, ask_count, out_decision, NULL);
    if (status == RATION_OK && call.op.decision.verdict == RATION_ALLOW)
        write_ticket(&call, out_ticket);
    return status;
}

/* One limit's share of a ticket, in the part of an op that settles it. */
static void read_slip(const struct ration_ticket_part *slip, struct ration_op_part *part)
{
    uint32_t i = slip->rule_index;
    const struct ration_limit *limit = &part->own_limits[i];
    struct ration_op_mark *mark = &part->marks[i];

    if (slip->chosen != NULL && ration_any_is_alike(limit, slip->chosen))
        limit = slip->chosen;
    part->limits[i] = limit;
    part->costs[i] = slip->cost_tokens;
    part->own_cost_mask |= (uint32_t)(slip->has_own_cost != 0) << i;
    /* other limits came since: what is outstanding was converted, and is not known any more */
    mark->is_kept = slip->config_number != part->to.config_number ||
                    (slip->chosen != NULL && limit != slip->chosen);
    mark->part = (enum ration_reserve_part)slip->reserve_part;
    mark->returned_tokens = slip->returned_tokens;
    mark->refunded_tokens = slip->refunded_tokens;
    memcpy(&mark->before, slip->before, sizeof(mark->before));
    memcpy(&mark->state, slip->mark, sizeof(mark->state));
}

/* The slips of one limiter's key, as a part of an op. */
static void read_slips(const struct ration_limiter *limiter, const struct ration_ticket *ticket,
                       uint32_t first, struct ration_limit *room, struct ration_op_part *part)
{
    memset(part, 0, sizeof(*part));
    part->own_limits = room;
    ration_part_read_config(part, &limiter->configs);
    part->to.section_index = limiter->section_index;
    part->to.is_located = 1;
    part->overflow = limiter->overflow;
    memcpy(part->to.spot.words, ticket->parts[first].spot, sizeof(part->to.spot.words));
    for (uint32_t k = first; k < ticket->part_count; k++) {
        const struct ration_ticket_part *slip = &ticket->parts[k];

        if (slip->limiter_index == limiter->section_index && slip->rule_index < part->rule_count &&
            memcmp(slip->spot, ticket->parts[first].spot, sizeof(slip->spot)) == 0)
            read_slip(slip, part);
    }
    for (uint32_t i = 0; i < part->rule_count; i++)
        part->marks[i].is_overflow = ticket->parts[first].is_overflow;
}

/*
 * A log gives tokens back in steps, which the slip of the log remembers; the other limits of the key
 * give back all at once. Whether a step is left to be taken.
 */
static bool is_step_left(const struct ration_op_part *part, struct ration_ticket *ticket,
                         uint32_t first)
{
    bool is_left = false;

    for (uint32_t k = first; k < ticket->part_count; k++) {
        struct ration_ticket_part *slip = &ticket->parts[k];
        uint32_t i = slip->rule_index;

        if (slip->limiter_index != part->to.section_index || i >= part->rule_count ||
            memcmp(slip->spot, ticket->parts[first].spot, sizeof(slip->spot)) != 0)
            continue;
        if (part->limits[i] != NULL && part->limits[i]->algorithm == RATION_SLIDING_LOG &&
            part->marks[i].state.log.newest_ns != 0) {
            memcpy(slip->mark, &part->marks[i].state, sizeof(slip->mark));
            is_left = true;
        } else {
            slip->limiter_index = UINT32_MAX; /* done: no part of what follows */
        }
    }
    return is_left;
}

/* Settles what a ticket has of the key of its slip at first. */
static ration_status settle_key(struct ration_limiter *limiter, struct ration_ticket *ticket,
                                uint32_t first, uint64_t used_tokens, uint64_t now_ns)
{
    struct ration_limit own_limits[RATION_RULES_MAX];
    struct ration_op_part part;
    struct ration_op op;
    ration_status status;

    do {
        read_slips(limiter, ticket, first, own_limits, &part);
        op = (struct ration_op){.kind = RATION_OP_SETTLE,
                                .now_ns = now_ns,
                                .used_tokens = used_tokens,
                                .ready_at_ns = ticket->ready_at_ns,
                                .part_count = 1,
                                .parts = &part};
        status = limiter->store->calls->begin(limiter->store, &op);
    } while (status == RATION_OK && (op.is_outdated || is_step_left(&part, ticket, first)));
    return status;
}

ration_status ration_call_settle(struct ration_limiter *const *limiters, uint32_t limiter_count,
                                 struct ration_ticket *ticket, uint64_t used_tokens,
                                 uint64_t now_ns)
{
    ration_status status = RATION_OK;

    if (!ticket->open)
        return RATION_ECLOSED;
    for (uint32_t k = 0; k < ticket->part_count; k++)
        if (ticket->parts[k].limiter_index >= limiter_count)
            return RATION_EINVAL;
    ticket->open = 0;
    for (uint32_t k = 0; k < ticket->part_count && status == RATION_OK; k++)
        if (ticket->parts[k].limiter_index != UINT32_MAX)
            status = settle_key(limiters[ticket->parts[k].limiter_index], ticket, k, used_tokens,
                                now_ns);
    return status;
}

ration_status ration_limiter_reserve(ration_limiter *limiter, const void *request,
                                     uint64_t cost_tokens, uint64_t max_wait_ns, uint64_t now_ns,
                                     struct ration_decision *out_decision,
                                     struct ration_ticket *out_ticket)
{
    return ration_call_reserve(&(struct ration_call_ask){limiter, request, cost_tokens, NULL}, 1,
                               max_wait_ns, now_ns, out_decision, out_ticket);
}

/* A ticket counts limiters from the first of the stack that this one may belong to. */
ration_status ration_limiter_settle(ration_limiter *limiter, struct ration_ticket *ticket,
                                    uint64_t used_tokens, uint64_t now_ns)
{
    if (limiter->stack != NULL)
        return ration_stack_settle(limiter->stack, ticket, used_tokens, now_ns);
    return ration_call_settle(&limiter, 1, ticket, used_tokens, now_ns);
}

ration_status ration_limiter_cancel(ration_limiter *limiter, struct ration_ticket *ticket,
                                    uint64_t now_ns)
{
    return ration_limiter_settle(limiter, ticket, 0, now_ns);
}
