#include "table/claim.h"

#include "base/fence.h"
#include "base/yield.h"

static bool swap_head(struct ration_pair *head, struct ration_pair expected,
                      struct ration_pair desired)
{
    ration_yield_point();
    return ration_atomic16_swap(head, &expected, desired);
}

bool ration_claim_may_reclaim(const struct ration_claim_request *request,
                              const struct ration_time *cells, uint32_t expiry_mask, uint32_t flags,
                              struct ration_time *out_expires_at)
{
    struct ration_time now = ration_time_from_ns(request->now_ns);
    struct ration_time latest = {0, 0};
    bool is_bounded = true;

    for (uint32_t i = 0; expiry_mask >> i != 0; i++) {
        if (!(expiry_mask >> i & 1))
            continue;
        latest = ration_time_max(latest, cells[i]);
        is_bounded &= !ration_time_less(request->bounds[i], cells[i]);
    }
    *out_expires_at = (struct ration_time){0, 0};
    if (request->reset_mask >> ration_slot_flags_generation(flags) & 1)
        return true;
    *out_expires_at = latest;
    if (!ration_time_less(now, request->is_crowded ? latest : ration_slot_free_at(latest, flags)))
        return true;
    if (!request->is_scarce || !is_bounded ||
        ration_slot_flags_generation(flags) != request->generation)
        return false;
    if (!(flags & RATION_FLAG_ESTABLISHED))
        return true;
    /* an established key: only if its bucket has been full for RATION_ESTABLISHED_NS */
    latest = ration_time_sub_or_zero(latest, ration_time_from_ns(request->stale_after_ns));
    return !ration_time_less(now, ration_slot_free_at(latest, flags));
}

void ration_claim_free_times_add(struct ration_claim_free_times *times,
                                 struct ration_time expires_at, uint32_t flags)
{
    struct ration_time free_at = ration_slot_free_at(expires_at, flags);

    if (times->count++ == 0 || ration_time_less(free_at, times->earliest))
        times->earliest = free_at;
    if (ration_time_same(free_at, expires_at))
        return;

    uint32_t i = times->established_count++;

    for (; i > 0 && ration_time_less(expires_at, times->established[i - 1]); i--)
        times->established[i] = times->established[i - 1];
    times->established[i] = expires_at;
}

struct ration_time ration_claim_free_times_first(const struct ration_claim_free_times *times)
{
    struct ration_time earliest =
        times->count > 0 ? times->earliest : (struct ration_time){RATION_EXPIRES_AT_NS_MAX, 0};

    if (times->established_count > RATION_ESTABLISHED_SLOTS_MAX &&
        ration_time_less(times->established[RATION_ESTABLISHED_SLOTS_MAX], earliest))
        return times->established[RATION_ESTABLISHED_SLOTS_MAX];
    return earliest;
}

/* The best slot of one set to claim, and how many slots are in use. */
struct candidate {
    bool has_claims; /* claims of other threads, of which some may yet be aborted */
    bool is_begun;   /* another thread is creating the key or has created it, so it needs no slot */
    struct ration_claim slot; /* head NULL: no slot is free */
    struct ration_time expires_at;
    uint32_t set;
    uint32_t busy_count; /* members in use, or claims that have not lapsed */
    uint32_t used_count; /* not empty */
};

static bool has_tag(const struct ration_head_kind *kind, struct ration_pair value, uint64_t tag)
{
    return ration_slot_tag(value) == tag && kind->role(value) != RATION_CLAIM_ROLE_EMPTY;
}

static struct candidate scan_set(const struct ration_head_kind *kind,
                                 const struct ration_section *section,
                                 const struct ration_location *location, uint32_t half,
                                 const struct ration_claim_request *request)
{
    struct candidate candidate = {.set = location->sets[half]};

    for (uint32_t i = 0; i < RATION_SET_SLOTS; i++) {
        uint64_t index = ration_location_index(location, half * RATION_SET_SLOTS + i);
        struct ration_pair *head = ration_section_at(section, index);
        struct ration_pair value = ration_atomic16_load(head);
        struct ration_time expires_at;

        ration_yield_point();
        candidate.is_begun |= has_tag(kind, value, location->tag);
        candidate.used_count += kind->role(value) != RATION_CLAIM_ROLE_EMPTY;
        if (!kind->is_free(section, head, value, request, &expires_at)) {
            candidate.busy_count++;
            candidate.has_claims |= kind->role(value) == RATION_CLAIM_ROLE_CLAIM;
        } else if (candidate.slot.head == NULL ||
                   ration_time_less(expires_at, candidate.expires_at)) {
            /* of several slots the one idle for the longest time; of empty ones the first in lookup order */
            candidate.slot = (struct ration_claim){head, value, false};
            candidate.expires_at = expires_at;
        }
    }
    return candidate;
}

/*
 * Chooses the first set unless it is crowded, else the set with fewer slots in use. While there is an empty slot the
 * creating thread takes no other, not even an idle one, so that a key that returns still finds its state. When no
 * slot is empty, members that are not idle decide which set is fuller.
 */
static struct candidate choose_free_slot(const struct ration_head_kind *kind,
                                         const struct ration_section *section,
                                         const struct ration_location *location,
                                         const struct ration_claim_request *request)
{
    struct candidate first = scan_set(kind, section, location, 0, request);

    if (first.used_count < RATION_SET_CROWDED_SLOTS)
        return first;

    struct candidate second = scan_set(kind, section, location, 1, request);

    first.is_begun |= second.is_begun;
    second.is_begun = first.is_begun;
    first.has_claims |= second.has_claims;
    second.has_claims = first.has_claims;
    if (first.used_count < RATION_SET_SLOTS || second.used_count < RATION_SET_SLOTS)
        return second.used_count < first.used_count ? second : first;
    return first.busy_count < RATION_SET_CROWDED_SLOTS || first.busy_count <= second.busy_count
               ? first
               : second;
}

/* Where full established keys occupy too many slots: chooses the slot of the key that has been full the longest. */
static struct candidate choose_established_slot(const struct ration_head_kind *kind,
                                                const struct ration_section *section,
                                                const struct ration_location *location,
                                                const struct ration_claim_request *request)
{
    struct ration_claim_request own = *request;
    struct candidate first, second;

    own.is_crowded = true;
    first = scan_set(kind, section, location, 0, &own);
    second = scan_set(kind, section, location, 1, &own);
    if (RATION_KEY_SLOTS - first.busy_count - second.busy_count <= RATION_ESTABLISHED_SLOTS_MAX)
        return (struct candidate){.slot = {.head = NULL}};
    if (first.slot.head == NULL)
        return second;
    return second.slot.head == NULL || !ration_time_less(second.expires_at, first.expires_at)
               ? first
               : second;
}

static struct candidate choose_slot(const struct ration_head_kind *kind,
                                    const struct ration_section *section,
                                    const struct ration_location *location,
                                    const struct ration_claim_request *request)
{
    struct candidate free_slot = choose_free_slot(kind, section, location, request);

    if (free_slot.slot.head != NULL || free_slot.is_begun)
        return free_slot;

    struct candidate established_slot = choose_established_slot(kind, section, location, request);

    return established_slot.slot.head != NULL ? established_slot : free_slot;
}

bool ration_claim_has_room(const struct ration_head_kind *kind,
                           const struct ration_section *section,
                           const struct ration_location *location,
                           const struct ration_claim_request *request)
{
    struct candidate candidate = choose_slot(kind, section, location, request);

    return candidate.slot.head != NULL || candidate.is_begun;
}

/* Whether the request's reset_mask and is_scarce still apply. */
static bool is_config_current(const struct ration_claim_request *request)
{
    if (request->reset_mask == 0 && !request->is_scarce)
        return true;
    /* acquire: a thread that has written a slot under later limits has seen them in force */
    return __atomic_load_n(request->current, __ATOMIC_ACQUIRE) == request->config &&
           __atomic_load_n(request->config, __ATOMIC_RELAXED) == request->config_number;
}

enum claim_attempt { ATTEMPT_CLAIMED, ATTEMPT_FULL, ATTEMPT_BEGUN };

/*
 * Claims a slot. BEGUN: no slot is free, but another thread has claimed one for this key or created it. *out_claim is
 * written only with CLAIMED.
 */
static enum claim_attempt claim_slot(const struct ration_head_kind *kind,
                                     const struct ration_section *section,
                                     const struct ration_location *location,
                                     const struct ration_claim_request *request,
                                     struct ration_claim *out_claim)
{
    struct ration_claim_request own = *request;
    uint32_t scan_count = 0;

    for (;;) { /* each pass means that another thread changed the set, or may yet abort a claim */
        struct candidate candidate = choose_slot(kind, section, location, &own);

        if (!is_config_current(&own)) {
            own.reset_mask = 0;
            own.is_scarce = false;
            continue;
        }
        if (candidate.slot.head == NULL && candidate.has_claims && !candidate.is_begun &&
            scan_count++ < RATION_CLAIM_SCANS_MAX)
            continue;
        if (candidate.slot.head == NULL)
            return candidate.is_begun ? ATTEMPT_BEGUN : ATTEMPT_FULL;
        if (candidate.expires_at.ns > 0) {
            struct ration_time now = ration_time_from_ns(request->now_ns);

            /* a full bucket that is still remembered expires after now, but what it held is known at now */
            ration_section_raise_reclaim_watermark(
                section, candidate.set,
                ration_time_less(now, candidate.expires_at) ? now : candidate.expires_at);
        }

        struct ration_pair claim =
            kind->claim(section, location, candidate.slot.value, request->now_ns);

        if (swap_head(candidate.slot.head, candidate.slot.value, claim)) {
            /* the claim is in the table before find_other() scans: of two threads one sees the other's claim */
            ration_fence_full();
            *out_claim =
                (struct ration_claim){candidate.slot.head, claim,
                                      kind->role(candidate.slot.value) == RATION_CLAIM_ROLE_MEMBER};
            return ATTEMPT_CLAIMED;
        }
    }
}

/* The first claim or member of the tag at a head other than except. */
static enum ration_claim_role find_other(const struct ration_head_kind *kind,
                                         const struct ration_section *section,
                                         const struct ration_location *location,
                                         const struct ration_pair *except,
                                         struct ration_claim *out_other)
{
    for (uint32_t i = 0; i < RATION_KEY_SLOTS; i++) {
        struct ration_pair *head = ration_section_at(section, ration_location_index(location, i));
        struct ration_pair value = ration_atomic16_load(head);

        ration_yield_point();
        if (head != except && has_tag(kind, value, location->tag)) {
            *out_other = (struct ration_claim){head, value, false};
            return kind->role(value);
        }
    }
    return RATION_CLAIM_ROLE_EMPTY;
}

bool ration_claim_exists(const struct ration_head_kind *kind, const struct ration_section *section,
                         const struct ration_location *location)
{
    struct ration_claim other;

    return find_other(kind, section, location, NULL, &other) != RATION_CLAIM_ROLE_EMPTY;
}

bool ration_claim_abort(const struct ration_head_kind *kind, const struct ration_claim *claim)
{
    return swap_head(claim->head, claim->value, kind->make_empty(claim->value));
}

/* The fate of a claim. */
enum fate { FATE_ALONE, FATE_MEMBER_FOUND, FATE_GONE };

/*
 * The second step for *claim, by its creating thread or a helper. ALONE: it may become the member. MEMBER_FOUND: the
 * table has a member, now in *claim, and the claim is aborted. GONE: the claim is no longer in the table, so no
 * other claim may be aborted in its favour.
 */
static enum fate resolve_claim(const struct ration_head_kind *kind,
                               const struct ration_section *section,
                               const struct ration_location *location, struct ration_claim *claim)
{
    for (;;) {
        struct ration_claim other;

        switch (find_other(kind, section, location, claim->head, &other)) {
        case RATION_CLAIM_ROLE_EMPTY:
            return FATE_ALONE;
        case RATION_CLAIM_ROLE_MEMBER:
            (void)ration_claim_abort(kind, claim);
            *claim = other;
            return FATE_MEMBER_FOUND;
        case RATION_CLAIM_ROLE_CLAIM:
            if (other.head < claim->head) {
                (void)ration_claim_abort(kind, claim);
                *claim = other; /* and resolve that one */
            } else if (!ration_slot_same(ration_atomic16_load(claim->head), claim->value)) {
                return FATE_GONE;
            } else {
                (void)ration_claim_abort(kind, &other);
            }
        }
    }
}

enum ration_claim_result ration_claim_begin(const struct ration_head_kind *kind,
                                            const struct ration_section *section,
                                            const struct ration_location *location,
                                            const struct ration_claim_request *request,
                                            struct ration_claim *out_claim)
{
    for (;;) { /* each pass means that another thread's claim became a member, or was aborted */
        struct ration_claim claim;
        enum claim_attempt attempt = ATTEMPT_CLAIMED;

        switch (find_other(kind, section, location, NULL, &claim)) {
        case RATION_CLAIM_ROLE_MEMBER:
            *out_claim = claim;
            return RATION_CLAIM_FOUND;
        case RATION_CLAIM_ROLE_CLAIM:
            break;
        case RATION_CLAIM_ROLE_EMPTY:
            attempt = claim_slot(kind, section, location, request, &claim);
        }
        if (attempt == ATTEMPT_FULL)
            return RATION_CLAIM_FULL;
        if (attempt == ATTEMPT_BEGUN)
            continue;

        enum fate fate = resolve_claim(kind, section, location, &claim);

        if (fate == FATE_GONE)
            continue;
        *out_claim = claim;
        return fate == FATE_ALONE ? RATION_CLAIM_BEGUN : RATION_CLAIM_FOUND;
    }
}
