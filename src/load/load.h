/*
 * load: asks a server on this host as fast as it answers, or by a schedule, and measures.
 *
 *     closed loop   each connection sends a pipeline of requests, waits for all answers, and sends
 *                   the next. Says what the server can do; hides how long others would have waited
 *                   while it did not answer, which is filled in afterwards (load/histogram.h)
 *     open loop     requests go out by the clock (load/schedule.h), and are measured from when they
 *                   were due. Says what callers see at that rate
 *
 * A run always ends: by its time or its count, or when no answer comes for LOAD_PATIENCE_NS.
 */
#ifndef RATION_LOAD_LOAD_H
#define RATION_LOAD_LOAD_H

#include <sys/types.h>

#include "load/error.h"
#include "load/histogram.h"
#include "load/keys.h"
#include "load/replies.h"
#include "load/request.h"
#include "load/target.h"

#define LOAD_CONNECTIONS_MAX 20000u
#define LOAD_IDLE_MAX        60000u
#define LOAD_PIPELINE_MAX    4096u
#define LOAD_THREADS_MAX     64u
#define LOAD_PATIENCE_NS     UINT64_C(10000000000)

struct load_plan {
    enum load_protocol protocol;
    struct load_target target;
    struct load_request request;
    struct load_keys keys;
    uint32_t connection_count;
    uint32_t idle_count;     /* connections that are opened first and never used again */
    uint32_t pipeline_count; /* requests on their way at once, per connection */
    uint32_t thread_count;
    uint64_t request_count; /* how many to send in all; 0: duration_ns decides */
    uint64_t duration_ns;   /* behind the warm-up; 0: request_count decides */
    uint64_t warmup_ns;     /* requests sent, or due, before its end are not measured */
    uint64_t seed;
    double rate_per_second; /* 0: closed loop */
    pid_t server_pid;       /* whose CPU time and memory to read; 0: of none */
};

struct load_result {
    struct load_tally tally; /* all answers, those of the warm-up too */
    uint64_t sent_count;
    uint64_t never_sent_count;       /* due in an open loop that ended before their turn */
    uint64_t measured_ns;            /* from the warm-up's end to the last answer */
    uint64_t interval_ns;            /* closed loop: at which a connection asked, on average */
    struct load_histogram latency;   /* of the requests measured */
    struct load_histogram corrected; /* the same, with what a closed loop leaves out */

    /* CPU time of all requests, and the server's memory before and with its idle connections. */
    uint64_t client_cpu_ns;
    uint64_t server_cpu_ns;
    uint64_t total_ns;
    uint64_t server_before_bytes;
    uint64_t server_idle_bytes;
};

/* Called now and then while a run goes on; NULL for a quiet one. */
typedef void load_progress(void *context, uint64_t answered_count, uint64_t elapsed_ns);

/* Carries out a plan, which the caller has kept within the maxima. On failure *out_result is undefined. */
bool load_run(const struct load_plan *plan, load_progress *progress, void *context,
              struct load_result *out_result, struct load_error *error);

#define LOAD_SHA_SIZE        41
#define LOAD_SCRIPT_SIZE_MAX 65536

/* Gives a Redis server the script in a file; out_sha becomes the name it answers by. */
bool load_script(const struct load_target *target, const char *path, char out_sha[LOAD_SHA_SIZE],
                 struct load_error *error);

#endif
