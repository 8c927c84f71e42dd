/*
 * engine: the object behind ration/engine.h.
 *
 * Each limit of the policy is a limiter of one rule in a stack. The engine creates the limiter when the limit first
 * appears. A reload creates a new plan, which maps each limit of the new policy to its limiter, and swaps the plan
 * in. Limiters stay where they are: checks no longer use the limiter of a removed limit, and a later reload that has
 * a limit of the same name and kind uses it again. New limits take over the memory of the limits that were removed
 * longest ago, so that memory does not grow with the number of reloads.
 */
#ifndef RATION_ENGINE_ENGINE_INTERNAL_H
#define RATION_ENGINE_ENGINE_INTERNAL_H

#include <pthread.h>

#include "base/hash.h"
#include "engine/epoch.h"
#include "limiter/call.h"
#include "ration/engine.h"

/*
 * Size of a text that names the attributes of a key: "ip /64 user". Attribute names contain no blanks, and ip is always
 * followed by its prefix, so two different keys never have the same text.
 */
#define RATION_ENGINE_KEY_TEXT_SIZE 1280

/* A policy, and the limiters of its limits. Readers never see a plan change. */
struct ration_engine_plan {
    struct ration_engine_plan *next; /* in the list of retired plans; under the reload lock */
    ration_policy *policy;           /* owned */
    uint64_t generation;
    struct ration_hash *block_secrets; /* by limit index; stored behind limiter_indexes */
    uint64_t *changed_ns;       /* time of the last change, by limit index; behind block_secrets */
    uint32_t limiter_indexes[]; /* in the stack; by limit index */
};

/* What the engine stores about a limiter of the stack, in addition to the limiter itself. */
struct ration_engine_table {
    char *key_text;          /* owned: the attributes of its keys, see ration_engine_key_text() */
    bool is_used;            /* the current plan uses it */
    bool is_planned;         /* the plan that a reload is building uses it */
    uint64_t removed_number; /* larger: its limit was removed later; 0: not removed yet */
};

struct ration_engine_remote;

struct ration_engine {
    struct ration_engine_plan *plan;    /* the current plan; reloads replace it */
    struct ration_engine_plan *retired; /* readers may still use these; under the reload lock */
    struct ration_epoch epoch;
    ration_stack *stack;
    ration_limiter *inline_limit;
    ration_limiter *blocks;              /* see blocks.c */
    uint64_t blocked_until_ns;           /* no block lasts longer; 0: no key was ever blocked */
    struct ration_engine_remote *remote; /* NULL: buckets are in memory only */
    struct ration_clock clock;
    uint32_t top_keys;
    uint32_t attribute_bytes_max;
    pthread_mutex_t reload_lock;        /* never taken by checks: see ration_engine_lock_reload() */
    uint64_t lock_process;              /* the process that reload_lock belongs to */
    struct ration_engine_table *tables; /* by limiter index; under the reload lock */
    size_t table_max;
    uint64_t removal_count; /* the last reload's removed_number; under the reload lock */
    uint64_t reload_count;
};

static inline const struct ration_engine_plan *ration_engine_plan(
    const struct ration_engine *engine)
{
    /*
     * Sequentially consistent, like the add in ration_epoch_enter() before it and the store in publish_plan(): a reader
     * that the reloading thread does not count in ration_epoch_wait() reads the new plan. (With acquire some machines
     * could read the plan before other threads see the add.)
     */
    return __atomic_load_n(&engine->plan, __ATOMIC_SEQ_CST);
}

/*
 * Locks *out_guard on the plan of guard, or on the current plan if guard is NULL. Release it with
 * ration_engine_unlock().
 */
void ration_engine_guard_plan(ration_engine *engine, const struct ration_engine_guard *guard,
                              struct ration_engine_guard *out_guard);

/* The options of the limiter for a limit of the policy. They point to *rule, which this function fills in. */
struct ration_limiter_options ration_engine_limiter_options(const struct ration_engine *engine,
                                                            const struct ration_policy_limit *limit,
                                                            struct ration_rule *rule);

/* The limits that apply to a check, with their keys and costs. */
struct ration_engine_prepared {
    struct ration_policy_match match;
    struct ration_key keys[RATION_POLICY_MATCHES_MAX];
    struct ration_call_request limiter_calls[RATION_POLICY_MATCHES_MAX];
};

/* Where a caller prepares checks. The caller holds a guard on plan. */
struct ration_engine_key_scratch {
    struct ration_engine *engine;
    const struct ration_engine_plan *plan;
    char *room; /* for composed keys */
    size_t room_size;
    size_t room_used;
};

/*
 * Matches the attributes of a check or an admin operation. Every request passes through here, so that the bound on the
 * size of values applies to all of them. *out_steps is the cost of matching (policy/match.h), on failure too.
 * Returns RATION_EINVAL with the reason in *out_reason.
 */
ration_status ration_engine_match(const struct ration_engine *engine, const ration_policy *policy,
                                  const struct ration_attribute *attributes, size_t attribute_count,
                                  struct ration_policy_match *out_match, uint64_t *out_steps,
                                  const char **out_reason);

/* The same for an admin operation; writes its match_steps. */
ration_status ration_engine_match_admin_op(const struct ration_engine *engine,
                                           const ration_policy *policy,
                                           const struct ration_admin_op *op,
                                           struct ration_policy_match *out_match);

/*
 * Finds the limits of a check, and their keys and costs. A check that cannot be decided is failed here, and the
 * function returns RATION_OK. Returns RATION_ENOSPC if earlier checks have used up the scratch room.
 */
ration_status ration_engine_prepare(struct ration_engine_key_scratch *scratch,
                                    struct ration_check *check,
                                    struct ration_engine_prepared *prepared);

/* Decides a prepared check in memory. */
void ration_engine_decide(struct ration_engine *engine, const struct ration_engine_plan *plan,
                          struct ration_check *check, const struct ration_engine_prepared *prepared,
                          uint64_t now_ns);

/* Answers a check to which no limit applies, and a check that cannot be decided. */
void ration_engine_answer_without_limits(struct ration_engine *engine, struct ration_check *check);
void ration_engine_fail_check(struct ration_engine *engine, struct ration_check *check,
                              ration_status status, const char *reason);

/* Writes which limit decided (binding: index of its part; -1: only shadow limits applied) and each limit's decision. */
void ration_engine_write_result(const struct ration_engine_plan *plan, struct ration_check *check,
                                const struct ration_engine_prepared *prepared,
                                const struct ration_decision *details, int binding);

/* Whether an admin operation changes a limit that applies: see struct ration_admin_op. */
bool ration_engine_admin_applies(const struct ration_policy_limit *limit,
                                 const struct ration_admin_op *op, enum ration_admin_op_kind kind);

/* Writes the attributes of a limit's key. Two limits with the same text have the same keys. */
void ration_engine_key_text(const struct ration_policy_limit *limit, char *out_text);

/* The time since a limit last changed. */
static inline uint64_t ration_engine_changed_ago_ns(const struct ration_engine_plan *plan,
                                                    size_t limit_index, uint64_t now_ns)
{
    uint64_t changed_ns = plan->changed_ns[limit_index];

    return now_ns > changed_ns ? now_ns - changed_ns : 0;
}

/* A plan for the limits of policy, owned by the caller: free(). NULL without memory. engine->blocks must exist. */
struct ration_engine_plan *ration_engine_plan_create(const struct ration_engine *engine,
                                                     ration_policy *policy);

/* Until unlocked, no other thread replaces the policy. */
void ration_engine_lock_reload(struct ration_engine *engine);
void ration_engine_unlock_reload(struct ration_engine *engine);

/* Releases all retired plans. No reader may use them any more. */
void ration_engine_free_retired(struct ration_engine *engine);

/* Creates an engine without limiters and plan. Returns RATION_EINVAL, RATION_EUNSUPPORTED or RATION_ENOMEM. */
ration_status ration_engine_begin(const struct ration_engine_options *options,
                                  struct ration_engine **out_engine, struct ration_error *error);

/* A limiter that a new stack starts with. */
struct ration_engine_limiter_plan {
    struct ration_policy_limit limit; /* of its key, only key_count is used */
    char *key_text;                   /* copied */
    bool is_used;                     /* the policy uses it */
    uint64_t removed_number;          /* as in struct ration_engine_table */
};

/* The limiters of a stack, and the dump to read it from. */
struct ration_engine_stack {
    const struct ration_engine_limiter_plan *limiter_plans;
    size_t limiter_plan_count;
    ration_reader *read; /* NULL: create an empty stack */
    void *context;
};

/* Creates the stack with room for more limiters, or reads it from a dump of a stack with these limiters. */
ration_status ration_engine_make_stack(struct ration_engine *engine,
                                       const struct ration_engine_options *options,
                                       const struct ration_engine_stack *stack,
                                       struct ration_error *error);

/* Creates the limiter for inline limits, or reads it from a dump. */
ration_status ration_engine_make_inline_limiter(struct ration_engine *engine,
                                                const struct ration_engine_options *options,
                                                ration_reader *read, void *context,
                                                struct ration_error *error);

/* Creates the limiter for keys that are blocked outside their buckets (blocks.c), or reads it from a dump. */
ration_status ration_engine_make_blocks(struct ration_engine *engine,
                                        const struct ration_engine_options *options,
                                        ration_reader *read, void *context,
                                        struct ration_error *error);

/* The secret that hashes a limit's keys for engine->blocks. */
struct ration_hash ration_engine_block_secret(const struct ration_engine *engine,
                                              const struct ration_policy_limit *limit);

/* Whether any key may be blocked. */
static inline bool ration_engine_has_blocks(const struct ration_engine *engine, uint64_t now_ns)
{
    return __builtin_expect(now_ns < __atomic_load_n(&engine->blocked_until_ns, __ATOMIC_RELAXED),
                            0);
}

/* The time until a blocked key is unblocked; 0: it is not blocked. */
uint64_t ration_engine_blocked_ns(const struct ration_engine *engine,
                                  const struct ration_hash *secret, const struct ration_key *key,
                                  uint64_t now_ns);

/* Returns RATION_ENOMEM if there is no slot for the key, which then is not blocked. */
ration_status ration_engine_block_key(struct ration_engine *engine,
                                      const struct ration_hash *secret,
                                      const struct ration_key *key, uint64_t until_ns,
                                      uint64_t now_ns);
ration_status ration_engine_unblock_key(struct ration_engine *engine,
                                        const struct ration_hash *secret,
                                        const struct ration_key *key, uint64_t now_ns);

/* Does the work of ration_engine_reload(). The caller holds the reload lock, unless no other thread has the engine. */
ration_status ration_engine_adopt(struct ration_engine *engine, ration_policy *policy,
                                  ration_engine_change_func *change, void *context,
                                  struct ration_error *error);

#endif
