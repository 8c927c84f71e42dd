/*
 * crash: declarations shared by the modes of crash_test.
 */
#ifndef RATION_TESTS_CRASH_CRASH_H
#define RATION_TESTS_CRASH_CRASH_H

#include "story.h"

#define IMAGES_MAX 2000

struct crash_count {
    uint64_t kills;
    uint64_t checks;
};

void crash_stop(const char *what) __attribute__((noreturn));

/* The stage of all children. */
struct stage *crash_stage(void);

/* Whether a child can be traced here. */
bool crash_can_trace(void);

/* Starts a process that begins the story's operation on the current block. */
void crash_start(struct stepper *stepper, struct story *story);

/* Modes with many deaths on one table: lineage.c. */
enum failure crash_run_lineage(struct story *story, struct crash_count *count);
enum failure crash_run_forgotten(struct story *story, struct crash_count *count);
enum failure crash_run_claims(struct story *story, struct crash_count *count);
enum failure crash_run_changer(struct story *story, struct crash_count *count);
enum failure crash_run_zombies(struct story *story, struct crash_count *count);

#endif
