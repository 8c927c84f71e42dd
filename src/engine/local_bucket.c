/*
 * local_bucket: a bucket on this node, in front of the bucket in Redis.
 */
#include "base/time.h"
#include "engine/cache_entry.h"

#define DEBT_MAX RATION_FRAC_MASK /* tokens not yet reported to Redis */

/* The refill time of one token of the local bucket, in whole nanoseconds, rounded up. */
static uint64_t local_token_ns(const struct ration_local_cache_request *request)
{
    return ration_time_ceil_ns(
        ration_time_scale(request->limit->limit.rate.token, request->node_count));
}

/* Whole tokens left in a local bucket that is full at full_ns. */
static uint64_t remaining_tokens(const struct ration_local_cache_request *request, uint64_t full_ns,
                                 uint64_t table_now_ns)
{
    uint64_t token_ns = local_token_ns(request);
    uint64_t in_use_tokens =
        full_ns > table_now_ns ? (full_ns - table_now_ns + token_ns - 1) / token_ns : 0;

    return in_use_tokens < request->limit->limit.burst ? request->limit->limit.burst - in_use_tokens
                                                       : 0;
}

static uint64_t threshold_tokens(const struct ration_local_cache_request *request)
{
    return (request->limit->limit.burst * request->limit->threshold_percent + 99) / 100;
}

/* Whether Redis has denied this cost, or a smaller one, until a time in the future. */
static bool is_denied_by_redis(const struct ration_local_cache *local_cache,
                               const struct ration_local_cache_request *request,
                               uint64_t table_now_ns, struct ration_cache_entry *entry)
{
    ration_cache_entry_find(local_cache, request, RATION_CACHE_ENTRY_DENIAL, entry);
    return entry->slot != NULL && entry->until_ns > table_now_ns &&
           request->cost_tokens >= entry->count;
}

enum ration_local_cache_answer ration_local_bucket_take(
    struct ration_local_cache *local_cache, const struct ration_local_cache_request *request,
    uint64_t table_now_ns, struct ration_local_cache_result *result)
{
    uint64_t burst = request->limit->limit.burst;
    struct ration_cache_entry entry;

    if (request->cost_tokens > burst)
        return RATION_LOCAL_CACHE_MISS;
    if (is_denied_by_redis(local_cache, request, table_now_ns, &entry)) {
        if (!ration_cache_entry_is_trusted(local_cache, request, table_now_ns))
            return RATION_LOCAL_CACHE_MISS;
        /* a higher cost than the denied one has to wait longer */
        entry.until_ns += ration_time_ceil_ns(ration_time_scale(
            request->limit->limit.rate.token, request->cost_tokens - entry.count));
        return ration_cache_entry_deny(request, &entry, table_now_ns, result);
    }

    for (int i = 0; i < RATION_CACHE_ENTRY_TRIES_MAX; i++) {
        uint64_t remaining;

        ration_cache_entry_find(local_cache, request, RATION_CACHE_ENTRY_MAIN, &entry);
        remaining = remaining_tokens(request, entry.until_ns, table_now_ns);
        if (remaining < request->cost_tokens ||
            remaining - request->cost_tokens < threshold_tokens(request) ||
            entry.count + request->cost_tokens > DEBT_MAX)
            return RATION_LOCAL_CACHE_MISS;
        if (ration_cache_entry_change(local_cache, &entry,
                                      ration_cache_entry_larger(entry.until_ns, table_now_ns) +
                                          request->cost_tokens * local_token_ns(request),
                                      entry.count + request->cost_tokens, 0, table_now_ns)) {
            result->decision =
                ration_cache_entry_decision(request, remaining - request->cost_tokens);
            return RATION_LOCAL_CACHE_TAKEN;
        }
    }
    return RATION_LOCAL_CACHE_MISS;
}

uint64_t ration_local_bucket_drain_debt(struct ration_local_cache *local_cache,
                                        const struct ration_local_cache_request *request,
                                        uint64_t now_ns)
{
    uint64_t table_now_ns = ration_cache_entry_since(local_cache, now_ns);
    struct ration_cache_entry entry;

    if (request->limit->mode != RATION_POLICY_LOCAL_FIRST)
        return 0;
    for (int i = 0; i < RATION_CACHE_ENTRY_TRIES_MAX; i++) {
        ration_cache_entry_find(local_cache, request, RATION_CACHE_ENTRY_MAIN, &entry);
        if (entry.slot == NULL || entry.count == 0)
            return 0;
        if (ration_cache_entry_change(local_cache, &entry, entry.until_ns, 0, 0, table_now_ns))
            return entry.count;
    }
    return 0;
}

void ration_local_bucket_report_debt(struct ration_local_cache *local_cache,
                                     const struct ration_local_cache_request *request,
                                     uint64_t tokens, uint64_t now_ns)
{
    uint64_t table_now_ns = ration_cache_entry_since(local_cache, now_ns);
    struct ration_cache_entry entry;

    for (int i = 0; i < RATION_CACHE_ENTRY_TRIES_MAX && tokens > 0; i++) {
        ration_cache_entry_find(local_cache, request, RATION_CACHE_ENTRY_MAIN, &entry);
        if (ration_cache_entry_change(local_cache, &entry,
                                      ration_cache_entry_larger(entry.until_ns, table_now_ns + 1),
                                      entry.count + tokens, 0, table_now_ns))
            return;
    }
}

/*
 * Afterwards the local bucket has at most as many tokens as the bucket in Redis, and at most as many as before: other
 * threads may have taken from it since Redis decided.
 */
void ration_local_bucket_learn(struct ration_local_cache *local_cache,
                               const struct ration_local_cache_request *request,
                               const struct ration_decision *decision, uint64_t table_now_ns)
{
    uint64_t in_use_tokens =
        decision->limit > decision->remaining ? decision->limit - decision->remaining : 0;
    uint64_t full_ns = table_now_ns + in_use_tokens * local_token_ns(request);
    struct ration_cache_entry entry;

    if (decision->verdict == RATION_DENY) {
        ration_cache_entry_trust(local_cache, request, table_now_ns);
        ration_cache_entry_find(local_cache, request, RATION_CACHE_ENTRY_DENIAL, &entry);
        (void)ration_cache_entry_change(local_cache, &entry,
                                        table_now_ns + decision->retry_after_ns,
                                        request->cost_tokens, 0, table_now_ns);
    }
    for (int i = 0; i < RATION_CACHE_ENTRY_TRIES_MAX; i++) {
        ration_cache_entry_find(local_cache, request, RATION_CACHE_ENTRY_MAIN, &entry);
        if (entry.until_ns >= full_ns ||
            ration_cache_entry_change(local_cache, &entry, full_ns, entry.count, 0, table_now_ns))
            return;
    }
}

void ration_local_bucket_put_back(struct ration_local_cache *local_cache,
                                  const struct ration_local_cache_request *request,
                                  uint64_t table_now_ns)
{
    uint64_t refill_ns = request->cost_tokens * local_token_ns(request);
    struct ration_cache_entry entry;

    for (int i = 0; i < RATION_CACHE_ENTRY_TRIES_MAX; i++) {
        ration_cache_entry_find(local_cache, request, RATION_CACHE_ENTRY_MAIN, &entry);
        if (entry.slot == NULL || entry.count == 0)
            return; /* the debt was reported to Redis: the tokens stay spent */
        if (ration_cache_entry_change(
                local_cache, &entry, entry.until_ns > refill_ns ? entry.until_ns - refill_ns : 0,
                entry.count -
                    (entry.count < request->cost_tokens ? entry.count : request->cost_tokens),
                0, table_now_ns))
            return;
    }
}

/* After a reset the local bucket is full; after a block it is empty, so that Redis decides. */
void ration_local_bucket_apply_admin(struct ration_local_cache *local_cache,
                                     const struct ration_local_cache_request *request,
                                     enum ration_admin_op_kind kind, uint64_t table_now_ns)
{
    struct ration_cache_entry entry;

    ration_cache_entry_find(local_cache, request, RATION_CACHE_ENTRY_MAIN, &entry);
    if (kind == RATION_ADMIN_RESET)
        (void)ration_cache_entry_change(local_cache, &entry, table_now_ns, 0, 0, table_now_ns);
    else if (kind == RATION_ADMIN_BLOCK)
        (void)ration_cache_entry_change(local_cache, &entry,
                                        table_now_ns +
                                            request->limit->limit.burst * local_token_ns(request),
                                        entry.count, 0, table_now_ns);
}
