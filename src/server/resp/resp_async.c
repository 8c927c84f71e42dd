/*
 * resp_async: batches that Redis decides.
 *
 * The worker's batch is sent to Redis, and the connection is paused until its results arrive. The
 * requests are consumed; only the reply_kind of each reply is saved.
 */
#include <stdlib.h>

#include "server/resp/resp_worker.h"

enum reply_kind { KIND_CHECK, KIND_INLINE };

struct ration_resp_async {
    ration_engine_batch *batch;
    uint64_t began_ns;
    bool is_silent; /* CLIENT REPLY was not ON */
    size_t count;
    uint8_t kinds[];
};

static void free_async(struct ration_resp_async *async)
{
    ration_engine_batch_free(async->batch);
    free(async);
}

void ration_resp_session_forget_async(struct ration_resp_session *session)
{
    if (session->async != NULL)
        free_async(session->async);
    session->async = NULL;
}

static void write_replies(struct ration_resp_worker *worker, const struct ration_resp_async *async)
{
    size_t size_before = worker->output->size;

    for (size_t i = 0; i < async->count; i++) {
        const struct ration_check *check = ration_engine_batch_check(async->batch, i);

        if (async->kinds[i] == KIND_CHECK)
            ration_resp_write_check(worker, check);
        else
            ration_resp_write_inline_result(worker, check->status, &check->decision);
    }
    ration_service_durations_end(&worker->loop_worker->durations, async->began_ns, async->count);
    if (async->is_silent)
        ration_output_rewind(worker->output, size_before);
}

static void on_decided(void *context)
{
    struct ration_connection *connection = context;
    struct ration_resp_worker *worker = ration_resp_worker_take(connection);
    struct ration_resp_async *async = worker->session->async;

    worker->session->async = NULL;
    ration_service_publish_redis(worker->loop_worker);
    write_replies(worker, async);
    free_async(async);
    ration_connection_resume(connection);
}

/* Adds the inline checks, and as many checks as the match steps permit. False: no memory, or a key is too long. */
static bool add_some(struct ration_resp_worker *worker, struct ration_resp_async *async)
{
    uint64_t steps_left = ration_connection_match_steps_left(worker->connection);
    uint64_t steps = 0;

    for (size_t i = 0; i < worker->inline_count; i++) {
        const struct ration_batch_item *item = &worker->items[i];

        if (ration_engine_batch_add_inline(async->batch, item->request, item->limit,
                                           item->cost_tokens, item->is_peek) != RATION_OK)
            return false;
        async->kinds[async->count++] = KIND_INLINE;
    }
    for (size_t i = 0; i < worker->check_count && (i == 0 || steps < steps_left); i++) {
        if (ration_engine_batch_add(async->batch, &worker->checks[i]) != RATION_OK)
            return false;
        steps += ration_engine_batch_check(async->batch, async->count)->match_steps;
        async->kinds[async->count++] = KIND_CHECK;
    }
    ration_connection_charge(worker->connection, steps);
    return true;
}

static struct ration_resp_async *make_async(struct ration_resp_worker *worker)
{
    size_t count = worker->inline_count + worker->check_count;
    struct ration_resp_async *async = malloc(sizeof(*async) + count);

    if (async == NULL)
        return NULL;
    async->count = 0;
    async->is_silent = worker->session->reply_mode != RATION_REPLY_ON;
    async->began_ns = ration_service_durations_begin(&worker->loop_worker->durations);
    async->batch =
        ration_engine_batch_create(worker->loop_worker->engine_connection, NULL,
                                   ration_resp_now(worker), on_decided, worker->connection);
    if (async->batch != NULL && add_some(worker, async))
        return async;
    free_async(async);
    return NULL;
}

bool ration_resp_flush_async(struct ration_resp_worker *worker)
{
    size_t count = worker->inline_count + worker->check_count;
    struct ration_resp_async *async;
    bool is_all;

    if (count == 0)
        return true;
    async = make_async(worker);
    is_all = ration_resp_postpone(worker, async == NULL ? worker->check_count
                                                        : async->count - worker->inline_count);
    worker->inline_count = 0;
    worker->batch_number++;
    if (async == NULL) {
        for (size_t i = 0; i < count; i++)
            ration_resp_error(worker, "ERR a key is too long, or the server is short of memory");
        return true;
    }
    if (ration_engine_batch_send(async->batch)) {
        ration_service_publish_redis(worker->loop_worker);
        write_replies(worker, async);
        free_async(async);
        return is_all;
    }
    worker->session->async = async;
    worker->is_waiting = true;
    ration_connection_pause(worker->connection);
    return false;
}
