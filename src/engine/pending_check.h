/*
 * pending_check: a check of a batch, on its way to Redis and back; and what these files share.
 *
 *     pending_check.c          creates, fills and sends batches, reports results, and decides without Redis if it does
 *                              not answer
 *     pending_check_local.c    decides checks from the local cache, and requests leases
 */
#ifndef RATION_ENGINE_PENDING_CHECK_H
#define RATION_ENGINE_PENDING_CHECK_H

#include "engine/engine_connection.h"
#include "engine/remote_check.h"

#define RATION_PENDING_CHECK_KEY_BUFFER_SIZE 192 /* bytes of keys stored without an allocation */

/* One check of the policy, or one check of an inline limit. */
struct ration_pending_check {
    struct ration_engine_batch *batch;
    struct ration_check check;
    struct ration_check_part parts[RATION_POLICY_MATCHES_MAX];
    struct ration_engine_prepared prepared;
    struct ration_limit limit; /* if is_inline */
    bool is_inline;
    uint64_t debt_tokens[RATION_POLICY_MATCHES_MAX]; /* reported to Redis with this check */

    /* For a leader, which requests a lease: the checks of the same key that wait for it (pending_check_local.c). */
    struct ration_pending_check *followers;
    struct ration_pending_check **followers_end;
    uint64_t follower_count;
    uint64_t deadline_ns;   /* of a follower, which may still have to call Redis; else 0 */
    uint64_t wanted_tokens; /* tokens that the leader requests */
    struct ration_pending_check *next;        /* in the list of followers, or of leaders to send */
    struct ration_pending_check *next_leader; /* in a list of the connection's leaders */

    char *keys; /* key_buffer, or owned */
    char key_buffer[RATION_PENDING_CHECK_KEY_BUFFER_SIZE];
};

struct ration_engine_batch {
    ration_engine_connection *connection;
    struct ration_engine_guard guard;
    const struct ration_engine_plan *plan; /* guard.plan */
    uint64_t now_ns;
    uint64_t deadline_ns; /* of all calls, by the connection's loop; 0: each call has its own */
    ration_engine_batch_done *done;
    void *context;
    size_t count;
    size_t capacity;
    size_t unanswered_count; /* checks that wait for Redis or for a leader */
    bool is_sending;
    bool is_abandoned; /* the caller has released it; the last answer frees it */
    struct ration_pending_check **pending_checks;
};

/* Calls the script that decides all limits of the check at once. Without an answer, on_redis_error decides. */
void ration_pending_check_send(struct ration_pending_check *pending);

/* The check as the functions of remote_check.h take it. Borrowed from pending. */
struct ration_remote_check ration_pending_check_remote(struct ration_pending_check *pending);

/* Redis has answered, or not (result is NULL): completes the check and serves its followers. */
void ration_pending_check_answer(struct ration_pending_check *pending,
                                 const struct ration_redis_take_result *result,
                                 struct ration_redis_grant grant);

/* Decides by the limits' on_redis_error. */
void ration_pending_check_decide_without_redis(struct ration_pending_check *pending);

/*
 * Sends what is written so far every 128 checks, if the connection has a poll loop, so that Redis starts with the first
 * checks while the others are written. index: how many checks were written before.
 */
void ration_engine_batch_flush(ration_engine_batch *batch, size_t index);

/* Completes the batch if all of its checks are answered: calls done(), or frees an abandoned batch. */
void ration_engine_batch_complete(ration_engine_batch *batch);

/* Decides the check from the local cache. False: Redis has to decide. */
bool ration_pending_check_decide_locally(struct ration_pending_check *pending);

/* Requests leases ahead of need. No check waits for them. */
void ration_engine_connection_acquire(struct ration_engine_connection *connection,
                                      const struct ration_remote_check *remote_check,
                                      const struct ration_lease_requests *requests);

/* Whether the check has a single limit, of mode lease, and its cost does not exceed the burst. */
bool ration_pending_check_has_lease(struct ration_pending_check *pending);

/*
 * Makes the check a follower of the leader that requests a lease for the same key, in this batch or an earlier one. If
 * there is none, adds the check to *leaders, for ration_pending_check_send_leaders(), which sends them.
 */
void ration_pending_check_join(struct ration_pending_check *pending,
                               struct ration_pending_check **leaders);
void ration_pending_check_send_leaders(struct ration_pending_check *leaders);

/* Decides the followers, once Redis has answered the leader or failed to. */
void ration_pending_check_serve_followers(struct ration_pending_check *leader, bool is_answered);

/* Takes the debt to report to Redis with this limit; and restores the debts if Redis did not get them. */
uint64_t ration_pending_check_drain_debt(struct ration_pending_check *pending, uint32_t part);
void ration_pending_check_report_debt_again(struct ration_pending_check *pending);

/* Redis has allowed the check: requests leases for its limits, if it has several and all may be decided locally. */
void ration_pending_check_acquire_leases(struct ration_pending_check *pending);

/* Stores the decisions of Redis in the local cache. */
void ration_pending_check_learn(struct ration_pending_check *pending,
                                const struct ration_redis_take_result *result,
                                struct ration_redis_grant grant);

#endif
