/*
 * pool: links of threads without a loop, which wait for their answers.
 *
 * A thread takes a link for as long as it asks. Those to which a lease may have come that was drawn ahead are used
 * first. A child of fork() has links of its own: those it inherited are its parent's connections.
 */
#ifndef RATION_GATE_POOL_H
#define RATION_GATE_POOL_H

#include <pthread.h>

#include "gate/gate.h"

struct ration_gate_link;

struct ration_gate_pool {
    uint64_t process; /* whose links they are; with its highest bit, who makes them its own */
    pthread_mutex_t lock;
    struct ration_gate_link *idle;
    struct ration_gate_link *drawing; /* idle, and leases are under way to them */
    uint32_t draw_count;              /* leases under way, of all of them */
};

void ration_gate_pool_init(struct ration_gate_pool *pool);
void ration_gate_pool_done(struct ration_gate_pool *pool);

/*
 * A link of one's own, until it is given back; NULL: no memory. One that is connecting is waited for, if it was not
 * in vain lately. *out_deadline_ns is when that began to be too long, by the link's loop.
 */
struct ration_gate_link *ration_gate_pool_take(ration_gate *gate, uint64_t *out_deadline_ns);
void ration_gate_pool_give_back(ration_gate *gate, struct ration_gate_link *link);

/* Whether a lease may have come: then whoever takes a link finds it. */
bool ration_gate_pool_has_draws(ration_gate *gate);

#endif
