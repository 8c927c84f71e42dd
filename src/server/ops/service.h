/*
 * service: the data that the HTTP and RESP services share.
 *
 * Created before the loops run and then only read, except for counters. Only the loop thread writes its worker.
 */
#ifndef RATION_SERVER_OPS_SERVICE_H
#define RATION_SERVER_OPS_SERVICE_H

#include "ration/ration.h"
#include "server/net/connection.h"
#include "server/net/loop.h"
#include "server/net/loops.h"
#include "server/ops/settings.h"

struct ration_resp_worker;
struct ration_http_worker;
struct ration_reloader;
struct ration_auth_failures;

/* Upper bounds of the histogram of decision times, in nanoseconds; the last bucket has none. */
#define RATION_DURATION_BOUNDS_MAP(X) \
    X(100) X(250) X(500) X(1000) X(2500) X(5000) X(10000) X(100000) X(1000000) X(10000000)
#define RATION_DURATION_COUNT 11

/* Histogram of decision times, sampled by the loop thread that decided. */
struct ration_durations {
    uint64_t counts[RATION_DURATION_COUNT];
    uint64_t sum_ns;
    uint32_t batch_count; /* every RATION_DURATION_ONE_IN-th batch is timed */
};

#define RATION_DURATION_ONE_IN 16

enum ration_service_count {
    RATION_SERVICE_RESP_COMMANDS = 0,
    RATION_SERVICE_RESP_ERRORS, /* replied with an error, or closed because of one */
    RATION_SERVICE_HTTP_REQUESTS,
    RATION_SERVICE_HTTP_ERRORS, /* replied with a problem that is not a denial */
    RATION_SERVICE_AUTH_FAILURES,
    RATION_SERVICE_COUNTS
};

/* One loop's worker. The loop thread writes redis, is_redis_up, durations and counts; any thread may read those. */
struct ration_worker {
    struct ration_resp_worker *resp; /* used by a RESP connection while it is served */
    struct ration_http_worker *http;
    ration_engine_connection
        *engine_connection;          /* to Redis; NULL: limits are in memory. Loop thread only */
    struct ration_redis_stats redis; /* of engine_connection, as last published */
    bool is_redis_up;
    struct ration_durations durations;
    uint64_t counts[RATION_SERVICE_COUNTS];
    uint64_t random; /* state of the generator that adds jitter to Retry-After */
};

struct ration_service {
    ration_engine *engine;
    struct ration_loops *loops;
    const struct ration_settings *settings;
    struct ration_manual_clock *manual; /* NULL: the server uses the real clock */
    uint64_t started_wall_s;
    uint32_t failed_reloads;

    struct ration_reloader *reloader;
    struct ration_auth_failures *auth_failures; /* NULL: failures are not delayed */
    struct ration_loop_message ready;           /* posted to loop 0 when all loops are ready */

    unsigned untried_connection_count; /* atomic: loops yet to try Redis */
    bool is_ready;                     /* the loops run and are not draining */
    unsigned next_id;                  /* atomic: of the next connection, for CLIENT ID */
};

/* The current time, read once per turn of the loop. A manual clock is read each time: it may be set within a turn. */
static inline uint64_t ration_service_now(const struct ration_service *service,
                                          const struct ration_connection *connection)
{
    return service->manual != NULL ? ration_engine_now(service->engine)
                                   : ration_loop_now(ration_connection_loop(connection));
}

/* Adds to a counter of the worker. On the loop thread, the only writer. */
static inline void ration_service_add(struct ration_worker *worker, enum ration_service_count which,
                                      uint64_t amount)
{
    __atomic_store_n(&worker->counts[which],
                     __atomic_load_n(&worker->counts[which], __ATOMIC_RELAXED) + amount,
                     __ATOMIC_RELAXED);
}

/* The sum of a counter over all loops. Any thread. */
uint64_t ration_service_total(const struct ration_service *service,
                              enum ration_service_count which);

/* Publishes the statistics of the loop's connection to Redis to other threads. On the loop's thread. */
void ration_service_publish_redis(struct ration_worker *worker);

/* Starts a batch of decisions. Returns its start time, or 0 if this batch is not timed. */
uint64_t ration_service_durations_begin(struct ration_durations *durations);
/* Ends a batch: adds decision_count decisions to the histogram, unless began_ns is 0. */
void ration_service_durations_end(struct ration_durations *durations, uint64_t began_ns,
                                  size_t decision_count);

/* Creates a loop's worker; before the loop runs, or on its thread. Returns RATION_ENOMEM. */
ration_status ration_service_open_loop(struct ration_service *service, struct ration_loop *loop);
void ration_service_close_loop(struct ration_loop *loop);

/* Creates a loop's connection to Redis, before the loop runs; freed when the loop shuts down. Returns RATION_ENOMEM. */
ration_status ration_service_open_redis(struct ration_service *service, struct ration_loop *loop);

/*
 * Makes loop 0 call ready() when it runs; if limits are in Redis, when every loop has connected to Redis, has failed
 * to, or has tried for about a second. Call once, before the loops run. False: no memory.
 */
bool ration_service_when_ready(struct ration_service *service, ration_loop_function *ready,
                               void *argument);

/* The protocols; the context of their listeners is the service. */
extern const struct ration_protocol ration_resp_protocol;
extern const struct ration_protocol ration_http_protocol;

/* Per-loop objects that connections use while they are served. Owned by the worker. */
struct ration_resp_worker *ration_resp_worker_create(struct ration_service *service);
void ration_resp_worker_free(struct ration_resp_worker *worker);
struct ration_http_worker *ration_http_worker_create(struct ration_service *service);
void ration_http_worker_free(struct ration_http_worker *worker);

/*
 * Whether an inline limit is allowed: one that takes long to fill occupies its key's slot as long. RATION_OK, or
 * RATION_ERANGE: the reply is then RATION_INLINE_FILL_REASON.
 */
#define RATION_INLINE_FILL_REASON                                                                \
    "the limit takes longer to fill than max-inline-fill allows: lower its burst or period, or " \
    "write it into the policy"
/* The reply if inline limits cannot be cleared. */
#define RATION_INLINE_IN_REDIS                                                                   \
    "inline limits are kept in Redis and are not cleared by this command: delete their keys in " \
    "Redis"
ration_status ration_service_check_inline(const struct ration_service *service,
                                          const struct ration_limit *limit);

#endif
