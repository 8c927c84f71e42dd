/* worker: one thread of a load, with its share of connections and requests. */
#ifndef RATION_LOAD_WORKER_H
#define RATION_LOAD_WORKER_H

#include "load/batch.h"
#include "load/load.h"
#include "load/load_connection.h"
#include "load/schedule.h"

#define LOAD_RECEIVE_SIZE 65536

/* Shared by all workers of a run. */
struct load_times {
    uint64_t start_ns;
    uint64_t measure_from_ns;
    uint64_t stop_ns; /* no request is sent from this time on */
};

struct load_worker {
    const struct load_plan *plan; /* borrowed; must outlive the worker */
    struct load_times times;
    struct load_schedule schedule;
    struct load_batch batch;
    struct load_connection *connections;
    uint32_t connection_count;
    int epoll_fd;

    bool *stop;               /* atomic, shared: another worker has failed */
    uint64_t *answered_count; /* atomic, shared: for progress */
    uint64_t budget_count;    /* requests that may still be sent */
    uint64_t sent_count;
    uint64_t waiting_count;   /* requests without an answer, on all connections */
    uint32_t next_connection; /* the next connection to use in an open loop */
    bool is_over;             /* no more requests are sent */
    uint64_t last_answer_ns;
    struct load_totals totals;
    struct load_histogram latency;
    struct load_error error;
    bool failed;
    char received[LOAD_RECEIVE_SIZE];
};

/*
 * Creates a worker and opens its connections. It is owned by the caller, which releases it with
 * load_worker_free(). Returns NULL, with the reason in error, on failure.
 */
struct load_worker *load_worker_create(const struct load_plan *plan, uint32_t thread_index,
                                       struct load_error *error);
void load_worker_free(struct load_worker *worker);

/* Sets the start and stop times. Must be called before load_worker_run(). */
void load_worker_set_times(struct load_worker *worker, uint32_t thread_index,
                           const struct load_times *times);

/* The thread's function. Sets failed and error if it could not continue. */
void *load_worker_run(void *argument);

/* Nanoseconds of CLOCK_MONOTONIC. */
uint64_t load_now_ns(void);

#endif
