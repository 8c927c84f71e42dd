/*
 * walk: a reply that looks at many limits or decides many checks, made in steps.
 *
 * A loop serves all of its connections, so no request may keep it for long. A walk looks at
 * RATION_STEP_UNITS_MAX items at a time and collects the reply in memory of its own; meanwhile its
 * connection is held, and the loop serves others. A walk that needs no more than one step is done at
 * once: with a few dozen limits nothing waits.
 *
 *     struct my_walk { struct ration_walk walk; ... };
 *     walk = ration_walk_create(connection, service, &my_kind, &session->walk);
 *     ... fill in my members ...
 *     ration_walk_start(walk);        the reply is written, now or later, and walk is gone
 *
 * A walk over limits belongs to one policy. It holds no guard between its steps, since a reload waits for
 * guards; if the policy has changed it begins again, and after RATION_WALK_BEGINS_MAX times gives up.
 */
#ifndef RATION_SERVER_WALK_H
#define RATION_SERVER_WALK_H

#include "server/service.h"

#define RATION_WALK_BEGINS_MAX 8
#define RATION_WALK_SEND_BYTES 131072 /* of the reply that one step hands to the connection */

struct ration_walk;

/* What a kind of walk does. The text of walk is the reply, or its body. */
struct ration_walk_kind {
    size_t size; /* of the struct that begins with a ration_walk */

    /* Sets item_count where items are no limits. Called again, with an empty text, if the policy changed. */
    void (*begin)(struct ration_walk *walk);
    /*
     * Looks at items first to first + count - 1, or at fewer (at least one) if they cost much: then it
     * lowers walk->visited_count, which is count, and the step ends.
     */
    void (*visit)(struct ration_walk *walk, const struct ration_visit *visit, size_t first,
                  size_t count);
    /* What is left behind the last item: one bounded step of it. True: nothing more. May be NULL. */
    bool (*rest)(struct ration_walk *walk);
    /* Writes what comes before the text, whose size is now known, or an error if is_failed. */
    void (*head)(struct ration_walk *walk, struct ration_output *output);
    /* All is written: the connection goes on or is closed, and may be gone after. */
    void (*end)(struct ration_connection *connection);
    void (*free)(struct ration_walk *walk); /* members that are owned; may be NULL */

    bool has_own_items; /* items are not the policy's limits, and a new policy does not matter */
};

struct ration_walk {
    struct ration_job job;
    const struct ration_walk_kind *kind;
    struct ration_service *service;
    struct ration_connection *connection;
    struct ration_walk **place; /* in the connection's state; NULL there when the walk is gone */
    uint64_t generation;        /* of the policy whose limits these are */
    size_t item_count;
    size_t next_item;
    size_t visited_count; /* by the last visit() */
    unsigned begin_count;
    bool is_collected;
    bool is_failed; /* no memory, or the policy changed too often: no text is sent */
    bool is_silent; /* set before the start, or by head: no text is sent */
    bool has_head;
    size_t sent_bytes;
    size_t accounted_bytes; /* of the connection's memory, for the text */
    struct ration_output text;
};

/* NULL: no memory. The walk is zeroed behind its first member, and belongs to *place until it is gone. */
struct ration_walk *ration_walk_create(struct ration_connection *connection,
                                       struct ration_service *service,
                                       const struct ration_walk_kind *kind,
                                       struct ration_walk **place);

/* Holds the connection and takes the first step; kind->end() resumes it, perhaps before this returns. */
void ration_walk_start(struct ration_walk *walk);

/* The connection closes. NULL is fine. */
void ration_walk_free(struct ration_walk *walk);

#endif
