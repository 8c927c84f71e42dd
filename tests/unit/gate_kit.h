/*
 * gate_kit: a gate made from a policy's text, on a clock that a test sets, and requests that are
 * strings.
 *
 *     struct gate_kit kit;
 *     gate_kit_open(&kit, "limits: [{name: a, key: ip, rate: 10/h}]");
 *     assert_int_equal(gate_kit_check(&kit, "ip=192.0.2.1").decision.remaining, 9);
 *     gate_kit_close(&kit);
 */
#ifndef RATION_TESTS_GATE_KIT_H
#define RATION_TESTS_GATE_KIT_H

#include <stdio.h>
#include <string.h>

#include "unit/limiter_kit.h"

struct gate_kit {
    struct ration_manual_clock manual;
    struct ration_clock clock;
    struct ration_gate_options options;
    ration_gate *gate;
};

static inline void gate_kit_tell(void *context, const struct ration_policy_fault *fault)
{
    (void)context;
    print_error("%u:%u: %s\n", fault->line, fault->column, fault->message);
}

static inline ration_policy *gate_kit_policy(const char *text)
{
    ration_policy *policy = NULL;

    if (ration_policy_parse(text, strlen(text), gate_kit_tell, NULL, &policy) != RATION_OK)
        fail_msg("the policy has faults:\n%s", text);
    return policy;
}

static inline void gate_kit_plan(struct gate_kit *kit)
{
    memset(kit, 0, sizeof(*kit));
    kit->manual.ns = KIT_NOW_NS;
    kit->clock = ration_clock_manual(&kit->manual);
    kit->options = (struct ration_gate_options){.struct_size = sizeof(kit->options),
                                                .clock = &kit->clock,
                                                .throttle_keys_max = 1000,
                                                .spare_bytes = (size_t)1 << 30};
}

/* Opens a gate whose options have been planned, and perhaps changed. */
static inline void gate_kit_open_planned(struct gate_kit *kit, const char *text)
{
    struct ration_error error = {.message = ""};
    ration_policy *policy = gate_kit_policy(text);

    if (ration_gate_create(&kit->options, policy, &kit->gate, &error) != RATION_OK)
        fail_msg("%s", error.message);
}

static inline void gate_kit_open(struct gate_kit *kit, const char *text)
{
    gate_kit_plan(kit);
    gate_kit_open_planned(kit, text);
}

static inline void gate_kit_close(struct gate_kit *kit)
{
    ration_gate_free(kit->gate);
}

/* A request from "name=value name=value ...", which must last as long as it. */
struct gate_kit_request {
    char text[512];
    struct ration_attribute attributes[RATION_ATTRIBUTES_MAX];
    size_t count;
};

static inline struct gate_kit_request *gate_kit_request(struct gate_kit_request *request,
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

static inline struct ration_check gate_kit_ask(struct gate_kit *kit, const char *text,
                                               uint64_t cost_tokens, uint32_t is_peek)
{
    struct gate_kit_request request;
    struct ration_check check;

    gate_kit_request(&request, text);
    check = (struct ration_check){.attributes = request.attributes,
                                  .attribute_count = request.count,
                                  .cost_tokens = cost_tokens,
                                  .is_peek = is_peek};
    ration_gate_check(kit->gate, &check, 1, kit->manual.ns);
    return check;
}

static inline struct ration_check gate_kit_check(struct gate_kit *kit, const char *text)
{
    return gate_kit_ask(kit, text, 1, 0);
}

/* What a reload told: "added b, removed a". */
struct gate_kit_told {
    char text[512];
};

static inline void gate_kit_hear(void *context, enum ration_gate_change change, const char *name)
{
    struct gate_kit_told *told = context;
    size_t used = strlen(told->text);

    snprintf(told->text + used, sizeof(told->text) - used, "%s%s %s", used > 0 ? ", " : "",
             ration_gate_change_name(change), name);
}

/* Reloads a policy that must be taken. */
static inline struct gate_kit_told gate_kit_reload(struct gate_kit *kit, const char *text)
{
    struct gate_kit_told told = {.text = ""};
    struct ration_error error = {.message = ""};

    if (ration_gate_reload(kit->gate, gate_kit_policy(text), gate_kit_hear, &told, &error) !=
        RATION_OK)
        fail_msg("%s", error.message);
    return told;
}

/* Tokens that a request has left, of the limit that has the fewest. */
static inline uint64_t gate_kit_left(struct gate_kit *kit, const char *text)
{
    struct ration_check check = gate_kit_ask(kit, text, 0, 1);

    assert_int_equal(check.status, RATION_OK);
    return check.decision.remaining;
}

#endif
