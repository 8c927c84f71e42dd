#include "engine/local_cache.h"

#include <stdlib.h>

#include "engine/cache_entry.h"

#define CACHE_ENTRIES_MAX 1000000 /* Redis decides checks of a key without an entry */

ration_status ration_local_cache_create(const struct ration_clock *clock, uint32_t threads_max,
                                        struct ration_local_cache **out_cache,
                                        struct ration_error *error)
{
    struct ration_local_cache *local_cache = calloc(1, sizeof(*local_cache));
    struct ration_rule rule = {0};
    struct ration_limiter_options options = {
        .struct_size = sizeof(options),
        .rules = &rule,
        .rule_count = 1,
        .keys_max = CACHE_ENTRIES_MAX,
        .clock = clock,
        .threads_max = threads_max,
    };
    ration_status status;

    if (local_cache == NULL)
        return RATION_ENOMEM;
    (void)ration_limit_per_second(1, &rule.limit); /* any valid limit: only the table is used */
    status = ration_limiter_create(&options, &local_cache->limiter, error);
    if (status != RATION_OK) {
        free(local_cache);
        return status;
    }
    *out_cache = local_cache;
    return RATION_OK;
}

void ration_local_cache_free(struct ration_local_cache *local_cache)
{
    if (local_cache == NULL)
        return;
    ration_limiter_free(local_cache->limiter);
    free(local_cache);
}

enum ration_local_cache_answer ration_local_cache_take(
    struct ration_local_cache *local_cache, const struct ration_local_cache_request *request,
    uint64_t now_ns, struct ration_local_cache_result *out_result)
{
    uint64_t table_now_ns = ration_cache_entry_since(local_cache, now_ns);

    *out_result = (struct ration_local_cache_result){.lease_tokens = 0};
    if (request->limit->mode == RATION_POLICY_LEASE)
        return ration_local_lease_take(local_cache, request, table_now_ns, out_result);
    if (request->limit->mode == RATION_POLICY_LOCAL_FIRST)
        return ration_local_bucket_take(local_cache, request, table_now_ns, out_result);
    return RATION_LOCAL_CACHE_MISS;
}

void ration_local_cache_put_back(struct ration_local_cache *local_cache,
                                 const struct ration_local_cache_request *request,
                                 const struct ration_local_cache_result *result, uint64_t now_ns)
{
    uint64_t table_now_ns = ration_cache_entry_since(local_cache, now_ns);

    if (request->limit->mode == RATION_POLICY_LEASE)
        ration_local_lease_put_back(local_cache, request, result, table_now_ns);
    else if (request->limit->mode == RATION_POLICY_LOCAL_FIRST)
        ration_local_bucket_put_back(local_cache, request, table_now_ns);
}

void ration_local_cache_learn(struct ration_local_cache *local_cache,
                              const struct ration_local_cache_request *request,
                              const struct ration_decision *decision,
                              const struct ration_local_lease_granted *granted, uint64_t now_ns)
{
    uint64_t table_now_ns = ration_cache_entry_since(local_cache, now_ns);

    if (decision->verdict == RATION_NEVER)
        return;
    if (request->limit->mode == RATION_POLICY_LEASE)
        ration_local_lease_learn(local_cache, request, decision, granted, table_now_ns);
    else if (request->limit->mode == RATION_POLICY_LOCAL_FIRST)
        ration_local_bucket_learn(local_cache, request, decision, table_now_ns);
}

void ration_local_cache_apply_admin(struct ration_local_cache *local_cache,
                                    const struct ration_local_cache_request *request,
                                    enum ration_admin_op_kind kind, uint64_t now_ns)
{
    uint64_t table_now_ns = ration_cache_entry_since(local_cache, now_ns);

    if (request->limit->mode == RATION_POLICY_STRICT)
        return;
    ration_cache_entry_forget(local_cache, request, RATION_CACHE_ENTRY_DENIAL, table_now_ns);
    ration_cache_entry_forget(local_cache, request, RATION_CACHE_ENTRY_DENIAL_TTL, table_now_ns);
    if (request->limit->mode == RATION_POLICY_LEASE)
        ration_local_lease_apply_admin(local_cache, request, kind, table_now_ns);
    else
        ration_local_bucket_apply_admin(local_cache, request, kind, table_now_ns);
}
