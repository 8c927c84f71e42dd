/*
 * http_async: checks that Redis decides, and their responses once it has.
 */
#include <stdlib.h>

#include "server/http/http_worker.h"

struct ration_http_async {
    struct ration_job job; /* POST: adds the checks that exceeded the match steps so far */
    struct ration_connection *connection;
    ration_engine_batch *batch;
    uint64_t began_ns;
    bool is_get;
    unsigned deny_status;                /* GET */
    struct ration_check_request request; /* GET; its attributes are no longer valid */
    ration_checks *checks;               /* POST; owned */
    size_t count;
    size_t added_count;
    ration_status *statuses; /* one per check: why it could not be added to the batch; owned */
};

static void free_async(struct ration_http_async *async)
{
    ration_loop_cancel_job(&async->job);
    ration_engine_batch_free(async->batch);
    if (async->checks != NULL)
        ration_check_json_free(async->checks);
    free(async->statuses);
    free(async);
}

void ration_http_forget_async(struct ration_http_session *session)
{
    if (session->async != NULL)
        free_async(session->async);
    session->async = NULL;
}

/* Responses ---------------------------------------------------------------------------------- */

/* Copies the batch's result of one check to item. */
static void copy_result(const struct ration_check *check, struct ration_http_check *item)
{
    item->check = *check;
    item->decision = check->decision;
    item->status = check->status;
    for (uint32_t i = 0; i < check->part_count && !item->request.has_key; i++)
        item->parts[i] = check->parts[i];
    item->check.parts = item->parts;
}

static void load_item(struct ration_http_worker *worker, struct ration_http_async *async,
                      size_t index, size_t *next)
{
    struct ration_http_check *item = &worker->checks[0];

    if (async->is_get)
        item->request = async->request;
    else
        ration_check_json_get(async->checks, index, &item->room, &item->request);
    if (async->statuses[index] == RATION_OK) {
        copy_result(ration_engine_batch_check(async->batch, (*next)++), item);
        return;
    }
    item->status = item->check.status = async->statuses[index];
    item->check.reason = "the server is short of memory";
}

static void write_response(struct ration_http_worker *worker, struct ration_http_async *async)
{
    bool is_batch = !async->is_get && ration_check_json_is_batch(async->checks);
    struct ration_http_answer answer;
    struct ration_json json;
    size_t next = 0;

    ration_service_durations_end(&worker->loop_worker->durations, async->began_ns, async->count);
    if (!is_batch) {
        load_item(worker, async, 0, &next);
        if (async->is_get)
            ration_http_answer_get(worker, &worker->checks[0], async->deny_status, false);
        else
            ration_http_answer_one(worker, &worker->checks[0]);
        return;
    }
    ration_http_worker_begin(worker, &answer, 200);
    ration_http_answer_body(&answer, "application/json");
    ration_json_init(&json, worker->output);
    ration_check_answer_begin_batch(&json);
    for (size_t i = 0; i < async->count; i++) {
        load_item(worker, async, i, &next);
        ration_http_write_check(&json, &worker->checks[0]);
    }
    ration_check_answer_end_batch(&json);
    ration_http_answer_end(&answer);
}

static void on_decided(void *context)
{
    struct ration_connection *connection = context;
    struct ration_http_session *session = ration_connection_state(connection);
    struct ration_http_worker *worker = ration_http_worker_resume(connection);
    struct ration_http_async *async = session->async;
    size_t size_before = worker->output->size;

    session->async = NULL;
    ration_service_publish_redis(worker->loop_worker);
    write_response(worker, async);
    ration_http_worker_replace_failed(worker, size_before);
    free_async(async);
    ration_http_worker_end_async(worker);
}

/* Requests ------------------------------------------------------------------------------------- */

static ration_status add_request(const struct ration_http_worker *worker,
                                 struct ration_http_async *async,
                                 const struct ration_check_request *request)
{
    struct ration_check check = {
        .attributes = request->attributes,
        .attribute_count = request->attribute_count,
        .cost_tokens = request->tokens,
        .is_peek = request->kind == RATION_CHECK_PEEK,
    };
    ration_status status;

    if (!request->has_key)
        return ration_engine_batch_add(async->batch, &check);
    status = ration_service_check_inline(worker->service, &request->limit);
    if (status != RATION_OK)
        return status;
    return ration_engine_batch_add_inline(async->batch, &request->key, &request->limit,
                                          request->tokens, request->kind == RATION_CHECK_PEEK);
}

/* Adds the next check to the batch, and charges its match steps to the connection. */
static void add_next(const struct ration_http_worker *worker, struct ration_http_async *async,
                     const struct ration_check_request *request)
{
    ration_status status = add_request(worker, async, request);

    async->statuses[async->added_count++] = status;
    if (status == RATION_OK && !request->has_key)
        ration_connection_charge(
            async->connection,
            ration_engine_batch_check(async->batch, ration_engine_batch_count(async->batch) - 1)
                ->match_steps);
}

/* NULL: no memory, and the request is answered. */
static struct ration_http_async *make_async(struct ration_http_worker *worker,
                                            const struct ration_engine_guard *guard, size_t count)
{
    struct ration_http_async *async = calloc(1, sizeof(*async));

    if (async != NULL) {
        async->count = count;
        async->connection = worker->connection;
        async->statuses = calloc(count, sizeof(async->statuses[0]));
        async->batch = ration_engine_batch_create(worker->loop_worker->engine_connection, guard,
                                                  ration_http_worker_now(worker), on_decided,
                                                  worker->connection);
        async->began_ns = ration_service_durations_begin(&worker->loop_worker->durations);
        if (async->statuses != NULL && async->batch != NULL)
            return async;
        free_async(async);
    }
    ration_http_worker_problem(worker, 503, "The server is short of memory.", NULL);
    return NULL;
}

static void send_batch(struct ration_http_worker *worker, struct ration_http_async *async)
{
    struct ration_http_session *session = ration_connection_state(worker->connection);

    if (ration_engine_batch_send(async->batch)) {
        ration_service_publish_redis(worker->loop_worker);
        write_response(worker, async);
        free_async(async);
        return;
    }
    session->async = async;
    ration_connection_pause(worker->connection);
}

void ration_http_get_async(struct ration_http_worker *worker,
                           const struct ration_engine_guard *guard,
                           const struct ration_http_check *item, unsigned deny_status)
{
    struct ration_http_async *async = make_async(worker, guard, 1);

    if (async == NULL)
        return;
    async->is_get = true;
    async->deny_status = deny_status;
    add_next(worker, async, &item->request);
    async->request = item->request;
    send_batch(worker, async);
}

/* Adds as many checks as the remaining match steps permit. True: all are added. */
static bool add_some(struct ration_http_worker *worker, struct ration_http_async *async)
{
    struct ration_http_check *item = &worker->checks[0];

    do {
        ration_check_json_get(async->checks, async->added_count, &item->room, &item->request);
        add_next(worker, async, &item->request);
    } while (async->added_count < async->count &&
             ration_connection_match_steps_left(async->connection) > 0);
    return async->added_count == async->count;
}

static unsigned add_more(struct ration_job *job)
{
    struct ration_http_async *async = (struct ration_http_async *)job;
    struct ration_connection *connection = async->connection;
    struct ration_loop *loop = ration_connection_loop(connection);
    struct ration_worker *loop_worker = ration_loop_user(loop);

    if (!add_some(loop_worker->http, async))
        ration_loop_queue(loop, job);
    else if (ration_engine_batch_send(async->batch))
        on_decided(connection);
    return RATION_STEP_UNITS_MAX;
}

void ration_http_post_async(struct ration_http_worker *worker, ration_checks *checks)
{
    struct ration_http_session *session = ration_connection_state(worker->connection);
    struct ration_http_async *async = make_async(worker, NULL, ration_check_json_count(checks));

    if (async == NULL) {
        ration_check_json_free(checks);
        return;
    }
    async->checks = checks;
    if (async->count == 0 || add_some(worker, async)) {
        send_batch(worker, async);
        return;
    }
    async->job.step = add_more;
    session->async = async;
    ration_connection_pause(worker->connection);
    ration_loop_queue(ration_connection_loop(worker->connection), &async->job);
}
