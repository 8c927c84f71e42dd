/*
 * deadlines: many that end, few that differ.
 *
 * All deadlines of a class are equally long, so a class is a queue: who starts last ends last.
 * To start one is to go to the end of the queue, to look for those that have passed is to look at
 * its head, and nothing is sorted. With a class of 10 s:
 *
 *     now 1000  a starts                      a 11000
 *     now 3000  b starts                      a 11000, b 13000
 *     now 4000  a starts again                b 13000, a 14000
 *
 * Moments are milliseconds, given by the caller. Memory is the caller's too: an entry is part of
 * what it watches, and must stop() before that goes.
 */
#ifndef RATION_SERVER_DEADLINES_H
#define RATION_SERVER_DEADLINES_H

#include <stdint.h>

#define RATION_DEADLINE_CLASSES_MAX 32
#define RATION_DEADLINE_NEVER_MS    UINT64_MAX

struct ration_deadline {
    struct ration_deadline *before; /* NULL while it does not run */
    struct ration_deadline *behind;
    uint64_t end_ms;
    unsigned class_index; /* while it runs */
};

struct ration_deadlines {
    struct ration_deadline queues[RATION_DEADLINE_CLASSES_MAX]; /* rings; these are no entries */
    uint64_t lengths_ms[RATION_DEADLINE_CLASSES_MAX];           /* or NEVER */
};

void ration_deadlines_init(struct ration_deadlines *deadlines);

/* How long the class is. Only while none of it runs. */
void ration_deadlines_set_length(struct ration_deadlines *deadlines, unsigned class_index,
                                 uint64_t length_ms);

/* Starts the entry's deadline now, whether or not one runs. A class that never ends stops it. */
void ration_deadlines_start(struct ration_deadlines *deadlines, struct ration_deadline *deadline,
                            unsigned class_index, uint64_t now_ms);

void ration_deadlines_stop(struct ration_deadline *deadline);

/* One whose end is not after now, stopped; NULL if there is none. */
struct ration_deadline *ration_deadlines_passed(struct ration_deadlines *deadlines,
                                                uint64_t now_ms);

/* The one of a class that ends first; NULL if none runs. */
struct ration_deadline *ration_deadlines_first(struct ration_deadlines *deadlines,
                                               unsigned class_index);

/* When the next one ends; RATION_DEADLINE_NEVER_MS if none runs. */
uint64_t ration_deadlines_next_ms(const struct ration_deadlines *deadlines);

#endif
