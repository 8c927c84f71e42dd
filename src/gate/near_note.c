/*
 * near_note: notes in a table of their own, and what all modes tell.
 */
#include "gate/near_note.h"

#include "base/hash_siphash.h"
#include "base/process.h"
#include "base/time.h"
#include "table/plain.h"

#define COUNT_MAX   RATION_FRAC_MASK
#define BELIEVED_NS (500 * RATION_NS_PER_MS) /* a denial */

uint64_t ration_near_since(const struct ration_near *near, uint64_t now_ns)
{
    return ration_block_now(near->limiter->store->epoch_ns, now_ns);
}

static void read_note(struct ration_near_note *note)
{
    struct ration_time moment = ration_pair_moment(note->value);

    note->until_ns = moment.ns;
    note->count = moment.frac;
    note->mark = ration_pair_mark(note->value);
}

/* Of a limit as it is, one aspect of it, and this process: a child of fork() does not spend what its parent has. */
static struct ration_hash note_secret(const struct ration_near_ask *ask,
                                      enum ration_near_aspect aspect)
{
    const struct ration_limit *limit = &ask->limit->limit;
    struct ration_hash secret = *ask->secret;

    secret.words[0] ^= (uint64_t)aspect ^ (uint64_t)ask->limit->mode << 8;
    secret.words[1] ^= limit->tokens * UINT64_C(0x9e3779b97f4a7c15) ^
                       limit->period_ns * UINT64_C(0xc2b2ae3d27d4eb4f) ^
                       limit->burst * UINT64_C(0x165667b19e3779f9) ^
                       ration_process_id() * UINT64_C(0x27d4eb2f165667c5);
    return secret;
}

void ration_near_find(const struct ration_near *near, const struct ration_near_ask *ask,
                      enum ration_near_aspect aspect, struct ration_near_note *note)
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

bool ration_near_change(struct ration_near *near, struct ration_near_note *note, uint64_t until_ns,
                        uint64_t count, uint32_t mark, uint64_t since_ns)
{
    const struct ration_section *section = near->limiter->quick_section;
    struct ration_slot next = {
        note->place.tag, mark, {until_ns, count < COUNT_MAX ? count : COUNT_MAX}};
    struct ration_entrance entrance;

    if (note->slot != NULL)
        return ration_atomic16_swap(note->slot, &note->value, ration_slot_pack(next));
    if (ration_create_enter(&ration_plain_kind, section, &note->place,
                            &(struct ration_newcomer){.now_ns = since_ns},
                            &entrance) != RATION_ENTER_CLAIMED)
        return false;
    return ration_plain_complete(&entrance, next);
}

/* Denials -------------------------------------------------------------------------------------- */

void ration_near_believe(struct ration_near *near, const struct ration_near_ask *ask,
                         uint64_t since_ns)
{
    struct ration_near_note note;

    ration_near_find(near, ask, RATION_NEAR_BELIEF, &note);
    (void)ration_near_change(near, &note, since_ns + BELIEVED_NS, 0, 0, since_ns);
}

bool ration_near_is_believed(const struct ration_near *near, const struct ration_near_ask *ask,
                             uint64_t since_ns)
{
    struct ration_near_note note;

    ration_near_find(near, ask, RATION_NEAR_BELIEF, &note);
    return note.slot != NULL && note.until_ns > since_ns;
}

void ration_near_forget(struct ration_near *near, const struct ration_near_ask *ask,
                        enum ration_near_aspect aspect, uint64_t since_ns)
{
    struct ration_near_note note;

    ration_near_find(near, ask, aspect, &note);
    if (note.slot != NULL)
        (void)ration_near_change(near, &note, 0, 0, 0, since_ns);
}

/* What is told --------------------------------------------------------------------------------- */

struct ration_decision ration_near_decision(const struct ration_near_ask *ask, uint64_t remaining)
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

enum ration_near_answer ration_near_deny(const struct ration_near_ask *ask,
                                         const struct ration_near_note *note, uint64_t since_ns,
                                         struct ration_near_result *result)
{
    result->decision = ration_near_decision(ask, 0);
    result->decision.verdict = RATION_DENY;
    result->decision.retry_after_ns = note->until_ns - since_ns;
    return RATION_NEAR_DENIED;
}
