/*
 * cache_entry: entries in a table of their own, and the decisions that all modes report.
 */
#include "engine/cache_entry.h"

#include "base/hash_siphash.h"
#include "base/os.h"
#include "base/time.h"
#include "table/plain.h"

#define COUNT_MAX     RATION_FRAC_MASK
#define DENIAL_TTL_NS (500 * RATION_NS_PER_MS) /* a cached denial is trusted this long */

uint64_t ration_cache_entry_since(const struct ration_local_cache *local_cache, uint64_t now_ns)
{
    return ration_block_now(local_cache->limiter->store->epoch_ns, now_ns);
}

static void unpack_entry(struct ration_cache_entry *entry)
{
    struct ration_time expires_at = ration_slot_expires_at(entry->value);

    entry->until_ns = expires_at.ns;
    entry->count = expires_at.frac;
    entry->flags = ration_slot_flags(entry->value);
}

/*
 * The secret depends on the limit's settings, the aspect and the process: a child of fork() must not spend its parent's
 * leases.
 */
static struct ration_hash entry_secret(const struct ration_local_cache_request *request,
                                       enum ration_cache_entry_aspect aspect)
{
    const struct ration_limit *limit = &request->limit->limit;
    struct ration_hash secret = *request->secret;

    secret.words[0] ^= (uint64_t)aspect ^ (uint64_t)request->limit->mode << 8;
    secret.words[1] ^= limit->tokens * UINT64_C(0x9e3779b97f4a7c15) ^
                       limit->period_ns * UINT64_C(0xc2b2ae3d27d4eb4f) ^
                       limit->burst * UINT64_C(0x165667b19e3779f9) ^
                       ration_os_process_id() * UINT64_C(0x27d4eb2f165667c5);
    return secret;
}

void ration_cache_entry_find(const struct ration_local_cache *local_cache,
                             const struct ration_local_cache_request *request,
                             enum ration_cache_entry_aspect aspect,
                             struct ration_cache_entry *entry)
{
    const struct ration_section *section = local_cache->limiter->fast_section;
    struct ration_hash secret = entry_secret(request, aspect);
    struct ration_hash hash = ration_hash_siphash(&secret, request->key->bytes, request->key->size);

    entry->location = ration_location_of(
        ration_hash_key(&section->block->secret, &hash, sizeof(hash)), section->set_count);
    entry->slot = ration_plain_find(section, &entry->location, &entry->value);
    entry->until_ns = entry->count = entry->flags = 0;
    if (entry->slot != NULL)
        unpack_entry(entry);
}

bool ration_cache_entry_change(struct ration_local_cache *local_cache,
                               struct ration_cache_entry *entry, uint64_t until_ns, uint64_t count,
                               uint32_t flags, uint64_t table_now_ns)
{
    const struct ration_section *section = local_cache->limiter->fast_section;
    struct ration_slot next = {
        entry->location.tag, flags, {until_ns, count < COUNT_MAX ? count : COUNT_MAX}};
    struct ration_claim claim;

    if (entry->slot != NULL)
        return ration_atomic16_swap(entry->slot, &entry->value, ration_slot_pack(next));
    if (ration_claim_begin(&ration_plain_kind, section, &entry->location,
                           &(struct ration_claim_request){.now_ns = table_now_ns},
                           &claim) != RATION_CLAIM_BEGUN)
        return false;
    return ration_plain_complete(&claim, next);
}

/* Denials -------------------------------------------------------------------------------------- */

void ration_cache_entry_trust(struct ration_local_cache *local_cache,
                              const struct ration_local_cache_request *request,
                              uint64_t table_now_ns)
{
    struct ration_cache_entry entry;

    ration_cache_entry_find(local_cache, request, RATION_CACHE_ENTRY_DENIAL_TTL, &entry);
    (void)ration_cache_entry_change(local_cache, &entry, table_now_ns + DENIAL_TTL_NS, 0, 0,
                                    table_now_ns);
}

bool ration_cache_entry_is_trusted(const struct ration_local_cache *local_cache,
                                   const struct ration_local_cache_request *request,
                                   uint64_t table_now_ns)
{
    struct ration_cache_entry entry;

    ration_cache_entry_find(local_cache, request, RATION_CACHE_ENTRY_DENIAL_TTL, &entry);
    return entry.slot != NULL && entry.until_ns > table_now_ns;
}

void ration_cache_entry_forget(struct ration_local_cache *local_cache,
                               const struct ration_local_cache_request *request,
                               enum ration_cache_entry_aspect aspect, uint64_t table_now_ns)
{
    struct ration_cache_entry entry;

    ration_cache_entry_find(local_cache, request, aspect, &entry);
    if (entry.slot != NULL)
        (void)ration_cache_entry_change(local_cache, &entry, 0, 0, 0, table_now_ns);
}

/* Decisions ------------------------------------------------------------------------------------ */

struct ration_decision ration_cache_entry_decision(const struct ration_local_cache_request *request,
                                                   uint64_t remaining)
{
    const struct ration_limit *limit = &request->limit->limit;
    uint64_t in_use_tokens = limit->burst > remaining ? limit->burst - remaining : 0;

    return (struct ration_decision){
        .verdict = RATION_ALLOW,
        .limit = limit->burst,
        .remaining = remaining,
        .reset_after_ns = ration_time_ceil_ns(ration_time_scale(limit->rate.token, in_use_tokens)),
    };
}

enum ration_local_cache_answer ration_cache_entry_deny(
    const struct ration_local_cache_request *request, const struct ration_cache_entry *entry,
    uint64_t table_now_ns, struct ration_local_cache_result *result)
{
    result->decision = ration_cache_entry_decision(request, 0);
    result->decision.verdict = RATION_DENY;
    result->decision.retry_after_ns = entry->until_ns - table_now_ns;
    return RATION_LOCAL_CACHE_DENIED;
}
