/*
 * local_lease: how many leased tokens the node has, and how many to request next.
 */
#include "base/time.h"
#include "engine/cache_entry.h"

/*
 * The count of a lease's entry has three fields: the tokens left; the size of the last lease that was requested, as a
 * power of two; and how often that size has to be halved to get at most what Redis granted. 7: nothing was granted, or
 * too little for the field.
 */
#define TOKENS_BITS   13
#define TOKENS_MAX    ((UINT64_C(1) << TOKENS_BITS) - 1)
#define SIZE_MAX_LOG  12 /* leases of up to 4096 tokens */
#define SIZE_MASK     15u
#define HALVED_SHIFT  (TOKENS_BITS + 4)
#define HALVED_MAX    7
#define HALVED_LITTLE 2 /* or more: tokens are scarce */

#define AHEAD_MIN        16 /* tokens; smaller leases are not requested ahead of need */
#define LEASE_NS_DEFAULT (500 * RATION_NS_PER_MS)
#define LEASE_FILL_PARTS 4 /* a lease lasts at most 1/4 of the time in which the bucket fills */
#define SCARCE_PARTS     8 /* backoff where tokens are scarce: 1/8 of a lease's length */
#define DENIED_PARTS     1 /* backoff after a denial: at least the length of a lease */
#define LEASE_BURST_PART 4 /* all nodes together lease at most 1/4 of the burst at once */
#define NUMBERS          RATION_REDIS_LEASE_NUMBERS /* stored in the low bits of a lease's expiry time */
#define RETURN_LENGTHS   2 /* lease lengths after expiry within which unused tokens can be returned */
/* Unused tokens of buckets that fill faster are not returned. */
#define RETURN_FILL_NS_MIN (10 * RATION_NS_PER_MS)

/* The maximum length of a lease of a limit, whatever the policy sets. */
static uint64_t lease_ns_max(const struct ration_policy_limit *limit)
{
    return limit->limit.rate.capacity.ns / LEASE_FILL_PARTS;
}

uint64_t ration_local_lease_ns(const struct ration_policy_limit *limit)
{
    uint64_t max_ns = lease_ns_max(limit);
    uint64_t wanted_ns = limit->lease_ns > 0 ? limit->lease_ns : LEASE_NS_DEFAULT;

    return wanted_ns < max_ns ? wanted_ns : max_ns;
}

/* The time, rounded down by at most 2 * NUMBERS ns (8192 ns) so that its low bits are the number of a lease. */
static uint64_t embed_lease_number(uint64_t time_ns, uint64_t number)
{
    return (time_ns > NUMBERS ? (time_ns - NUMBERS) / NUMBERS * NUMBERS : 0) + number % NUMBERS;
}

static uint64_t lease_tokens_left(const struct ration_cache_entry *entry)
{
    return entry->flags == RATION_CACHE_ENTRY_DENIED ? 0 : entry->count & TOKENS_MAX;
}

/* log2 of the size of the last lease. */
static uint32_t lease_size_log(const struct ration_cache_entry *entry)
{
    return (uint32_t)(entry->count >> TOKENS_BITS) & SIZE_MASK;
}

static uint64_t halving_count(const struct ration_cache_entry *entry)
{
    return entry->count >> HALVED_SHIFT & HALVED_MAX;
}

static bool is_scarce(const struct ration_cache_entry *entry)
{
    return halving_count(entry) >= HALVED_LITTLE && halving_count(entry) < HALVED_MAX;
}

static uint64_t pack_lease(uint64_t tokens, uint32_t size_log, uint64_t halved)
{
    return (tokens < TOKENS_MAX ? tokens : TOKENS_MAX) | (uint64_t)size_log << TOKENS_BITS |
           halved << HALVED_SHIFT;
}

/* The count of the entry with another number of tokens. */
static uint64_t pack_lease_tokens(const struct ration_cache_entry *entry, uint64_t tokens)
{
    return (entry->count & ~TOKENS_MAX) | (tokens < TOKENS_MAX ? tokens : TOKENS_MAX);
}

/* A lower bound of the tokens that the last lease granted. Any further tokens of the entry are from earlier leases. */
static uint64_t last_granted_min(const struct ration_cache_entry *entry)
{
    return halving_count(entry) < HALVED_MAX
               ? (UINT64_C(1) << lease_size_log(entry)) >> halving_count(entry)
               : 0;
}

static uint64_t count_halvings(const struct ration_local_lease_granted *granted)
{
    uint64_t halved = 0;

    while (halved < HALVED_MAX && granted->wanted_tokens >> halved > granted->grant.tokens)
        halved++;
    return halved;
}

/* log2 of a node's largest lease: all nodes together lease at most 1/LEASE_BURST_PART of the burst. */
static uint32_t lease_size_log_max(const struct ration_local_cache_request *request)
{
    uint64_t size_max = request->limit->limit.burst / LEASE_BURST_PART / request->node_count;
    uint32_t size_log = 0;

    while (size_log < SIZE_MAX_LOG && (UINT64_C(2) << size_log) <= size_max)
        size_log++;
    return size_log;
}

/*
 * The next lease is requested when three quarters of the last one are spent; it is twice as large if that took less
 * than half of the lease's length.
 */
static uint64_t tokens_to_acquire_ahead(const struct ration_local_cache_request *request,
                                        const struct ration_cache_entry *entry, uint64_t left,
                                        uint64_t table_now_ns)
{
    uint64_t size = UINT64_C(1) << lease_size_log(entry);
    uint64_t low = size / 4;
    bool is_low_crossed = lease_tokens_left(entry) > low && left <= low;
    bool is_spent_early =
        entry->until_ns - table_now_ns > ration_local_lease_ns(request->limit) / 2;

    if (!is_low_crossed || size < AHEAD_MIN || is_scarce(entry))
        return 0;
    return is_spent_early && lease_size_log(entry) < lease_size_log_max(request) ? 2 * size : size;
}

/* Tokens are scarce: until the backoff ends, the node denies and lets the bucket in Redis refill. */
static enum ration_local_cache_answer deny_during_backoff(
    const struct ration_local_cache *local_cache, const struct ration_local_cache_request *request,
    uint64_t table_now_ns, struct ration_local_cache_result *result)
{
    struct ration_cache_entry backoff;

    ration_cache_entry_find(local_cache, request, RATION_CACHE_ENTRY_BACKOFF, &backoff);
    return backoff.slot != NULL && backoff.until_ns > table_now_ns
               ? ration_cache_entry_deny(request, &backoff, table_now_ns, result)
               : RATION_LOCAL_CACHE_MISS;
}

enum ration_local_cache_answer ration_local_lease_take(
    struct ration_local_cache *local_cache, const struct ration_local_cache_request *request,
    uint64_t table_now_ns, struct ration_local_cache_result *result)
{
    struct ration_cache_entry entry;

    for (int i = 0;
         i < RATION_CACHE_ENTRY_TRIES_MAX && request->cost_tokens <= request->limit->limit.burst;
         i++) {
        uint64_t left;

        ration_cache_entry_find(local_cache, request, RATION_CACHE_ENTRY_MAIN, &entry);
        if (entry.slot == NULL || entry.until_ns <= table_now_ns)
            return RATION_LOCAL_CACHE_MISS;
        if (entry.flags == RATION_CACHE_ENTRY_DENIED)
            return request->cost_tokens >= (entry.count & TOKENS_MAX) &&
                           ration_cache_entry_is_trusted(local_cache, request, table_now_ns)
                       ? ration_cache_entry_deny(request, &entry, table_now_ns, result)
                       : RATION_LOCAL_CACHE_MISS;
        if (lease_tokens_left(&entry) < request->cost_tokens)
            return is_scarce(&entry)
                       ? deny_during_backoff(local_cache, request, table_now_ns, result)
                       : RATION_LOCAL_CACHE_MISS;
        left = lease_tokens_left(&entry) - request->cost_tokens;
        if (ration_cache_entry_change(local_cache, &entry, entry.until_ns,
                                      pack_lease_tokens(&entry, left), 0, table_now_ns)) {
            result->decision = ration_cache_entry_decision(request, left);
            result->until_ns = entry.until_ns;
            result->lease_tokens = tokens_to_acquire_ahead(request, &entry, left, table_now_ns);
            return RATION_LOCAL_CACHE_TAKEN;
        }
    }
    return RATION_LOCAL_CACHE_MISS;
}

/*
 * Whether the last lease was useless: Redis granted nothing, or one token that was not spent. The key is used less than
 * once in the length of a lease.
 */
static bool was_useless(const struct ration_cache_entry *entry)
{
    return lease_tokens_left(entry) == 0 ? last_granted_min(entry) == 0
                                         : lease_size_log(entry) == 0;
}

/* A key that was used recently gets a lease; a key that spent its last lease early gets a larger one. */
uint64_t ration_local_lease_want(struct ration_local_cache *local_cache,
                                 const struct ration_local_cache_request *request,
                                 uint64_t waiting_count, uint64_t now_ns)
{
    uint64_t table_now_ns = ration_cache_entry_since(local_cache, now_ns);
    uint32_t size_log, size_log_max = lease_size_log_max(request);
    uint64_t want_tokens = waiting_count * request->cost_tokens;
    struct ration_cache_entry entry;

    if (want_tokens > UINT64_C(1) << size_log_max)
        want_tokens = UINT64_C(1) << size_log_max;
    ration_cache_entry_find(local_cache, request, RATION_CACHE_ENTRY_MAIN, &entry);
    if (entry.slot == NULL ||
        entry.until_ns + 2 * ration_local_lease_ns(request->limit) < table_now_ns)
        return want_tokens;
    size_log = lease_size_log(&entry);
    if (entry.until_ns > table_now_ns || entry.flags == RATION_CACHE_ENTRY_DENIED ||
        is_scarce(&entry))
        size_log++;
    else if (was_useless(&entry))
        return want_tokens;
    else if (lease_tokens_left(&entry) > (UINT64_C(1) << size_log) / 2 && size_log > 0)
        size_log--;
    return ration_cache_entry_larger(
        want_tokens, UINT64_C(1) << (size_log < size_log_max ? size_log : size_log_max));
}

static bool has_unspent_lease(const struct ration_cache_entry *entry, uint64_t table_now_ns)
{
    return entry->slot != NULL && entry->until_ns > table_now_ns && lease_tokens_left(entry) > 0;
}

uint64_t ration_local_lease_want_apart(struct ration_local_cache *local_cache,
                                       const struct ration_local_cache_request *request,
                                       uint64_t wait_ns, uint64_t now_ns)
{
    uint64_t table_now_ns = ration_cache_entry_since(local_cache, now_ns);
    struct ration_cache_entry entry, acquiring;

    ration_cache_entry_find(local_cache, request, RATION_CACHE_ENTRY_MAIN, &entry);
    ration_cache_entry_find(local_cache, request, RATION_CACHE_ENTRY_ACQUIRING, &acquiring);
    if (request->limit->mode != RATION_POLICY_LEASE || has_unspent_lease(&entry, table_now_ns) ||
        (acquiring.slot != NULL && acquiring.until_ns > table_now_ns) ||
        !ration_cache_entry_change(local_cache, &acquiring, table_now_ns + wait_ns, 0, 0,
                                   table_now_ns))
        return 0;
    return ration_local_lease_want(local_cache, request, 0, now_ns);
}

/*
 * If Redis grants less than half of the requested tokens, tokens are scarce: the node requests none for a while, so
 * that the bucket in Redis refills, and denies the checks that come in between. No token is lost: the next request
 * gets them.
 */
static void store_grant(struct ration_local_cache *local_cache,
                        const struct ration_local_cache_request *request,
                        const struct ration_local_lease_granted *granted, uint64_t table_now_ns)
{
    uint64_t length_ns = ration_local_lease_ns(request->limit);
    uint64_t until_ns =
        embed_lease_number(ration_cache_entry_since(local_cache, granted->requested_ns) + length_ns,
                           granted->grant.number);
    uint64_t halved = count_halvings(granted);
    uint32_t size_log = 0;
    struct ration_cache_entry entry;

    while (size_log < SIZE_MAX_LOG && (UINT64_C(2) << size_log) <= granted->wanted_tokens)
        size_log++;
    if (halved >= HALVED_LITTLE) {
        ration_cache_entry_find(local_cache, request, RATION_CACHE_ENTRY_BACKOFF, &entry);
        (void)ration_cache_entry_change(
            local_cache, &entry, table_now_ns + length_ns / SCARCE_PARTS, 0, 0, table_now_ns);
    }
    for (int i = 0; i < RATION_CACHE_ENTRY_TRIES_MAX && until_ns > table_now_ns; i++) {
        uint64_t unspent_tokens;

        ration_cache_entry_find(local_cache, request, RATION_CACHE_ENTRY_MAIN, &entry);
        unspent_tokens = has_unspent_lease(&entry, table_now_ns) ? lease_tokens_left(&entry) : 0;
        /* Tokens of an earlier lease expire earlier. Then all tokens expire with them: none may outlive its lease. */
        if (ration_cache_entry_change(
                local_cache, &entry,
                unspent_tokens > 0 && entry.until_ns < until_ns
                    ? embed_lease_number(entry.until_ns, until_ns)
                    : until_ns,
                pack_lease(unspent_tokens + granted->grant.tokens, size_log, halved), 0,
                table_now_ns))
            return;
    }
}

/* After a denial the node calls Redis for this key again only after the backoff; see store_grant(). */
void ration_local_lease_learn(struct ration_local_cache *local_cache,
                              const struct ration_local_cache_request *request,
                              const struct ration_decision *decision,
                              const struct ration_local_lease_granted *granted,
                              uint64_t table_now_ns)
{
    uint64_t length_ns = ration_local_lease_ns(request->limit);
    uint64_t backoff_ns =
        ration_cache_entry_larger(decision->retry_after_ns, length_ns / DENIED_PARTS);
    struct ration_cache_entry entry;

    if (granted->grant.tokens > 0) {
        store_grant(local_cache, request, granted, table_now_ns);
        return;
    }
    ration_cache_entry_find(local_cache, request, RATION_CACHE_ENTRY_MAIN, &entry);
    if (has_unspent_lease(&entry, table_now_ns))
        return; /* another thread has stored a lease */
    if (decision->verdict == RATION_DENY) {
        ration_cache_entry_trust(local_cache, request, table_now_ns);
        (void)ration_cache_entry_change(local_cache, &entry, table_now_ns + backoff_ns,
                                        pack_lease(request->cost_tokens, lease_size_log(&entry), 0),
                                        RATION_CACHE_ENTRY_DENIED, table_now_ns);
    } else {
        (void)ration_cache_entry_change(local_cache, &entry, table_now_ns + length_ns,
                                        pack_lease(0, lease_size_log(&entry), HALVED_MAX), 0,
                                        table_now_ns);
    }
}

struct ration_local_lease_return ration_local_lease_unused(
    struct ration_local_cache *local_cache, const struct ration_local_cache_request *request,
    uint64_t now_ns)
{
    uint64_t table_now_ns = ration_cache_entry_since(local_cache, now_ns);
    uint64_t return_until_ns;
    struct ration_local_lease_return nothing = {0, 0, 0};
    struct ration_cache_entry entry;

    ration_cache_entry_find(local_cache, request, RATION_CACHE_ENTRY_MAIN, &entry);
    return_until_ns = entry.until_ns + RETURN_LENGTHS * ration_local_lease_ns(request->limit);
    if (entry.slot == NULL || lease_tokens_left(&entry) == 0 ||
        (entry.until_ns > table_now_ns && lease_tokens_left(&entry) >= request->cost_tokens) ||
        table_now_ns >= return_until_ns ||
        request->limit->limit.rate.capacity.ns < RETURN_FILL_NS_MIN ||
        !ration_cache_entry_change(local_cache, &entry, entry.until_ns,
                                   pack_lease(0, lease_size_log(&entry), 0), 0, table_now_ns))
        return nothing;
    return (struct ration_local_lease_return){
        .tokens = lease_tokens_left(&entry) < last_granted_min(&entry) ? lease_tokens_left(&entry)
                                                                       : last_granted_min(&entry),
        .number = (uint32_t)(entry.until_ns % NUMBERS),
        .age_ns = table_now_ns + lease_ns_max(request->limit) - entry.until_ns,
    };
}

void ration_local_lease_fill(struct ration_local_cache *local_cache,
                             const struct ration_local_cache_request *request,
                             const struct ration_local_lease_granted *granted, uint64_t now_ns)
{
    uint64_t table_now_ns = ration_cache_entry_since(local_cache, now_ns);

    ration_cache_entry_forget(local_cache, request, RATION_CACHE_ENTRY_ACQUIRING, table_now_ns);
    if (granted->grant.tokens > 0)
        store_grant(local_cache, request, granted, table_now_ns);
}

void ration_local_lease_put_back(struct ration_local_cache *local_cache,
                                 const struct ration_local_cache_request *request,
                                 const struct ration_local_cache_result *result,
                                 uint64_t table_now_ns)
{
    struct ration_cache_entry entry;

    for (int i = 0; i < RATION_CACHE_ENTRY_TRIES_MAX; i++) {
        ration_cache_entry_find(local_cache, request, RATION_CACHE_ENTRY_MAIN, &entry);
        if (entry.slot == NULL || entry.flags == RATION_CACHE_ENTRY_DENIED ||
            entry.until_ns != result->until_ns)
            return; /* the entry is of another lease: the tokens stay spent */
        if (ration_cache_entry_change(
                local_cache, &entry, entry.until_ns,
                pack_lease_tokens(&entry, lease_tokens_left(&entry) + request->cost_tokens), 0,
                table_now_ns))
            return;
    }
}

/* After a reset or a block the lease ends. Its tokens are not returned to Redis. */
void ration_local_lease_apply_admin(struct ration_local_cache *local_cache,
                                    const struct ration_local_cache_request *request,
                                    enum ration_admin_op_kind kind, uint64_t table_now_ns)
{
    struct ration_cache_entry entry;

    ration_cache_entry_find(local_cache, request, RATION_CACHE_ENTRY_MAIN, &entry);
    if (entry.slot != NULL && kind != RATION_ADMIN_REFUND)
        (void)ration_cache_entry_change(local_cache, &entry, table_now_ns,
                                        pack_lease(0, lease_size_log(&entry), 0), 0, table_now_ns);
}
