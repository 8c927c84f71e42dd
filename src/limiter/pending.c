/*
 * pending: a take that its store may answer asynchronously.
 */
#include "limiter/limiter_internal.h"

/* The contents of the caller's struct ration_pending. */
struct pending {
    struct ration_op op;
    struct ration_key_part part;
    struct ration_limit own_limits[RATION_RULES_MAX];
    struct ration_limiter *limiter;
    const void *request;
    uint64_t cost_tokens;
    struct ration_pending *outer;
    char key_room[RATION_KEY_ROOM_SIZE];
};

_Static_assert(sizeof(struct pending) <= sizeof(((struct ration_pending *)0)->room),
               "a pending take fits the caller's room");

static void finish_async(struct ration_op *op, ration_status status);

/* Runs the op; repeats it if the limits were changed meanwhile. */
static ration_status run_op(struct pending *pending)
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

static void count_result(struct pending *pending, ration_status status)
{
    struct ration_limiter_counts *counts = &pending->limiter->counts;

    if (status == RATION_OK) {
        ration_limiter_counts_add_created(counts, &pending->part);
        ration_limiter_counts_add_result(counts, &pending->op, &pending->part);
    } else {
        ration_limiter_counts_add_error(counts,
                                        (uint32_t)ration_limiter_rule_count(pending->limiter));
    }
}

static void finish_async(struct ration_op *op, ration_status status)
{
    struct pending *pending = op->done_context;

    if (status == RATION_OK && op->is_outdated)
        status = run_op(pending);
    if (status == RATION_EPENDING)
        return;
    count_result(pending, status);
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
        .done = finish_async,
        .done_context = pending,
    };
    pending->part.own_limits = pending->own_limits;
    pending->limiter = limiter;
    pending->request = request;
    pending->cost_tokens = cost_tokens;
    pending->outer = outer;
    status = run_op(pending);
    if (status == RATION_EPENDING)
        return status;
    count_result(pending, status);
    if (status == RATION_OK)
        *out_decision = pending->op.decision;
    return status;
}
