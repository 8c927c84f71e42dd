/*
 * worker: one thread of a load with its share of connections and requests.
 */
#ifndef RATION_LOAD_WORKER_H
#define RATION_LOAD_WORKER_H

#include "load/batch.h"
#include "load/connection.h"
#include "load/load.h"
#include "load/schedule.h"

#define LOAD_RECEIVE_SIZE 65536

/* Shared by the workers of a run. */
struct load_times {
    uint64_t start_ns;
    uint64_t measure_from_ns;
    uint64_t stop_ns; /* nothing is sent from here on */
};

struct load_worker {
    const struct load_plan *plan; /* borrowed for its life */
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
    uint32_t next_connection; /* whose turn it is in an open loop */
    bool is_over;             /* nothing is sent any more */
    uint64_t last_answer_ns;
    struct load_tally tally;
    struct load_histogram latency;
    struct load_error error;
    bool failed;
    char received[LOAD_RECEIVE_SIZE];
};

/*
 * Makes a worker with its connections open. It is owned by the caller: release it with
 * load_worker_free(). NULL, with the reason, if that fails.
 */
struct load_worker *load_worker_create(const struct load_plan *plan, uint32_t thread_index,
                                       struct load_error *error);
void load_worker_free(struct load_worker *worker);

/* Says when to begin. Before load_worker_run(). */
void load_worker_set_times(struct load_worker *worker, uint32_t thread_index,
                           const struct load_times *times);

/* The thread's function. Sets failed and error if it could not go on. */
void *load_worker_run(void *worker);

/* Nanoseconds of CLOCK_MONOTONIC. */
uint64_t load_now_ns(void);

#endif
