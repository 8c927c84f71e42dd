/*
 * gate: a policy put to work.
 *
 *     ration_policy *policy;
 *     ration_policy_load("policy.yaml", tell_fault, NULL, &policy);
 *
 *     ration_gate *gate;
 *     ration_gate_create(&(struct ration_gate_options){.struct_size = sizeof(struct ration_gate_options)},
 *                        policy, &gate, NULL);
 *
 *     struct ration_check check = {.attributes = request, .attribute_count = 3, .cost_tokens = 1};
 *     ration_gate_check(gate, &check, 1, ration_gate_now(gate));
 *     if (check.status != RATION_OK)
 *         answer_400(check.reason); // a request that cannot be decided must not pass
 *     else if (check.decision.verdict != RATION_ALLOW)
 *         answer_429();
 *
 * A request is held to every limit of the policy that matches it, each by its own key: all of them
 * pass, or nothing is taken from any. Any number of threads may check at once; a check takes no lock
 * and allocates nothing. The policy may be replaced meanwhile (ration_gate_reload()), and buckets are
 * kept.
 *
 * Beside the policy's limits a gate has a limiter for limits that come with requests: one bucket per
 * key, whatever limit a request brings (ration_gate_throttle()).
 */
#ifndef RATION_GATE_H
#define RATION_GATE_H

#include "ration/dump.h"
#include "ration/limiter.h"
#include "ration/policy.h"
#include "ration/redis.h"

RATION_C_BEGIN

typedef struct ration_gate ration_gate;

struct ration_gate_options {
    size_t struct_size;               /* = sizeof(struct ration_gate_options) */
    const struct ration_clock *clock; /* copied; NULL: the default clock */
    uint64_t throttle_keys_max;       /* keys of limits that come with requests. 0: 1000000 */
    size_t
        spare_bytes; /* for limits that reloads add beside those that were removed. 0: 256 GiB, or what the system allows: of
                             addresses, since memory is used when keys are, not before */
    uint32_t threads_max; /* as in struct ration_limiter_options */
    uint32_t top_keys;    /* the same, for every limit with a key, and for the throttle; with more
                             than 100 limits fewer of each */
    uint32_t is_prefaulted;
    uint32_t uses_huge_pages;
    const struct ration_redis *redis; /* copied; NULL: limits live in this process' memory */
    uint32_t tells_redis_time; /* 1: Redis decides by the gate's clock, not by its own. For tests */
    uint32_t attribute_bytes_max; /* of the value of each attribute of a request; at most
                                     RATION_ATTRIBUTE_BYTES_MAX. 0: RATION_ATTRIBUTE_BYTES_DEFAULT */
};

/* A value that is longer than the bound is an error of the request, whatever the policy looks at. */
#define RATION_ATTRIBUTE_BYTES_DEFAULT 8192
#define RATION_ATTRIBUTE_BYTES_MAX     (1 << 20)

/*
 * Creates a gate. *out_gate is owned by the caller: release it with ration_gate_free(). policy is
 * taken over, on success. options are borrowed for the call.
 * Returns RATION_EINVAL, RATION_EUNFIT, RATION_ENOMEM, with error (may be NULL) telling why. On
 * failure *out_gate is untouched, and policy still the caller's.
 */
RATION_API ration_status ration_gate_create(const struct ration_gate_options *options,
                                            ration_policy *policy, ration_gate **out_gate,
                                            struct ration_error *error);

/* Releases a gate that no thread uses any more, and its policy; NULL is fine. */
RATION_API void ration_gate_free(ration_gate *gate);

/* Now by the gate's clock. */
RATION_API uint64_t ration_gate_now(const ration_gate *gate);

/*
 * A read guard: it holds the policy that was in force when it was entered. Everything that is asked
 * through it (the policy, its generation, its limiters, checks) is about that one policy, and pointers to
 * its limits and names stay valid until the guard is left, whatever is reloaded meanwhile. A reload takes
 * effect for guards that are entered afterwards; it waits for older guards before it releases the old
 * policy, so leave soon. Guards may be nested; each holds its own policy. Fields are private.
 */
struct ration_gate_plan;

struct ration_visit {
    ration_gate *gate;
    const struct ration_gate_plan *plan;
    uint32_t phase;
};

RATION_API void ration_gate_enter(ration_gate *gate, struct ration_visit *out_visit);
RATION_API void ration_gate_leave(struct ration_visit *visit);

/* What one limit said of a check. */
struct ration_check_part {
    const struct ration_policy_limit *limit; /* valid while the guard of the check is held */
    uint64_t cost_tokens;
    struct ration_decision decision;
};

/* One request, and its answer. */
struct ration_check {
    const struct ration_attribute *attributes;
    size_t attribute_count;
    uint64_t cost_tokens; /* what limits without a cost of their own charge; 0 only looks */
    uint32_t is_peek;     /* 1: what would be answered, taking nothing */

    /* Answered. */
    ration_status status; /* RATION_OK, or RATION_EINVAL with reason telling why; the decision's
                             verdict is NEVER then */
    const char *reason;   /* static storage */
    uint32_t is_degraded; /* 1: Redis did not decide it, but what the policy has instead */
    enum ration_policy_verdict policy_verdict; /* exempt is ALLOW, and banned NEVER */
    struct ration_decision decision; /* of all limits together, as of a stack; its limit_index is
                                        the policy's. limit is 0 if no limit applies */
    const struct ration_policy_limit *limit; /* that decided, valid while the guard of the check is
                                                held; or NULL */

    struct ration_check_part *parts; /* written, if not NULL: of every limit that applies, shadow
                                        ones too; room for RATION_POLICY_MATCHES_MAX */
    uint32_t part_count;             /* written */
    uint64_t match_steps; /* written, on failure too: what comparing it with the policy cost, in
                             bytes that globs searched or as much time (about 1 ns each) */
};

/* Room for the keys of one request that have to be composed: several attributes, or an address. */
#define RATION_CHECK_KEYS_ROOM 16384

/*
 * Decides checks one after the other, all by the policy in force, at one now; hashing and fetching run
 * ahead. To read the limits that decided, use ration_gate_check_guarded(): here the policy may be
 * released before this returns.
 */
RATION_API void ration_gate_check(ration_gate *gate, struct ration_check *checks,
                                  size_t check_count, uint64_t now_ns);

/* The same, by the policy that the guard holds. */
RATION_API void ration_gate_check_guarded(const struct ration_visit *guard,
                                          struct ration_check *checks, size_t check_count,
                                          uint64_t now_ns);

/*
 * The same for event loops, which must not spend much time at once: stops when the checks decided have
 * cost match_steps_max together. Returns how many are decided, from the first on: at least one, if
 * there is one. A gate that is_remote decides all.
 */
RATION_API size_t ration_gate_check_some(const struct ration_visit *guard,
                                         struct ration_check *checks, size_t check_count,
                                         uint64_t match_steps_max, uint64_t now_ns);

/* Whether Redis decides. */
RATION_API bool ration_gate_is_remote(const ration_gate *gate);

/*
 * Those who have an event loop need not wait for Redis. Each loop has a link of its own; its calls belong
 * to the loop's thread, and to the process that made it. hiredis writes from the loop: ignore SIGPIPE.
 */
typedef struct ration_gate_link ration_gate_link;

/*
 * Begins to connect. *out_link is released with ration_gate_link_free(), after its batches. loop is
 * copied. Returns RATION_EINVAL if the gate is not remote, RATION_ENOMEM.
 */
RATION_API ration_status ration_gate_link_create(ration_gate *gate,
                                                 const struct ration_redis_loop *loop,
                                                 ration_gate_link **out_link);
RATION_API void ration_gate_link_free(ration_gate_link *link);

/* Whether Redis answers; if not, trouble (else "") says why. is_tried: false while it first connects. */
RATION_API bool ration_gate_link_is_up(const ration_gate_link *link);
RATION_API bool ration_gate_link_is_tried(const ration_gate_link *link);
RATION_API const char *ration_gate_link_trouble(const ration_gate_link *link);
RATION_API void ration_gate_link_stats(const ration_gate_link *link,
                                       struct ration_redis_stats *out_stats);

/*
 * Checks that are decided together, later.
 *
 *     batch = ration_gate_batch_create(link, NULL, now_ns, done, context);
 *     ration_gate_batch_add(batch, &check);                    as many as there are
 *     if (ration_gate_batch_send(batch))                       all are decided already
 *         use(ration_gate_batch_check(batch, 0));              else done() is called once
 *     ration_gate_batch_free(batch);
 */
typedef struct ration_gate_batch ration_gate_batch;
typedef void ration_gate_batch_done(void *context);

/*
 * NULL: no memory. The batch holds the policy of the guard, or if that is NULL the policy in force, until
 * it is released: do that soon. The guard may be left before.
 */
RATION_API ration_gate_batch *ration_gate_batch_create(ration_gate_link *link,
                                                       const struct ration_visit *guard,
                                                       uint64_t now_ns,
                                                       ration_gate_batch_done *done, void *context);

/* Adds a check; what it points to is used during the call only. RATION_ENOMEM. */
RATION_API ration_status ration_gate_batch_add(ration_gate_batch *batch,
                                               const struct ration_check *check);

/* Adds one with its own key and limit, as for ration_gate_throttle(). RATION_ENOMEM, RATION_EUNFIT. */
RATION_API ration_status ration_gate_batch_add_throttle(ration_gate_batch *batch,
                                                        const struct ration_key *key,
                                                        const struct ration_limit *limit,
                                                        uint64_t cost_tokens, bool is_peek);

RATION_API bool ration_gate_batch_send(ration_gate_batch *batch);

RATION_API size_t ration_gate_batch_count(const ration_gate_batch *batch);

/*
 * The answer, with its parts; of a throttle it has a decision only. For batches that are decided; match_steps
 * are known as soon as a check is added.
 */
RATION_API const struct ration_check *ration_gate_batch_check(const ration_gate_batch *batch,
                                                              size_t index);

/* At any time: what is not decided by then is told nobody. NULL is fine. */
RATION_API void ration_gate_batch_free(ration_gate_batch *batch);

/*
 * Of the keys of a request. limit_name: only of the limit of this name; NULL: of all that apply, but
 * reset and block leave limits without a key alone, since those are everybody's.
 */
struct ration_edit {
    const struct ration_attribute *attributes;
    size_t attribute_count;
    const char *limit_name;
    const struct ration_visit *guard; /* by its policy; NULL: by the policy in force */
    uint64_t *match_steps; /* NULL, or written as match_steps of struct ration_check is */
};

/*
 * Gives back what a check with these attributes and this cost took. *out_count (may be NULL) is how
 * many limits it concerned. Returns RATION_EINVAL.
 */
RATION_API ration_status ration_gate_refund(ration_gate *gate, const struct ration_edit *edit,
                                            uint64_t cost_tokens, uint64_t now_ns,
                                            size_t *out_count);

/* Makes the buckets as those of keys never seen, and ends what blocks them. Same returns. */
RATION_API ration_status ration_gate_reset(ration_gate *gate, const struct ration_edit *edit,
                                           uint64_t now_ns, size_t *out_count);

/*
 * Denies everything before until_ns, whatever the limit's algorithm; shadow limits are left alone. At
 * that moment a token bucket has one token, and a window or a log goes on with what it had counted.
 * A reload keeps it as it keeps what was taken from a bucket; of windows and logs also if it resets a
 * limit whose key is the same. Returns also RATION_ERANGE if until_ns is more than RATION_BLOCK_NS_MAX
 * after now_ns (nothing is blocked then), RATION_EUNFIT if only shadow limits are concerned,
 * RATION_ENOMEM if one of the keys finds no place, and so is not blocked: of windows and logs of all
 * limits, 65536 can be blocked at one time.
 */
RATION_API ration_status ration_gate_block_until(ration_gate *gate, const struct ration_edit *edit,
                                                 uint64_t until_ns, uint64_t now_ns,
                                                 size_t *out_count);

/* What is done to buckets by hand: as the three above, or to limits that came with requests. */
enum ration_gate_edit_kind { RATION_EDIT_REFUND = 0, RATION_EDIT_RESET, RATION_EDIT_BLOCK };

struct ration_gate_task {
    enum ration_gate_edit_kind kind;
    const struct ration_edit *edit; /* NULL: of limits that came with requests: */
    const struct ration_key *keys;  /* these keys */
    size_t key_count;
    const struct ration_limit *limit; /* for a refund */
    uint64_t tokens;                  /* of a refund */
    uint64_t until_ns;                /* of a block */
    uint64_t now_ns;
};

/*
 * The same for those who have a loop and limits in Redis. done() is called once, with a status (also
 * RATION_ESTORE; RATION_ERANGE of a block that is too long, inline limits included) and how many buckets it concerned; perhaps before this returns, which then is NULL. Of what
 * is returned, ration_gate_editing_forget() has done() not called, while the edit goes on.
 */
typedef struct ration_gate_editing ration_gate_editing;
typedef void ration_gate_edited(void *context, ration_status status, size_t count);

RATION_API ration_gate_editing *ration_gate_edit_begin(ration_gate_link *link,
                                                       const struct ration_gate_task *task,
                                                       ration_gate_edited *done, void *context);
RATION_API void ration_gate_editing_forget(ration_gate_editing *editing);

/*
 * The limiter for limits that come with requests, each in a struct ration_batch_item: any continuous
 * token bucket. Its requests are struct ration_key. Borrowed: it lives as long as the gate.
 */
RATION_API ration_limiter *ration_gate_throttle(ration_gate *gate);

/*
 * Clears the limits that came with requests: every key is as new, and gives up its place. Others may
 * decide meanwhile. RATION_EUNFIT where they live in Redis.
 */
RATION_API ration_status ration_gate_clear_inline(ration_gate *gate);

/* The policy that the guard holds. Borrowed until the guard is left. */
RATION_API const ration_policy *ration_gate_policy(const struct ration_visit *visit);

/* Its number, from 1 on: another for each policy that the gate has had. */
RATION_API uint64_t ration_gate_generation(const struct ration_visit *visit);

/*
 * The limiter behind a limit of the policy, for reports, top keys and scans: its only rule is the
 * limit, its requests are struct ration_key as ration_policy_key() makes them. Borrowed until the guard
 * is left. NULL if the guard's policy has no such limit.
 */
RATION_API ration_limiter *ration_gate_limiter(const struct ration_visit *visit,
                                               size_t limit_index);

/* What a gate counts beside its limiters. */
struct ration_gate_stats {
    uint64_t exempt;
    uint64_t banned;
    uint64_t unlimited; /* no limit applied */
    uint64_t errors;    /* requests that could not be decided */
    uint64_t near;      /* decided by a lease or a local bucket, without asking Redis */
    uint64_t degraded;  /* that Redis did not decide, but what the policy has instead */
    uint64_t reloads;
};

RATION_API void ration_gate_read_stats(const ration_gate *gate,
                                       struct ration_gate_stats *out_stats);

/* Bytes of memory that the gate may use in time, all counted but what is spare. */
RATION_API size_t ration_gate_bytes(const ration_gate *gate);

enum ration_gate_change {
    RATION_GATE_ADDED = 0,
    RATION_GATE_REMOVED,
    RATION_GATE_CHANGED, /* keys keep their tokens */
    RATION_GATE_RESET, /* its key is another, or a kind whose state has another form: keys start anew */
    RATION_GATE_SAME_SIZE /* changed, but for keys: a table keeps its size, and what was taken */
};

/*
 * Told of each limit that is not as it was, whatever it matches. name is borrowed for the call, which
 * must not reload or save.
 */
typedef void ration_gate_change_fn(void *context, enum ration_gate_change change, const char *name);

/* "added", "removed", "changed", "reset", "kept its size". Static storage. */
RATION_API const char *ration_gate_change_name(enum ration_gate_change change);

/*
 * Replaces the policy, while others check: all of it, or nothing. policy is taken over, on success.
 * Limits of the same name go on with their buckets. So do limits that were removed and come back, unless
 * their memory was needed: those that were removed last are kept, as many as the policy has limits and at
 * least 8, and others while there are spare_bytes. One whose memory was needed starts with full buckets; so
 * R1 holds for it from its return on. One caller at a time; others wait.
 * Returns RATION_EINVAL, RATION_EUNFIT, RATION_ENOMEM (neither the gate's spare_bytes nor the memory of
 * removed limits have room for what is added), with error (may be NULL) telling why.
 */
RATION_API ration_status ration_gate_reload(ration_gate *gate, ration_policy *policy,
                                            ration_gate_change_fn *change, void *context,
                                            struct ration_error *error);

/* Writes all debts, as ration_limiter_dump() does. Reloads wait. Same returns. */
RATION_API ration_status ration_gate_save(ration_gate *gate, uint64_t now_ns, ration_writer *write,
                                          void *context);

/*
 * Creates a gate that goes on where another was saved, under a policy that may be another: as if it had
 * been reloaded. Tables are as large as those that were saved. As ration_gate_create() and
 * ration_limiter_load().
 */
RATION_API ration_status ration_gate_load(const struct ration_gate_options *options,
                                          ration_policy *policy, ration_reader *read, void *context,
                                          ration_gate **out_gate, struct ration_error *error);

RATION_C_END

#endif
