/*
 * redis_connection: a connection to one Redis server, on the event loop of its owner.
 *
 * It connects by itself, prepares the session (AUTH, SELECT, loading the scripts), and reconnects after it was
 * lost. Every command has a deadline: its done() is called by then, with the reply or with the reason why there is
 * none.
 *
 *     down ---(delay, longer each time)---> resolving ---> connecting ---> handshake ---> up
 *      ^                                        |              |               |           |
 *      +----------------------------------------+--------------+---------------+-----------+  lost, or stalled
 *
 * - A command never waits for a connection that is not up: it is refused at once, and the caller decides otherwise.
 * - No command is sent twice. A command that was sent and not answered may have been executed.
 * - After a timeout the connection refuses commands until Redis has answered one in time, or all in flight: a
 *   caller with many commands, one after the other, waits for one timeout and not for each.
 * - A connection that stays silent or slow while commands time out is dropped, as if Redis had closed it.
 * - A connection that is closed while no command is in flight reconnects at once: Redis closes idle connections.
 * - A connection that has recovered starts with a window of one command in flight; the window doubles whenever a
 *   full window was answered. The first timeout during this time drops the connection. For the retry delay see
 *   backoff.h.
 *
 * All functions are called on the loop's thread. Times are those of a monotonic clock.
 */
#ifndef RATION_REDIS_REDIS_CONNECTION_H
#define RATION_REDIS_REDIS_CONNECTION_H

#include "ration/redis.h"
#include "redis/argv.h"

struct redisReply;
struct ration_redis_connection;

/* Address and credentials. Strings are borrowed for the life of the connection; NULL: none. */
struct ration_redis_endpoint {
    const char *host; /* or unix_path */
    const char *unix_path;
    unsigned port;
    const char *user;
    const char *password;
    unsigned database;
    bool has_scripts; /* load the scripts on each connection */
    /* must be a master: a replica is disconnected at once, and retried after a delay */
    bool is_master;
};

struct ration_redis_times {
    uint64_t timeout_ns;         /* of a reply */
    uint64_t connect_timeout_ns; /* from the start of an attempt until the connection is up */
    uint64_t retry_min_ns;       /* first retry delay after a loss */
    uint64_t retry_max_ns;
};

enum ration_redis_outcome {
    RATION_REDIS_ANSWERED, /* reply is set, and may be an error */
    RATION_REDIS_LATE,     /* sent, but the reply timed out */
    RATION_REDIS_LOST,     /* sent, and then the connection was lost */
    RATION_REDIS_REFUSED   /* not sent */
};

/* Called once. reply is borrowed for the call; it is NULL unless the outcome is ANSWERED. */
typedef void ration_redis_done(void *context, enum ration_redis_outcome outcome,
                               const struct redisReply *reply);

/*
 * *out_connection starts to connect at once; release it with ration_redis_connection_free(). endpoint, times
 * and loop are copied. Returns RATION_ENOMEM.
 */
ration_status ration_redis_connection_create(const struct ration_redis_endpoint *endpoint,
                                             const struct ration_redis_times *times,
                                             const struct ration_redis_loop *loop,
                                             struct ration_redis_connection **out_connection);

/* Completes every command in flight with RATION_REDIS_LOST first. NULL is allowed. */
void ration_redis_connection_free(struct ration_redis_connection *connection);

/*
 * Registers changed(), which is called whenever the connection came up or went down. It may query the
 * connection and send, but not free it. The connection may have failed before this call: see
 * ration_redis_connection_has_connected().
 */
void ration_redis_connection_watch(struct ration_redis_connection *connection,
                                   void (*changed)(void *context), void *context);

struct ration_redis_send_options {
    uint64_t deadline_ns; /* a time of the loop's clock; 0: now plus the connection's timeout */
    bool is_asking;       /* send ASKING first: the node is importing the slot */
};

/*
 * Sends a command; done() is called by the deadline, possibly before this returns. Commands sent in one
 * iteration of the loop are written together. argv is copied. send_options may be NULL.
 */
void ration_redis_connection_send(struct ration_redis_connection *connection,
                                  const struct ration_redis_argv *argv,
                                  const struct ration_redis_send_options *send_options,
                                  ration_redis_done *done, void *context);

bool ration_redis_connection_is_connected(const struct ration_redis_connection *connection);

/* Whether it was up or has failed at least once. If not, the first attempt is still under way. */
bool ration_redis_connection_has_connected(const struct ration_redis_connection *connection);

/* Whether an attempt to connect is under way. */
bool ration_redis_connection_is_trying(const struct ration_redis_connection *connection);

/* Why the connection is not up, as text for people; "" if it is up. */
const char *ration_redis_connection_last_error(const struct ration_redis_connection *connection);

/*
 * Disconnects and connects again, because the server is the wrong one (a replica). Commands in flight may
 * still be answered.
 */
void ration_redis_connection_renew(struct ration_redis_connection *connection,
                                   const char *last_error);

/* Adds the connection's counters to *stats. */
void ration_redis_connection_count(const struct ration_redis_connection *connection,
                                   struct ration_redis_stats *stats);

#endif
