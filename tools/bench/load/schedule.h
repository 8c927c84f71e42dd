/*
 * schedule: the time at which each request of an open loop is due.
 *
 * Request i is due at start + i / rate, whatever the server does. A request that is sent late
 * because the server was slow is still measured from the time it was due. A client that waits for
 * answers before it sends the next request omits exactly those times (coordinated omission).
 *
 *     10 000 a second from 0 s:   request 0 at 0 us, 1 at 100 us, 2 at 200 us
 *
 * Several threads share a rate: each takes every n-th time.
 */
#ifndef RATION_LOAD_SCHEDULE_H
#define RATION_LOAD_SCHEDULE_H

#include <stdint.h>

struct load_schedule {
    uint64_t start_ns; /* when request 0 is due */
    double interval_ns;
};

/*
 * Returns the schedule of thread thread_index for its share of rate_per_second, which must be above
 * 0.
 */
struct load_schedule load_schedule_make(uint64_t start_ns, double rate_per_second,
                                        uint32_t thread_index, uint32_t thread_count);

/* The time at which a request is due. */
uint64_t load_schedule_due_ns(const struct load_schedule *schedule, uint64_t request_index);

/*
 * The number of requests that are due at now_ns or before: those with an index below this number.
 */
uint64_t load_schedule_due_count(const struct load_schedule *schedule, uint64_t now_ns);

#endif
