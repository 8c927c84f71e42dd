/*
 * resp_worker: the Redis protocol service of one loop, and the session of one connection.
 *
 * The worker holds the memory that requests need only while they are served; each loop has one. An idle
 * session is small. Requests of one read are decided together: the worker queues CL.THROTTLE and GCRA as one
 * batch, checks as another, until a request of another kind comes or the read ends. Replies are
 * written in the order of the requests, so at most one of the two batches is not empty.
 */
#ifndef RATION_SERVER_RESP_RESP_WORKER_H
#define RATION_SERVER_RESP_RESP_WORKER_H

#include "codec/resp/cl_throttle.h"
#include "codec/resp/commands.h"
#include "codec/resp/resp_answer.h"
#include "codec/resp/resp_request.h"
#include "server/ops/walk.h"

#define RATION_SESSION_NAME_MAX    63
#define RATION_LIMIT_CACHE_COUNT   256 /* a power of two */
#define RATION_RESP_BATCH_MAX      RATION_SETTINGS_PIPELINE_MAX
#define RATION_RESP_ATTRIBUTES_MAX 4096 /* of all checks of one batch */

/* CLIENT REPLY. SKIP suppresses the reply to the next request; while that one is served the mode is SKIPPING. */
enum ration_reply_mode {
    RATION_REPLY_ON = 0,
    RATION_REPLY_OFF,
    RATION_REPLY_SKIP,
    RATION_REPLY_SKIPPING
};

struct ration_resp_session {
    uint32_t id;
    uint8_t version;       /* enum ration_resp_version; 0: not open yet */
    uint8_t access;        /* enum ration_access */
    bool is_authenticated; /* its access permits checks */
    uint8_t reply_mode;
    /* EXEC ran CLIENT REPLY SKIP, which as in Redis applies to the request after EXEC. */
    bool is_skip_after_exec;
    char name[RATION_SESSION_NAME_MAX + 1];
    char library_name[32];
    char library_version[16];

    /* Between MULTI and EXEC: the queued requests, in the bytes of the protocol. */
    bool is_queuing;
    bool multi_aborted; /* a queued request was wrong: EXEC will fail */
    uint32_t queued_count;
    struct ration_output queue; /* initialized by MULTI */
    size_t queue_bytes;         /* of connection memory, accounted for queue or for exec */

    struct ration_resp_async *async;    /* a batch that Redis is deciding, or NULL (resp_async.c) */
    ration_engine_admin_run *admin_run; /* an admin operation that Redis is executing, or NULL */
    bool is_admin_silent;               /* it was requested while CLIENT REPLY was not ON */
    struct ration_output exec;          /* the queue of a running EXEC, served up to exec_done */
    size_t exec_done;
    bool is_executing;

    struct ration_walk *walk;     /* a reply that is built in steps, or NULL */
    struct ration_reload *reload; /* a pending task of the reloader, or NULL */
    bool is_reload_silent;        /* it was requested while CLIENT REPLY was not ON */
};

/* The limit of an inline check, and the numbers that it was built from. */
struct ration_cached_limit {
    uint64_t tokens;
    uint64_t period_ns;
    uint64_t burst;
    uint64_t batch_number; /* of the last batch that used it */
    struct ration_limit limit;
};

struct ration_resp_worker {
    struct ration_service *service;
    struct ration_worker *loop_worker;

    /* The connection that is being served. */
    struct ration_connection *connection;
    struct ration_resp_session *session;
    struct ration_output *output;
    uint64_t command_count; /* of this read, not yet added to the loop's counter */
    bool is_over;           /* no further request of this connection is served */
    bool is_waiting; /* the current request must be read again later, so it is not consumed */
    /* The last request was an EXEC, whose requests have suppressed their own replies. */
    bool suppresses_reply;

    /* The batch of inline checks (CL.THROTTLE, GCRA) that are not decided yet. */
    uint64_t batch_number;
    size_t inline_count;
    struct ration_batch_item items[RATION_RESP_BATCH_MAX];
    struct ration_key keys[RATION_RESP_BATCH_MAX];
    struct ration_decision decisions[RATION_RESP_BATCH_MAX];

    /* The batch of checks by policy that are not decided yet. */
    size_t check_count;
    size_t attribute_count;
    const char *request_start; /* of the request that is being served */
    const char *check_starts[RATION_RESP_BATCH_MAX];

    /* The first check for which the match steps did not suffice: it and those after it are read again. NULL: none. */
    const char *postponed;
    size_t postponed_count;

    struct ration_check checks[RATION_RESP_BATCH_MAX];
    struct ration_attribute attributes[RATION_RESP_ATTRIBUTES_MAX];

    struct ration_cached_limit limits[RATION_LIMIT_CACHE_COUNT];
    struct ration_resp_request request;
};

static inline enum ration_resp_version ration_resp_version_of(
    const struct ration_resp_worker *worker)
{
    return (enum ration_resp_version)worker->session->version;
}

/* The same for any connection of this protocol. */
static inline enum ration_resp_version ration_resp_session_version(
    struct ration_connection *connection)
{
    const struct ration_resp_session *session = ration_connection_state(connection);

    return (enum ration_resp_version)session->version;
}

static inline uint64_t ration_resp_now(const struct ration_resp_worker *worker)
{
    return ration_service_now(worker->service, worker->connection);
}

/* The arguments of a request; the first is the command's name. */
struct ration_resp_args {
    const struct ration_key *items;
    size_t count;
};

static inline struct ration_resp_args ration_resp_args_of(const struct ration_resp_worker *worker)
{
    return (struct ration_resp_args){worker->request.arguments, worker->request.argument_count};
}

static inline void ration_resp_session_set_access(struct ration_resp_session *session,
                                                  enum ration_access access)
{
    session->access = (uint8_t)access;
    session->is_authenticated = access >= RATION_ACCESS_CHECK;
}

/* "check" or "admin" if the session authenticated as such, else "default". */
const char *ration_resp_session_user(const struct ration_resp_worker *worker);

/* Sets the access that a connection has before it authenticates. */
void ration_resp_session_reset_access(struct ration_connection *connection);

/* Whether the session may use a command. False: the request is answered with an error (resp_service.c). */
bool ration_resp_permits(struct ration_resp_worker *worker, const struct ration_command *command);

/* Returns the worker of the connection's loop, set up to serve this connection. */
struct ration_resp_worker *ration_resp_worker_take(struct ration_connection *connection);

/* Adds a request to its batch, or answers it with an error if it is wrong (resp_batch.c). */
void ration_resp_inline_check(struct ration_resp_worker *worker, bool is_gcra);
void ration_resp_check(struct ration_resp_worker *worker, bool is_peek);

/*
 * Decides the batch, and writes its replies. True: they are written. False: they will be written later, the
 * connection is paused or yields, and the caller must not consume the request after the batch, nor the checks
 * from worker->postponed on: they are read again.
 */
bool ration_resp_flush_batch(struct ration_resp_worker *worker);

/* Empties the batch of checks; those from first on are postponed. True: there were none to postpone. */
bool ration_resp_postpone(struct ration_resp_worker *worker, size_t first);

/* As ration_resp_flush_batch(), where Redis decides (resp_async.c). */
bool ration_resp_flush_async(struct ration_resp_worker *worker);

/* Cancels the batch that Redis is deciding, for a connection that closes. */
void ration_resp_session_forget_async(struct ration_resp_session *session);

/* Writes the reply to one check, and to one inline check; also for resp_async.c (resp_batch.c). */
void ration_resp_write_check(struct ration_resp_worker *worker, const struct ration_check *check);
void ration_resp_write_inline_result(struct ration_resp_worker *worker, ration_status status,
                                     const struct ration_decision *decision);

/* Commands about the connection and the server (resp_connect.c). */
void ration_resp_hello(struct ration_resp_worker *worker);
void ration_resp_auth(struct ration_resp_worker *worker);
void ration_resp_client(struct ration_resp_worker *worker);
void ration_resp_select(struct ration_resp_worker *worker);
void ration_resp_reset_session(struct ration_resp_worker *worker);
void ration_resp_command(struct ration_resp_worker *worker);
void ration_resp_config(struct ration_resp_worker *worker);
void ration_resp_info(struct ration_resp_worker *worker);
/* Whether a request's subcommand exists and has its number of arguments; if not, the request is answered. */
bool ration_resp_subcommand_fits(struct ration_resp_worker *worker, enum ration_command_id id);
void ration_resp_time(struct ration_resp_worker *worker);
void ration_resp_dbsize(struct ration_resp_worker *worker);

/*
 * For replies that are built in steps (resp_service.c). walk: creates the walk, or answers with an error and
 * returns NULL. start_walk: creates and starts a walk that has no members to set. walk_head, as kind->head: writes
 * an error if the walk failed. walk_end, as kind->end: resumes the connection.
 */
struct ration_walk *ration_resp_walk(struct ration_resp_worker *worker,
                                     const struct ration_walk_kind *kind);
void ration_resp_start_walk(struct ration_resp_worker *worker, const struct ration_walk_kind *kind);
void ration_resp_walk_head(struct ration_walk *walk, struct ration_output *output);
void ration_resp_walk_end(struct ration_connection *connection);

/* Commands for operators (resp_admin.c). */
void ration_resp_refund(struct ration_resp_worker *worker);
void ration_resp_reset_keys(struct ration_resp_worker *worker);
void ration_resp_block(struct ration_resp_worker *worker);
void ration_resp_top(struct ration_resp_worker *worker);
void ration_resp_limits(struct ration_resp_worker *worker);
void ration_resp_reload(struct ration_resp_worker *worker);
void ration_resp_clock(struct ration_resp_worker *worker);
void ration_resp_flush_inline(struct ration_resp_worker *worker);
void ration_resp_delete(struct ration_resp_worker *worker);

/* Requests that are queued and then served together (resp_multi.c). */
void ration_resp_multi(struct ration_resp_worker *worker);
void ration_resp_exec(struct ration_resp_worker *worker);
void ration_resp_discard(struct ration_resp_worker *worker);

/* Answers EXEC with EXECABORT and the reason. Ends a MULTI, if there is one. */
void ration_resp_abort_exec(struct ration_resp_worker *worker, const char *reason);

/* Queues a request, or answers it with the error that it would get outside MULTI. */
void ration_resp_queue(struct ration_resp_worker *worker, const struct ration_command *command);

/* Ends a MULTI, if there is one. */
void ration_resp_session_leave_multi(struct ration_connection *connection);

/* Serves worker->request (resp_service.c). */
void ration_resp_serve(struct ration_resp_worker *worker);

/* Writes an error, and counts it. */
void ration_resp_error(struct ration_resp_worker *worker, const char *text);

/* Parses an argument as a whole number from 0 to UINT64_MAX. */
bool ration_resp_arg_number(const struct ration_key *argument, uint64_t *out_number);

/*
 * Reads the arguments from first on as attributes: name value name value. *out_count attributes are written.
 * False: the request is answered with an error.
 */
bool ration_resp_attributes(struct ration_resp_worker *worker, size_t first,
                            struct ration_attribute *attributes, size_t attributes_max,
                            size_t *out_count);

#endif
