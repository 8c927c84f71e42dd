/*
 * Runs files of rows on an engine, and has rows_test.py run the same rows on a server (R9).
 *
 *     rows_served_test FILE...      started by rows_test.py, which starts the server
 *
 * The engine decides first, by ration_engine_check(); rows.c compares that with the file. The engine's decision
 * is written as a line to the standard output. rows_test.py then asks the server over each protocol, compares
 * to the nanosecond and answers with one line: "same", or the differences.
 *
 *     limit IS_PLAIN TOKENS PERIOD_NS BURST TEXT     a new bucket
 *     change NOW TEXT                                the limit of the bucket changes
 *     take|peek NOW TOKENS VERDICT REMAINING RETRY RESET DELAY
 *     refund|set NOW TOKENS, block NOW UNTIL
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "rows/rows.h"

#define POLICY_SIZE 1024
#define LINE_SIZE   1024

struct served {
    struct ration_manual_clock manual;
    struct ration_clock clock;
    struct ration_limit limit;
    ration_engine *engine;
    bool is_lost; /* a change of the limit reset the bucket */
    const char *path;
    int differing_count;
    int line_number;
};

static struct ration_attribute user = {RATION_KEY("user"), RATION_KEY("engine")};

static void expect_ok(ration_status status, const char *what)
{
    if (status == RATION_OK)
        return;
    fprintf(stderr, "%s: %s\n", what, ration_status_name(status));
    exit(EXIT_FAILURE);
}

/* Ends the line on the standard output, and reads the answer of rows_test.py. */
static void read_answer(struct served *served)
{
    char line[LINE_SIZE];

    putchar('\n');
    fflush(stdout);
    if (fgets(line, sizeof(line), stdin) == NULL) {
        fprintf(stderr, "%s:%d: rows_test.py has exited\n", served->path, served->line_number);
        exit(EXIT_FAILURE);
    }
    if (strcmp(line, "same\n") == 0)
        return;
    served->differing_count++;
    fprintf(stderr, "%s:%d: %s", served->path, served->line_number, line);
}

static ration_policy *make_policy(const struct ration_limit *limit,
                                  char text[RATION_LIMIT_TEXT_SIZE])
{
    char policy_text[POLICY_SIZE];
    ration_policy *policy = NULL;

    expect_ok(ration_limit_print(limit, text, RATION_LIMIT_TEXT_SIZE), "print");
    snprintf(policy_text, sizeof(policy_text),
             "limits: [{name: row, key: user, max_keys: 100, rate: \"%s\"}]\n", text);
    expect_ok(ration_policy_parse(policy_text, strlen(policy_text), NULL, NULL, &policy), text);
    return policy;
}

/* Whether a limit may be inline. */
static bool is_plain(const struct ration_limit *limit)
{
    return limit->algorithm == RATION_TOKEN_BUCKET && limit->refill == RATION_REFILL_CONTINUOUS &&
           limit->start == RATION_START_FULL;
}

static bool open_served(void *context, const struct ration_limit *limit)
{
    struct served *served = context;
    struct ration_engine_options options = {
        .struct_size = sizeof(options), .clock = &served->clock, .inline_keys_max = 1};
    char text[RATION_LIMIT_TEXT_SIZE];
    ration_policy *policy = make_policy(limit, text);

    ration_engine_free(served->engine);
    ration_clock_manual_set(&served->manual, 0);
    served->engine = NULL;
    served->is_lost = false;
    served->limit = *limit;
    expect_ok(ration_engine_create(&options, policy, &served->engine, NULL), "create an engine");
    printf("limit %d %" PRIu64 " %" PRIu64 " %" PRIu64 " %s", is_plain(limit), limit->tokens,
           limit->period_ns, limit->burst, text);
    read_answer(served);
    return true;
}

static struct ration_decision check(struct served *served, bool is_peek, uint64_t tokens,
                                    uint64_t now_ns)
{
    struct ration_check asked = {
        .attributes = &user, .attribute_count = 1, .cost_tokens = tokens, .is_peek = is_peek};

    ration_engine_check(served->engine, &asked, 1, now_ns);
    expect_ok(asked.status, asked.reason);
    return asked.decision;
}

static void note_change(void *context, enum ration_engine_change change, const char *name)
{
    (void)name;
    ((struct served *)context)->is_lost |= change != RATION_ENGINE_CHANGED;
}

/* The engine converts a bucket at its next access; the rows expect it at once, so this accesses the bucket. */
static void change_served(void *context, const struct ration_limit *limit, uint64_t now_ns)
{
    struct served *served = context;
    char text[RATION_LIMIT_TEXT_SIZE];
    ration_policy *policy;

    policy = make_policy(limit, text);
    ration_clock_manual_set(&served->manual, now_ns);
    served->limit = *limit;
    expect_ok(ration_engine_reload(served->engine, policy, note_change, served, NULL), "reload");
    (void)check(served, false, 0, now_ns);
    printf("change %" PRIu64 " %s", now_ns, text);
    read_answer(served);
}

static void ask_decision(struct served *served, const struct rows_request *request,
                         const struct ration_decision *decision)
{
    printf("%s %" PRIu64 " %" PRIu64 " %s %" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64,
           rows_call_name(request->call), request->now_ns, request->tokens,
           ration_decision_verdict_name(decision->verdict), decision->remaining,
           decision->retry_after_ns, decision->reset_after_ns, decision->delay_ns);
    read_answer(served);
}

static void change_bucket(struct served *served, const struct rows_request *request)
{
    struct ration_admin_op who = {.attributes = &user, .attribute_count = 1};
    uint64_t burst = served->limit.burst;

    if (request->call == ROWS_REFUND) {
        expect_ok(
            ration_engine_refund(served->engine, &who, request->tokens, request->now_ns, NULL),
            "refund");
    } else if (request->call == ROWS_BLOCK) {
        expect_ok(ration_engine_block_until(served->engine, &who, request->time_ns, request->now_ns,
                                            NULL),
                  "block");
    } else { /* a set: fills the bucket, then takes the tokens that shall be in use */
        expect_ok(ration_engine_reset(served->engine, &who, request->now_ns, NULL), "reset");
        if (request->tokens < burst)
            (void)check(served, false, burst - request->tokens, request->now_ns);
    }
    printf("%s %" PRIu64 " %" PRIu64, rows_call_name(request->call), request->now_ns,
           request->call == ROWS_BLOCK ? request->time_ns : request->tokens);
    read_answer(served);
}

static struct ration_decision call_served(void *context, const struct rows_request *request,
                                          uint64_t *out_granted)
{
    struct served *served = context;
    struct ration_decision decision = {.verdict = RATION_ALLOW};

    (void)out_granted;
    served->line_number = request->line_number;
    ration_clock_manual_set(&served->manual, request->now_ns);
    if (request->call != ROWS_TAKE && request->call != ROWS_PEEK) {
        change_bucket(served, request);
        return decision;
    }
    decision = check(served, request->call == ROWS_PEEK, request->tokens, request->now_ns);
    ask_decision(served, request, &decision);
    return decision;
}

/* Whether a row can be run over the network. */
static bool knows(void *context, const struct rows_request *request)
{
    struct served *served = context;

    if (served->is_lost)
        return false;
    switch (request->call) {
    case ROWS_TAKE:
    case ROWS_PEEK:
    case ROWS_REFUND:
    case ROWS_BLOCK:
        return true;
    case ROWS_SET: /* one take from a full bucket; not possible with a reserve, which has two buckets, or a queue */
        return served->limit.algorithm != RATION_BURST_RESERVE &&
               served->limit.algorithm != RATION_LEAKY_QUEUE &&
               served->limit.start == RATION_START_FULL;
    default:
        return false;
    }
}

static void print_result(const char *path, int row_count, int wrong_count,
                         const struct served *served, const struct rows_skips *skips)
{
    fprintf(stderr, "%s: %d rows, %d wrong, %d answered otherwise over the network; skipped:", path,
            row_count, wrong_count, served->differing_count);
    for (int call = 0; call < ROWS_CALL_COUNT; call++) {
        if (skips->calls[call] > 0)
            fprintf(stderr, " %d %s", skips->calls[call], rows_call_name((enum rows_call)call));
    }
    fprintf(stderr, " %d after those\n", skips->after_count);
}

int main(int argument_count, char **arguments)
{
    bool is_wrong = argument_count < 2;

    for (int i = 1; i < argument_count; i++) {
        struct rows_skips skips = {.after_count = 0};
        struct served served = {.path = arguments[i]};
        struct rows_target target = {.name = "engine",
                                     .open = open_served,
                                     .change = change_served,
                                     .call = call_served,
                                     .context = &served,
                                     .knows = knows,
                                     .skips = &skips};
        int row_count = 0;
        int wrong_count;

        served.clock = ration_clock_manual(&served.manual);
        wrong_count = rows_run(arguments[i], &target, &row_count);
        ration_engine_free(served.engine);
        print_result(arguments[i], row_count, wrong_count, &served, &skips);
        is_wrong |= wrong_count != 0 || served.differing_count > 0 || row_count == 0;
    }
    return is_wrong ? EXIT_FAILURE : EXIT_SUCCESS;
}
