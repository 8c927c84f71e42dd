#include "server/ops/walk.h"

#include <stdlib.h>

static unsigned run_step(struct ration_job *job);

struct ration_walk *ration_walk_create(struct ration_connection *connection,
                                       struct ration_service *service,
                                       const struct ration_walk_kind *kind,
                                       struct ration_walk **owner)
{
    struct ration_walk *walk = calloc(1, kind->size);

    if (walk == NULL)
        return NULL;
    walk->job.step = run_step;
    walk->kind = kind;
    walk->service = service;
    walk->connection = connection;
    walk->owner = owner;
    ration_output_init(&walk->text, ration_connection_output(connection)->bytes_max);
    *owner = walk;
    return walk;
}

void ration_walk_free(struct ration_walk *walk)
{
    if (walk == NULL)
        return;
    ration_loop_cancel_job(&walk->job);
    if (walk->kind->free != NULL)
        walk->kind->free(walk);
    ration_output_done(&walk->text);
    (void)ration_buffer_account(walk->connection, &walk->accounted_bytes, 0);
    *walk->owner = NULL;
    free(walk);
}

/* Begins, or begins again, with the current policy. False: the policy changes too often. */
static bool begin_walk(struct ration_walk *walk, const struct ration_engine_guard *guard)
{
    if (walk->begin_count == RATION_WALK_BEGINS_MAX)
        return false;
    walk->begin_count++;
    walk->generation = ration_engine_generation(guard);
    walk->next_item = 0;
    if (!walk->kind->has_own_items)
        walk->item_count = ration_policy_limit_count(ration_engine_policy(guard));
    ration_output_done(&walk->text);
    walk->kind->begin(walk);
    return true;
}

/* Visits the next items. Returns the units of work. */
static size_t visit_items(struct ration_walk *walk)
{
    struct ration_engine_guard guard;
    size_t count = 0;

    ration_engine_lock(walk->service->engine, &guard);
    if (walk->begin_count == 0 ||
        (!walk->kind->has_own_items && walk->generation != ration_engine_generation(&guard)))
        walk->is_failed |= !begin_walk(walk, &guard);
    if (!walk->is_failed) {
        count = walk->item_count - walk->next_item;
        count = count < RATION_STEP_UNITS_MAX ? count : RATION_STEP_UNITS_MAX;
        walk->visited_count = count;
        walk->kind->visit(walk, &guard, walk->next_item, count);
        walk->next_item += walk->visited_count;
        if (walk->visited_count < count)
            count = RATION_STEP_UNITS_MAX;
    }
    ration_engine_unlock(&guard);
    return count;
}

/* Runs one step of building the text. Returns its units of work. */
static unsigned build_text(struct ration_walk *walk)
{
    unsigned units = RATION_STEP_UNITS_MAX;

    if (walk->begin_count == 0 || walk->next_item < walk->item_count) {
        units = (unsigned)visit_items(walk);
        walk->is_collected = walk->kind->finish == NULL && walk->next_item == walk->item_count;
    } else {
        walk->is_collected = walk->kind->finish == NULL || walk->kind->finish(walk);
    }
    walk->is_failed |=
        walk->text.is_failed || !ration_buffer_account(walk->connection, &walk->accounted_bytes,
                                                       walk->text.allocated_bytes);
    walk->is_collected |= walk->is_failed;
    return units;
}

/* Copies a part of the reply to the connection's output. True: that was the last. */
static bool write_part(struct ration_walk *walk)
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

/* The job of a walk. A flush may free the connection, and the walk with it. */
static unsigned run_step(struct ration_job *job)
{
    struct ration_walk *walk = (struct ration_walk *)job;
    struct ration_connection *connection = walk->connection;
    void (*end)(struct ration_connection *) = walk->kind->end;
    unsigned units = 0;

    while (!walk->is_collected && units < RATION_STEP_UNITS_MAX)
        units += build_text(walk);
    if (!walk->is_collected || !write_part(walk)) {
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
    ration_connection_pause(walk->connection);
    (void)run_step(&walk->job);
}
