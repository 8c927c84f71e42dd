/*
 * engine_kit: an engine made from a policy's text, on a clock that a test sets, and requests that are
 * strings.
 *
 *     struct engine_kit kit;
 *     engine_kit_open(&kit, "limits: [{name: a, key: ip, rate: 10/h}]");
 *     assert_int_equal(engine_kit_check(&kit, "ip=192.0.2.1").decision.remaining, 9);
 *     engine_kit_close(&kit);
 */
#ifndef RATION_TESTS_ENGINE_KIT_H
#define RATION_TESTS_ENGINE_KIT_H

#include <stdio.h>
#include <string.h>

#include "unit/limiter/limiter_kit.h"

struct engine_kit {
    struct ration_manual_clock manual;
    struct ration_clock clock;
    struct ration_engine_options options;
    ration_engine *engine;
};

static inline void engine_kit_report(void *context, const struct ration_policy_error *error)
{
    (void)context;
    print_error("%u:%u: %s\n", error->line, error->column, error->message);
}

static inline ration_policy *engine_kit_policy(const char *text)
{
    ration_policy *policy = NULL;

    if (ration_policy_parse(text, strlen(text), engine_kit_report, NULL, &policy) != RATION_OK)
        fail_msg("the policy has errors:\n%s", text);
    return policy;
}

static inline void engine_kit_plan(struct engine_kit *kit)
{
    memset(kit, 0, sizeof(*kit));
    kit->manual.ns = KIT_NOW_NS;
    kit->clock = ration_clock_manual(&kit->manual);
    kit->options = (struct ration_engine_options){.struct_size = sizeof(kit->options),
                                                  .clock = &kit->clock,
                                                  .inline_keys_max = 1000,
                                                  .spare_bytes = (size_t)1 << 30};
}

/* Opens an engine whose options have been planned, and perhaps changed. */
static inline void engine_kit_open_planned(struct engine_kit *kit, const char *text)
{
    struct ration_error error = {.message = ""};
    ration_policy *policy = engine_kit_policy(text);

    if (ration_engine_create(&kit->options, policy, &kit->engine, &error) != RATION_OK)
        fail_msg("%s", error.message);
}

static inline void engine_kit_open(struct engine_kit *kit, const char *text)
{
    engine_kit_plan(kit);
    engine_kit_open_planned(kit, text);
}

static inline void engine_kit_close(struct engine_kit *kit)
{
    ration_engine_free(kit->engine);
}

/* A request from "name=value name=value ...", which must last as long as it. */
struct engine_kit_request {
    char text[512];
    struct ration_attribute attributes[RATION_ATTRIBUTES_MAX];
    size_t count;
};

static inline struct engine_kit_request *engine_kit_request(struct engine_kit_request *request,
                                                            const char *text)
{
    char *rest;

    snprintf(request->text, sizeof(request->text), "%s", text);
    request->count = 0;
    for (char *part = strtok_r(request->text, " ", &rest); part != NULL;
         part = strtok_r(NULL, " ", &rest)) {
        char *equals = strchr(part, '=');

        assert_non_null(equals);
        request->attributes[request->count++] = (struct ration_attribute){
            {part, (size_t)(equals - part)}, {equals + 1, strlen(equals + 1)}};
    }
    return request;
}

static inline struct ration_check engine_kit_ask(struct engine_kit *kit, const char *text,
                                                 uint64_t cost_tokens, uint32_t is_peek)
{
    struct engine_kit_request request;
    struct ration_check check;

    engine_kit_request(&request, text);
    check = (struct ration_check){.attributes = request.attributes,
                                  .attribute_count = request.count,
                                  .cost_tokens = cost_tokens,
                                  .is_peek = is_peek};
    ration_engine_check(kit->engine, &check, 1, kit->manual.ns);
    return check;
}

static inline struct ration_check engine_kit_check(struct engine_kit *kit, const char *text)
{
    return engine_kit_ask(kit, text, 1, 0);
}

/* What a reload reports: "added b, removed a". */
struct engine_kit_report {
    char text[512];
};

static inline void engine_kit_hear(void *context, enum ration_engine_change change,
                                   const char *name)
{
    struct engine_kit_report *reported = context;
    size_t used = strlen(reported->text);

    snprintf(reported->text + used, sizeof(reported->text) - used, "%s%s %s", used > 0 ? ", " : "",
             ration_engine_change_name(change), name);
}

/* Reloads a policy that must be taken. */
static inline struct engine_kit_report engine_kit_reload(struct engine_kit *kit, const char *text)
{
    struct engine_kit_report reported = {.text = ""};
    struct ration_error error = {.message = ""};

    if (ration_engine_reload(kit->engine, engine_kit_policy(text), engine_kit_hear, &reported,
                             &error) != RATION_OK)
        fail_msg("%s", error.message);
    return reported;
}

/* Tokens that a request has left, of the limit that has the fewest. */
static inline uint64_t engine_kit_left(struct engine_kit *kit, const char *text)
{
    struct ration_check check = engine_kit_ask(kit, text, 0, 1);

    assert_int_equal(check.status, RATION_OK);
    return check.decision.remaining;
}

#endif
