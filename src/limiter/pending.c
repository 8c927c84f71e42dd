/*
 * pending: a take that its store may answer later.
 */
#include "limiter/limiter.h"

/* What lies in the caller's struct ration_pending. */
struct pending {
    struct ration_op op;
    struct ration_op_part part;
    struct ration_limit own_limits[RATION_RULES_MAX];
    struct ration_limiter *limiter;
    const void *request;
    uint64_t cost_tokens;
    struct ration_pending *outer;
    char key_room[RATION_KEY_ROOM_SIZE];
};

_Static_assert(sizeof(struct pending) <= sizeof(((struct ration_pending *)0)->room),
               "a pending take fits the caller's room");

static void answer_later(struct ration_op *op, ration_status status);

/* Asks the store, again if the limits were changed meanwhile. */
static ration_status ask(struct pending *pending)
{
    struct ration_store *store = pending->limiter->store;
    ration_status status;

    do {
        status = ration_limiter_open_part(pending->limiter, pending->request, pending->key_room,
                                          pending->cost_tokens, &pending->part);
        pending->op.is_outdated = false;
        if (status == RATION_OK)
            status = store->calls->begin(store, &pending->op);
    } while (status == RATION_OK && pending->op.is_outdated);
    return status;
}

static void count(struct pending *pending, ration_status status)
{
    struct ration_tally *tally = &pending->limiter->tally;

    if (status == RATION_OK) {
        ration_tally_places(tally, &pending->part);
        ration_tally_part(tally, &pending->op, &pending->part);
    } else {
        ration_tally_error(tally, (uint32_t)ration_limiter_rule_count(pending->limiter));
    }
}

static void answer_later(struct ration_op *op, ration_status status)
{
    struct pending *pending = op->done_context;

    if (status == RATION_OK && op->is_outdated)
        status = ask(pending);
    if (status == RATION_EPENDING)
        return;
    count(pending, status);
    pending->outer->done(pending->outer, status, &op->decision);
}

ration_status ration_limiter_begin(ration_limiter *limiter, const void *request,
                                   uint64_t cost_tokens, uint64_t now_ns,
                                   struct ration_pending *outer,
                                   struct ration_decision *out_decision)
{
    struct pending *pending = (struct pending *)(void *)outer->room;
    ration_status status;

    pending->op = (struct ration_op){
        .kind = RATION_OP_TAKE,
        .now_ns = now_ns,
        .has_decision = true,
        .part_count = 1,
        .parts = &pending->part,
        .done = answer_later,
        .done_context = pending,
    };
    pending->part.own_limits = pending->own_limits;
    pending->limiter = limiter;
    pending->request = request;
    pending->cost_tokens = cost_tokens;
    pending->outer = outer;
    status = ask(pending);
    if (status == RATION_EPENDING)
        return status;
    count(pending, status);
    if (status == RATION_OK)
        *out_decision = pending->op.decision;
    return status;
}
