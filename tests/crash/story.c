#include "story.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "watchdog.h"

const char *const failure_names[] = {"none", "hang", "crash", "wrong"};

static void *allocate(size_t size)
{
    void *memory = calloc(1, size);

    if (memory == NULL)
        abort();
    return memory;
}

/* Replies. ------------------------------------------------------------------------------- */

static void play(struct story *story, const struct program *program, size_t first, size_t end,
                 struct replies *replies)
{
    uint64_t overflow_count = world_overflow_count(&story->world);

    for (size_t i = first; i < end; i++)
        replies->calls[i] = program_call(program, i, &story->world);
    replies->call_count = end;
    replies->overflow_count += world_overflow_count(&story->world) - overflow_count;
}

static void do_operation(struct story *story, struct replies *replies)
{
    struct answer answer = {0};

    story->scenario->act(&story->world, &answer);
    replies->operation = seen_of(&answer);
}

/* Finds the correct replies with the operation at these two positions. */
static void find_correct(struct story *story, const struct program *program, size_t first,
                         size_t second, struct replies *replies)
{
    world_restore(&story->world, story->begin);
    replies->position = first;
    for (size_t position = 0; position <= program->call_count; position++) {
        if (position == first)
            do_operation(story, replies);
        if (position == second)
            do_operation(story, replies);
        if (position < program->call_count)
            play(story, program, position, position + 1, replies);
    }
}

void story_open(struct story *story, const struct scenario *scenario, uint32_t descriptor_count,
                struct stage *stage)
{
    memset(story, 0, sizeof(*story));
    story->scenario = scenario;
    story->stage = stage;
    world_open(&story->world, scenario->world, descriptor_count);
    scenario->prepare(&story->world);
    story->begin = allocate(world_size(&story->world));
    world_save(&story->world, story->begin);
    for (enum program_kind kind = 0; kind < PROGRAM_COUNT; kind++) {
        struct program *program = &story->programs[kind];
        struct reply_lists *correct = &story->correct[kind];

        program_build(program, kind, scenario, &story->world);
        correct->count = program->head_count + 3;
        correct->all = allocate(correct->count * sizeof(*correct->all));
        for (size_t i = 0; i <= program->head_count; i++)
            find_correct(story, program, i, POSITION_NEVER, &correct->all[i]);
        find_correct(story, program, program->tail_end, POSITION_NEVER,
                     &correct->all[program->head_count + 1]);
        find_correct(story, program, POSITION_NEVER, POSITION_NEVER,
                     &correct->all[program->head_count + 2]);
    }
    world_restore(&story->world, story->begin);
}

void story_open_twice(struct story *story)
{
    const struct program *program = &story->programs[PROGRAM_PEEK];
    size_t end = program->head_count + 1; /* means never */
    struct reply_lists *correct = &story->correct_twice;

    correct->all = allocate((end + 1) * (end + 2) / 2 * sizeof(*correct->all));
    for (size_t i = 0; i <= end; i++)
        for (size_t k = i; k <= end; k++)
            find_correct(story, program, i < end ? i : POSITION_NEVER, k < end ? k : POSITION_NEVER,
                         &correct->all[correct->count++]);
}

void story_close(struct story *story)
{
    for (size_t i = 0; i < PROGRAM_COUNT; i++)
        free(story->correct[i].all);
    free(story->correct_twice.all);
    free(story->begin);
    world_close(&story->world);
}

void story_act(void *context)
{
    struct story *story = context;

    story->scenario->act(&story->world, (struct answer *)(void *)story->stage->room);
}

/* Comparison. ----------------------------------------------------------------------------- */

struct playing {
    struct story *story;
    const struct program *program;
    size_t first;
    size_t end;
    struct replies *replies;
};

static void play_guarded(void *context)
{
    struct playing *playing = context;

    play(playing->story, playing->program, playing->first, playing->end, playing->replies);
}

enum failure story_play(struct story *story, enum program_kind kind, size_t first, size_t end,
                        struct replies *replies)
{
    struct playing playing = {story, &story->programs[kind], first, end, replies};

    switch (watchdog_run(play_guarded, &playing)) {
    case WATCHDOG_HUNG:
        return FAILURE_HANG;
    case WATCHDOG_CRASHED:
        return FAILURE_CRASH;
    default:
        return FAILURE_NONE;
    }
}

static bool is_same(const struct seen *a, const struct seen *b)
{
    return memcmp(a, b, sizeof(*a)) == 0;
}

/* The number of calls, from the first on, whose replies agree: of one limiter, or of all (UINT32_MAX). */
static size_t agreement(const struct program *program, const struct replies *correct,
                        const struct replies *replies, uint32_t limiter_index)
{
    size_t i = 0;

    for (; i < replies->call_count; i++)
        if ((limiter_index == UINT32_MAX || program->calls[i].limiter_index == limiter_index) &&
            !is_same(&correct->calls[i], &replies->calls[i]))
            break;
    return i;
}

static void print_seen(const char *name, const struct seen *seen)
{
    printf("    %s: status %d, verdict %d,", name, seen->status, (int)seen->verdict);
    for (size_t i = 0; i < SEEN_RULES_MAX; i++)
        printf(" %" PRIu64 " (%" PRIu64 ")", seen->rules[i].remaining, seen->rules[i].reset_ns);
    printf("\n");
}

static void explain(const struct story *story, enum program_kind kind,
                    const struct replies *correct, const struct replies *replies,
                    size_t agreed_count)
{
    const struct program *program = &story->programs[kind];

    printf("  %s: an impossible reply, program %s, call %zu of %zu\n", story->scenario->name,
           program_names[kind], agreed_count, program->call_count);
    if (agreed_count < replies->call_count) {
        const struct call *call = &program->calls[agreed_count];

        printf("    limiter %u, key %u, cost %u, after %" PRId64 " ns\n", call->limiter_index,
               call->key, call->cost, call->after_ns);
        print_seen("reported ", &replies->calls[agreed_count]);
        print_seen("correct", &correct->calls[agreed_count]);
    }
    printf("    overflows: %" PRIu64 " reported, %" PRIu64 " correct\n", replies->overflow_count,
           correct->overflow_count);
    print_seen("operation, reported ", &replies->operation);
    print_seen("operation, correct", &correct->operation);
}

/* A peek with a stale now never reports more than is correct. */
static enum failure judge_stale(const struct story *story, const struct reply_lists *correct,
                                const struct replies *replies)
{
    for (size_t i = 0; i < story->programs[PROGRAM_STALE].call_count; i++)
        for (size_t rule = 0; rule < SEEN_RULES_MAX; rule++) {
            uint64_t most = 0;

            for (size_t k = 0; k < correct->count; k++)
                if (correct->all[k].calls[i].rules[rule].remaining > most)
                    most = correct->all[k].calls[i].rules[rule].remaining;
            if (replies->calls[i].rules[rule].remaining > most) {
                explain(story, PROGRAM_STALE, &correct->all[0], replies, i);
                return FAILURE_WRONG;
            }
        }
    return FAILURE_NONE;
}

/*
 * Whether a process that has continued got the reply in these replies. If a stack denies, only the verdict counts: the
 * process has read one limiter after the other, and need not read them again.
 */
static bool answers_as(const struct story *story, const struct program *program,
                       const struct replies *correct, const struct replies *replies, enum fate fate)
{
    bool is_denied = replies->operation.verdict == RATION_DENY;

    if (fate == FATE_DEAD || (fate == FATE_ABSENT && is_denied))
        return true;
    if (correct->position > (fate == FATE_ASLEEP ? program->head_count : program->tail_end))
        return false;
    if (story->world.stack != NULL && is_denied)
        return correct->operation.verdict == RATION_DENY;
    return is_same(&correct->operation, &replies->operation);
}

enum failure story_judge(const struct story *story, enum program_kind kind,
                         const struct reply_lists *correct, const struct replies *replies,
                         enum fate fate)
{
    const struct program *program = &story->programs[kind];
    uint32_t limiters =
        scenario_is(story->scenario, SCENARIO_SPLIT) ? (uint32_t)story->world.limiter_count : 1;

    if (kind == PROGRAM_STALE)
        return judge_stale(story, correct, replies);
    for (uint32_t l = 0; l < limiters; l++) {
        const struct replies *nearest = &correct->all[0];
        size_t most = 0;
        bool is_right = false;

        for (size_t i = 0; i < correct->count && !is_right; i++) {
            const struct replies *one = &correct->all[i];
            size_t agreed =
                agreement(program, one, replies,
                          scenario_is(story->scenario, SCENARIO_SPLIT) ? l : UINT32_MAX);

            is_right = agreed == replies->call_count &&
                       (replies->call_count < program->call_count ||
                        one->overflow_count == replies->overflow_count) &&
                       answers_as(story, program, one, replies, fate);
            nearest = agreed > most ? one : nearest;
            most = agreed > most ? agreed : most;
        }
        if (!is_right) {
            explain(story, kind, nearest, replies, most);
            return FAILURE_WRONG;
        }
    }
    return FAILURE_NONE;
}

size_t story_end(const struct story *story, enum program_kind kind, bool is_whole)
{
    return is_whole ? story->programs[kind].call_count : story->programs[kind].head_count;
}

enum failure story_check(struct story *story, enum program_kind kind,
                         const struct reply_lists *correct, const void *image, bool is_whole)
{
    static struct replies replies;
    enum failure failure;

    memset(&replies, 0, sizeof(replies));
    if (image != NULL)
        world_restore(&story->world, image);
    failure = story_play(story, kind, 0, story_end(story, kind, is_whole), &replies);
    if (failure == FAILURE_NONE)
        return story_judge(story, kind, correct, &replies, FATE_DEAD);
    printf("  %s: a survivor's %s, program %s\n", story->scenario->name, failure_names[failure],
           program_names[kind]);
    return failure;
}
