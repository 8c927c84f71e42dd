#include "world.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "limiter/limiter_internal.h"

#define KEYS_MAX  9 /* gives two sets */
#define RULES_MAX 3

static const char *const rules_plain[] = {"60/h burst 3", NULL};
static const char *const rules_entry[] = {"60/h burst 3", "120/h burst 5", "10/h burst 4", NULL};
static const char *const rules_reserve[] = {"60/h burst 3 reserve 10/h burst 2", NULL};
static const char *const rules_log[] = {"4/h sliding_log", NULL};
static const char *const rules_empty[] = {"60/h burst 3 start empty", NULL};
static const char *const rules_third[] = {"30/h burst 4", NULL};

static const char *const *const kinds[][WORLD_LIMITERS_MAX] = {
    [WORLD_PLAIN] = {rules_plain},
    [WORLD_ENTRY] = {rules_entry},
    [WORLD_RESERVE] = {rules_reserve},
    [WORLD_LOG] = {rules_log},
    [WORLD_EMPTY] = {rules_empty},
    [WORLD_STACK_2] = {rules_plain, rules_entry},
    [WORLD_STACK_3] = {rules_plain, rules_entry, rules_third},
};

static struct ration_manual_clock still;

static void stop(const char *what)
{
    fprintf(stderr, "crash: %s\n", what);
    abort();
}

static size_t parse(const char *const *texts, struct ration_rule *rules)
{
    size_t count = 0;

    for (; texts[count] != NULL; count++) {
        rules[count] = (struct ration_rule){.stale_after_ns = RATION_NS_PER_HOUR};
        if (ration_limit_parse(texts[count], &rules[count].limit, NULL) != RATION_OK)
            stop(texts[count]);
    }
    return count;
}

void world_open(struct world *world, enum world_kind kind, uint32_t descriptor_count)
{
    struct ration_rule rules[WORLD_LIMITERS_MAX][RULES_MAX];
    struct ration_limiter_options options[WORLD_LIMITERS_MAX];
    struct ration_clock clock = ration_clock_manual(&still);
    struct ration_error error = {0};
    ration_status status;
    size_t count = 0;

    for (; count < WORLD_LIMITERS_MAX && kinds[kind][count] != NULL; count++)
        options[count] = (struct ration_limiter_options){
            .struct_size = sizeof(options[count]),
            .rules = rules[count],
            .rule_count = parse(kinds[kind][count], rules[count]),
            .keys_max = KEYS_MAX,
            .clock = &clock,
            .is_shared_by_forks = 1,
            .threads_max = descriptor_count,
            .trusts_keys = 1, /* so that keys have the same places in every run */
        };
    *world = (struct world){.kind = kind, .limiter_count = count};
    world_turn(world, 0, WORLD_BEGIN_NS);
    if (count == 1)
        status = ration_limiter_create(&options[0], &world->limiters[0], &error);
    else
        status = ration_stack_create(
            &(struct ration_stack_options){.struct_size = sizeof(struct ration_stack_options),
                                           .limiters = options,
                                           .limiter_count = count,
                                           .clock = &clock,
                                           .is_shared_by_forks = 1,
                                           .threads_max = descriptor_count,
                                           .trusts_keys = 1},
            &world->stack, &error);
    if (status != RATION_OK)
        stop(error.message);
    for (size_t i = 0; i < count && world->stack != NULL; i++)
        world->limiters[i] = ration_stack_limiter(world->stack, i);
    world->memory = (const struct ration_memory *)world->limiters[0]->store;
    if (world->memory->sections[0].set_count != 2 || !world->memory->block->is_shared)
        stop("a world must have two sets in shared memory");
}

void world_close(struct world *world)
{
    if (world->stack != NULL)
        ration_stack_free(world->stack);
    else
        ration_limiter_free(world->limiters[0]);
}

size_t world_size(const struct world *world)
{
    return world->memory->block->size_bytes;
}

void world_save(const struct world *world, void *image)
{
    memcpy(image, world->memory->block, world_size(world));
}

void world_restore(struct world *world, const void *image)
{
    memcpy(world->memory->block, image, world_size(world));
}

bool world_equals(const struct world *world, const void *image)
{
    return memcmp(image, world->memory->block, world_size(world)) == 0;
}

void world_key(const struct world *world, uint32_t number, struct world_key *out_key)
{
    *out_key = (struct world_key){{number, world->salt}, {out_key->words, sizeof(out_key->words)}};
}

void world_turn(struct world *world, uint32_t salt, uint64_t now_ns)
{
    world->salt = salt;
    world->now_ns = now_ns;
    world_key(world, 0, &world->subjects[0]);
    world_key(world, 1, &world->subjects[1]);
}

struct seen seen_of(const struct answer *answer)
{
    struct seen seen = {.status = answer->status, .verdict = answer->decision.verdict};

    for (uint32_t i = 0; i < SEEN_RULES_MAX; i++) {
        seen.rules[i].remaining = answer->details[i].remaining;
        seen.rules[i].reset_ns = answer->details[i].reset_after_ns;
    }
    return seen;
}

struct seen world_take(struct world *world, uint32_t limiter_index, uint32_t key, uint64_t cost,
                       int64_t after_ns)
{
    ration_limiter *limiter = world->limiters[limiter_index];
    uint64_t now_ns = world->now_ns + (uint64_t)after_ns;
    struct answer answer = {0};
    struct world_key request;

    world_key(world, key, &request);
    answer.status = cost == 0 ? ration_limiter_peek(limiter, &request.key, 1, now_ns,
                                                    &answer.decision, answer.details)
                              : ration_limiter_take(limiter, &request.key, cost, now_ns,
                                                    &answer.decision, answer.details);
    return seen_of(&answer);
}

struct seen world_allow(struct world *world, uint32_t limiter_index, uint32_t key, uint64_t cost,
                        int64_t after_ns)
{
    struct world_key request;

    world_key(world, key, &request);

    bool allowed = ration_limiter_allow_at(world->limiters[limiter_index], &request.key, cost,
                                           world->now_ns + (uint64_t)after_ns);

    return (struct seen){.verdict = allowed ? RATION_ALLOW : RATION_DENY};
}

struct seen world_take_stack(struct world *world, uint32_t key, uint64_t cost, int64_t after_ns)
{
    struct answer answer = {0};
    struct world_key request;

    world_key(world, key, &request);
    answer.status =
        ration_stack_take(world->stack, &request.key, cost, world->now_ns + (uint64_t)after_ns,
                          &answer.decision, answer.details);
    return seen_of(&answer);
}

void world_crowd(struct world *world, uint64_t cost, int64_t after_ns)
{
    uint64_t overflow_count = world_overflow_count(world);

    for (uint32_t l = 0; l < world->limiter_count; l++)
        for (uint32_t i = 0; i < WORLD_PLACES; i++)
            world_take(world, l, WORLD_CROWD + i, cost, after_ns);
    if (world_overflow_count(world) != overflow_count)
        stop("a key of the crowd finds no place");
}

void world_leave_claims(struct world *world, uint32_t limiter_index, uint32_t key, size_t count)
{
    const struct ration_section *section = &world->memory->sections[limiter_index];
    const struct ration_head_kind *kind =
        section->shape.cell_count == 0 ? &ration_plain_kind : &ration_entry_kind;
    struct world_key bytes;

    world_key(world, key, &bytes);

    struct ration_target target = {.key = bytes.key, .section_index = limiter_index};
    struct ration_location location = ration_memory_place(world->memory, &target);

    for (uint32_t i = 0; i < RATION_KEY_SLOTS && count > 0; i++) {
        uint32_t nth = i * 5 % RATION_KEY_SLOTS; /* not adjacent */
        struct ration_pair *head =
            ration_section_at(section, ration_location_index(&location, nth));
        struct ration_pair seen = ration_atomic16_load(head);

        if (kind->role(seen) == RATION_CLAIM_ROLE_EMPTY &&
            ration_atomic16_swap(head, &seen, kind->claim(section, &location, seen, world->now_ns)))
            count--;
    }
    if (count > 0)
        stop("a claim finds no place");
}

uint64_t world_overflow_count(const struct world *world)
{
    uint64_t count = 0;

    for (size_t i = 0; i < world->limiter_count; i++) {
        struct ration_limiter_report report;

        ration_limiter_read_report(world->limiters[i], &report);
        count += report.limiter.overflow_shared;
    }
    return count;
}

uint64_t world_descriptor_owner(const struct world *world, uint32_t descriptor_index)
{
    return __atomic_load_n(&world->memory->sections[0].descriptors[descriptor_index].owner,
                           __ATOMIC_SEQ_CST);
}
