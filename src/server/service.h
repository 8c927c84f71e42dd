/*
 * service: what the protocols' services share.
 *
 * Made before the loops run and then only read, but for what is counted. A loop's part is written by
 * its thread alone.
 */
#ifndef RATION_SERVER_SERVICE_H
#define RATION_SERVER_SERVICE_H

#include "ration/ration.h"
#include "server/connection.h"
#include "server/loop.h"
#include "server/loops.h"
#include "server/settings.h"

struct ration_resp_desk;
struct ration_http_desk;
struct ration_reloader;
struct ration_auth_failures;

/* Bounds of the buckets of the time that decisions take, in nanoseconds; the last has no bound. */
#define RATION_DURATION_BOUNDS_MAP(X) \
    X(100) X(250) X(500) X(1000) X(2500) X(5000) X(10000) X(100000) X(1000000) X(10000000)
#define RATION_DURATION_COUNT 11

/* How long decisions took: sampled, by the loop that decided. */
struct ration_durations {
    uint64_t counts[RATION_DURATION_COUNT];
    uint64_t sum_ns;
    uint32_t turn; /* one batch in RATION_DURATION_ONE_IN is timed */
};

#define RATION_DURATION_ONE_IN 16

enum ration_service_count {
    RATION_SERVICE_RESP_COMMANDS = 0,
    RATION_SERVICE_RESP_ERRORS, /* answered with an error, or closed for one */
    RATION_SERVICE_HTTP_REQUESTS,
    RATION_SERVICE_HTTP_ERRORS, /* answered with a problem that is no denial */
    RATION_SERVICE_AUTH_FAILURES,
    RATION_SERVICE_COUNTS
};

/* One loop's part. Words are written by its thread and may be read by others. */
struct ration_loop_part {
    struct ration_resp_desk *resp; /* what a RESP connection uses while it is served */
    struct ration_http_desk *http;
    ration_gate_link *link; /* to Redis, if that is where limits live; for its thread only */
    struct ration_redis_stats redis; /* of the link, as last published */
    bool is_redis_up;
    struct ration_durations durations;
    uint64_t counts[RATION_SERVICE_COUNTS];
    uint64_t random; /* for spreading Retry-After */
};

struct ration_service {
    ration_gate *gate;
    struct ration_loops *loops;
    const struct ration_settings *settings;
    struct ration_manual_clock *manual; /* NULL: the real time */
    uint64_t started_wall_s;
    uint32_t failed_reloads;

    struct ration_reloader *reloader;
    struct ration_auth_failures *auth_failures; /* NULL: replies to failures are not delayed */
    struct ration_loop_message ready;           /* for the first loop, once all can be served */

    unsigned links_untried; /* to Redis, which connect the first time; atomic */
    bool is_ready;          /* the loops run, and do not drain */
    unsigned next_id;       /* of connections, for CLIENT ID; atomic */
};

/* Now, once per turn of the connection's loop; a manual clock may be set in the middle of one. */
static inline uint64_t ration_service_now(const struct ration_service *service,
                                          const struct ration_connection *connection)
{
    return service->manual != NULL ? ration_gate_now(service->gate)
                                   : ration_loop_now(ration_connection_loop(connection));
}

/* A number that grows, of this loop. */
static inline void ration_service_add(struct ration_loop_part *part,
                                      enum ration_service_count which, uint64_t amount)
{
    __atomic_store_n(&part->counts[which],
                     __atomic_load_n(&part->counts[which], __ATOMIC_RELAXED) + amount,
                     __ATOMIC_RELAXED);
}

/* The sum of a number over all loops. */
uint64_t ration_service_total(const struct ration_service *service,
                              enum ration_service_count which);

/* Lets others see what the loop's link to Redis has done; on the loop's thread. */
void ration_service_publish_link(struct ration_loop_part *part);

/* 0, or when a batch that is to be timed began. */
uint64_t ration_durations_begin(struct ration_durations *durations);
/* Counts a batch of so many decisions that began then. */
void ration_durations_end(struct ration_durations *durations, uint64_t began_ns,
                          size_t decision_count);

/* Puts a loop's part in place; on its thread or before it runs. Returns RATION_ENOMEM. */
ration_status ration_service_open_loop(struct ration_service *service, struct ration_loop *loop);
void ration_service_close_loop(struct ration_loop *loop);

/* Gives a loop its link to Redis, before it runs; it is released when the loop ends. RATION_ENOMEM. */
ration_status ration_service_open_link(struct ration_service *service, struct ration_loop *loop);

/*
 * Has ready() called by the first loop when it runs; where limits live in Redis, when all loops have found it or
 * failed to, for which they have a second. Before the loops run; once. False: no memory.
 */
bool ration_service_when_ready(struct ration_service *service, ration_loop_function *ready,
                               void *argument);

/* The protocols; the context of their listeners is the service. */
extern const struct ration_protocol ration_resp_protocol;
extern const struct ration_protocol ration_http_protocol;

/* What connections use while they are served; one per loop. */
struct ration_resp_desk *ration_resp_desk_create(struct ration_service *service);
void ration_resp_desk_free(struct ration_resp_desk *desk);
struct ration_http_desk *ration_http_desk_create(struct ration_service *service);
void ration_http_desk_free(struct ration_http_desk *desk);

/*
 * Whether a limit that a request brings may be used: one that takes long to fill keeps its key's place as
 * long. RATION_OK or RATION_ERANGE. RATION_INLINE_FILL_REASON is what to write then.
 */
#define RATION_INLINE_FILL_REASON                                                                \
    "the limit takes longer to fill than inline-fill-max allows: lower its burst or period, or " \
    "write it into the policy"
/* Why inline limits cannot be cleared. */
#define RATION_INLINE_IN_REDIS \
    "limits of requests live in Redis, and are not cleared here: delete their keys in Redis"
ration_status ration_service_check_inline(const struct ration_service *service,
                                          const struct ration_limit *limit);

#endif
