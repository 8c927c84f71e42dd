/*
 * http_worker: the HTTP service of one loop.
 *
 * The worker holds the memory that a request needs only while it is served; each loop has one. An idle
 * connection holds only the parser's progress through its next request (struct ration_http_session).
 */
#ifndef RATION_SERVER_HTTP_HTTP_WORKER_H
#define RATION_SERVER_HTTP_HTTP_WORKER_H

#include "codec/http/check.h"
#include "codec/http/check_json.h"
#include "codec/http/fields.h"
#include "codec/http/http_answer.h"
#include "codec/http/http_request.h"
#include "codec/http/problem.h"
#include "codec/json/check_answer.h"
#include "codec/json/json_write.h"
#include "codec/resp/access.h"
#include "server/ops/routes.h"
#include "server/ops/walk.h"

#define RATION_HTTP_CHUNK_CHECKS 16 /* checks of a batch that are decided together */
#define RATION_HTTP_DATE_SIZE    32

/* A check that is being answered, with memory for all that it points to. */
struct ration_http_check {
    struct ration_check_request request;
    struct ration_check check;
    struct ration_decision decision; /* of an inline limit */
    ration_status status;
    struct ration_check_part parts[RATION_POLICY_MATCHES_MAX];
    struct ration_check_room room;
};

/* The state of a connection between its requests, and while a response is pending. */
struct ration_http_session {
    struct ration_http_progress progress;
    struct ration_http_async *async;    /* checks that Redis is deciding, or NULL */
    ration_engine_admin_run *admin_run; /* an admin operation that Redis is executing, or NULL */
    struct ration_http_body *body;      /* a body that a helper thread is parsing, or NULL */
    size_t body_bytes;            /* of connection memory, accounted for the body and its checks */
    struct ration_walk *walk;     /* a response that is built in steps, or NULL */
    struct ration_reload *reload; /* a pending task of the reloader, or NULL */
    bool is_head;
    bool keep_alive; /* of the request whose response is pending */
    uint8_t minor_version;
};

struct ration_http_worker {
    struct ration_service *service;
    struct ration_worker *loop_worker;
    struct ration_connection *connection;
    struct ration_output *output;
    struct ration_http_request request;
    bool is_head;
    enum ration_access access; /* of the request */
    bool has_secret;           /* the request carries a secret of the server */
    bool has_wrong_secret;     /* the request carries a secret that is not the server's */
    size_t own_host_size;      /* size of own_host; 0: none */
    char own_host[64];         /* the last accepted Host, if it fits */

    /* The policy's limits as header fields; built again for each policy generation. */
    uint64_t fields_generation;
    struct ration_fields_limit *fields;

    /* Whether the policy of this generation takes costs from attributes. */
    uint64_t costs_generation;
    bool has_cost_attributes;

    uint64_t date_second;
    char date[RATION_HTTP_DATE_SIZE];

    struct ration_http_check checks[RATION_HTTP_CHUNK_CHECKS];
    char ip[RATION_ADDRESS_TEXT_SIZE];
    char header_names[RATION_HTTP_HEADERS_MAX][RATION_ATTRIBUTE_NAME_MAX + 1];
};

static inline uint64_t ration_http_worker_now(const struct ration_http_worker *worker)
{
    return ration_service_now(worker->service, worker->connection);
}

/*
 * take: returns the worker of the connection's loop, set up to serve this connection. resume: the same, to
 * write a response that was pending; after writing it the caller calls end_async, which may free the
 * connection.
 */
struct ration_http_worker *ration_http_worker_take(struct ration_connection *connection);
struct ration_http_worker *ration_http_worker_resume(struct ration_connection *connection);
void ration_http_worker_end_async(struct ration_http_worker *worker);

/* If the output failed, replaces all that was written after size_before by a response that says so. */
void ration_http_worker_replace_failed(struct ration_http_worker *worker, size_t size_before);

/* Begins a response: the status line and the headers that all responses have. */
void ration_http_worker_begin(struct ration_http_worker *worker, struct ration_http_answer *answer,
                              unsigned status);

/* Writes a whole response: a problem document, which counts as an error. */
void ration_http_worker_problem(struct ration_http_worker *worker, unsigned status,
                                const char *detail, const char *pointer);

/* The same with one more header. */
void ration_http_worker_problem_with(struct ration_http_worker *worker, unsigned status,
                                     const char *detail, const char *header_name,
                                     const char *header_value);

/* A problem that is a denial (403), and so does not count as an error. */
void ration_http_worker_ban(struct ration_http_worker *worker, const char *detail);

/*
 * For responses that are built in steps. worker_walk: creates the walk, or answers with a problem and
 * returns NULL. head_json: writes the headers of a JSON response, or a problem if the walk failed. end: resumes
 * or closes the connection.
 */
struct ration_walk *ration_http_worker_walk(struct ration_http_worker *worker,
                                            const struct ration_walk_kind *kind);
void ration_http_walk_head_json(struct ration_walk *walk, struct ration_output *output);
void ration_http_walk_end(struct ration_connection *connection);

/* A pseudo-random number, for spreading Retry-After; not for secrets. */
uint64_t ration_http_worker_random(struct ration_http_worker *worker);

/*
 * Access checks (http_access.c). Each answers the request if it returns false.
 *
 * accept_origin: the request does not come from a web page of another site. Also reads the secret that the
 * request carries. permit: the access suffices. permit_inline: this GET may carry a limit or a cost above 1.
 */
bool ration_http_accept_origin(struct ration_http_worker *worker);
bool ration_http_permit(struct ration_http_worker *worker, enum ration_access needed);
bool ration_http_permit_inline(struct ration_http_worker *worker);

/* Counts the request's secret if it is wrong. Called where the response depends on the secret. */
void ration_http_count_wrong_secret(struct ration_http_worker *worker);

/* Whether an attribute of the request is the cost of a limit of the policy, and is not 0 or 1. */
bool ration_http_brings_cost(struct ration_http_worker *worker,
                             const struct ration_engine_guard *guard,
                             const struct ration_check_request *request);

/*
 * Parses the request's body, at once or, if it is large, on a helper thread while the connection is paused
 * (http_body.c); then calls on_checks() on the loop, as inside receive(), which owns the checks from then on. A
 * body that is wrong is answered. release: frees checks without blocking the loop for long. forget: for a
 * connection that closes.
 */
typedef void ration_http_checks_func(struct ration_http_worker *worker, ration_checks *checks);
void ration_http_read_body(struct ration_http_worker *worker, enum ration_check_kind kind,
                           ration_http_checks_func *on_checks);
void ration_http_release_checks(struct ration_loop *loop, ration_checks *checks);
void ration_http_forget_body(struct ration_http_session *session);

/*
 * Decides at most RATION_HTTP_CHUNK_CHECKS items, by policy or with their inline limits: as many as the
 * connection's remaining match steps permit. Returns how many: at least one (http_check.c).
 */
size_t ration_http_decide(struct ration_http_worker *worker,
                          const struct ration_engine_guard *guard, struct ration_http_check *items,
                          size_t count);

/* Handlers of checks (http_check.c, http_batch.c): GET /v1/check, for proxies, POST /v1/check and POST /v1/peek. */
void ration_http_get_check(struct ration_http_worker *worker);
void ration_http_post_check(struct ration_http_worker *worker);
void ration_http_post_peek(struct ration_http_worker *worker);

/*
 * Adds attributes that the query does not have, from headers and the client's address (http_attributes.c).
 * Returns NULL, or one sentence for a person on why they could not be added.
 */
const char *ration_http_add_attributes(struct ration_http_worker *worker,
                                       const ration_policy *policy,
                                       struct ration_check_request *request,
                                       struct ration_check_room *room);

/* Checks that Redis decides; the response is written when it has (http_async.c). post owns the checks. */
void ration_http_get_async(struct ration_http_worker *worker,
                           const struct ration_engine_guard *guard,
                           const struct ration_http_check *item, unsigned deny_status);
void ration_http_post_async(struct ration_http_worker *worker, ration_checks *checks);
void ration_http_forget_async(struct ration_http_session *session);

/* Responses to decided checks: to a GET, to a POST of one check, to one check of a batch (http_check.c). */
void ration_http_answer_get(struct ration_http_worker *worker, struct ration_http_check *item,
                            unsigned deny_status, bool has_fields);
void ration_http_answer_one(struct ration_http_worker *worker, struct ration_http_check *item);
void ration_http_write_check(struct ration_json *json, struct ration_http_check *item);

/* Handlers for operators (http_admin.c). */
void ration_http_post_refund(struct ration_http_worker *worker);
void ration_http_post_reset(struct ration_http_worker *worker);
void ration_http_post_block(struct ration_http_worker *worker);
void ration_http_get_top(struct ration_http_worker *worker);
void ration_http_get_limits(struct ration_http_worker *worker);
void ration_http_post_reload(struct ration_http_worker *worker);

#endif
