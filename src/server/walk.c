#include "server/walk.h"

#include <stdlib.h>

static unsigned step(struct ration_job *job);

struct ration_walk *ration_walk_create(struct ration_connection *connection,
                                       struct ration_service *service,
                                       const struct ration_walk_kind *kind,
                                       struct ration_walk **place)
{
    struct ration_walk *walk = calloc(1, kind->size);

    if (walk == NULL)
        return NULL;
    walk->job.step = step;
    walk->kind = kind;
    walk->service = service;
    walk->connection = connection;
    walk->place = place;
    ration_output_init(&walk->text, ration_connection_output(connection)->bytes_max);
    *place = walk;
    return walk;
}

void ration_walk_free(struct ration_walk *walk)
{
    if (walk == NULL)
        return;
    ration_job_cancel(&walk->job);
    if (walk->kind->free != NULL)
        walk->kind->free(walk);
    ration_output_done(&walk->text);
    (void)ration_connection_account(walk->connection, &walk->accounted_bytes, 0);
    *walk->place = NULL;
    free(walk);
}

/* Begins with the policy that there is now. False: it changes too often. */
static bool begin(struct ration_walk *walk, const struct ration_visit *visit)
{
    if (walk->begin_count == RATION_WALK_BEGINS_MAX)
        return false;
    walk->begin_count++;
    walk->generation = ration_gate_generation(visit);
    walk->next_item = 0;
    if (!walk->kind->has_own_items)
        walk->item_count = ration_policy_limit_count(ration_gate_policy(visit));
    ration_output_done(&walk->text);
    walk->kind->begin(walk);
    return true;
}

/* Looks at some items more. Returns the units. */
static size_t visit_some(struct ration_walk *walk)
{
    struct ration_visit visit;
    size_t count = 0;

    ration_gate_enter(walk->service->gate, &visit);
    if (walk->begin_count == 0 ||
        (!walk->kind->has_own_items && walk->generation != ration_gate_generation(&visit)))
        walk->is_failed |= !begin(walk, &visit);
    if (!walk->is_failed) {
        count = walk->item_count - walk->next_item;
        count = count < RATION_STEP_UNITS_MAX ? count : RATION_STEP_UNITS_MAX;
        walk->visited_count = count;
        walk->kind->visit(walk, &visit, walk->next_item, count);
        walk->next_item += walk->visited_count;
        if (walk->visited_count < count)
            count = RATION_STEP_UNITS_MAX;
    }
    ration_gate_leave(&visit);
    return count;
}

/* One step of making the text. Returns its units. */
static unsigned collect(struct ration_walk *walk)
{
    unsigned units = RATION_STEP_UNITS_MAX;

    if (walk->begin_count == 0 || walk->next_item < walk->item_count) {
        units = (unsigned)visit_some(walk);
        walk->is_collected = walk->kind->rest == NULL && walk->next_item == walk->item_count;
    } else {
        walk->is_collected = walk->kind->rest == NULL || walk->kind->rest(walk);
    }
    walk->is_failed |=
        walk->text.is_failed || !ration_connection_account(walk->connection, &walk->accounted_bytes,
                                                           walk->text.allocated_bytes);
    walk->is_collected |= walk->is_failed;
    return units;
}

/* Hands a part of the reply to the connection. True: that was all. */
static bool write_some(struct ration_walk *walk)
{
    struct ration_output *output = ration_connection_output(walk->connection);
    size_t size;

    if (!walk->has_head)
        walk->kind->head(walk, output);
    ration_connection_set_partial(walk->connection, walk->has_head);
    walk->has_head = true;
    if (walk->is_failed || walk->is_silent)
        return true;
    size = walk->text.size - walk->sent_bytes;
    size = size < RATION_WALK_SEND_BYTES ? size : RATION_WALK_SEND_BYTES;
    ration_output_append(output, walk->text.bytes + walk->sent_bytes, size);
    walk->sent_bytes += size;
    return walk->sent_bytes == walk->text.size;
}

/* The connection may be gone after a flush, and the walk with it. */
static unsigned step(struct ration_job *job)
{
    struct ration_walk *walk = (struct ration_walk *)job;
    struct ration_connection *connection = walk->connection;
    void (*end)(struct ration_connection *) = walk->kind->end;
    unsigned units = 0;

    while (!walk->is_collected && units < RATION_STEP_UNITS_MAX)
        units += collect(walk);
    if (!walk->is_collected || !write_some(walk)) {
        ration_loop_queue(ration_connection_loop(connection), job);
        ration_connection_flush(connection);
        return units > 0 ? units : RATION_STEP_UNITS_MAX;
    }
    ration_walk_free(walk);
    end(connection);
    return units > 0 ? units : 1;
}

void ration_walk_start(struct ration_walk *walk)
{
    ration_connection_hold(walk->connection);
    (void)step(&walk->job);
}
