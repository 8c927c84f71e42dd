/*
 * story: the calls of the survivors, and the replies that are correct.
 *
 * A program (program.h) is a list of calls by the survivors. The correct replies are computed in one process and
 * without a crash, with the dead process's operation before the first call, before the second, ..., after the last call
 * of the program's head; and without the operation. Whatever the instruction at which a process dies, the survivors must
 * get one of these lists of replies: the operation took place as a whole at one moment, or not at all (R1, R2, R11).
 * The survivors may notice late: the first thread that meets an unfinished change completes it.
 *
 * A process that was only stopped may also finish its operation after the tail, with a now that is days old.
 */
#ifndef RATION_TESTS_CRASH_STORY_H
#define RATION_TESTS_CRASH_STORY_H

#include "program.h"
#include "stepper.h"

/* The position of the dead process's operation in a program. */
#define POSITION_NEVER SIZE_MAX

struct replies {
    size_t position;
    size_t call_count; /* played so far */
    struct seen operation;
    uint64_t overflow_count; /* calls of the program whose key found no place */
    struct seen calls[CALLS_MAX];
};

struct reply_lists {
    size_t count;
    struct replies *all;
};

struct story {
    const struct scenario *scenario;
    struct world world;
    struct stage *stage;
    void *begin; /* the block before the operation */
    struct program programs[PROGRAM_COUNT];
    struct reply_lists correct[PROGRAM_COUNT]; /* of one operation */
    struct reply_lists correct_twice;          /* of two, for PROGRAM_PEEK; computed when needed */
};

enum failure { FAILURE_NONE, FAILURE_HANG, FAILURE_CRASH, FAILURE_WRONG };

extern const char *const failure_names[];

/* Release: story_close(). */
void story_open(struct story *story, const struct scenario *scenario, uint32_t descriptor_count,
                struct stage *stage);
void story_close(struct story *story);

/* The function of a child of stepper_start(): context is the story. Writes its reply to the stage. */
void story_act(void *story);

/* Computes the correct replies if two processes died in the same operation, one after the other. */
void story_open_twice(struct story *story);

/* Plays calls from first to end on the current block. */
enum failure story_play(struct story *story, enum program_kind kind, size_t first, size_t end,
                        struct replies *replies);

/* The state of the process with the operation. */
enum fate {
    FATE_DEAD,
    FATE_ASLEEP, /* it has continued: its own reply must also be correct */
    FATE_ABSENT  /* it has continued so late that it may be denied in any case (R6) */
};

/* Whether the replies are correct. Prints the differences. */
enum failure story_judge(const struct story *story, enum program_kind kind,
                         const struct reply_lists *correct, const struct replies *replies,
                         enum fate fate);

/* Plays the program, or only its head, on the image (NULL: the current block), and checks the replies. */
enum failure story_check(struct story *story, enum program_kind kind,
                         const struct reply_lists *correct, const void *image, bool is_whole);

/* Where to stop: the tail takes most of the time, and is always the same. */
size_t story_end(const struct story *story, enum program_kind kind, bool is_whole);

#endif
