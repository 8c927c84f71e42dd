/*
 * http_desk: where a loop serves HTTP requests.
 *
 * What is needed only while a request is served lies here, one per loop. A connection at rest has
 * nothing but how far the reading of its next request has come.
 */
#ifndef RATION_SERVER_HTTP_DESK_H
#define RATION_SERVER_HTTP_DESK_H

#include "proto/access.h"
#include "proto/check.h"
#include "proto/check_answer.h"
#include "proto/check_json.h"
#include "proto/fields.h"
#include "proto/http_answer.h"
#include "proto/http_request.h"
#include "proto/json_write.h"
#include "proto/problem.h"
#include "server/walk.h"

#define RATION_HTTP_CHUNK_CHECKS 16 /* of a batch that are decided together */
#define RATION_HTTP_DATE_SIZE    32

/* A check that is being answered, with room for all that it points to. */
struct ration_http_check {
    struct ration_asked asked;
    struct ration_check check;
    struct ration_decision decision; /* of a limit that came with the request */
    ration_status status;
    struct ration_check_part parts[RATION_POLICY_MATCHES_MAX];
    struct ration_check_room room;
};

/* What a connection has between its requests, and while an answer is to come. */
struct ration_http_session {
    struct ration_http_progress progress;
    struct ration_http_later *later; /* answers that are waited for, or NULL */
    ration_gate_editing *editing;    /* the same, of an edit */
    struct ration_http_body *body;   /* that is being read, or NULL */
    size_t body_bytes;               /* accounted for it, and for the checks that are in it */
    struct ration_walk *walk;        /* a response that is made in steps, or NULL */
    struct ration_reload *reload;    /* a task of the reloader that is waited for, or NULL */
    bool is_head;
    bool keep_alive; /* of the request that waits */
    uint8_t minor_version;
};

struct ration_http_desk {
    struct ration_service *service;
    struct ration_loop_part *part;
    struct ration_connection *connection;
    struct ration_output *output;
    struct ration_http_request request;
    bool is_head;
    enum ration_access access; /* of the request */
    bool has_secret;           /* the request presents a secret of the server */
    bool has_wrong_secret;     /* it presents one that is none of the server's */
    size_t own_host_size;      /* the last Host that was accepted, if it is short; 0: none */
    char own_host[64];

    /* The policy's limits as header fields; made anew for each policy. */
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

static inline uint64_t ration_http_desk_now(const struct ration_http_desk *desk)
{
    return ration_service_now(desk->service, desk->connection);
}

/*
 * The desk of the connection's loop, to serve this connection. resume: to write the answer that was to
 * come; end_later, with the answer written, follows, after which the connection may be gone.
 */
struct ration_http_desk *ration_http_desk_take(struct ration_connection *connection);
struct ration_http_desk *ration_http_desk_resume(struct ration_connection *connection);
void ration_http_desk_end_later(struct ration_http_desk *desk);

/* An answer that had no room behind what was there before is replaced by one that says so. */
void ration_http_desk_keep_room(struct ration_http_desk *desk, size_t size_before);

/* Begins an answer with this status: the lines that all have. */
void ration_http_desk_begin(struct ration_http_desk *desk, struct ration_http_answer *answer,
                            unsigned status);

/* A whole answer: text of a kind, or a problem for a person. */
void ration_http_desk_text(struct ration_http_desk *desk, unsigned status, const char *content_type,
                           const void *bytes, size_t size);
void ration_http_desk_problem(struct ration_http_desk *desk, unsigned status, const char *detail,
                              const char *pointer);

/* The same with one more header. */
void ration_http_desk_problem_with(struct ration_http_desk *desk, unsigned status,
                                   const char *detail, const char *header_name,
                                   const char *header_value);

/* A problem that is a denial, and so is not counted among the errors. */
void ration_http_desk_ban(struct ration_http_desk *desk, const char *detail);

/*
 * For responses that are made in steps: creates the walk, or NULL with a problem answered; writes the
 * head of one, whose text is JSON, or what went wrong; ends one.
 */
struct ration_walk *ration_http_desk_walk(struct ration_http_desk *desk,
                                          const struct ration_walk_kind *kind);
void ration_http_walk_head_json(struct ration_walk *walk, struct ration_output *output);
void ration_http_walk_end(struct ration_connection *connection);

/* A number that nobody need guess: for spreading. */
uint64_t ration_http_desk_random(struct ration_http_desk *desk);

typedef void ration_http_handler(struct ration_http_desk *desk);

/* What a path is for. */
struct ration_http_route {
    const char *path;
    ration_http_handler *get;
    ration_http_handler *post;
    enum ration_access access; /* that a client needs */
    bool is_costly; /* looks at every limit or key: thousands of requests fit into one read */
};

extern const struct ration_http_route ration_http_routes[];
extern const size_t ration_http_route_count;

/*
 * Who sends the request, and whether it may (http_access.c). Each answers the request if it returns
 * false.
 *
 * accept_origin: not a page of another site in somebody's browser. Also reads the secret that the
 * request presents. permit: the access suffices. permit_inline: a GET may bring a limit or a cost above 1.
 */
bool ration_http_accept_origin(struct ration_http_desk *desk);
bool ration_http_permit(struct ration_http_desk *desk, enum ration_access needed);
bool ration_http_permit_inline(struct ration_http_desk *desk);

/* Counts a wrong secret of the request, if it has one, where the answer depends on the secret. */
void ration_http_note_wrong_secret(struct ration_http_desk *desk);

/* Whether an attribute of the query is the cost of a limit of the policy, and not 0 or 1. */
bool ration_http_brings_cost(struct ration_http_desk *desk, const struct ration_visit *visit,
                             const struct ration_asked *asked);

/*
 * Reads the request's body, now or, if it is large, on another thread while the connection is held
 * (http_body.c); then calls then(), as inside receive(), which takes the checks over. A body that is
 * wrong is answered. release: frees checks without keeping the loop for long. forget: the connection
 * closes.
 */
typedef void ration_http_then(struct ration_http_desk *desk, ration_checks *checks);
void ration_http_read_body(struct ration_http_desk *desk, enum ration_check_kind kind,
                           ration_http_then *then);
void ration_http_release_checks(struct ration_loop *loop, ration_checks *checks);
void ration_http_forget_body(struct ration_http_session *session);

/*
 * Decides items of at most RATION_HTTP_CHUNK_CHECKS, by policy or with their own limits, as many as this turn has
 * time for. Returns how many: at least one (http_check.c).
 */
size_t ration_http_decide(struct ration_http_desk *desk, const struct ration_visit *guard,
                          struct ration_http_check *items, size_t count);

/*
 * Checks (http_check.c, http_batch.c). get: GET /v1/check, for proxies. post: with a body, decided or only looked at.
 */
void ration_http_get_check(struct ration_http_desk *desk);
void ration_http_post_check(struct ration_http_desk *desk);
void ration_http_post_peek(struct ration_http_desk *desk);

/*
 * Adds what the query does not say about the request, from headers and the client's address
 * (http_attributes.c). Returns why that cannot be done, one sentence for a person; NULL: it was.
 */
const char *ration_http_add_attributes(struct ration_http_desk *desk, const ration_policy *policy,
                                       struct ration_asked *asked, struct ration_check_room *room);

/* What is asked of Redis, and answered when that has answered (http_later.c). Takes the checks over. */
void ration_http_get_later(struct ration_http_desk *desk, const struct ration_visit *guard,
                           const struct ration_http_check *item, unsigned deny_status);
void ration_http_post_later(struct ration_http_desk *desk, ration_checks *checks);
void ration_http_forget_later(struct ration_http_session *session);

/* Answers to what was decided: to a GET, to a single check, to one of many (http_check.c). */
void ration_http_answer_get(struct ration_http_desk *desk, struct ration_http_check *item,
                            unsigned deny_status, bool has_fields);
void ration_http_answer_one(struct ration_http_desk *desk, struct ration_http_check *item);
void ration_http_write_check(struct ration_json *json, struct ration_http_check *item);

/* What operators do (http_admin.c). */
void ration_http_post_refund(struct ration_http_desk *desk);
void ration_http_post_reset(struct ration_http_desk *desk);
void ration_http_post_block(struct ration_http_desk *desk);
void ration_http_get_top(struct ration_http_desk *desk);
void ration_http_get_limits(struct ration_http_desk *desk);
void ration_http_post_reload(struct ration_http_desk *desk);

#endif
