#include "load/idle.h"

#include <stdlib.h>

#include "load/exchange.h"

static bool open_all(const struct load_plan *plan, struct load_idle *idle, struct load_error *error)
{
    struct load_totals totals = {0};

    for (uint32_t i = 0; i < plan->idle_count; i++) {
        if (!load_connection_init(&plan->target, plan->protocol, 1, plan->request.size,
                                  &idle->connections[i], error))
            return false;
        idle->connection_count++;
    }

    struct load_connection *last = &idle->connections[plan->idle_count - 1];

    /*
     * A server at its maximum number of connections reports this and closes the connection: sending
     * may then fail, but receiving still returns the message.
     */
    (void)load_exchange_send(last, plan->request.bytes, plan->request.size, error);
    if (!load_exchange_receive(last, &totals, NULL, 0, error))
        return false;
    return totals.error_count == 0 ||
           load_fail(error, "the server refused: %s", totals.first_error);
}

bool load_idle_init(const struct load_plan *plan, struct load_idle *out_idle,
                    struct load_error *error)
{
    struct load_idle idle = {0};

    if (plan->idle_count > 0) {
        idle.connections = calloc(plan->idle_count, sizeof(idle.connections[0]));
        if (idle.connections == NULL)
            return load_fail(error, "out of memory");
        if (!open_all(plan, &idle, error)) {
            load_idle_done(&idle);
            return false;
        }
    }
    *out_idle = idle;
    return true;
}

void load_idle_done(struct load_idle *idle)
{
    for (uint32_t i = 0; i < idle->connection_count; i++)
        load_connection_done(&idle->connections[i]);
    free(idle->connections);
    *idle = (struct load_idle){0};
}
