/*
 * deadlines: many deadlines of few different lengths.
 *
 * All deadlines of a class are equally long, so a class is a queue: the one that starts last expires last.
 * Starting a deadline appends it to the queue; expired ones are found at the head; nothing is
 * sorted. With a class of 10 s:
 *
 *     now 1000  a starts                      a 11000
 *     now 3000  b starts                      a 11000, b 13000
 *     now 4000  a starts again                b 13000, a 14000
 *
  * Times are milliseconds, passed by the caller. Entries are the caller's memory, part of the object that they
 * watch; the caller must call stop() before it frees that object. Not thread-safe.
 */
#ifndef RATION_SERVER_NET_DEADLINES_H
#define RATION_SERVER_NET_DEADLINES_H

#include <stdint.h>

#define RATION_DEADLINE_CLASSES_MAX 32
#define RATION_DEADLINE_NEVER_MS    UINT64_MAX

struct ration_deadline {
    struct ration_deadline *before; /* NULL: not running */
    struct ration_deadline *behind;
    uint64_t end_ms;
    unsigned class_index; /* valid while running */
};

struct ration_deadlines {
    struct ration_deadline queues[RATION_DEADLINE_CLASSES_MAX]; /* heads of rings */
    uint64_t lengths_ms[RATION_DEADLINE_CLASSES_MAX];           /* or RATION_DEADLINE_NEVER_MS */
};

void ration_deadlines_init(struct ration_deadlines *deadlines);

/* Sets the length of a class. No deadline of the class may be running. */
void ration_deadlines_set_length(struct ration_deadlines *deadlines, unsigned class_index,
                                 uint64_t length_ms);

/* Starts the deadline at now_ms, also if it is running. In a class with RATION_DEADLINE_NEVER_MS, stops it. */
void ration_deadlines_start(struct ration_deadlines *deadlines, struct ration_deadline *deadline,
                            unsigned class_index, uint64_t now_ms);

void ration_deadlines_stop(struct ration_deadline *deadline);

/* Stops and returns one deadline that has expired at now_ms; NULL if there is none. */
struct ration_deadline *ration_deadlines_passed(struct ration_deadlines *deadlines,
                                                uint64_t now_ms);

/* The deadline of a class that expires first; NULL if none is running. */
struct ration_deadline *ration_deadlines_first(struct ration_deadlines *deadlines,
                                               unsigned class_index);

/* When the next deadline expires; RATION_DEADLINE_NEVER_MS if none is running. */
uint64_t ration_deadlines_next_ms(const struct ration_deadlines *deadlines);

#endif
