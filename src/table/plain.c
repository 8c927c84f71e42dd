#include "table/plain.h"

#include "base/yield.h"

static enum ration_role role(struct ration_pair value)
{
    if (ration_pair_is_empty(value))
        return RATION_ROLE_EMPTY;
    return ration_pair_mark(value) < RATION_MARK_CLAIM ? RATION_ROLE_MEMBER : RATION_ROLE_CLAIM;
}

static bool is_free(const struct ration_section *section, struct ration_pair *head,
                    struct ration_pair value, const struct ration_newcomer *newcomer,
                    struct ration_time *out_moment)
{
    struct ration_time now = ration_time_from_ns(newcomer->now_ns);
    struct ration_time moment = ration_pair_moment(value);

    (void)section;
    (void)head;
    *out_moment = (struct ration_time){0, 0}; /* a lapsed claim takes nothing with it */
    if (role(value) != RATION_ROLE_MEMBER)
        return !ration_time_less(now, moment);
    return ration_newcomer_may_take(newcomer, &moment, 1, ration_pair_mark(value), out_moment);
}

/* Its moment is about now + RATION_CLAIM_NS; the low 40 bits are a number used once. */
static struct ration_pair claim(const struct ration_section *section,
                                const struct ration_place *place, struct ration_pair victim,
                                uint64_t now_ns)
{
    uint32_t stripe = place->sets[0] % RATION_NONCE_STRIPES;
    uint64_t *next = &section->block->nonces[stripe].next;
    uint64_t nonce = __atomic_fetch_add(next, 1, __ATOMIC_RELAXED) * RATION_NONCE_STRIPES + stripe;
    uint64_t lapse_ns = (now_ns + RATION_CLAIM_NS) & ~RATION_FRAC_MASK;

    (void)victim;
    return ration_slot_pack((struct ration_slot){
        .label = place->tag,
        .mark = RATION_MARK_CLAIM,
        .moment = {lapse_ns | ((nonce >> RATION_FRAC_BITS) & RATION_FRAC_MASK),
                   nonce & RATION_FRAC_MASK},
    });
}

static struct ration_pair withdrawn(struct ration_pair value)
{
    (void)value;
    return (struct ration_pair){{0, 0}};
}

const struct ration_head_kind ration_plain_kind = {
    .role = role,
    .is_free = is_free,
    .claim = claim,
    .withdrawn = withdrawn,
};

bool ration_plain_complete(const struct ration_entrance *entrance, struct ration_slot member)
{
    struct ration_pair expected = entrance->value;

    ration_yield_point();
    return ration_atomic16_swap(entrance->head, &expected, ration_slot_pack(member));
}

bool ration_plain_touch_overflow(struct ration_pair *overflow, struct ration_pair value)
{
    struct ration_pair desired = value;

    desired.words[0] += UINT64_C(1) << RATION_FRAC_BITS; /* the label */
    ration_yield_point();
    return ration_atomic16_swap(overflow, &value, desired);
}

struct ration_time ration_plain_free_at(const struct ration_section *section,
                                        const struct ration_place *place)
{
    struct ration_free_times times = {.count = 0};

    for (uint32_t i = 0; i < RATION_KEY_PLACES; i++) {
        struct ration_pair value =
            ration_atomic16_load(ration_section_at(section, ration_place_index(place, i)));

        ration_free_times_add(&times, ration_pair_moment(value), ration_pair_mark(value));
    }
    return ration_free_times_first(&times);
}
