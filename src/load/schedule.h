/*
 * schedule: when each request of an open loop is meant to go out.
 *
 * Request i is due at start + i / rate, whatever the server does. What is sent late because the
 * server was slow is still measured from the moment it was due; a client that waits for answers
 * before it asks again leaves exactly those times out (coordinated omission).
 *
 *     10 000 a second from 0 s:   request 0 at 0 us, 1 at 100 us, 2 at 200 us
 *
 * Several threads share a rate by each taking every n-th moment.
 */
#ifndef RATION_LOAD_SCHEDULE_H
#define RATION_LOAD_SCHEDULE_H

#include <stdint.h>

struct load_schedule {
    uint64_t start_ns; /* when request 0 is due */
    double interval_ns;
};

/* Thread thread_index's share of rate_per_second, which is above 0. */
struct load_schedule load_schedule_make(uint64_t start_ns, double rate_per_second,
                                        uint32_t thread_index, uint32_t thread_count);

/* When a request is due. */
uint64_t load_schedule_due_ns(const struct load_schedule *schedule, uint64_t request_index);

/* How many requests are due at now_ns or before it: those from 0 to this less one. */
uint64_t load_schedule_due_count(const struct load_schedule *schedule, uint64_t now_ns);

#endif
