/*
 * load: sends requests to a server on this host as fast as it answers, or on a schedule, and
 * measures.
 *
 *     closed loop   each connection sends a pipeline of requests, waits for all answers, and sends
 *                   the next. Shows the throughput of the server; hides how long other requests would
 *                   have waited while it did not answer, which is added afterwards (load/load_histogram.h)
 *     open loop     requests are sent on a schedule (load/schedule.h) and measured from when they
 *                   were due. Shows the latency that callers see at that rate
 *
 * A run always ends: after its duration or number of requests, or when no answer arrives for
 * LOAD_PATIENCE_NS.
 */
#ifndef RATION_LOAD_LOAD_H
#define RATION_LOAD_LOAD_H

#include <sys/types.h>

#include "load/keys.h"
#include "load/load_error.h"
#include "load/load_histogram.h"
#include "load/load_request.h"
#include "load/replies.h"
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
    uint32_t idle_count;     /* connections that are opened first and stay idle */
    uint32_t pipeline_count; /* maximum number of unanswered requests per connection */
    uint32_t thread_count;
    uint64_t request_count; /* total number of requests to send; 0: duration_ns decides */
    uint64_t duration_ns;   /* without the warm-up; 0: request_count decides */
    uint64_t warmup_ns;     /* requests sent, or due, before its end are not measured */
    uint64_t seed;
    double rate_per_second; /* 0: closed loop */
    pid_t server_pid;       /* process whose CPU time and memory to read; 0: none */
};

struct load_result {
    struct load_totals totals; /* all answers, including those of the warm-up */
    uint64_t sent_count;
    /* Requests of an open loop that were due but not sent before its end */
    uint64_t never_sent_count;
    uint64_t measured_ns; /* from the end of the warm-up to the last answer */
    uint64_t interval_ns; /* closed loop: average time between two pipelines of a connection */
    struct load_histogram latency;   /* of the measured requests */
    struct load_histogram corrected; /* the same, with the requests that a closed loop omits */

    /* CPU time for all requests, and the server's memory without and with idle connections. */
    uint64_t client_cpu_ns;
    uint64_t server_cpu_ns;
    uint64_t total_ns;
    uint64_t server_before_bytes;
    uint64_t server_idle_bytes;
};

/* Called periodically during a run; NULL for none. */
typedef void load_progress(void *context, uint64_t answered_count, uint64_t elapsed_ns);

/* Runs a plan, whose values must be within the maxima. On failure *out_result is undefined. */
bool load_run(const struct load_plan *plan, load_progress *progress, void *context,
              struct load_result *out_result, struct load_error *error);

#define LOAD_SHA_SIZE        41
#define LOAD_SCRIPT_SIZE_MAX 65536

/* Loads the script in a file into a Redis server; out_sha becomes its SHA-1 digest. */
bool load_script(const struct load_target *target, const char *path, char out_sha[LOAD_SHA_SIZE],
                 struct load_error *error);

#endif
