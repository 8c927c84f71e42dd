#include "gate/link.h"

#include <stdlib.h>

static ration_status open_link(ration_gate *gate, const struct ration_redis_loop *loop,
                               struct ration_poll_loop *poll_loop, ration_gate_link **out_link)
{
    ration_gate_link *link = calloc(1, sizeof(*link));

    if (link == NULL)
        return RATION_ENOMEM;
    link->gate = gate;
    link->poll_loop = poll_loop;
    if (ration_redis_client_create(gate->remote->options, loop, &link->client) != RATION_OK) {
        free(link);
        return RATION_ENOMEM;
    }
    *out_link = link;
    return RATION_OK;
}

ration_status ration_gate_link_create(ration_gate *gate, const struct ration_redis_loop *loop,
                                      ration_gate_link **out_link)
{
    return gate->remote != NULL ? open_link(gate, loop, NULL, out_link) : RATION_EINVAL;
}

struct ration_gate_link *ration_gate_link_open(ration_gate *gate)
{
    struct ration_poll_loop *loop = ration_poll_loop_create();
    struct ration_gate_link *link = NULL;

    if (loop != NULL && open_link(gate, ration_poll_loop_hooks(loop), loop, &link) != RATION_OK)
        ration_poll_loop_free(loop);
    return link;
}

void ration_gate_link_free(ration_gate_link *link)
{
    if (link == NULL)
        return;
    ration_redis_client_free(link->client);
    ration_poll_loop_free(link->poll_loop);
    free(link);
}

bool ration_gate_link_is_up(const ration_gate_link *link)
{
    return ration_redis_client_is_up(link->client);
}

bool ration_gate_link_is_tried(const ration_gate_link *link)
{
    return ration_redis_client_is_tried(link->client);
}

const char *ration_gate_link_trouble(const ration_gate_link *link)
{
    return ration_redis_client_trouble(link->client);
}

void ration_gate_link_stats(const ration_gate_link *link, struct ration_redis_stats *out_stats)
{
    ration_redis_client_stats(link->client, out_stats);
}
