#include "engine/engine_connection.h"

#include <stdlib.h>

static ration_status open_connection(ration_engine *engine, const struct ration_redis_loop *loop,
                                     struct ration_poll_loop *poll_loop,
                                     ration_engine_connection **out_connection)
{
    ration_engine_connection *connection = calloc(1, sizeof(*connection));

    if (connection == NULL)
        return RATION_ENOMEM;
    connection->engine = engine;
    connection->poll_loop = poll_loop;
    if (ration_redis_client_create(engine->remote->options, loop, &connection->client) !=
        RATION_OK) {
        free(connection);
        return RATION_ENOMEM;
    }
    *out_connection = connection;
    return RATION_OK;
}

ration_status ration_engine_connection_create(ration_engine *engine,
                                              const struct ration_redis_loop *loop,
                                              ration_engine_connection **out_connection)
{
    return engine->remote != NULL ? open_connection(engine, loop, NULL, out_connection)
                                  : RATION_EINVAL;
}

struct ration_engine_connection *ration_engine_connection_open(ration_engine *engine)
{
    struct ration_poll_loop *loop = ration_poll_loop_create();
    struct ration_engine_connection *connection = NULL;

    if (loop != NULL &&
        open_connection(engine, ration_poll_loop_hooks(loop), loop, &connection) != RATION_OK)
        ration_poll_loop_free(loop);
    return connection;
}

void ration_engine_connection_free(ration_engine_connection *connection)
{
    if (connection == NULL)
        return;
    ration_redis_client_free(connection->client);
    ration_poll_loop_free(connection->poll_loop);
    free(connection);
}

bool ration_engine_connection_is_connected(const ration_engine_connection *connection)
{
    return ration_redis_client_is_connected(connection->client);
}

bool ration_engine_connection_has_connected(const ration_engine_connection *connection)
{
    return ration_redis_client_has_connected(connection->client);
}

const char *ration_engine_connection_last_error(const ration_engine_connection *connection)
{
    return ration_redis_client_last_error(connection->client);
}

void ration_engine_connection_stats(const ration_engine_connection *connection,
                                    struct ration_redis_stats *out_stats)
{
    ration_redis_client_stats(connection->client, out_stats);
}
