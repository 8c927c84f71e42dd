/*
 * What the reader of checks takes and the writers of answers give, for the script that compares
 * both with docs/openapi.yaml.
 *
 *     probe read        for each line of input, "KIND BODY": ok or refused
 *     probe write       answers, one on a line: "SCHEMA JSON"
 *     probe document    the document as it is embedded
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "codec/http/check_json.h"
#include "codec/http/problem.h"
#include "codec/json/admin_answer.h"
#include "codec/json/check_answer.h"
#include "support/json_complete.h"

#define LINE_SIZE 4096

extern const unsigned char ration_openapi[], ration_openapi_end[];

static void read_lines(void)
{
    char line[LINE_SIZE];
    while (fgets(line, sizeof(line), stdin)) {
        ration_checks *checks;
        enum ration_check_kind kind = (enum ration_check_kind)(line[0] - '0');
        bool is_read = ration_check_json_read(kind, line + 2, strlen(line + 2), &checks, NULL);
        puts(is_read ? "ok" : "refused");
        if (is_read)
            ration_check_json_free(checks);
    }
}

static struct ration_output output;
static struct ration_json json;

static void end(const char *schema)
{
    if (output.is_failed || !json_is_complete(&json))
        abort();
    printf("%s %.*s\n", schema, (int)output.size, output.bytes);
    ration_output_reset(&output);
    ration_json_init(&json, &output);
}

static void write_decisions(void)
{
    const struct ration_decision denied = {.verdict = RATION_DENY, .limit = 5, .retry_after_ns = 1};
    const struct ration_decision never = {
        .verdict = RATION_NEVER, .limit = 5, .retry_after_ns = RATION_FOREVER};
    const struct ration_check_limit limits[] = {{"a", denied, false}, {"b", never, true}};
    const struct ration_check_answer answers[] = {
        {.decision = denied, .limit_name = "a", .limits = limits, .limit_count = 2},
        {.decision = never, .limit_name = "b", .is_degraded = true},
        {.decision = {.verdict = RATION_DENY}, .is_banned = true},
        {.decision = {.verdict = RATION_ALLOW}},
    };
    for (size_t i = 0; i < sizeof(answers) / sizeof(answers[0]); i++) {
        ration_check_answer_write(&json, &answers[i]);
        end("Decision");
    }
    ration_check_answer_begin_batch(&json);
    ration_check_answer_write(&json, &answers[0]);
    ration_check_answer_write(&json, &answers[3]);
    ration_check_answer_end_batch(&json);
    end("DecisionBatch");
}

static void write_problems(void)
{
    const struct ration_problem_quota quota = {"a", 5, 60, 12};
    ration_problem_write(&json, &(struct ration_problem){400, "wrong", "/cost"});
    end("Problem");
    ration_problem_write_reduced(&json, "the store is away");
    end("Problem");
    ration_problem_write_quota(&json, 429, true, &quota, 1);
    end("QuotaProblem");
}

static void write_lists(void)
{
    static const char *const names[] = {"ip"};
    struct ration_policy_limit limit = {.key_names = names, .key_count = 1};
    struct ration_admin_limit listed = {.limit = &limit, .text = "5/s", .match = "every request"};
    if (ration_limit_parse("5/s name api", &limit.limit, NULL) != RATION_OK)
        abort();
    ration_admin_begin_limits(&json);
    ration_admin_write_limit(&json, &listed);
    ration_admin_end_limits(&json);
    end("Limits");
    ration_admin_write_changed(&json, 1);
    end("Changed");
}

int main(int count, char **arguments)
{
    const char *command = count == 2 ? arguments[1] : "";
    ration_output_init(&output, 65536);
    ration_json_init(&json, &output);
    if (strcmp(command, "read") == 0)
        read_lines();
    else if (strcmp(command, "write") == 0) {
        write_decisions();
        write_problems();
        write_lists();
    } else if (strcmp(command, "document") == 0)
        fwrite(ration_openapi, 1, (size_t)(ration_openapi_end - ration_openapi), stdout);
    else
        return 2;
    ration_output_done(&output);
    return 0;
}
