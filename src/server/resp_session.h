/*
 * resp_session: a connection that speaks the Redis protocol, and the desk at which its loop serves it.
 *
 * What is needed only while requests are served lies at the desk, one per loop; a session at rest is
 * small. Requests of one read are decided together: CL.THROTTLE and GCRA wait at the desk as one
 * batch, checks as another, until a request of another kind comes or the read ends. Answers are
 * written in the order of the requests, so only one of the two batches has any waiting.
 */
#ifndef RATION_SERVER_RESP_SESSION_H
#define RATION_SERVER_RESP_SESSION_H

#include "proto/commands.h"
#include "proto/resp_answer.h"
#include "proto/resp_request.h"
#include "proto/throttle.h"
#include "server/walk.h"

#define RATION_SESSION_NAME_MAX    63
#define RATION_LIMIT_CACHE_COUNT   256 /* a power of two */
#define RATION_RESP_BATCH_MAX      RATION_SETTINGS_PIPELINE_MAX
#define RATION_RESP_ATTRIBUTES_MAX 4096 /* of all checks of one batch */

/* SKIP is for the next request; while that one is served it is SKIPPING. */
enum ration_reply_mode {
    RATION_REPLY_ON = 0,
    RATION_REPLY_OFF,
    RATION_REPLY_SKIP,
    RATION_REPLY_SKIPPING
};

struct ration_session {
    uint32_t id;
    uint8_t version; /* enum ration_resp_version; 0: not opened yet */
    uint8_t access;  /* enum ration_access */
    bool is_known;   /* may check: access is not open */
    uint8_t reply_mode;
    bool
        is_skip_after_exec; /* EXEC served CLIENT REPLY SKIP, which as in Redis is for what follows EXEC */
    char name[RATION_SESSION_NAME_MAX + 1];
    char library_name[32];
    char library_version[16];

    /* Between MULTI and EXEC: requests, as they would be sent. */
    bool is_queuing;
    bool is_spoiled; /* one of them was wrong */
    uint32_t queued_count;
    struct ration_output queue; /* made by MULTI */
    size_t queue_bytes;         /* accounted for it, or for exec */

    struct ration_resp_later *later; /* answers that are waited for, or NULL (resp_later.c) */
    ration_gate_editing *editing;    /* the same, of an edit */
    bool is_edit_silent;
    struct ration_output exec; /* what an EXEC has still to serve, from exec_done on */
    size_t exec_done;
    bool is_executing;

    struct ration_walk *walk;     /* a reply that is made in steps, or NULL */
    struct ration_reload *reload; /* a task of the reloader that is waited for, or NULL */
    bool is_reload_silent;        /* it was requested while CLIENT REPLY was not ON */
};

/* A limit that came with a request, made. */
struct ration_cached_limit {
    uint64_t tokens;
    uint64_t period_ns;
    uint64_t burst;
    uint64_t batch_number; /* that uses it last */
    struct ration_limit limit;
};

struct ration_resp_desk {
    struct ration_service *service;
    struct ration_loop_part *part;

    /* Of the connection that is being served. */
    struct ration_connection *connection;
    struct ration_session *session;
    struct ration_output *output;
    uint64_t command_count; /* of this read, not yet added to the loop's */
    bool is_over;           /* nothing more of it is served */
    bool is_waiting;        /* for answers: a request that is not answered yet is not consumed */
    bool is_hushed; /* what was served last is an EXEC: each of its requests kept its silence */

    /* Limits that came with requests, waiting to be decided. */
    uint64_t batch_number;
    size_t throttle_count;
    struct ration_batch_item items[RATION_RESP_BATCH_MAX];
    struct ration_key keys[RATION_RESP_BATCH_MAX];
    struct ration_decision decisions[RATION_RESP_BATCH_MAX];

    /* Checks by policy, waiting to be decided. */
    size_t check_count;
    size_t attribute_count;
    const char *request_start; /* of the request that is being served */
    const char *check_starts[RATION_RESP_BATCH_MAX];

    /* The first of the checks that this turn has no time for, which are read again; NULL: none. */
    const char *postponed;
    size_t postponed_count;

    struct ration_check checks[RATION_RESP_BATCH_MAX];
    struct ration_attribute attributes[RATION_RESP_ATTRIBUTES_MAX];

    struct ration_cached_limit limits[RATION_LIMIT_CACHE_COUNT];
    struct ration_resp_request request;
};

static inline enum ration_resp_version ration_desk_version(const struct ration_resp_desk *desk)
{
    return (enum ration_resp_version)desk->session->version;
}

/* The same of any connection that speaks this protocol. */
static inline enum ration_resp_version ration_session_version(struct ration_connection *connection)
{
    const struct ration_session *session = ration_connection_state(connection);

    return (enum ration_resp_version)session->version;
}

static inline uint64_t ration_desk_now(const struct ration_resp_desk *desk)
{
    return ration_service_now(desk->service, desk->connection);
}

/* A request's words; the first is the command's name. */
struct ration_words {
    const struct ration_key *items;
    size_t count;
};

static inline struct ration_words ration_desk_words(const struct ration_resp_desk *desk)
{
    return (struct ration_words){desk->request.arguments, desk->request.argument_count};
}

static inline void ration_session_set_access(struct ration_session *session,
                                             enum ration_access access)
{
    session->access = (uint8_t)access;
    session->is_known = access >= RATION_ACCESS_CHECK;
}

/* check or admin, as the session authenticated; else default. */
const char *ration_desk_user(const struct ration_resp_desk *desk);

/* Gives a connection the access that it has before it authenticates. */
void ration_session_reset_access(struct ration_connection *connection);

/* Whether the session may use a command. False: that is answered, as an error (resp_service.c). */
bool ration_desk_permits(struct ration_resp_desk *desk, const struct ration_command *command);

/* The desk of the connection's loop, to serve this connection. */
struct ration_resp_desk *ration_resp_desk_take(struct ration_connection *connection);

/* Puts a request into its batch, or answers it at once if it is wrong (resp_batch.c). */
void ration_desk_throttle(struct ration_resp_desk *desk, bool is_gcra);
void ration_desk_check(struct ration_resp_desk *desk, bool is_peek);

/*
 * Decides what waits, and writes the answers. True: they are written. False: they come later, the
 * connection is held or yields, and whatever came behind them has to come again; so have the checks from
 * desk->postponed on.
 */
bool ration_desk_flush(struct ration_resp_desk *desk);

/* Postpones the checks that wait, from first on, and forgets all of them. True: there are none to postpone. */
bool ration_desk_postpone(struct ration_resp_desk *desk, size_t first);

/* The same where Redis decides (resp_later.c). */
bool ration_desk_flush_later(struct ration_resp_desk *desk);

/* The connection closes: nobody waits any more. */
void ration_session_forget_later(struct ration_session *session);

/* The answer to one check, and to one throttle; for resp_later.c (resp_batch.c). */
void ration_desk_write_check(struct ration_resp_desk *desk, const struct ration_check *check);
void ration_desk_write_throttle(struct ration_resp_desk *desk, ration_status status,
                                const struct ration_decision *decision);

/* What clients say about themselves and ask about the server (resp_connect.c). */
void ration_desk_hello(struct ration_resp_desk *desk);
void ration_desk_auth(struct ration_resp_desk *desk);
void ration_desk_client(struct ration_resp_desk *desk);
void ration_desk_select(struct ration_resp_desk *desk);
void ration_desk_reset(struct ration_resp_desk *desk);
void ration_desk_command(struct ration_resp_desk *desk);
void ration_desk_config(struct ration_resp_desk *desk);
void ration_desk_info(struct ration_resp_desk *desk);
/* Whether a request's subcommand is one that there is, with its number of words; if not, that is answered. */
bool ration_desk_subcommand_fits(struct ration_resp_desk *desk, enum ration_command_id id);
void ration_desk_time(struct ration_resp_desk *desk);
void ration_desk_size(struct ration_resp_desk *desk);

/*
 * For replies that are made in steps: creates the walk, or NULL with an error answered; creates and
 * starts one that needs nothing more; writes what
 * went wrong with one, as its head(); ends one (resp_service.c).
 */
struct ration_walk *ration_desk_walk(struct ration_resp_desk *desk,
                                     const struct ration_walk_kind *kind);
void ration_desk_start_walk(struct ration_resp_desk *desk, const struct ration_walk_kind *kind);
void ration_resp_walk_head(struct ration_walk *walk, struct ration_output *output);
void ration_resp_walk_end(struct ration_connection *connection);

/* What operators do (resp_admin.c). */
void ration_desk_refund(struct ration_resp_desk *desk);
void ration_desk_reset_keys(struct ration_resp_desk *desk);
void ration_desk_block(struct ration_resp_desk *desk);
void ration_desk_top(struct ration_resp_desk *desk);
void ration_desk_limits(struct ration_resp_desk *desk);
void ration_desk_reload(struct ration_resp_desk *desk);
void ration_desk_clock(struct ration_resp_desk *desk);
void ration_desk_flush_inline(struct ration_resp_desk *desk);
void ration_desk_delete(struct ration_resp_desk *desk);

/* Requests that are kept back and served together (resp_multi.c). */
void ration_desk_multi(struct ration_resp_desk *desk);
void ration_desk_exec(struct ration_resp_desk *desk);
void ration_desk_discard(struct ration_resp_desk *desk);

/* EXEC itself is refused, for a reason that Redis would name. Ends a MULTI, if there is one. */
void ration_desk_abort_exec(struct ration_resp_desk *desk, const char *reason);

/* Keeps a request back, or refuses it as it would be refused now. */
void ration_desk_queue(struct ration_resp_desk *desk, const struct ration_command *command);

/* Ends a MULTI, if there is one. */
void ration_session_leave_multi(struct ration_connection *connection);

/* Serves the request that was read (resp_service.c). */
void ration_desk_serve(struct ration_resp_desk *desk);

/* An error, counted. */
void ration_desk_error(struct ration_resp_desk *desk, const char *text);

/* A word that is a whole number from 0 to UINT64_MAX. */
bool ration_word_number(const struct ration_key *word, uint64_t *out_number);

/*
 * The words from first on as attributes: name value name value. False: they are answered with an
 * error. *out_count of them are written.
 */
bool ration_desk_attributes(struct ration_resp_desk *desk, size_t first,
                            struct ration_attribute *attributes, size_t attributes_max,
                            size_t *out_count);

#endif
