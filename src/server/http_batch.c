/*
 * http_batch: checks that come in a body, one or many of them.
 */
#include "server/http_desk.h"

/* Many checks of one request, in steps. */
struct batch_walk {
    struct ration_walk walk;
    ration_checks *checks; /* owned */
    struct ration_json json;
};

static void begin_batch(struct ration_walk *walk)
{
    struct batch_walk *batch = (struct batch_walk *)walk;

    walk->item_count = ration_checks_count(batch->checks);
    ration_json_init(&batch->json, &walk->text);
    ration_check_answer_begin_batch(&batch->json);
}

static void visit_batch(struct ration_walk *walk, const struct ration_visit *visit, size_t first,
                        size_t count)
{
    struct batch_walk *batch = (struct batch_walk *)walk;
    struct ration_http_desk *desk = ration_http_desk_take(walk->connection);

    size_t done = 0;

    do {
        size_t some = count - done;

        if (some > RATION_HTTP_CHUNK_CHECKS)
            some = RATION_HTTP_CHUNK_CHECKS;
        for (size_t i = 0; i < some; i++)
            ration_checks_get(batch->checks, first + done + i, &desk->checks[i].room,
                              &desk->checks[i].asked);
        some = ration_http_decide(desk, visit, desk->checks, some);
        for (size_t i = 0; i < some; i++)
            ration_http_write_check(&batch->json, &desk->checks[i]);
        done += some;
    } while (done < count && ration_connection_match_steps_left(walk->connection) > 0);
    walk->visited_count = done;
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

static void answer_batch(struct ration_http_desk *desk, ration_checks *checks)
{
    static const struct ration_walk_kind kind = {.size = sizeof(struct batch_walk),
                                                 .begin = begin_batch,
                                                 .visit = visit_batch,
                                                 .rest = end_batch,
                                                 .head = ration_http_walk_head_json,
                                                 .end = ration_http_walk_end,
                                                 .free = free_batch,
                                                 .has_own_items = true};
    struct ration_walk *walk = ration_http_desk_walk(desk, &kind);

    if (walk == NULL) {
        ration_checks_free(checks);
        return;
    }
    ((struct batch_walk *)walk)->checks = checks;
    ration_walk_start(walk);
}

static void answer_one(struct ration_http_desk *desk, ration_checks *checks)
{
    struct ration_http_check *item = &desk->checks[0];
    struct ration_visit visit;

    ration_gate_enter(desk->service->gate, &visit);
    ration_checks_get(checks, 0, &item->room, &item->asked);
    (void)ration_http_decide(desk, &visit, item, 1);
    ration_http_answer_one(desk, item);
    ration_gate_leave(&visit);
    ration_checks_free(checks);
}

static void answer_checks(struct ration_http_desk *desk, ration_checks *checks)
{
    if (desk->part->link != NULL)
        ration_http_post_later(desk, checks);
    else
        (ration_checks_is_batch(checks) ? answer_batch : answer_one)(desk, checks);
}

void ration_http_post_check(struct ration_http_desk *desk)
{
    ration_http_read_body(desk, RATION_CHECK_TAKE, answer_checks);
}

void ration_http_post_peek(struct ration_http_desk *desk)
{
    ration_http_read_body(desk, RATION_CHECK_PEEK, answer_checks);
}
