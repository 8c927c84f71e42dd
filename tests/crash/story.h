/*
 * story: what the survivors do, and which answers they may get.
 *
 * A program (program.h) is a list of calls by those who survive. A telling is what they are
 * answered. The tellings that are right are found by doing, in one process and undisturbed, what
 * the dead one wanted to do before the first call, before the second, ..., after the last of the
 * program's head; and not at all. Whatever the instruction at which a process dies, the survivors
 * must get one of these answers: the dead one has done all it wanted at one moment, or nothing (R1,
 * R2, R11). They may find out late: what is half done is finished by whoever meets it.
 *
 * Who was only asleep may also do it after the tail, with a now that is days old.
 */
#ifndef RATION_TESTS_CRASH_STORY_H
#define RATION_TESTS_CRASH_STORY_H

#include "program.h"
#include "stepper.h"

/* Where in a program the dead one's operation is. */
#define POSITION_NEVER SIZE_MAX

struct telling {
    size_t position;
    size_t call_count; /* that were played so far */
    struct seen operation;
    uint64_t overflow_count; /* calls of the program that found no place */
    struct seen calls[CALLS_MAX];
};

struct tellings {
    size_t count;
    struct telling *all;
};

struct story {
    const struct scenario *scenario;
    struct world world;
    struct stage *stage;
    void *begin; /* the block before the operation */
    struct program programs[PROGRAM_COUNT];
    struct tellings right[PROGRAM_COUNT]; /* of one operation */
    struct tellings right_twice;          /* of two, for PROGRAM_LOOK; empty until asked for */
};

enum failure { FAILURE_NONE, FAILURE_HANG, FAILURE_CRASH, FAILURE_WRONG };

extern const char *const failure_names[];

/* Release: story_close(). */
void story_open(struct story *story, const struct scenario *scenario, uint32_t descriptor_count,
                struct stage *stage);
void story_close(struct story *story);

/* What a child of stepper_start() does: context is the story. The answer goes to the stage. */
void story_act(void *story);

/* The answers that are right if two processes died in the same operation, one after the other. */
void story_open_twice(struct story *story);

/* Plays calls from first to end on the block as it is. */
enum failure story_play(struct story *story, enum program_kind kind, size_t first, size_t end,
                        struct telling *telling);

/* What became of the process with the operation. */
enum fate {
    FATE_DEAD,
    FATE_ASLEEP, /* it has gone on: what it was answered must be right too */
    FATE_ABSENT  /* it has gone on so late that it may be denied in any case (R6) */
};

/* Whether the answers are right. Prints what is wrong. */
enum failure story_judge(const struct story *story, enum program_kind kind,
                         const struct tellings *right, const struct telling *telling,
                         enum fate fate);

/* Plays the program, or only its head, on the image (NULL: the block as it is), and judges it. */
enum failure story_check(struct story *story, enum program_kind kind, const struct tellings *right,
                         const void *image, bool is_whole);

/* Where to end: the tail takes most of the time, and is always the same. */
size_t story_end(const struct story *story, enum program_kind kind, bool is_whole);

#endif
