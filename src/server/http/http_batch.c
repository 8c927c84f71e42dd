/*
 * http_batch: POST /v1/check and /v1/peek: one check or many in a JSON body.
 */
#include "server/http/http_worker.h"

/* A response to many checks of one request, built in steps. */
struct batch_walk {
    struct ration_walk walk;
    ration_checks *checks; /* owned */
    struct ration_json json;
};

static void begin_batch(struct ration_walk *walk)
{
    struct batch_walk *batch = (struct batch_walk *)walk;

    walk->item_count = ration_check_json_count(batch->checks);
    ration_json_init(&batch->json, &walk->text);
    ration_check_answer_begin_batch(&batch->json);
}

static void visit_batch(struct ration_walk *walk, const struct ration_engine_guard *guard,
                        size_t first, size_t count)
{
    struct batch_walk *batch = (struct batch_walk *)walk;
    struct ration_http_worker *worker = ration_http_worker_take(walk->connection);

    size_t done_count = 0;

    do {
        size_t chunk_count = count - done_count;

        if (chunk_count > RATION_HTTP_CHUNK_CHECKS)
            chunk_count = RATION_HTTP_CHUNK_CHECKS;
        for (size_t i = 0; i < chunk_count; i++)
            ration_check_json_get(batch->checks, first + done_count + i, &worker->checks[i].room,
                                  &worker->checks[i].request);
        chunk_count = ration_http_decide(worker, guard, worker->checks, chunk_count);
        for (size_t i = 0; i < chunk_count; i++)
            ration_http_write_check(&batch->json, &worker->checks[i]);
        done_count += chunk_count;
    } while (done_count < count && ration_connection_match_steps_left(walk->connection) > 0);
    walk->visited_count = done_count;
}

static bool end_batch(struct ration_walk *walk)
{
    ration_check_answer_end_batch(&((struct batch_walk *)walk)->json);
    return true;
}

static void free_batch(struct ration_walk *walk)
{
    ration_http_release_checks(ration_connection_loop(walk->connection),
                               ((struct batch_walk *)walk)->checks);
}

static void answer_batch(struct ration_http_worker *worker, ration_checks *checks)
{
    static const struct ration_walk_kind kind = {.size = sizeof(struct batch_walk),
                                                 .begin = begin_batch,
                                                 .visit = visit_batch,
                                                 .finish = end_batch,
                                                 .head = ration_http_walk_head_json,
                                                 .end = ration_http_walk_end,
                                                 .free = free_batch,
                                                 .has_own_items = true};
    struct ration_walk *walk = ration_http_worker_walk(worker, &kind);

    if (walk == NULL) {
        ration_check_json_free(checks);
        return;
    }
    ((struct batch_walk *)walk)->checks = checks;
    ration_walk_start(walk);
}

static void answer_one(struct ration_http_worker *worker, ration_checks *checks)
{
    struct ration_http_check *item = &worker->checks[0];
    struct ration_engine_guard guard;

    ration_engine_lock(worker->service->engine, &guard);
    ration_check_json_get(checks, 0, &item->room, &item->request);
    (void)ration_http_decide(worker, &guard, item, 1);
    ration_http_answer_one(worker, item);
    ration_engine_unlock(&guard);
    ration_check_json_free(checks);
}

static void answer_checks(struct ration_http_worker *worker, ration_checks *checks)
{
    if (worker->loop_worker->engine_connection != NULL)
        ration_http_post_async(worker, checks);
    else
        (ration_check_json_is_batch(checks) ? answer_batch : answer_one)(worker, checks);
}

void ration_http_post_check(struct ration_http_worker *worker)
{
    ration_http_read_body(worker, RATION_CHECK_TAKE, answer_checks);
}

void ration_http_post_peek(struct ration_http_worker *worker)
{
    ration_http_read_body(worker, RATION_CHECK_PEEK, answer_checks);
}
