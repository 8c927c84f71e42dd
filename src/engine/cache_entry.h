/*
 * cache_entry: the entries of the local cache, and what its files share.
 *
 *     local_cache.c     dispatches each call by the limit's mode
 *     local_lease.c     leases: tokens granted by Redis, and how many to request next
 *     local_bucket.c    local buckets
 *     cache_entry.c     finds, creates and changes entries: 16 bytes for a key that change together
 *
 * Times here (table_now_ns, until_ns) are relative to the start time of the table that holds the entries.
 */
#ifndef RATION_ENGINE_CACHE_ENTRY_H
#define RATION_ENGINE_CACHE_ENTRY_H

#include "engine/local_cache.h"
#include "limiter/limiter_internal.h"

#define RATION_CACHE_ENTRY_TRIES_MAX \
    16                              /* attempts to change an entry that other threads change, too */
#define RATION_CACHE_ENTRY_DENIED 1 /* flags of an entry; 0: none */

struct ration_local_cache {
    ration_limiter *limiter; /* for its table only */
};

/* A key has up to one entry for each of these. */
enum ration_cache_entry_aspect {
    RATION_CACHE_ENTRY_MAIN,       /* the lease, or the local bucket */
    RATION_CACHE_ENTRY_DENIAL,     /* until when Redis has denied, and at which cost; local_first */
    RATION_CACHE_ENTRY_DENIAL_TTL, /* until when a denial is trusted */
    RATION_CACHE_ENTRY_BACKOFF,  /* until when no lease is requested, since Redis granted little */
    RATION_CACHE_ENTRY_ACQUIRING /* until when other callers do not request a lease again */
};

struct ration_cache_entry {
    struct ration_location location;
    struct ration_pair *slot; /* NULL: the key has no entry */
    struct ration_pair value;
    uint64_t until_ns;
    uint64_t count;
    uint32_t flags;
};

/* Converts a time of the engine's clock into one of the table. */
uint64_t ration_cache_entry_since(const struct ration_local_cache *local_cache, uint64_t now_ns);

void ration_cache_entry_find(const struct ration_local_cache *local_cache,
                             const struct ration_local_cache_request *request,
                             enum ration_cache_entry_aspect aspect,
                             struct ration_cache_entry *entry);

/* Writes an entry if it is unchanged since it was found. Creates it if there was none and there is a free slot. */
bool ration_cache_entry_change(struct ration_local_cache *local_cache,
                               struct ration_cache_entry *entry, uint64_t until_ns, uint64_t count,
                               uint32_t flags, uint64_t table_now_ns);

/* Trusts denials of the key for 500 ms from now on. */
void ration_cache_entry_trust(struct ration_local_cache *local_cache,
                              const struct ration_local_cache_request *request,
                              uint64_t table_now_ns);
bool ration_cache_entry_is_trusted(const struct ration_local_cache *local_cache,
                                   const struct ration_local_cache_request *request,
                                   uint64_t table_now_ns);
void ration_cache_entry_forget(struct ration_local_cache *local_cache,
                               const struct ration_local_cache_request *request,
                               enum ration_cache_entry_aspect aspect, uint64_t table_now_ns);

/* ALLOW, with this many tokens left. */
struct ration_decision ration_cache_entry_decision(const struct ration_local_cache_request *request,
                                                   uint64_t remaining);

/* DENY until the entry's until_ns. */
enum ration_local_cache_answer ration_cache_entry_deny(
    const struct ration_local_cache_request *request, const struct ration_cache_entry *entry,
    uint64_t table_now_ns, struct ration_local_cache_result *result);

static inline uint64_t ration_cache_entry_larger(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

/* The implementation of each mode for the calls of local_cache.h. */
enum ration_local_cache_answer ration_local_lease_take(
    struct ration_local_cache *local_cache, const struct ration_local_cache_request *request,
    uint64_t table_now_ns, struct ration_local_cache_result *result);
void ration_local_lease_put_back(struct ration_local_cache *local_cache,
                                 const struct ration_local_cache_request *request,
                                 const struct ration_local_cache_result *result,
                                 uint64_t table_now_ns);
void ration_local_lease_learn(struct ration_local_cache *local_cache,
                              const struct ration_local_cache_request *request,
                              const struct ration_decision *decision,
                              const struct ration_local_lease_granted *granted,
                              uint64_t table_now_ns);
void ration_local_lease_apply_admin(struct ration_local_cache *local_cache,
                                    const struct ration_local_cache_request *request,
                                    enum ration_admin_op_kind kind, uint64_t table_now_ns);

enum ration_local_cache_answer ration_local_bucket_take(
    struct ration_local_cache *local_cache, const struct ration_local_cache_request *request,
    uint64_t table_now_ns, struct ration_local_cache_result *result);
void ration_local_bucket_put_back(struct ration_local_cache *local_cache,
                                  const struct ration_local_cache_request *request,
                                  uint64_t table_now_ns);
void ration_local_bucket_learn(struct ration_local_cache *local_cache,
                               const struct ration_local_cache_request *request,
                               const struct ration_decision *decision, uint64_t table_now_ns);
void ration_local_bucket_apply_admin(struct ration_local_cache *local_cache,
                                     const struct ration_local_cache_request *request,
                                     enum ration_admin_op_kind kind, uint64_t table_now_ns);

#endif
