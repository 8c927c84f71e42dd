#include "gate/near.h"

#include <stdlib.h>
#include <string.h>

#include "base/hash_siphash.h"
#include "base/time.h"
#include "core/gcra.h"
#include "limiter/limiter.h"
#include "table/plain.h"

#define NEAR_KEYS_MAX 1000000 /* notes; a key without one is asked about */
#define COUNT_MAX     RATION_FRAC_MASK
#define MARK_DENIED   1 /* of a note; 0: none */

/*
 * The count of a lease's note: tokens, the size of the last lease, whether there was less than wanted, and how
 * often that was halved (3: too often to be told).
 */
#define TOKENS_BITS  13
#define TOKENS_MAX   ((UINT64_C(1) << TOKENS_BITS) - 1)
#define SIZE_MAX_LOG 12 /* leases of up to 4096 tokens */
#define SIZE_MASK    15u
#define SCARCE_BIT   (UINT64_C(1) << (TOKENS_BITS + 4))
#define HALVED_SHIFT (TOKENS_BITS + 5)
#define HALVED_MAX   3
#define TRIES_MAX    16 /* of changing a note that others change, too */

#define AHEAD_MIN        16 /* smaller leases are drawn when they are needed */
#define LEASE_NS_MAX     (500 * RATION_NS_PER_MS)
#define LEASE_FILL_PARTS 4 /* at most this part of the time that a bucket takes to fill */
#define SCARCE_PARTS \
    8 /* of a lease's length pass before more is asked for, where there was little */
#define PAUSE_PARTS      1 /* the same, where there was nothing */
#define LEASE_BURST_PART 4 /* of the burst are drawn at once, by all nodes together */
#define NUMBERS          1024 /* of leases, in the last bits of their ends */
#define BELIEVED_NS      (500 * RATION_NS_PER_MS) /* a denial */

/* What a note is about, beside the pocket or the bucket of a key. */
enum { ASPECT_DENIAL = 1, ASPECT_BELIEF };

struct ration_near {
    ration_limiter *limiter; /* for its table only */
    uint32_t lease_count;    /* of all keys */
};

struct note {
    struct ration_place place;
    struct ration_pair *slot; /* NULL: there is none */
    struct ration_pair value;
    uint64_t until_ns; /* since the table's epoch, as all times below */
    uint64_t count;
    uint32_t mark;
};

ration_status ration_near_create(const struct ration_clock *clock, uint32_t threads_max,
                                 struct ration_near **out_near, struct ration_error *error)
{
    struct ration_near *near = calloc(1, sizeof(*near));
    struct ration_rule rule = {0};
    struct ration_limiter_options options = {
        .struct_size = sizeof(options),
        .rules = &rule,
        .rule_count = 1,
        .keys_max = NEAR_KEYS_MAX,
        .clock = clock,
        .threads_max = threads_max,
    };
    ration_status status;

    if (near == NULL)
        return RATION_ENOMEM;
    (void)ration_limit_per_second(1, &rule.limit); /* any: its buckets are not used as such */
    status = ration_limiter_create(&options, &near->limiter, error);
    if (status != RATION_OK) {
        free(near);
        return status;
    }
    *out_near = near;
    return RATION_OK;
}

void ration_near_free(struct ration_near *near)
{
    if (near == NULL)
        return;
    ration_limiter_free(near->limiter);
    free(near);
}

static uint64_t larger_of(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

/* Notes ---------------------------------------------------------------------------------------- */

static uint64_t since_of(const struct ration_near *near, uint64_t now_ns)
{
    return ration_block_now(near->limiter->store->epoch_ns, now_ns);
}

static void read_note(struct note *note)
{
    struct ration_time moment = ration_pair_moment(note->value);

    note->until_ns = moment.ns;
    note->count = moment.frac;
    note->mark = ration_pair_mark(note->value);
}

/* Of a limit as it is, and one aspect of it. */
static struct ration_hash note_secret(const struct ration_near_ask *ask, uint64_t aspect)
{
    const struct ration_limit *limit = &ask->limit->limit;
    struct ration_hash secret = *ask->secret;

    secret.words[0] ^= aspect ^ (uint64_t)ask->limit->mode << 8;
    secret.words[1] ^= limit->tokens * UINT64_C(0x9e3779b97f4a7c15) ^
                       limit->period_ns * UINT64_C(0xc2b2ae3d27d4eb4f) ^
                       limit->burst * UINT64_C(0x165667b19e3779f9);
    return secret;
}

static void find_aspect(const struct ration_near *near, const struct ration_near_ask *ask,
                        uint64_t aspect, struct note *note)
{
    const struct ration_section *section = near->limiter->quick_section;
    struct ration_hash secret = note_secret(ask, aspect);
    struct ration_hash hash = ration_hash_siphash(&secret, ask->key->bytes, ask->key->size);

    note->place = ration_place_of(ration_hash_key(&section->block->secret, &hash, sizeof(hash)),
                                  section->set_count);
    note->slot = ration_plain_find(section, &note->place, &note->value);
    note->until_ns = note->count = note->mark = 0;
    if (note->slot != NULL)
        read_note(note);
}

/* The pocket, or the bucket of the node's own. */
static void find(const struct ration_near *near, const struct ration_near_ask *ask,
                 struct note *note)
{
    find_aspect(near, ask, 0, note);
}

/* Writes a note if it is as it was found; makes one if there was none and there is a place. */
static bool change(struct ration_near *near, struct note *note, uint64_t until_ns, uint64_t count,
                   uint32_t mark, uint64_t since_ns)
{
    const struct ration_section *section = near->limiter->quick_section;
    struct ration_slot next = {
        note->place.tag, mark, {until_ns, count < COUNT_MAX ? count : COUNT_MAX}};
    struct ration_entrance entrance;

    if (note->slot != NULL)
        return ration_atomic16_swap(note->slot, &note->value, ration_slot_pack(next));
    if (ration_create_enter(&ration_plain_kind, section, &note->place, since_ns, &entrance) !=
        RATION_ENTER_CLAIMED)
        return false;
    return ration_plain_complete(&entrance, next);
}

/* Denials -------------------------------------------------------------------------------------- */

static void believe(struct ration_near *near, const struct ration_near_ask *ask, uint64_t since_ns)
{
    struct note note;

    find_aspect(near, ask, ASPECT_BELIEF, &note);
    (void)change(near, &note, since_ns + BELIEVED_NS, 0, 0, since_ns);
}

static bool is_believed(const struct ration_near *near, const struct ration_near_ask *ask,
                        uint64_t since_ns)
{
    struct note note;

    find_aspect(near, ask, ASPECT_BELIEF, &note);
    return note.slot != NULL && note.until_ns > since_ns;
}

/* A note that may be forgotten. */
static void forget_aspect(struct ration_near *near, const struct ration_near_ask *ask,
                          uint64_t aspect, uint64_t since_ns)
{
    struct note note;

    find_aspect(near, ask, aspect, &note);
    if (note.slot != NULL)
        (void)change(near, &note, 0, 0, 0, since_ns);
}

/* Leases --------------------------------------------------------------------------------------- */

uint64_t ration_near_lease_ns(const struct ration_policy_limit *limit)
{
    uint64_t most_ns = limit->limit.rate.capacity.ns / LEASE_FILL_PARTS;
    uint64_t wanted_ns = limit->lease_ns > 0 ? limit->lease_ns : LEASE_NS_MAX;

    return wanted_ns < most_ns ? wanted_ns : most_ns;
}

/* A moment, or up to 2 us before it, that has the number of a lease. */
static uint64_t with_number(uint64_t moment_ns, uint64_t number)
{
    return (moment_ns > NUMBERS ? (moment_ns - NUMBERS) / NUMBERS * NUMBERS : 0) + number % NUMBERS;
}

/* The number of a lease, and its node's. */
static uint32_t mark_of(const struct ration_near *near, uint64_t until_ns)
{
    const struct ration_section *section = near->limiter->quick_section;
    static const char node[] = "node";
    struct ration_hash hash = ration_hash_key(&section->block->secret, node, sizeof(node));

    return (uint32_t)(hash.words[0] * NUMBERS + until_ns % NUMBERS);
}

struct ration_near_term ration_near_term(struct ration_near *near,
                                         const struct ration_policy_limit *limit, uint64_t now_ns)
{
    uint64_t number = __atomic_add_fetch(&near->lease_count, 1, __ATOMIC_RELAXED);
    uint64_t until_ns = with_number(since_of(near, now_ns) + ration_near_lease_ns(limit), number);

    return (struct ration_near_term){until_ns, mark_of(near, until_ns)};
}

static uint64_t tokens_of(const struct note *note)
{
    return note->mark == MARK_DENIED ? 0 : note->count & TOKENS_MAX;
}

/* Of the last lease, as a power of two. */
static uint32_t size_of(const struct note *note)
{
    return (uint32_t)(note->count >> TOKENS_BITS) & SIZE_MASK;
}

static bool is_scarce(const struct note *note)
{
    return (note->count & SCARCE_BIT) != 0;
}

static uint64_t pack(uint64_t tokens, uint32_t size, bool is_little)
{
    return (tokens < TOKENS_MAX ? tokens : TOKENS_MAX) | (uint64_t)size << TOKENS_BITS |
           (is_little ? SCARCE_BIT : 0);
}

/* The same note with other tokens. */
static uint64_t repack(const struct note *note, uint64_t tokens)
{
    return (note->count & ~TOKENS_MAX) | (tokens < TOKENS_MAX ? tokens : TOKENS_MAX);
}

/* At least so many tokens were drawn by the last lease: others in the pocket are of leases before it. */
static uint64_t last_drawn(const struct note *note)
{
    uint64_t halved = note->count >> HALVED_SHIFT & HALVED_MAX;

    return halved < HALVED_MAX ? (UINT64_C(1) << size_of(note)) >> halved : 0;
}

static uint64_t count_halvings(const struct ration_near_drawn *drawn)
{
    uint64_t halved = 0;

    while (halved < HALVED_MAX && drawn->wanted >> halved > drawn->tokens)
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

static struct ration_decision decision_of(const struct ration_near_ask *ask, uint64_t remaining)
{
    const struct ration_limit *limit = &ask->limit->limit;
    uint64_t out = limit->burst > remaining ? limit->burst - remaining : 0;

    return (struct ration_decision){
        .verdict = RATION_ALLOW,
        .limit = limit->burst,
        .remaining = remaining,
        .reset_after_ns = ration_time_ceil_ns(ration_time_scale(limit->rate.token, out)),
    };
}

/* More is drawn when three quarters are spent; twice as much if that was in less than half the time. */
static uint64_t draw_ahead(const struct ration_near_ask *ask, const struct note *note,
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

static enum ration_near_answer deny(const struct ration_near_ask *ask, const struct note *note,
                                    uint64_t since_ns, struct ration_near_result *result)
{
    result->decision = decision_of(ask, 0);
    result->decision.verdict = RATION_DENY;
    result->decision.retry_after_ns = note->until_ns - since_ns;
    return RATION_NEAR_DENIED;
}

static enum ration_near_answer take_leased(struct ration_near *near,
                                           const struct ration_near_ask *ask, uint64_t since_ns,
                                           struct ration_near_result *result)
{
    struct note note;

    for (int i = 0; i < TRIES_MAX; i++) {
        uint64_t left;

        find(near, ask, &note);
        if (note.slot == NULL || note.until_ns <= since_ns)
            return RATION_NEAR_LACKS;
        if (note.mark == MARK_DENIED)
            return ask->cost_tokens >= (note.count & TOKENS_MAX) &&
                           is_believed(near, ask, since_ns)
                       ? deny(ask, &note, since_ns, result)
                       : RATION_NEAR_LACKS;
        if (tokens_of(&note) < ask->cost_tokens)
            return is_scarce(&note) ? deny(ask, &note, since_ns, result) : RATION_NEAR_LACKS;
        left = tokens_of(&note) - ask->cost_tokens;
        if (change(near, &note, note.until_ns, repack(&note, left), 0, since_ns)) {
            result->decision = decision_of(ask, left);
            result->until_ns = note.until_ns;
            result->lease_tokens = draw_ahead(ask, &note, left, since_ns);
            return RATION_NEAR_TAKEN;
        }
    }
    return RATION_NEAR_LACKS;
}

/* Nothing was drawn, or one token, which nobody wanted: a key that is asked about less than once a lease. */
static bool was_needless(const struct note *note)
{
    return tokens_of(note) == 0 ? last_drawn(note) == 0 : size_of(note) == 0;
}

/* A key that was asked about a short while ago is worth a lease; one that spent it early, a larger one. */
uint64_t ration_near_want(struct ration_near *near, const struct ration_near_ask *ask,
                          uint64_t waiting_count, uint64_t now_ns)
{
    uint64_t since_ns = since_of(near, now_ns);
    uint32_t size, most = size_most(ask);
    uint64_t want = waiting_count * ask->cost_tokens;
    struct note note;

    if (want > UINT64_C(1) << most)
        want = UINT64_C(1) << most;
    find(near, ask, &note);
    if (note.slot == NULL || note.until_ns + 2 * ration_near_lease_ns(ask->limit) < since_ns)
        return want;
    size = size_of(&note);
    if (note.until_ns > since_ns || note.mark == MARK_DENIED || is_scarce(&note))
        size++;
    else if (was_needless(&note))
        return want;
    else if (tokens_of(&note) > (UINT64_C(1) << size) / 2 && size > 0)
        size--;
    return larger_of(want, UINT64_C(1) << (size < most ? size : most));
}

static bool is_pocket(const struct note *note, uint64_t since_ns)
{
    return note->slot != NULL && note->until_ns > since_ns && tokens_of(note) > 0;
}

/*
 * Where less than half of what was wanted is drawn, it is scarce: what comes back is left to gather for a
 * while, and who asks meanwhile is denied. Nothing is lost: it is there for the next who asks.
 */
static void fill(struct ration_near *near, const struct ration_near_ask *ask,
                 const struct ration_near_drawn *drawn, uint64_t since_ns)
{
    uint64_t length_ns = ration_near_lease_ns(ask->limit);
    uint64_t until_ns = drawn->until_ns;
    bool is_little = drawn->tokens < drawn->wanted / 2;
    uint32_t size = 0;
    struct note note;

    while (size < SIZE_MAX_LOG && (UINT64_C(2) << size) <= drawn->wanted)
        size++;
    if (is_little && since_ns + length_ns / SCARCE_PARTS < until_ns)
        until_ns = with_number(since_ns + length_ns / SCARCE_PARTS, until_ns);
    for (int i = 0; i < TRIES_MAX && until_ns > since_ns; i++) {
        uint64_t kept;

        find(near, ask, &note);
        kept = is_pocket(&note, since_ns) ? tokens_of(&note) : 0;
        /* What is there ends earlier, and then all of it does: never later than it was drawn for. */
        if (change(near, &note,
                   kept > 0 && note.until_ns < until_ns ? with_number(note.until_ns, until_ns)
                                                        : until_ns,
                   pack(kept + drawn->tokens, size, is_little) |
                       count_halvings(drawn) << HALVED_SHIFT,
                   0, since_ns))
            return;
    }
}

/* Whoever was denied asks again after a while only; see fill(). */
static void learn_leased(struct ration_near *near, const struct ration_near_ask *ask,
                         const struct ration_decision *decision,
                         const struct ration_near_drawn *drawn, uint64_t since_ns)
{
    uint64_t length_ns = ration_near_lease_ns(ask->limit);
    uint64_t pause_ns = larger_of(decision->retry_after_ns, length_ns / PAUSE_PARTS);
    struct note note;

    if (drawn->tokens > 0) {
        fill(near, ask, drawn, since_ns);
        return;
    }
    find(near, ask, &note);
    if (is_pocket(&note, since_ns))
        return; /* somebody else has filled it */
    if (decision->verdict == RATION_DENY) {
        believe(near, ask, since_ns);
        (void)change(near, &note, since_ns + pause_ns,
                     pack(ask->cost_tokens, size_of(&note), false), MARK_DENIED, since_ns);
    } else {
        (void)change(near, &note, since_ns + length_ns,
                     pack(0, size_of(&note), false) | (uint64_t)HALVED_MAX << HALVED_SHIFT, 0,
                     since_ns);
    }
}

struct ration_near_back ration_near_leftover(struct ration_near *near,
                                             const struct ration_near_ask *ask, uint64_t now_ns)
{
    uint64_t since_ns = since_of(near, now_ns);
    struct ration_near_back nothing = {0, 0};
    struct note note;

    find(near, ask, &note);
    if (note.slot == NULL || tokens_of(&note) == 0 || note.until_ns > since_ns ||
        !change(near, &note, note.until_ns, pack(0, size_of(&note), false), 0, since_ns))
        return nothing;
    return (struct ration_near_back){
        tokens_of(&note) < last_drawn(&note) ? tokens_of(&note) : last_drawn(&note),
        mark_of(near, note.until_ns)};
}

void ration_near_fill(struct ration_near *near, const struct ration_near_ask *ask,
                      const struct ration_near_drawn *drawn, uint64_t now_ns)
{
    if (drawn->tokens > 0)
        fill(near, ask, drawn, since_of(near, now_ns));
}

/* Local first ---------------------------------------------------------------------------------- */

/* A token's time in the node's own bucket, in whole nanoseconds, rounded up. */
static uint64_t own_token_ns(const struct ration_near_ask *ask)
{
    return ration_time_ceil_ns(ration_time_scale(ask->limit->limit.rate.token, ask->node_count));
}

/* Whole tokens that the bucket has, if it is full at a moment. */
static uint64_t own_remaining(const struct ration_near_ask *ask, uint64_t full_ns,
                              uint64_t since_ns)
{
    uint64_t token_ns = own_token_ns(ask);
    uint64_t out = full_ns > since_ns ? (full_ns - since_ns + token_ns - 1) / token_ns : 0;

    return out < ask->limit->limit.burst ? ask->limit->limit.burst - out : 0;
}

static uint64_t threshold_of(const struct ration_near_ask *ask)
{
    return ask->limit->limit.burst * ask->limit->threshold_percent / 100;
}

/* Whether Redis has denied as much until a moment that is to come. */
static bool is_denied(const struct ration_near *near, const struct ration_near_ask *ask,
                      uint64_t since_ns, struct note *note)
{
    find_aspect(near, ask, ASPECT_DENIAL, note);
    return note->slot != NULL && note->until_ns > since_ns && ask->cost_tokens >= note->count;
}

static enum ration_near_answer take_own(struct ration_near *near, const struct ration_near_ask *ask,
                                        uint64_t since_ns, struct ration_near_result *result)
{
    uint64_t burst = ask->limit->limit.burst;
    struct note note;

    if (is_denied(near, ask, since_ns, &note))
        return is_believed(near, ask, since_ns) ? deny(ask, &note, since_ns, result)
                                                : RATION_NEAR_LACKS;

    for (int i = 0; i < TRIES_MAX; i++) {
        uint64_t remaining;

        find(near, ask, &note);
        remaining = own_remaining(ask, note.until_ns, since_ns);
        if (ask->cost_tokens > burst || remaining < ask->cost_tokens ||
            remaining - ask->cost_tokens < threshold_of(ask) ||
            note.count + ask->cost_tokens > COUNT_MAX)
            return RATION_NEAR_LACKS;
        if (change(near, &note,
                   larger_of(note.until_ns, since_ns) + ask->cost_tokens * own_token_ns(ask),
                   note.count + ask->cost_tokens, 0, since_ns)) {
            result->decision = decision_of(ask, remaining - ask->cost_tokens);
            return RATION_NEAR_TAKEN;
        }
    }
    return RATION_NEAR_LACKS;
}

uint64_t ration_near_collect(struct ration_near *near, const struct ration_near_ask *ask,
                             uint64_t now_ns)
{
    uint64_t since_ns = since_of(near, now_ns);
    struct note note;

    if (ask->limit->mode != RATION_POLICY_LOCAL_FIRST)
        return 0;
    for (int i = 0; i < TRIES_MAX; i++) {
        find(near, ask, &note);
        if (note.slot == NULL || note.count == 0)
            return 0;
        if (change(near, &note, note.until_ns, 0, 0, since_ns))
            return note.count;
    }
    return 0;
}

void ration_near_owe(struct ration_near *near, const struct ration_near_ask *ask, uint64_t tokens,
                     uint64_t now_ns)
{
    uint64_t since_ns = since_of(near, now_ns);
    struct note note;

    for (int i = 0; i < TRIES_MAX && tokens > 0; i++) {
        find(near, ask, &note);
        if (change(near, &note, larger_of(note.until_ns, since_ns + 1), note.count + tokens, 0,
                   since_ns))
            return;
    }
}

/* The own bucket has no more than the one in Redis. */
static void learn_own(struct ration_near *near, const struct ration_near_ask *ask,
                      const struct ration_decision *decision, uint64_t since_ns)
{
    uint64_t out =
        decision->limit > decision->remaining ? decision->limit - decision->remaining : 0;
    uint64_t full_ns = since_ns + out * own_token_ns(ask);
    struct note note;

    if (decision->verdict == RATION_DENY) {
        believe(near, ask, since_ns);
        find_aspect(near, ask, ASPECT_DENIAL, &note);
        (void)change(near, &note, since_ns + decision->retry_after_ns, ask->cost_tokens, 0,
                     since_ns);
    }
    for (int i = 0; i < TRIES_MAX; i++) {
        find(near, ask, &note);
        if (change(near, &note, full_ns, note.count, 0, since_ns))
            return;
    }
}

/* All of them ---------------------------------------------------------------------------------- */

enum ration_near_answer ration_near_take(struct ration_near *near,
                                         const struct ration_near_ask *ask, uint64_t now_ns,
                                         struct ration_near_result *out_result)
{
    uint64_t since_ns = since_of(near, now_ns);

    *out_result = (struct ration_near_result){.lease_tokens = 0};
    if (ask->limit->mode == RATION_POLICY_LEASE)
        return take_leased(near, ask, since_ns, out_result);
    if (ask->limit->mode == RATION_POLICY_LOCAL_FIRST)
        return take_own(near, ask, since_ns, out_result);
    return RATION_NEAR_LACKS;
}

void ration_near_put_back(struct ration_near *near, const struct ration_near_ask *ask,
                          const struct ration_near_result *result, uint64_t now_ns)
{
    uint64_t since_ns = since_of(near, now_ns);
    bool is_own = ask->limit->mode == RATION_POLICY_LOCAL_FIRST;
    uint64_t worth_ns = is_own ? ask->cost_tokens * own_token_ns(ask) : 0;
    struct note note;

    for (int i = 0; i < TRIES_MAX; i++) {
        find(near, ask, &note);
        if (note.slot == NULL || note.mark == MARK_DENIED ||
            (is_own ? note.count == 0 : note.until_ns != result->until_ns))
            return; /* it was told, or is of another lease: then it stays spent */
        if (change(
                near, &note, note.until_ns > worth_ns ? note.until_ns - worth_ns : 0,
                is_own
                    ? note.count - (note.count < ask->cost_tokens ? note.count : ask->cost_tokens)
                    : repack(&note, tokens_of(&note) + ask->cost_tokens),
                note.mark, since_ns))
            return;
    }
}

/* Its own bucket is full after a reset; after a block it is empty, so that Redis is asked. */
static void edit_own(struct ration_near *near, const struct ration_near_ask *ask,
                     enum ration_gate_edit_kind kind, const struct note *note, uint64_t since_ns)
{
    struct note own = *note;

    if (kind == RATION_EDIT_RESET)
        (void)change(near, &own, since_ns, 0, 0, since_ns);
    else if (kind == RATION_EDIT_BLOCK)
        (void)change(near, &own, since_ns + ask->limit->limit.burst * own_token_ns(ask), own.count,
                     0, since_ns);
}

void ration_near_edited(struct ration_near *near, const struct ration_near_ask *ask,
                        enum ration_gate_edit_kind kind, uint64_t now_ns)
{
    uint64_t since_ns = since_of(near, now_ns);
    struct note note;

    if (ask->limit->mode == RATION_POLICY_STRICT)
        return;
    forget_aspect(near, ask, ASPECT_DENIAL, since_ns);
    forget_aspect(near, ask, ASPECT_BELIEF, since_ns);
    find(near, ask, &note);
    if (ask->limit->mode == RATION_POLICY_LOCAL_FIRST)
        edit_own(near, ask, kind, &note, since_ns);
    else if (note.slot != NULL &&
             kind != RATION_EDIT_REFUND) /* a pocket is not given back: it ends */
        (void)change(near, &note, since_ns, pack(0, size_of(&note), false), 0, since_ns);
}

void ration_near_learn(struct ration_near *near, const struct ration_near_ask *ask,
                       const struct ration_decision *decision,
                       const struct ration_near_drawn *drawn, uint64_t now_ns)
{
    uint64_t since_ns = since_of(near, now_ns);

    if (decision->verdict == RATION_NEVER)
        return;
    if (ask->limit->mode == RATION_POLICY_LEASE)
        learn_leased(near, ask, decision, drawn, since_ns);
    else if (ask->limit->mode == RATION_POLICY_LOCAL_FIRST)
        learn_own(near, ask, decision, since_ns);
}
