/*
 * near_lease: pockets. How many tokens a node has of a lease, and how many to draw next.
 */
#include "base/time.h"
#include "gate/near_note.h"

/*
 * The count of a lease's note: tokens, the size of the last lease that was wanted, and how often that was halved
 * until there was as much: 7 is nothing, or too often to be told.
 */
#define TOKENS_BITS   13
#define TOKENS_MAX    ((UINT64_C(1) << TOKENS_BITS) - 1)
#define SIZE_MAX_LOG  12 /* leases of up to 4096 tokens */
#define SIZE_MASK     15u
#define HALVED_SHIFT  (TOKENS_BITS + 4)
#define HALVED_MAX    7
#define HALVED_LITTLE 2 /* and more: there is little */

#define AHEAD_MIN        16 /* smaller leases are drawn when they are needed */
#define LEASE_NS_MAX     (500 * RATION_NS_PER_MS)
#define LEASE_FILL_PARTS 4 /* at most this part of the time that a bucket takes to fill */
#define SCARCE_PARTS \
    8 /* of a lease's length pass before more is asked for, where there was little */
#define PAUSE_PARTS      1 /* the same, where there was nothing */
#define LEASE_BURST_PART 4 /* of the burst are drawn at once, by all nodes together */
#define NUMBERS          RATION_REDIS_LEASE_NUMBERS /* in the last bits of leases' ends */
#define BACK_LENGTHS     2 /* of a lease may pass before what is left of it is lost */
#define BACK_FILL_NS_MIN (10 * RATION_NS_PER_MS) /* of faster buckets nothing is given back */

/* The longest that a lease of a limit may be, whatever its policy says or said. */
static uint64_t longest_ns(const struct ration_policy_limit *limit)
{
    return limit->limit.rate.capacity.ns / LEASE_FILL_PARTS;
}

uint64_t ration_near_lease_ns(const struct ration_policy_limit *limit)
{
    uint64_t most_ns = longest_ns(limit);
    uint64_t wanted_ns = limit->lease_ns > 0 ? limit->lease_ns : LEASE_NS_MAX;

    return wanted_ns < most_ns ? wanted_ns : most_ns;
}

/* A moment, or up to 8 us before it, that has the number of a lease. */
static uint64_t with_number(uint64_t moment_ns, uint64_t number)
{
    return (moment_ns > NUMBERS ? (moment_ns - NUMBERS) / NUMBERS * NUMBERS : 0) + number % NUMBERS;
}

static uint64_t tokens_of(const struct ration_near_note *note)
{
    return note->mark == RATION_NEAR_DENIED_MARK ? 0 : note->count & TOKENS_MAX;
}

/* Of the last lease, as a power of two. */
static uint32_t size_of(const struct ration_near_note *note)
{
    return (uint32_t)(note->count >> TOKENS_BITS) & SIZE_MASK;
}

static uint64_t halved_of(const struct ration_near_note *note)
{
    return note->count >> HALVED_SHIFT & HALVED_MAX;
}

static bool is_scarce(const struct ration_near_note *note)
{
    return halved_of(note) >= HALVED_LITTLE && halved_of(note) < HALVED_MAX;
}

static uint64_t pack(uint64_t tokens, uint32_t size, uint64_t halved)
{
    return (tokens < TOKENS_MAX ? tokens : TOKENS_MAX) | (uint64_t)size << TOKENS_BITS |
           halved << HALVED_SHIFT;
}

/* The same note with other tokens. */
static uint64_t repack(const struct ration_near_note *note, uint64_t tokens)
{
    return (note->count & ~TOKENS_MAX) | (tokens < TOKENS_MAX ? tokens : TOKENS_MAX);
}

/* At least so many tokens were drawn by the last lease: others in the pocket are of leases before it. */
static uint64_t last_drawn(const struct ration_near_note *note)
{
    return halved_of(note) < HALVED_MAX ? (UINT64_C(1) << size_of(note)) >> halved_of(note) : 0;
}

static uint64_t count_halvings(const struct ration_near_drawn *drawn)
{
    uint64_t halved = 0;

    while (halved < HALVED_MAX && drawn->wanted >> halved > drawn->portion.tokens)
        halved++;
    return halved;
}

/* The largest lease of a node, as a power of two: all of them together draw a part of the burst. */
static uint32_t size_most(const struct ration_near_ask *ask)
{
    uint64_t most = ask->limit->limit.burst / LEASE_BURST_PART / ask->node_count;
    uint32_t size = 0;

    while (size < SIZE_MAX_LOG && (UINT64_C(2) << size) <= most)
        size++;
    return size;
}

/* More is drawn when three quarters are spent; twice as much if that was in less than half the time. */
static uint64_t draw_ahead(const struct ration_near_ask *ask, const struct ration_near_note *note,
                           uint64_t left, uint64_t since_ns)
{
    uint64_t size = UINT64_C(1) << size_of(note);
    uint64_t low = size / 4;
    bool is_crossed = tokens_of(note) > low && left <= low;
    bool is_soon = note->until_ns - since_ns > ration_near_lease_ns(ask->limit) / 2;

    if (!is_crossed || size < AHEAD_MIN || is_scarce(note))
        return 0;
    return is_soon && size_of(note) < size_most(ask) ? 2 * size : size;
}

/* There was little: what comes back is left to gather for a while. */
static enum ration_near_answer deny_in_pause(const struct ration_near *near,
                                             const struct ration_near_ask *ask, uint64_t since_ns,
                                             struct ration_near_result *result)
{
    struct ration_near_note pause;

    ration_near_find(near, ask, RATION_NEAR_PAUSE, &pause);
    return pause.slot != NULL && pause.until_ns > since_ns
               ? ration_near_deny(ask, &pause, since_ns, result)
               : RATION_NEAR_LACKS;
}

enum ration_near_answer ration_near_lease_take(struct ration_near *near,
                                               const struct ration_near_ask *ask, uint64_t since_ns,
                                               struct ration_near_result *result)
{
    struct ration_near_note note;

    for (int i = 0; i < RATION_NEAR_TRIES_MAX && ask->cost_tokens <= ask->limit->limit.burst; i++) {
        uint64_t left;

        ration_near_find(near, ask, RATION_NEAR_MAIN, &note);
        if (note.slot == NULL || note.until_ns <= since_ns)
            return RATION_NEAR_LACKS;
        if (note.mark == RATION_NEAR_DENIED_MARK)
            return ask->cost_tokens >= (note.count & TOKENS_MAX) &&
                           ration_near_is_believed(near, ask, since_ns)
                       ? ration_near_deny(ask, &note, since_ns, result)
                       : RATION_NEAR_LACKS;
        if (tokens_of(&note) < ask->cost_tokens)
            return is_scarce(&note) ? deny_in_pause(near, ask, since_ns, result)
                                    : RATION_NEAR_LACKS;
        left = tokens_of(&note) - ask->cost_tokens;
        if (ration_near_change(near, &note, note.until_ns, repack(&note, left), 0, since_ns)) {
            result->decision = ration_near_decision(ask, left);
            result->until_ns = note.until_ns;
            result->lease_tokens = draw_ahead(ask, &note, left, since_ns);
            return RATION_NEAR_TAKEN;
        }
    }
    return RATION_NEAR_LACKS;
}

/* Nothing was drawn, or one token, which nobody wanted: a key that is asked about less than once a lease. */
static bool was_needless(const struct ration_near_note *note)
{
    return tokens_of(note) == 0 ? last_drawn(note) == 0 : size_of(note) == 0;
}

/* A key that was asked about a short while ago is worth a lease; one that spent it early, a larger one. */
uint64_t ration_near_want(struct ration_near *near, const struct ration_near_ask *ask,
                          uint64_t waiting_count, uint64_t now_ns)
{
    uint64_t since_ns = ration_near_since(near, now_ns);
    uint32_t size, most = size_most(ask);
    uint64_t want = waiting_count * ask->cost_tokens;
    struct ration_near_note note;

    if (want > UINT64_C(1) << most)
        want = UINT64_C(1) << most;
    ration_near_find(near, ask, RATION_NEAR_MAIN, &note);
    if (note.slot == NULL || note.until_ns + 2 * ration_near_lease_ns(ask->limit) < since_ns)
        return want;
    size = size_of(&note);
    if (note.until_ns > since_ns || note.mark == RATION_NEAR_DENIED_MARK || is_scarce(&note))
        size++;
    else if (was_needless(&note))
        return want;
    else if (tokens_of(&note) > (UINT64_C(1) << size) / 2 && size > 0)
        size--;
    return ration_near_larger(want, UINT64_C(1) << (size < most ? size : most));
}

static bool is_pocket(const struct ration_near_note *note, uint64_t since_ns)
{
    return note->slot != NULL && note->until_ns > since_ns && tokens_of(note) > 0;
}

uint64_t ration_near_want_apart(struct ration_near *near, const struct ration_near_ask *ask,
                                uint64_t wait_ns, uint64_t now_ns)
{
    uint64_t since_ns = ration_near_since(near, now_ns);
    struct ration_near_note note, drawing;

    ration_near_find(near, ask, RATION_NEAR_MAIN, &note);
    ration_near_find(near, ask, RATION_NEAR_DRAWING, &drawing);
    if (ask->limit->mode != RATION_POLICY_LEASE || is_pocket(&note, since_ns) ||
        (drawing.slot != NULL && drawing.until_ns > since_ns) ||
        !ration_near_change(near, &drawing, since_ns + wait_ns, 0, 0, since_ns))
        return 0;
    return ration_near_want(near, ask, 0, now_ns);
}

/*
 * Where less than half of what was wanted is drawn, it is scarce: what comes back is left to gather for a
 * while, and who asks meanwhile is denied. Nothing is lost: it is there for the next who asks.
 */
static void fill(struct ration_near *near, const struct ration_near_ask *ask,
                 const struct ration_near_drawn *drawn, uint64_t since_ns)
{
    uint64_t length_ns = ration_near_lease_ns(ask->limit);
    uint64_t until_ns =
        with_number(ration_near_since(near, drawn->asked_ns) + length_ns, drawn->portion.number);
    uint64_t halved = count_halvings(drawn);
    uint32_t size = 0;
    struct ration_near_note note;

    while (size < SIZE_MAX_LOG && (UINT64_C(2) << size) <= drawn->wanted)
        size++;
    if (halved >= HALVED_LITTLE) {
        ration_near_find(near, ask, RATION_NEAR_PAUSE, &note);
        (void)ration_near_change(near, &note, since_ns + length_ns / SCARCE_PARTS, 0, 0, since_ns);
    }
    for (int i = 0; i < RATION_NEAR_TRIES_MAX && until_ns > since_ns; i++) {
        uint64_t kept;

        ration_near_find(near, ask, RATION_NEAR_MAIN, &note);
        kept = is_pocket(&note, since_ns) ? tokens_of(&note) : 0;
        /* What is there ends earlier, and then all of it does: never later than it was drawn for. */
        if (ration_near_change(near, &note,
                               kept > 0 && note.until_ns < until_ns
                                   ? with_number(note.until_ns, until_ns)
                                   : until_ns,
                               pack(kept + drawn->portion.tokens, size, halved), 0, since_ns))
            return;
    }
}

/* Whoever was denied asks again after a while only; see fill(). */
void ration_near_lease_learn(struct ration_near *near, const struct ration_near_ask *ask,
                             const struct ration_decision *decision,
                             const struct ration_near_drawn *drawn, uint64_t since_ns)
{
    uint64_t length_ns = ration_near_lease_ns(ask->limit);
    uint64_t pause_ns = ration_near_larger(decision->retry_after_ns, length_ns / PAUSE_PARTS);
    struct ration_near_note note;

    if (drawn->portion.tokens > 0) {
        fill(near, ask, drawn, since_ns);
        return;
    }
    ration_near_find(near, ask, RATION_NEAR_MAIN, &note);
    if (is_pocket(&note, since_ns))
        return; /* somebody else has filled it */
    if (decision->verdict == RATION_DENY) {
        ration_near_believe(near, ask, since_ns);
        (void)ration_near_change(near, &note, since_ns + pause_ns,
                                 pack(ask->cost_tokens, size_of(&note), 0), RATION_NEAR_DENIED_MARK,
                                 since_ns);
    } else {
        (void)ration_near_change(near, &note, since_ns + length_ns,
                                 pack(0, size_of(&note), HALVED_MAX), 0, since_ns);
    }
}

struct ration_near_back ration_near_leftover(struct ration_near *near,
                                             const struct ration_near_ask *ask, uint64_t now_ns)
{
    uint64_t since_ns = ration_near_since(near, now_ns);
    uint64_t latest_ns;
    struct ration_near_back nothing = {0, 0, 0};
    struct ration_near_note note;

    ration_near_find(near, ask, RATION_NEAR_MAIN, &note);
    latest_ns = note.until_ns + BACK_LENGTHS * ration_near_lease_ns(ask->limit);
    if (note.slot == NULL || tokens_of(&note) == 0 ||
        (note.until_ns > since_ns && tokens_of(&note) >= ask->cost_tokens) ||
        since_ns >= latest_ns || ask->limit->limit.rate.capacity.ns < BACK_FILL_NS_MIN ||
        !ration_near_change(near, &note, note.until_ns, pack(0, size_of(&note), 0), 0, since_ns))
        return nothing;
    return (struct ration_near_back){
        .tokens = tokens_of(&note) < last_drawn(&note) ? tokens_of(&note) : last_drawn(&note),
        .number = (uint32_t)(note.until_ns % NUMBERS),
        .age_ns = since_ns + longest_ns(ask->limit) - note.until_ns,
    };
}

void ration_near_fill(struct ration_near *near, const struct ration_near_ask *ask,
                      const struct ration_near_drawn *drawn, uint64_t now_ns)
{
    uint64_t since_ns = ration_near_since(near, now_ns);

    ration_near_forget(near, ask, RATION_NEAR_DRAWING, since_ns);
    if (drawn->portion.tokens > 0)
        fill(near, ask, drawn, since_ns);
}

void ration_near_lease_put_back(struct ration_near *near, const struct ration_near_ask *ask,
                                const struct ration_near_result *result, uint64_t since_ns)
{
    struct ration_near_note note;

    for (int i = 0; i < RATION_NEAR_TRIES_MAX; i++) {
        ration_near_find(near, ask, RATION_NEAR_MAIN, &note);
        if (note.slot == NULL || note.mark == RATION_NEAR_DENIED_MARK ||
            note.until_ns != result->until_ns)
            return; /* it is of another lease: then it stays spent */
        if (ration_near_change(near, &note, note.until_ns,
                               repack(&note, tokens_of(&note) + ask->cost_tokens), 0, since_ns))
            return;
    }
}

/* A pocket is not given back: it ends. */
void ration_near_lease_edited(struct ration_near *near, const struct ration_near_ask *ask,
                              enum ration_gate_edit_kind kind, uint64_t since_ns)
{
    struct ration_near_note note;

    ration_near_find(near, ask, RATION_NEAR_MAIN, &note);
    if (note.slot != NULL && kind != RATION_EDIT_REFUND)
        (void)ration_near_change(near, &note, since_ns, pack(0, size_of(&note), 0), 0, since_ns);
}
