/*
 * case: a prepared check of a gate with Redis, and what is decided of it here.
 *
 * Batches have cases on their way to Redis; whoever waits for an answer tries first whether it is needed, with
 * neither a lock nor memory.
 */
#ifndef RATION_GATE_CASE_H
#define RATION_GATE_CASE_H

#include "gate/remote.h"

/* All of it is borrowed, by one who has entered the grace period. */
struct ration_gate_case {
    ration_gate *gate;
    const struct ration_gate_plan *plan;
    struct ration_check *check;
    const struct ration_gate_prepared *prepared;
    const struct ration_limit
        *given; /* the limit came with the request; NULL: it is the policy's */
    uint64_t now_ns;
};

/* Leases to draw, ahead of need. */
struct ration_gate_draws {
    uint32_t count;
    uint32_t parts[RATION_POLICY_MATCHES_MAX];
    uint64_t tokens[RATION_POLICY_MATCHES_MAX];
};

/* One of its limits, of which something may be known here. */
struct ration_near_ask ration_gate_case_ask(const struct ration_gate_case *c, uint32_t part);

/* Whether all of its limits may be decided here. */
bool ration_gate_case_is_near(const struct ration_gate_case *c);

/* Whether they were. Then it is told, and counted. */
bool ration_gate_case_decide_near(const struct ration_gate_case *c,
                                  struct ration_gate_draws *out_draws);

/* What was decided, of each of its limits. */
void ration_gate_case_tell(const struct ration_gate_case *c, const struct ration_redis_told *told);

#endif
