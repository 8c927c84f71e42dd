/*
 * idle: connections that a server must keep although nobody uses them.
 */
#ifndef RATION_LOAD_IDLE_H
#define RATION_LOAD_IDLE_H

#include "load/connection.h"
#include "load/load.h"

struct load_idle {
    uint32_t connection_count;
    struct load_connection *connections;
};

/*
 * Opens the plan's idle connections. A request on the last one, answered, shows that the server
 * has accepted all. Release them with load_idle_done().
 */
bool load_idle_init(const struct load_plan *plan, struct load_idle *out_idle,
                    struct load_error *error);
void load_idle_done(struct load_idle *idle);

#endif
