/*
 * Any bytes as the state of an engine. The first byte chooses the policy under which it is loaded, and whether the rest
 * is the state itself or the contents of its four parts, each after its size, which then get correct checksums. A refused
 * state has a reason and leaves the policy unchanged; a loaded one decides, and can be saved and loaded again without a
 * change.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/wall.h"
#include "ration/ration.h"
#include "support/saved_dump.h"

/* Aborts in every build, so that a release build finds what a debug build does. */
#define CHECK(condition)  \
    do {                  \
        if (!(condition)) \
            abort();      \
    } while (0)

#define NOW_NS     (1000 * RATION_NS_PER_SECOND)
#define PART_COUNT 4                  /* of a state; the first version had three */
#define BYTES_MAX  ((size_t)64 << 20) /* of an engine whose tables are walked */

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const char *const policies[] = {
    "limits: [{name: a, key: ip, rate: 3/s, burst: 7, max_keys: 10}, "
    "{name: b, rate: 9/min, algorithm: sliding_log}, "
    "{name: c, key: [user, ip], rate: 9/s, algorithm: sliding_window, start: empty, max_keys: 10}]",
    "limits: [{name: b, key: user, rate: 9/s, algorithm: fixed_window, max_keys: 10}, "
    "{name: a, key: ip, rate: 5/s, burst: 4, max_keys: 10, overflow: deny, shadow: true}, "
    "{name: q, match: {path: /q}, key: ip, rate: 4/s, reserve: 7/min, max_keys: 10}]",
};

#define POLICY_COUNT (sizeof(policies) / sizeof(policies[0]))

static struct ration_manual_clock manual = {NOW_NS};

uint64_t ration_wall_now(void)
{
    return NOW_NS;
}

static ration_policy *parse(uint8_t choice)
{
    const char *text = policies[choice % 16 % POLICY_COUNT];
    ration_policy *policy = NULL;

    CHECK(ration_policy_parse(text, strlen(text), NULL, NULL, &policy) == RATION_OK);
    return policy;
}

static ration_engine *load(uint8_t choice, struct saved_bytes *state)
{
    struct ration_clock clock = ration_clock_manual(&manual);
    struct ration_engine_options options = {
        .struct_size = sizeof(options), .clock = &clock, .spare_bytes = 1 << 20, .threads_max = 1};
    ration_policy *policy = parse(choice);
    struct ration_error error;
    ration_engine *engine = NULL;
    ration_status status;

    memset(&error, 0xA5, sizeof(error));
    state->at = 0;
    status = ration_engine_load(&options, policy, saved_read, state, &engine, &error);
    if (status == RATION_OK)
        return engine;
    CHECK(engine == NULL && error.status == status && error.message[0] != 0 &&
          memchr(error.message, 0, sizeof(error.message)) != NULL);
    CHECK(ration_policy_limit_count(policy) == 3);
    ration_policy_free(policy);
    return NULL;
}

static struct saved_bytes save(ration_engine *engine)
{
    struct saved_bytes state = {0};

    CHECK(ration_engine_save(engine, NOW_NS, saved_write, &state) == RATION_OK);
    return state;
}

static void decide(ration_engine *engine)
{
    for (char user = 'a'; user <= 'z'; user++) {
        struct ration_attribute attributes[] = {{RATION_KEY("ip"), RATION_KEY("192.0.2.1")},
                                                {RATION_KEY("user"), {&user, 1}},
                                                {RATION_KEY("path"), RATION_KEY("/q")}};
        struct ration_check check = {
            .attributes = attributes, .attribute_count = 3, .cost_tokens = 1};

        ration_engine_check(engine, &check, 1, NOW_NS);
        CHECK(check.status == RATION_OK && check.part_count > 0);
    }
}

/* Saves an engine, frees it, and loads it again. */
static ration_engine *go_round(uint8_t choice, ration_engine *engine, struct saved_bytes *out_state)
{
    ration_engine *again;

    *out_state = save(engine);
    again = load(choice, out_state);
    CHECK(again != NULL);
    ration_engine_free(engine);
    return again;
}

static void check(uint8_t choice, struct saved_bytes *state)
{
    ration_engine *engine = load(choice, state);
    struct saved_bytes first, second, third;

    if (engine == NULL)
        return;
    if (ration_engine_bytes(engine) <= BYTES_MAX) {
        /* a key that another policy has reset is converted at the second load */
        engine = go_round(choice, engine, &first);
        engine = go_round(choice, engine, &second);
        third = save(engine);
        CHECK(second.size == third.size && memcmp(second.data, third.data, third.size) == 0);
        free(first.data);
        free(second.data);
        free(third.data);
    }
    decide(engine);
    ration_engine_free(engine);
}

/* Parts, each after two bytes with its size; the last one has the rest. */
static struct saved_bytes wrap_parts(const uint8_t *data, size_t size)
{
    struct saved_bytes state = {0};

    for (int part = 0; part < PART_COUNT && size >= 2; part++) {
        size_t reported = (size_t)saved_number(data, 2);
        size_t part_size = part == PART_COUNT - 1 || reported > size - 2 ? size - 2 : reported;
        struct saved_bytes wrapped = saved_wrap(data + 2, part_size);

        saved_add(&state, wrapped.data, wrapped.size);
        free(wrapped.data);
        data += 2 + part_size;
        size -= 2 + part_size;
    }
    return state;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct saved_bytes state = {0};

    if (size == 0)
        return 0;
    if (data[0] & 0x80)
        saved_add(&state, data + 1, size - 1);
    else
        state = wrap_parts(data + 1, size - 1);
    check(data[0], &state);
    free(state.data);
    return 0;
}
