/*
 * gate: the object behind ration/gate.h.
 *
 * A limit of the policy is a limiter of one rule in a stack, made when the limit first appears. A
 * reload makes a new plan, which says for each limit of the new policy which limiter it is, and swaps
 * it in. Limiters stay where they are: one whose limit is gone is only not asked any more, and is
 * taken up again if a limit of its name and kind comes back. Those that are gone for longest give their
 * memory to limits that are new, so that reloads without end take no more and more of it.
 */
#ifndef RATION_GATE_GATE_H
#define RATION_GATE_GATE_H

#include <pthread.h>

#include "base/hash.h"
#include "gate/grace.h"
#include "limiter/calls.h"
#include "ration/gate.h"

/*
 * By which attributes keys are made: "ip /64 user". Names have no blanks, and ip is always followed
 * by its prefix, so that two different keys never have the same text.
 */
#define RATION_GATE_KEY_TEXT_SIZE 1280

/* A policy, and where its limits' buckets are. Those who check see no change of it. */
struct ration_gate_plan {
    struct ration_gate_plan *next; /* of those that were replaced; under the lock */
    ration_policy *policy;         /* owned */
    uint64_t generation;
    struct ration_hash *hold_secrets; /* by the policy's limit; they lie behind the indexes */
    uint64_t *
        changed_ns; /* since when each limit is what it is, by the gate's clock; behind the secrets */
    uint32_t limiter_indexes[]; /* in the stack; by the policy's limit */
};

/* What is known of a limiter of the stack beside what it knows itself. */
struct ration_gate_table {
    char *key_text;          /* owned: by which attributes, see ration_gate_key_text() */
    bool is_used;            /* by the current plan */
    bool is_planned;         /* by the plan that is made */
    uint64_t removed_number; /* of the removal: larger is later; 0: none has used it yet */
};

struct ration_gate_remote;

struct ration_gate {
    struct ration_gate_plan *plan;    /* replaced by reloads */
    struct ration_gate_plan *retired; /* somebody may still be inside; under the lock */
    struct ration_grace grace;
    ration_stack *stack;
    ration_limiter *throttle;
    ration_limiter *holds;             /* see hold.c */
    uint64_t held_until_ns;            /* from then on no key is held; 0: none ever was */
    struct ration_gate_remote *remote; /* NULL: limits live in memory only */
    struct ration_clock clock;
    uint32_t top_keys;
    uint32_t attribute_bytes_max;
    pthread_mutex_t reload_lock;      /* those who check do not take it: see ration_gate_lock() */
    uint64_t lock_process;            /* whose it is */
    struct ration_gate_table *tables; /* by limiter; under the lock */
    size_t table_max;
    uint64_t removal_count; /* reloads that removed limits; under the lock */
    uint64_t reload_count;
};

static inline const struct ration_gate_plan *ration_gate_plan(const struct ration_gate *gate)
{
    /*
     * Sequentially consistent, as the add of ration_grace_enter() before it, and the store in
     * publish(): who is not counted when a reload looks reads the new plan. (Acquire would let some
     * machines read the plan before the add is seen.)
     */
    return __atomic_load_n(&gate->plan, __ATOMIC_SEQ_CST);
}

/*
 * A guard of its own on the plan that guard holds, or on the current plan if guard is NULL. Release:
 * ration_gate_leave().
 */
void ration_gate_hold_plan(ration_gate *gate, const struct ration_visit *guard,
                           struct ration_visit *out_visit);

/* How limiters are made from a limit of a policy. rule is room that options point to. */
struct ration_limiter_options ration_gate_limiter_options(const struct ration_gate *gate,
                                                          const struct ration_policy_limit *limit,
                                                          struct ration_rule *rule);

/* A check whose limits, keys and costs are known. */
struct ration_gate_prepared {
    struct ration_policy_match match;
    struct ration_key keys[RATION_POLICY_MATCHES_MAX];
    struct ration_call_ask asks[RATION_POLICY_MATCHES_MAX];
};

/* Where checks are prepared, by one who has entered the grace period. */
struct ration_gate_desk {
    struct ration_gate *gate;
    const struct ration_gate_plan *plan;
    char *room; /* for keys that are composed */
    size_t room_size;
    size_t room_used;
};

/*
 * Matches the attributes of a check or an edit. Every request goes through here, so that one bound on the
 * size of values holds for all. *out_steps is what that cost (policy/match.h), on failure too.
 * Returns RATION_EINVAL with the reason in *out_reason.
 */
ration_status ration_gate_match(const struct ration_gate *gate, const ration_policy *policy,
                                const struct ration_attribute *attributes, size_t attribute_count,
                                struct ration_policy_match *out_match, uint64_t *out_steps,
                                const char **out_reason);

/* The same of an edit, whose match_steps are written. */
ration_status ration_gate_match_edit(const struct ration_gate *gate, const ration_policy *policy,
                                     const struct ration_edit *edit,
                                     struct ration_policy_match *out_match);

/*
 * The limits of a check, and what they are asked. RATION_ENOSPC: the room is used up, by others. What
 * cannot be decided is answered at once.
 */
ration_status ration_gate_prepare(struct ration_gate_desk *desk, struct ration_check *check,
                                  struct ration_gate_prepared *prepared);

/* Decides a prepared check in memory. */
void ration_gate_decide(struct ration_gate *gate, const struct ration_gate_plan *plan,
                        struct ration_check *check, const struct ration_gate_prepared *prepared,
                        uint64_t now_ns);

/* The answer to a check that has no limit to ask, and to one that cannot be decided. */
void ration_gate_answer_plainly(struct ration_gate *gate, struct ration_check *check);
void ration_gate_refuse(struct ration_gate *gate, struct ration_check *check, ration_status status,
                        const char *reason);

/* Which limit decided (binding: by part; -1: none that is enforced), and what each said. */
void ration_gate_tell(const struct ration_gate_plan *plan, struct ration_check *check,
                      const struct ration_gate_prepared *prepared,
                      const struct ration_decision *details, int binding);

/* Whether a limit that applies is meant by an edit: not everybody's bucket, unless it was named. */
bool ration_gate_is_meant(const struct ration_policy_limit *limit, const struct ration_edit *edit,
                          enum ration_gate_edit_kind kind);

/* By which attributes a limit keeps its keys: two limits with the same text have the same keys. */
void ration_gate_key_text(const struct ration_policy_limit *limit, char *out_text);

/* For how long a limit has been what it is. */
static inline uint64_t ration_gate_changed_ago_ns(const struct ration_gate_plan *plan,
                                                  size_t limit_index, uint64_t now_ns)
{
    uint64_t changed_ns = plan->changed_ns[limit_index];

    return now_ns > changed_ns ? now_ns - changed_ns : 0;
}

/* A plan for so many limits, owned by the caller; free(). NULL without memory. The gate has holds. */
struct ration_gate_plan *ration_gate_plan_create(const struct ration_gate *gate,
                                                 ration_policy *policy);

/* Keeps the policy as it is, until it is unlocked. */
void ration_gate_lock(struct ration_gate *gate);
void ration_gate_unlock(struct ration_gate *gate);

/* Releases the plans that were replaced, which nobody uses any more. */
void ration_gate_free_retired(struct ration_gate *gate);

/* A gate without limiters and plan. Returns RATION_EINVAL, RATION_ENOMEM. */
ration_status ration_gate_begin(const struct ration_gate_options *options,
                                struct ration_gate **out_gate, struct ration_error *error);

/* A limiter that a stack is made with. */
struct ration_gate_seed {
    struct ration_policy_limit limit; /* of its key only key_count is looked at */
    char *key_text;                   /* copied */
    bool is_used;                     /* by the policy */
    uint64_t removed_number;          /* as in struct ration_gate_table */
};

/* Creates the stack, with room for more, or reads it from a dump of one with these limiters. */
struct ration_gate_stack {
    const struct ration_gate_seed *seeds;
    size_t seed_count;
    ration_reader *read; /* NULL: a new one */
    void *context;
};

ration_status ration_gate_make_stack(struct ration_gate *gate,
                                     const struct ration_gate_options *options,
                                     const struct ration_gate_stack *stack,
                                     struct ration_error *error);

/* The limiter for limits that come with requests: new, or read from a dump. */
ration_status ration_gate_make_throttle(struct ration_gate *gate,
                                        const struct ration_gate_options *options,
                                        ration_reader *read, void *context,
                                        struct ration_error *error);

/* The limiter for keys that are blocked beside their buckets: new, or read from a dump. */
ration_status ration_gate_make_holds(struct ration_gate *gate,
                                     const struct ration_gate_options *options, ration_reader *read,
                                     void *context, struct ration_error *error);

/* What makes a limit's keys there. */
struct ration_hash ration_gate_hold_secret(const struct ration_gate *gate,
                                           const struct ration_policy_limit *limit);

/* Whether any key may be held. */
static inline bool ration_gate_has_holds(const struct ration_gate *gate, uint64_t now_ns)
{
    return __builtin_expect(now_ns < __atomic_load_n(&gate->held_until_ns, __ATOMIC_RELAXED), 0);
}

/* For how long a key is held; 0: it is not. */
uint64_t ration_gate_held_ns(const struct ration_gate *gate, const struct ration_hash *secret,
                             const struct ration_key *key, uint64_t now_ns);

/* Returns RATION_ENOMEM if the key finds no place, and so is not held. */
ration_status ration_gate_hold_until(struct ration_gate *gate, const struct ration_hash *secret,
                                     const struct ration_key *key, uint64_t until_ns,
                                     uint64_t now_ns);
ration_status ration_gate_let_go(struct ration_gate *gate, const struct ration_hash *secret,
                                 const struct ration_key *key, uint64_t now_ns);

/* What ration_gate_reload() does, with the lock held. */
ration_status ration_gate_adopt(struct ration_gate *gate, ration_policy *policy,
                                ration_gate_change_fn *change, void *context,
                                struct ration_error *error);

#endif
