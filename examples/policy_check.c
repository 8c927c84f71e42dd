/*
 * A policy file enforced in the program's own process, without a server.
 *
 *     policy FILE name=value ...    for example: policy examples/policies/login.yaml path=/login ip=::1
 *
 * Checks the same request five times and prints each decision.
 */
#include <inttypes.h>
#include <ration/ration.h>
#include <stdio.h>
#include <string.h>

static void print_error(void *context, const struct ration_policy_error *error)
{
    fprintf(stderr, "%s:%" PRIu32 ":%" PRIu32 ": %s\n", (const char *)context, error->line,
            error->column, error->message);
}

/* Splits each "path=/login" into the attribute path and its value. Returns how many there are. */
static size_t read_attributes(char **words, int count, struct ration_attribute *attributes)
{
    size_t read = 0;

    for (int i = 0; i < count && read < RATION_ATTRIBUTES_MAX; i++) {
        char *equals = strchr(words[i], '=');

        if (equals != NULL)
            attributes[read++] = (struct ration_attribute){{words[i], (size_t)(equals - words[i])},
                                                           {equals + 1, strlen(equals + 1)}};
    }
    return read;
}

static void print_decision(const struct ration_check *check)
{
    const char *name = check->limit != NULL ? check->limit->limit.name : "no limit";

    if (check->status != RATION_OK)
        printf("cannot be decided: %s\n", check->reason);
    else if (check->decision.verdict == RATION_ALLOW)
        printf("allowed: %s has %" PRIu64 " left\n", name, check->decision.remaining);
    else
        printf("%s by %s: retry after %" PRIu64 " ms\n",
               ration_decision_verdict_name(check->decision.verdict), name,
               check->decision.retry_after_ns / RATION_NS_PER_MS);
}

int main(int argument_count, char **arguments)
{
    struct ration_attribute attributes[RATION_ATTRIBUTES_MAX];
    struct ration_engine_options options = {.struct_size = sizeof(options)};
    struct ration_check check = {.attributes = attributes, .cost_tokens = 1};
    struct ration_error error = {.message = ""};
    struct ration_engine_guard guard;
    ration_policy *policy;
    ration_engine *engine;

    if (argument_count < 2) {
        fprintf(stderr, "usage: policy FILE name=value ...\n");
        return 2;
    }
    if (ration_policy_load(arguments[1], print_error, arguments[1], &policy) != RATION_OK)
        return 2;
    if (ration_engine_create(&options, policy, &engine, &error) != RATION_OK) {
        fprintf(stderr, "%s\n", error.message);
        ration_policy_free(policy);
        return 2;
    }
    check.attribute_count = read_attributes(arguments + 2, argument_count - 2, attributes);
    for (int i = 0; i < 5; i++) {
        /* The guard keeps names of limits valid, even if another thread replaces the policy. */
        ration_engine_lock(engine, &guard);
        ration_engine_check_guarded(&guard, &check, 1, ration_engine_now(engine));
        print_decision(&check);
        ration_engine_unlock(&guard);
    }
    ration_engine_free(engine);
    return 0;
}
