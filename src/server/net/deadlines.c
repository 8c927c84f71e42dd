#include "server/net/deadlines.h"

#include <stddef.h>

void ration_deadlines_init(struct ration_deadlines *deadlines)
{
    for (unsigned i = 0; i < RATION_DEADLINE_CLASSES_MAX; i++) {
        struct ration_deadline *queue = &deadlines->queues[i];

        queue->before = queue->behind = queue;
        deadlines->lengths_ms[i] = RATION_DEADLINE_NEVER_MS;
    }
}

void ration_deadlines_set_length(struct ration_deadlines *deadlines, unsigned class_index,
                                 uint64_t length_ms)
{
    deadlines->lengths_ms[class_index] = length_ms;
}

void ration_deadlines_stop(struct ration_deadline *deadline)
{
    if (deadline->before == NULL)
        return;
    deadline->before->behind = deadline->behind;
    deadline->behind->before = deadline->before;
    deadline->before = NULL;
}

static void append_deadline(struct ration_deadline *queue, struct ration_deadline *deadline)
{
    deadline->before = queue->before;
    deadline->behind = queue;
    queue->before->behind = deadline;
    queue->before = deadline;
}

void ration_deadlines_start(struct ration_deadlines *deadlines, struct ration_deadline *deadline,
                            unsigned class_index, uint64_t now_ms)
{
    uint64_t length_ms = deadlines->lengths_ms[class_index];
    uint64_t end_ms = now_ms + length_ms;

    if (length_ms == RATION_DEADLINE_NEVER_MS) {
        ration_deadlines_stop(deadline);
        return;
    }
    /* Many requests arrive within one millisecond: only the first moves the deadline. */
    if (deadline->before != NULL && deadline->class_index == class_index &&
        deadline->end_ms == end_ms)
        return;
    ration_deadlines_stop(deadline);
    deadline->class_index = class_index;
    deadline->end_ms = end_ms;
    append_deadline(&deadlines->queues[class_index], deadline);
}

struct ration_deadline *ration_deadlines_passed(struct ration_deadlines *deadlines, uint64_t now_ms)
{
    for (unsigned i = 0; i < RATION_DEADLINE_CLASSES_MAX; i++) {
        struct ration_deadline *first = deadlines->queues[i].behind;

        if (first != &deadlines->queues[i] && first->end_ms <= now_ms) {
            ration_deadlines_stop(first);
            return first;
        }
    }
    return NULL;
}

struct ration_deadline *ration_deadlines_first(struct ration_deadlines *deadlines,
                                               unsigned class_index)
{
    struct ration_deadline *first = deadlines->queues[class_index].behind;

    return first != &deadlines->queues[class_index] ? first : NULL;
}

uint64_t ration_deadlines_next_ms(const struct ration_deadlines *deadlines)
{
    uint64_t next_ms = RATION_DEADLINE_NEVER_MS;

    for (unsigned i = 0; i < RATION_DEADLINE_CLASSES_MAX; i++) {
        const struct ration_deadline *first = deadlines->queues[i].behind;

        if (first != &deadlines->queues[i] && first->end_ms < next_ms)
            next_ms = first->end_ms;
    }
    return next_ms;
}
