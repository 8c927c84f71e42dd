#include "table/create.h"

#include "base/fence.h"
#include "base/yield.h"

static bool swap(struct ration_pair *head, struct ration_pair expected, struct ration_pair desired)
{
    ration_yield_point();
    return ration_atomic16_swap(head, &expected, desired);
}

bool ration_newcomer_may_take(const struct ration_newcomer *newcomer,
                              const struct ration_time *cells, uint32_t moment_mask, uint32_t mark,
                              struct ration_time *out_moment)
{
    struct ration_time now = ration_time_from_ns(newcomer->now_ns);
    struct ration_time latest = {0, 0};
    bool is_bounded = true;

    for (uint32_t i = 0; moment_mask >> i != 0; i++) {
        if (!(moment_mask >> i & 1))
            continue;
        latest = ration_time_max(latest, cells[i]);
        is_bounded &= !ration_time_less(newcomer->bounds[i], cells[i]);
    }
    *out_moment = (struct ration_time){0, 0};
    if (newcomer->reset_mask >> ration_mark_generation(mark) & 1)
        return true;
    *out_moment = latest;
    if (!ration_time_less(now, newcomer->is_crowded ? latest : ration_free_at(latest, mark)))
        return true;
    if (!newcomer->is_scarce || !is_bounded || ration_mark_generation(mark) != newcomer->generation)
        return false;
    *out_moment = ration_time_less(now, latest) ? now : latest;
    if (!(mark & RATION_MARK_ESTABLISHED))
        return true;
    /* an established key: only if it has been full as long as others are kept */
    latest = ration_time_sub_or_zero(latest, ration_time_from_ns(newcomer->kept_ns));
    return !ration_time_less(now, ration_free_at(latest, mark));
}

void ration_free_times_add(struct ration_free_times *times, struct ration_time moment,
                           uint32_t mark)
{
    struct ration_time free_at = ration_free_at(moment, mark);

    if (times->count++ == 0 || ration_time_less(free_at, times->earliest))
        times->earliest = free_at;
    if (ration_time_same(free_at, moment))
        return;

    uint32_t i = times->established_count++;

    for (; i > 0 && ration_time_less(moment, times->established[i - 1]); i--)
        times->established[i] = times->established[i - 1];
    times->established[i] = moment;
}

struct ration_time ration_free_times_first(const struct ration_free_times *times)
{
    struct ration_time earliest =
        times->count > 0 ? times->earliest : (struct ration_time){RATION_MOMENT_NS_MAX, 0};

    if (times->established_count > RATION_ESTABLISHED_PLACES_MAX &&
        ration_time_less(times->established[RATION_ESTABLISHED_PLACES_MAX], earliest))
        return times->established[RATION_ESTABLISHED_PLACES_MAX];
    return earliest;
}

/* The best place of one set to give to a newcomer, and how many are in use. */
struct offer {
    bool has_claims; /* of others, some of which may be one too many, and be withdrawn */
    bool is_begun;   /* somebody else is creating the key, or has: it need not be given a place */
    struct ration_entrance place; /* head NULL: none */
    struct ration_time moment;
    uint32_t set;
    uint32_t busy_count; /* in debt, or just being claimed */
    uint32_t used_count; /* not empty */
};

static bool is_of(const struct ration_head_kind *kind, struct ration_pair value, uint64_t tag)
{
    return ration_pair_label(value) == tag && kind->role(value) != RATION_ROLE_EMPTY;
}

static struct offer look_for_room(const struct ration_head_kind *kind,
                                  const struct ration_section *section,
                                  const struct ration_place *place, uint32_t half,
                                  const struct ration_newcomer *newcomer)
{
    struct offer offer = {.set = place->sets[half]};

    for (uint32_t i = 0; i < RATION_SET_PLACES; i++) {
        uint64_t index = ration_place_index(place, half * RATION_SET_PLACES + i);
        struct ration_pair *head = ration_section_at(section, index);
        struct ration_pair value = ration_atomic16_load(head);
        struct ration_time moment;

        ration_yield_point();
        offer.is_begun |= is_of(kind, value, place->tag);
        offer.used_count += kind->role(value) != RATION_ROLE_EMPTY;
        if (!kind->is_free(section, head, value, newcomer, &moment)) {
            offer.busy_count++;
            offer.has_claims |= kind->role(value) == RATION_ROLE_CLAIM;
        } else if (offer.place.head == NULL || ration_time_less(moment, offer.moment)) {
            /* of several the one idle for longest, of empty ones that where looking starts */
            offer.place = (struct ration_entrance){head, value, false};
            offer.moment = moment;
        }
    }
    return offer;
}

/*
 * Into the first set unless it is crowded, else where fewer are. As long as there is an empty
 * place nobody's is taken, not even an idle one's: who comes back is then still found. When all
 * are used, those in debt count.
 */
static struct offer choose_free(const struct ration_head_kind *kind,
                                const struct ration_section *section,
                                const struct ration_place *place,
                                const struct ration_newcomer *newcomer)
{
    struct offer first = look_for_room(kind, section, place, 0, newcomer);

    if (first.used_count < RATION_SET_CROWDED_PLACES)
        return first;

    struct offer second = look_for_room(kind, section, place, 1, newcomer);

    first.is_begun |= second.is_begun;
    second.is_begun = first.is_begun;
    first.has_claims |= second.has_claims;
    second.has_claims = first.has_claims;
    if (first.used_count < RATION_SET_PLACES || second.used_count < RATION_SET_PLACES)
        return second.used_count < first.used_count ? second : first;
    return first.busy_count < RATION_SET_CROWDED_PLACES || first.busy_count <= second.busy_count
               ? first
               : second;
}

/* Where established keys keep too many places although they are full: that of the one full for longest. */
static struct offer choose_crowded(const struct ration_head_kind *kind,
                                   const struct ration_section *section,
                                   const struct ration_place *place,
                                   const struct ration_newcomer *newcomer)
{
    struct ration_newcomer own = *newcomer;
    struct offer first, second;

    own.is_crowded = true;
    first = look_for_room(kind, section, place, 0, &own);
    second = look_for_room(kind, section, place, 1, &own);
    if (RATION_KEY_PLACES - first.busy_count - second.busy_count <= RATION_ESTABLISHED_PLACES_MAX)
        return (struct offer){.place = {.head = NULL}};
    if (first.place.head == NULL)
        return second;
    return second.place.head == NULL || !ration_time_less(second.moment, first.moment) ? first
                                                                                       : second;
}

static struct offer choose_room(const struct ration_head_kind *kind,
                                const struct ration_section *section,
                                const struct ration_place *place,
                                const struct ration_newcomer *newcomer)
{
    struct offer free = choose_free(kind, section, place, newcomer);

    if (free.place.head != NULL || free.is_begun)
        return free;

    struct offer crowded = choose_crowded(kind, section, place, newcomer);

    return crowded.place.head != NULL ? crowded : free;
}

bool ration_create_has_room(const struct ration_head_kind *kind,
                            const struct ration_section *section, const struct ration_place *place,
                            const struct ration_newcomer *newcomer)
{
    struct offer offer = choose_room(kind, section, place, newcomer);

    return offer.place.head != NULL || offer.is_begun;
}

/* Whether what the newcomer may take besides free places still holds. */
static bool is_meant(const struct ration_newcomer *newcomer)
{
    if (newcomer->reset_mask == 0 && !newcomer->is_scarce)
        return true;
    /* acquire: who has written a place under later limits has seen them in force */
    return __atomic_load_n(newcomer->current, __ATOMIC_ACQUIRE) == newcomer->config &&
           __atomic_load_n(newcomer->config, __ATOMIC_RELAXED) == newcomer->config_number;
}

enum room { ROOM_CLAIMED, ROOM_NONE, ROOM_BEGUN };

/*
 * Claims a place. BEGUN: there is none, but some of what takes the places is the key's own: others
 * are creating it. Only CLAIMED writes *out_claim.
 */
static enum room claim_room(const struct ration_head_kind *kind,
                            const struct ration_section *section, const struct ration_place *place,
                            const struct ration_newcomer *newcomer,
                            struct ration_entrance *out_claim)
{
    struct ration_newcomer own = *newcomer;
    uint32_t looks = 0;

    for (;
         ;) { /* each turn means that another thread changed the set, or may yet withdraw a claim */
        struct offer offer = choose_room(kind, section, place, &own);

        if (!is_meant(&own)) {
            own.reset_mask = 0;
            own.is_scarce = false;
            continue;
        }
        if (offer.place.head == NULL && offer.has_claims && !offer.is_begun &&
            looks++ < RATION_LOOKS_MAX)
            continue;
        if (offer.place.head == NULL)
            return offer.is_begun ? ROOM_BEGUN : ROOM_NONE;
        if (offer.moment.ns > 0)
            ration_section_raise_origin(section, offer.set, offer.moment);

        struct ration_pair claim = kind->claim(section, place, offer.place.value, newcomer->now_ns);

        if (swap(offer.place.head, offer.place.value, claim)) {
            /* the claim stands before the look for others begins: of two, one sees the other */
            ration_fence_full();
            *out_claim = (struct ration_entrance){
                offer.place.head, claim, kind->role(offer.place.value) == RATION_ROLE_MEMBER};
            return ROOM_CLAIMED;
        }
    }
}

/* The first claim or member of the tag that stands elsewhere than at but. */
static enum ration_role find_other(const struct ration_head_kind *kind,
                                   const struct ration_section *section,
                                   const struct ration_place *place, const struct ration_pair *but,
                                   struct ration_entrance *out_other)
{
    for (uint32_t i = 0; i < RATION_KEY_PLACES; i++) {
        struct ration_pair *head = ration_section_at(section, ration_place_index(place, i));
        struct ration_pair value = ration_atomic16_load(head);

        ration_yield_point();
        if (head != but && is_of(kind, value, place->tag)) {
            *out_other = (struct ration_entrance){head, value, false};
            return kind->role(value);
        }
    }
    return RATION_ROLE_EMPTY;
}

bool ration_create_is_begun(const struct ration_head_kind *kind,
                            const struct ration_section *section, const struct ration_place *place)
{
    struct ration_entrance other;

    return find_other(kind, section, place, NULL, &other) != RATION_ROLE_EMPTY;
}

bool ration_create_withdraw(const struct ration_head_kind *kind,
                            const struct ration_entrance *claim)
{
    return swap(claim->head, claim->value, kind->withdrawn(claim->value));
}

/* What became of a claim. */
enum fate { FATE_ALONE, FATE_MEMBER_FOUND, FATE_GONE };

/*
 * The second half, for the claim *entrance, one's own or another's. ALONE: it may become the member.
 * MEMBER_FOUND: there is one, now in *entrance, and the claim is withdrawn. GONE: the claim does not
 * stand any more, so nothing may be cancelled for its sake.
 */
static enum fate see_through(const struct ration_head_kind *kind,
                             const struct ration_section *section, const struct ration_place *place,
                             struct ration_entrance *entrance)
{
    for (;;) {
        struct ration_entrance other;

        switch (find_other(kind, section, place, entrance->head, &other)) {
        case RATION_ROLE_EMPTY:
            return FATE_ALONE;
        case RATION_ROLE_MEMBER:
            (void)ration_create_withdraw(kind, entrance);
            *entrance = other;
            return FATE_MEMBER_FOUND;
        case RATION_ROLE_CLAIM:
            if (other.head < entrance->head) {
                (void)ration_create_withdraw(kind, entrance);
                *entrance = other; /* and see that one through */
            } else if (!ration_pair_same(ration_atomic16_load(entrance->head), entrance->value)) {
                return FATE_GONE;
            } else {
                (void)ration_create_withdraw(kind, &other);
            }
        }
    }
}

enum ration_enter ration_create_enter(const struct ration_head_kind *kind,
                                      const struct ration_section *section,
                                      const struct ration_place *place,
                                      const struct ration_newcomer *newcomer,
                                      struct ration_entrance *out_entrance)
{
    for (;;) { /* each turn means that another thread's claim became a member, or was cancelled */
        struct ration_entrance entrance;
        enum room room = ROOM_CLAIMED;

        switch (find_other(kind, section, place, NULL, &entrance)) {
        case RATION_ROLE_MEMBER:
            *out_entrance = entrance;
            return RATION_ENTER_FOUND;
        case RATION_ROLE_CLAIM:
            break;
        case RATION_ROLE_EMPTY:
            room = claim_room(kind, section, place, newcomer, &entrance);
        }
        if (room == ROOM_NONE)
            return RATION_ENTER_FULL;
        if (room == ROOM_BEGUN)
            continue;

        enum fate fate = see_through(kind, section, place, &entrance);

        if (fate == FATE_GONE)
            continue;
        *out_entrance = entrance;
        return fate == FATE_ALONE ? RATION_ENTER_CLAIMED : RATION_ENTER_FOUND;
    }
}
