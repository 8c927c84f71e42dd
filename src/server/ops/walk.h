/*
 * walk: a reply that visits many limits or decides many checks, built in steps.
 *
 * A loop serves all of its connections, so no request may occupy it for long. A walk visits at most
 * RATION_STEP_UNITS_MAX items per step and collects the reply in a buffer of its own; meanwhile its
 * connection is paused, and the loop serves others. A walk that needs only one step completes at once:
 * with a few dozen limits the client does not wait.
 *
 *     struct my_walk { struct ration_walk walk; ... };
 *     walk = ration_walk_create(connection, service, &my_kind, &session->walk);
 *     ... fill in my members ...
 *     ration_walk_start(walk);        the reply is written, now or later, and walk is freed
 *
 * A walk over limits is valid for one policy. It does not hold a guard between its steps, since a reload waits
 * for guards. If the policy has changed, the walk begins again; it fails after RATION_WALK_BEGINS_MAX attempts.
 */
#ifndef RATION_SERVER_OPS_WALK_H
#define RATION_SERVER_OPS_WALK_H

#include "server/ops/service.h"

#define RATION_WALK_BEGINS_MAX 8
#define RATION_WALK_SEND_BYTES 131072 /* of the reply, copied to the connection in one step */

struct ration_walk;

/* The functions of a kind of walk. walk->text is the reply, or its body. */
struct ration_walk_kind {
    size_t size; /* of the struct whose first member is a struct ration_walk */

    /* Sets item_count if has_own_items. Called again, with an empty text, if the policy has changed. */
    void (*begin)(struct ration_walk *walk);
    /*
     * Visits items first to first + count - 1, or fewer (at least one) if they are expensive: then it lowers
     * walk->visited_count, which is set to count before the call, and the step ends.
     */
    void (*visit)(struct ration_walk *walk, const struct ration_engine_guard *guard, size_t first,
                  size_t count);
    /* Called after the last item: one bounded step of what remains to be written. True: done. May be NULL. */
    bool (*finish)(struct ration_walk *walk);
    /* Writes the part of the reply before the text, whose size is now known, or an error if is_failed. */
    void (*head)(struct ration_walk *walk, struct ration_output *output);
    /* Called after the reply is written and the walk freed: resumes or closes the connection, which may free it. */
    void (*end)(struct ration_connection *connection);
    void (*free)(struct ration_walk *walk); /* frees members that the walk owns; may be NULL */

    /* Items are not the policy's limits, so a new policy does not restart the walk. */
    bool has_own_items;
};

struct ration_walk {
    struct ration_job job;
    const struct ration_walk_kind *kind;
    struct ration_service *service;
    struct ration_connection *connection;
    struct ration_walk *
        *owner; /* the pointer in the connection's state; set to NULL when the walk is freed */
    uint64_t generation; /* of the policy whose limits are visited */
    size_t item_count;
    size_t next_item;
    size_t visited_count; /* by the last kind->visit() */
    unsigned begin_count;
    bool is_collected;
    bool is_failed; /* no memory, or the policy changed too often: the text is not sent */
    bool is_silent; /* set before the start, or by kind->head(): the text is not sent */
    bool has_head;  /* kind->head() was called */
    size_t sent_bytes;
    size_t accounted_bytes; /* of connection memory, for the text */
    struct ration_output text;
};

/* Creates a walk, and stores it in *owner. Members after struct ration_walk are zero. NULL: no memory. */
struct ration_walk *ration_walk_create(struct ration_connection *connection,
                                       struct ration_service *service,
                                       const struct ration_walk_kind *kind,
                                       struct ration_walk **owner);

/* Pauses the connection and runs the first step; kind->end() resumes it, perhaps before this returns. */
void ration_walk_start(struct ration_walk *walk);

/* Frees a walk, for a connection that closes. walk may be NULL. */
void ration_walk_free(struct ration_walk *walk);

#endif
