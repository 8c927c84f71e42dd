#include "table/plain.h"

#include "base/yield.h"

static enum ration_claim_role role_of(struct ration_pair value)
{
    if (ration_slot_is_empty(value))
        return RATION_CLAIM_ROLE_EMPTY;
    return ration_slot_flags(value) < RATION_FLAG_CLAIM ? RATION_CLAIM_ROLE_MEMBER
                                                        : RATION_CLAIM_ROLE_CLAIM;
}

static bool is_free(const struct ration_section *section, struct ration_pair *head,
                    struct ration_pair value, const struct ration_claim_request *request,
                    struct ration_time *out_expires_at)
{
    struct ration_time now = ration_time_from_ns(request->now_ns);
    struct ration_time expires_at = ration_slot_expires_at(value);

    (void)section;
    (void)head;
    *out_expires_at = (struct ration_time){0, 0}; /* no state is lost with a lapsed claim */
    if (role_of(value) != RATION_CLAIM_ROLE_MEMBER)
        return !ration_time_less(now, expires_at);
    return ration_claim_may_reclaim(request, &expires_at, 1, ration_slot_flags(value),
                                    out_expires_at);
}

/* The expiry time is about now + RATION_CLAIM_NS; its low 40 bits are a number that is used only once. */
static struct ration_pair make_claim(const struct ration_section *section,
                                     const struct ration_location *location,
                                     struct ration_pair victim, uint64_t now_ns)
{
    uint32_t stripe = location->sets[0] % RATION_NONCE_STRIPES;
    uint64_t *next = &section->block->nonces[stripe].next;
    uint64_t nonce = __atomic_fetch_add(next, 1, __ATOMIC_RELAXED) * RATION_NONCE_STRIPES + stripe;
    uint64_t lapse_ns = (now_ns + RATION_CLAIM_NS) & ~RATION_FRAC_MASK;

    (void)victim;
    return ration_slot_pack((struct ration_slot){
        .tag = location->tag,
        .flags = RATION_FLAG_CLAIM,
        .expires_at = {lapse_ns | ((nonce >> RATION_FRAC_BITS) & RATION_FRAC_MASK),
                       nonce & RATION_FRAC_MASK},
    });
}

static struct ration_pair make_empty(struct ration_pair value)
{
    (void)value;
    return (struct ration_pair){{0, 0}};
}

const struct ration_head_kind ration_plain_kind = {
    .role = role_of,
    .is_free = is_free,
    .claim = make_claim,
    .make_empty = make_empty,
};

bool ration_plain_complete(const struct ration_claim *claim, struct ration_slot member)
{
    struct ration_pair expected = claim->value;

    ration_yield_point();
    return ration_atomic16_swap(claim->head, &expected, ration_slot_pack(member));
}

bool ration_plain_touch_overflow(struct ration_pair *overflow, struct ration_pair value)
{
    struct ration_pair desired = value;

    desired.words[0] += UINT64_C(1) << RATION_FRAC_BITS; /* the tag */
    ration_yield_point();
    return ration_atomic16_swap(overflow, &value, desired);
}

struct ration_time ration_plain_free_at(const struct ration_section *section,
                                        const struct ration_location *location)
{
    struct ration_claim_free_times times = {.count = 0};

    for (uint32_t i = 0; i < RATION_KEY_SLOTS; i++) {
        struct ration_pair value =
            ration_atomic16_load(ration_section_at(section, ration_location_index(location, i)));

        ration_claim_free_times_add(&times, ration_slot_expires_at(value),
                                    ration_slot_flags(value));
    }
    return ration_claim_free_times_first(&times);
}
