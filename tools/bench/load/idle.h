/* idle: connections that stay open without being used. */
#ifndef RATION_LOAD_IDLE_H
#define RATION_LOAD_IDLE_H

#include "load/load.h"
#include "load/load_connection.h"

struct load_idle {
    uint32_t connection_count;
    struct load_connection *connections;
};

/*
 * Opens the plan's idle connections. An answered request on the last one proves that the server has
 * accepted all of them. Release them with load_idle_done().
 */
bool load_idle_init(const struct load_plan *plan, struct load_idle *out_idle,
                    struct load_error *error);
void load_idle_done(struct load_idle *idle);

#endif
