#include "support/engine_ops.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "support/engine_ops_input.h"
#include "support/engine_ops_rules.h"
#include "support/saved_dump.h"

#define USER_COUNT     6
#define OPERATIONS_MAX 400
#define EXACT_LAST_NS  (UINT64_C(1) << 58)
#define SLOT_LAST_NS   ((UINT64_C(1) << 60) - 1)

uint64_t engine_ops_wall_ns = 1700000000 * RATION_NS_PER_SECOND;
uint64_t engine_ops_compared_count;

struct run {
    struct engine_ops_input input;
    engine_ops_bug *bug;
    struct ration_manual_clock manual;
    struct ration_clock clock;
    ration_engine *engine;
    char policy_text[ENGINE_OPS_POLICY_MAX];
    uint64_t latest_ns;     /* the latest now of any call so far */
    uint64_t created_at_ns; /* this engine: its time stops RATION_LIMITER_TIME_MAX_NS later */
    uint64_t loaded_at_ns;  /* an earlier now may find more: docs/reference/dump-format.md */
    bool is_reloaded;       /* engines are compared under another policy than the saved one */
    bool
        has_old_buckets; /* a reload changed limits, and buckets are converted at their next access */
    uint64_t
        reloaded_at_ns; /* the latest time of this engine's reloads: no watermark lies after it */
    struct engine_ops_admission admissions[USER_COUNT][OPERATIONS_MAX];
    size_t admission_counts[USER_COUNT];
    char error[ENGINE_OPS_ERROR_MAX];
};

static void fail(struct run *run, const char *format, ...)
{
    va_list arguments;

    if (run->error[0] != '\0')
        return;
    va_start(arguments, format);
    vsnprintf(run->error, sizeof(run->error), format, arguments);
    va_end(arguments);
}

/* With RATION_TEST_TRACE set each operation is printed, to understand a failure. */
static void trace(const char *format, ...)
{
    va_list arguments;

    if (getenv("RATION_TEST_TRACE") == NULL)
        return;
    va_start(arguments, format);
    vfprintf(stderr, format, arguments);
    va_end(arguments);
}

/* Policies ------------------------------------------------------------------------------------- */

static void on_policy_error(void *context, const struct ration_policy_error *error)
{
    fail(context, "the policy has an error in column %u: %s", error->column, error->message);
}

/* Returns NULL after an error. */
static ration_policy *parse(struct run *run, const char *text)
{
    ration_policy *policy = NULL;

    if (ration_policy_parse(text, strlen(text), on_policy_error, run, &policy) != RATION_OK)
        fail(run, "the policy cannot be read: %s", text);
    return policy;
}

static struct ration_engine_options options_of(const struct run *run)
{
    return (struct ration_engine_options){.struct_size = sizeof(struct ration_engine_options),
                                          .clock = &run->clock,
                                          .inline_keys_max = 100,
                                          .spare_bytes = (size_t)1 << 20,
                                          .threads_max = 1};
}

/* Requests ------------------------------------------------------------------------------------- */

struct request {
    char path[4];
    char user[2];
    int path_index;
    int user_index;
    struct ration_attribute attributes[2];
};

static void make_request(struct request *request, int path_index, int user_index)
{
    request->path_index = path_index;
    request->user_index = user_index;
    snprintf(request->path, sizeof(request->path), "/%c", '0' + path_index);
    snprintf(request->user, sizeof(request->user), "%c", 'a' + user_index);
    request->attributes[0] = (struct ration_attribute){RATION_KEY("path"), {request->path, 2}};
    request->attributes[1] = (struct ration_attribute){RATION_KEY("user"), {request->user, 1}};
}

static void choose_request(struct run *run, struct request *request)
{
    uint8_t byte = engine_ops_byte(&run->input);

    make_request(request, byte % ENGINE_OPS_PATH_COUNT, byte / ENGINE_OPS_PATH_COUNT % USER_COUNT);
}

static uint64_t choose_now(struct run *run)
{
    uint64_t now_ns = engine_ops_now_ns(&run->input, run->manual.ns);

    if (now_ns > run->latest_ns)
        run->latest_ns = now_ns;
    return now_ns;
}

static struct ration_check ask(ration_engine *engine, const struct request *request,
                               uint64_t tokens, bool is_peek, uint64_t now_ns,
                               struct ration_check_part *parts)
{
    struct ration_check check = {.attributes = request->attributes,
                                 .attribute_count = 2,
                                 .cost_tokens = tokens,
                                 .is_peek = is_peek,
                                 .parts = parts};

    engine_ops_check(engine, &check, now_ns);
    return check;
}

/* A stale now counts as the latest. */
static void admit(struct run *run, int user, uint64_t tokens, uint64_t now_ns)
{
    size_t *count = &run->admission_counts[user];
    struct engine_ops_admission *admissions = run->admissions[user];

    if (now_ns < run->loaded_at_ns) {
        *count = 0;
        return;
    }
    if (*count > 0 && now_ns < admissions[*count - 1].at_ns)
        now_ns = admissions[*count - 1].at_ns;
    admissions[(*count)++] = (struct engine_ops_admission){now_ns, tokens};
    if (engine_ops_is_too_much(admissions, *count))
        fail(run, "R1: key %c was admitted too much until %" PRIu64 " ns", 'a' + user, now_ns);
}

/* Tokens were returned: earlier admissions no longer count. */
static void forget_admissions(struct run *run, const struct request *request)
{
    if (request->path_index == ENGINE_OPS_STEADY_PATH)
        run->admission_counts[request->user_index] = 0;
}

/* Whether R4 can hold for a wait of that length from now on, with a bucket that is full so much later. */
static bool is_wait_exact(const struct run *run, const struct ration_decision *denial,
                          uint64_t now_ns)
{
    uint64_t last_ns = denial->retry_after_ns > denial->reset_after_ns ? denial->retry_after_ns
                                                                       : denial->reset_after_ns;

    return now_ns >= run->latest_ns && now_ns <= EXACT_LAST_NS &&
           last_ns <= EXACT_LAST_NS - now_ns &&
           (denial->retry_after_ns <= RATION_NS_PER_DAY ||
            strstr(run->policy_text, "start:") == NULL);
}

/* A check that must obey R2 and R4, and have the verdict of a peek. */
static struct ration_check take(struct run *run, const struct request *request, uint64_t tokens,
                                uint64_t now_ns)
{
    const char *error = NULL;
    struct ration_check check =
        engine_ops_take(run->engine, request->attributes, 2, tokens, now_ns, &error);

    if (error == NULL && check.decision.verdict == RATION_DENY &&
        is_wait_exact(run, &check.decision, now_ns))
        error = engine_ops_check_retry(run->engine, &check, now_ns);
    if (error != NULL)
        fail(run, "%s: path %s, cost %" PRIu64 ", with a wait of %" PRIu64 " ns", error,
             request->path, tokens, check.decision.retry_after_ns);
    return check;
}

static void run_check(struct run *run, bool is_peek)
{
    struct request request;
    struct ration_check check;
    uint64_t tokens, now_ns;

    choose_request(run, &request);
    tokens = engine_ops_tokens(&run->input);
    now_ns = choose_now(run);
    check = is_peek ? ask(run->engine, &request, tokens, true, now_ns, NULL)
                    : take(run, &request, tokens, now_ns);
    trace("%s %s user %s cost %" PRIu64 " at %" PRIu64 ": %d\n", is_peek ? "peek" : "check",
          request.path, request.user, tokens, now_ns, (int)check.decision.verdict);
    if (check.status != RATION_OK)
        fail(run, "a check has status %s", ration_status_name(check.status));
    if (request.path_index == ENGINE_OPS_STEADY_PATH && !is_peek && tokens > 0 &&
        check.decision.verdict == RATION_ALLOW)
        admit(run, request.user_index, tokens, now_ns);
}

/* Takes tokens whatever is left, from each limit that applies. */
static void run_charge(struct run *run)
{
    struct request request;
    struct ration_engine_guard guard;
    uint64_t tokens, now_ns;

    choose_request(run, &request);
    tokens = engine_ops_tokens(&run->input);
    now_ns = choose_now(run);
    trace("charge user %s %" PRIu64 " at %" PRIu64 "\n", request.user, tokens, now_ns);
    ration_engine_lock(run->engine, &guard);
    for (size_t i = 0; i < ration_policy_limit_count(ration_engine_policy(&guard)); i++) {
        struct ration_key key = {request.user, 1};

        (void)ration_limiter_charge(ration_engine_limiter(&guard, i), &key, tokens, now_ns);
    }
    ration_engine_unlock(&guard);
}

static struct ration_admin_op admin_op_of(const struct request *request)
{
    return (struct ration_admin_op){.attributes = request->attributes, .attribute_count = 2};
}

static void run_refund(struct run *run)
{
    struct request request;
    struct ration_admin_op op;
    uint64_t tokens, now_ns;

    choose_request(run, &request);
    op = admin_op_of(&request);
    tokens = engine_ops_tokens(&run->input);
    now_ns = choose_now(run);
    trace("refund %s user %s %" PRIu64 " at %" PRIu64 "\n", request.path, request.user, tokens,
          now_ns);
    if (ration_engine_refund(run->engine, &op, tokens, now_ns, NULL) != RATION_OK)
        fail(run, "a refund failed");
    forget_admissions(run, &request);
}

static void run_reset(struct run *run)
{
    struct request request;
    struct ration_admin_op op;
    uint64_t now_ns;

    choose_request(run, &request);
    op = admin_op_of(&request);
    now_ns = choose_now(run);
    trace("reset %s user %s at %" PRIu64 "\n", request.path, request.user, now_ns);
    if (ration_engine_reset(run->engine, &op, now_ns, NULL) != RATION_OK)
        fail(run, "a reset failed");
    forget_admissions(run, &request);
}

static void expect_blocked(struct run *run, ration_status status, uint64_t until_ns,
                           uint64_t now_ns)
{
    bool is_too_long = until_ns > now_ns && until_ns - now_ns > RATION_BLOCK_NS_MAX;

    if (is_too_long != (status == RATION_ERANGE))
        fail(run, "a block of %" PRIu64 " ns: %s", until_ns - now_ns, ration_status_name(status));
}

static void run_block(struct run *run)
{
    struct request request;
    struct ration_admin_op op;
    uint64_t now_ns, until_ns;

    choose_request(run, &request);
    op = admin_op_of(&request);
    now_ns = choose_now(run);
    until_ns = engine_ops_block_end_ns(&run->input, now_ns);
    trace("block %s user %s until %" PRIu64 " at %" PRIu64 "\n", request.path, request.user,
          until_ns, now_ns);
    expect_blocked(run, ration_engine_block_until(run->engine, &op, until_ns, now_ns, NULL),
                   until_ns, now_ns);
}

/* Inline limits -------------------------------------------------------------------------------- */

static struct ration_decision ask_inline(ration_engine *engine, int user, int limit_index,
                                         uint64_t tokens, uint64_t now_ns)
{
    static const char *const inline_limits[] = {"10/h", "3/s burst 7", "1/365d burst 16"};
    char name = (char)('a' + user);
    struct ration_key key = {&name, 1};
    struct ration_decision decision = {0};
    struct ration_limit limit;
    struct ration_batch_item item = {
        .request = &key, .cost_tokens = tokens, .limit = &limit, .decision = &decision};

    if (ration_limit_parse(inline_limits[limit_index % 3], &limit, NULL) != RATION_OK)
        abort();
    ration_limiter_take_batch(ration_engine_inline_limiter(engine), &item, 1, now_ns);
    return decision;
}

static void run_inline(struct run *run)
{
    uint8_t byte = engine_ops_byte(&run->input);
    char name = (char)('a' + byte % USER_COUNT);
    struct ration_key key = {&name, 1};
    ration_limiter *limiter = ration_engine_inline_limiter(run->engine);
    uint64_t now_ns = choose_now(run), until_ns;

    trace("inline %d user %c at %" PRIu64 "\n", byte / USER_COUNT % 4, name, now_ns);
    switch (byte / USER_COUNT % 4) {
    case 0:
        (void)ration_limiter_reset(limiter, &key, now_ns);
        return;
    case 1:
        until_ns = engine_ops_block_end_ns(&run->input, now_ns);
        expect_blocked(run, ration_limiter_block_until(limiter, &key, until_ns, now_ns), until_ns,
                       now_ns);
        return;
    default:
        ask_inline(run->engine, byte % USER_COUNT, byte, 1 + byte % 5, now_ns);
    }
}

/* Saves and loads ------------------------------------------------------------------------------ */

/*
 * What is not compared: a bucket that is full only after the last moment a slot can hold (36 years), which a charge and a
 * change of the limit can cause, is limited to that moment. A full bucket is not saved, but the engine still has it, which
 * shows when a reload gives it a limit that does not start full. And at a stale now a refilled log is not yet full.
 */
static bool is_same(const struct run *run, const struct ration_decision *a,
                    const struct ration_decision *b)
{
    bool is_cut =
        run->manual.ns > SLOT_LAST_NS || a->reset_after_ns > SLOT_LAST_NS - run->manual.ns;
    bool is_stale = run->manual.ns < run->latest_ns;

    if (run->is_reloaded && a->remaining == a->limit)
        return true;
    return a->verdict == b->verdict && a->limit == b->limit && a->remaining == b->remaining &&
           a->delay_ns == b->delay_ns && (is_cut || a->retry_after_ns == b->retry_after_ns) &&
           (is_cut || is_stale || a->reset_after_ns == b->reset_after_ns);
}

static void compare_decisions(struct run *run, const char *what, const struct ration_decision *a,
                              const struct ration_decision *b)
{
    if (!is_same(run, a, b))
        fail(run,
             "%s: verdict %d, %" PRIu64 " left, retry %" PRIu64 ", full after %" PRIu64
             "; loaded: %d, %" PRIu64 ", %" PRIu64 ", %" PRIu64,
             what, (int)a->verdict, a->remaining, a->retry_after_ns, a->reset_after_ns,
             (int)b->verdict, b->remaining, b->retry_after_ns, b->reset_after_ns);
}

static void compare_request(struct run *run, ration_engine *other, const struct request *request,
                            uint64_t tokens)
{
    struct ration_check_part parts[2][RATION_POLICY_MATCHES_MAX];
    struct ration_check a, b;
    struct ration_engine_guard guards[2]; /* protect the names of limits */
    char what[96];

    ration_engine_lock(run->engine, &guards[0]);
    ration_engine_lock(other, &guards[1]);
    a = ask(run->engine, request, tokens, true, run->manual.ns, parts[0]);
    b = ask(other, request, tokens, true, run->manual.ns, parts[1]);
    if (a.status != b.status || a.part_count != b.part_count)
        fail(run, "path %s: other limits apply after the load", request->path);
    for (uint32_t i = 0; i < a.part_count && a.part_count == b.part_count; i++) {
        snprintf(what, sizeof(what), "limit %s of path %s user %s cost %" PRIu64,
                 parts[0][i].limit->limit.name, request->path, request->user, tokens);
        compare_decisions(run, what, &parts[0][i].decision, &parts[1][i].decision);
    }
    compare_decisions(run, request->path, &a.decision, &b.decision);
    ration_engine_unlock(&guards[1]);
    ration_engine_unlock(&guards[0]);
}

/* Whether another engine answers every request like the current one. */
static void compare(struct run *run, ration_engine *other)
{
    static const uint64_t costs[] = {0, 1, 5};
    struct request request;

    /* A loaded engine is newer, and its time has not stopped. */
    if (run->manual.ns > run->created_at_ns &&
        run->manual.ns - run->created_at_ns > RATION_LIMITER_TIME_MAX_NS)
        return;
    engine_ops_compared_count++;
    for (int user = 0; user < USER_COUNT; user++) {
        for (int path = 0; path < ENGINE_OPS_PATH_COUNT; path++) {
            make_request(&request, path, user);
            for (size_t i = 0; i < 3; i++)
                compare_request(run, other, &request, costs[i]);
        }
        for (int i = 0; i < 3; i++) {
            struct ration_decision a = ask_inline(run->engine, user, i, 0, run->manual.ns);
            struct ration_decision b = ask_inline(other, user, i, 0, run->manual.ns);

            compare_decisions(run, "inline limit", &a, &b);
        }
    }
}

static ration_engine *load(struct run *run, struct saved_bytes *state, const char *policy_text)
{
    struct ration_engine_options options = options_of(run);
    ration_policy *policy = parse(run, policy_text);
    struct ration_error error = {.message = ""};
    ration_engine *loaded = NULL;

    if (policy == NULL)
        return NULL;
    if (ration_engine_load(&options, policy, saved_read, state, &loaded, &error) == RATION_OK)
        return loaded;
    fail(run, "a saved state does not load: %s", error.message);
    ration_policy_free(policy);
    return NULL;
}

static void move_clock(struct run *run, uint64_t ns)
{
    run->manual.ns += ns;
    engine_ops_wall_ns += ns;
    if (run->manual.ns > run->latest_ns)
        run->latest_ns = run->manual.ns;
}

static void note_reload(struct run *run)
{
    if (run->manual.ns > run->reloaded_at_ns)
        run->reloaded_at_ns = run->manual.ns;
}

/*
 * Saves, lets time pass, loads under the same policy or another, and continues with the one or the other engine.
 *
 * A save converts old buckets at once, the engine converts them at their next access. So after another reload, or later,
 * the two may differ: then the state only has to load. They may also differ if the save was at a stale now, at which full
 * buckets are still in use. And they may differ if the clock has run back to before a reload: a reload reclaims the slots
 * of keys that have been idle for some generations, and records until when they were in use in the reclaim watermark of
 * their set. Before that moment the engine gives an absent key no more than such a key had; watermarks are not saved
 * (docs/reference/dump-format.md says why), so the loaded engine gives what a new key has.
 */
static void run_save(struct run *run)
{
    char text[ENGINE_OPS_POLICY_MAX];
    struct saved_bytes state = {0};
    uint8_t how = engine_ops_byte(&run->input);
    bool is_stale = run->manual.ns < run->latest_ns;
    bool is_comparable = run->manual.ns >= run->reloaded_at_ns &&
                         ((!run->has_old_buckets && !is_stale) || (how & 3) == 0);
    ration_engine *loaded;

    trace("save %u at %" PRIu64 "\n", how & 7u, run->manual.ns);
    snprintf(text, sizeof(text), "%s", run->policy_text);
    if (ration_engine_save(run->engine, run->manual.ns, saved_write, &state) != RATION_OK)
        fail(run, "the state cannot be saved");
    if (how & 1)
        move_clock(run, engine_ops_time_ns(&run->input));
    if (how & 2)
        engine_ops_policy(&run->input, text);
    if (run->bug != NULL)
        run->bug(&state);
    trace("load at %" PRIu64 " under %s\n", run->manual.ns, text);
    loaded = load(run, &state, text);
    free(state.data);
    if (loaded == NULL)
        return;
    if ((how & 2) &&
        ration_engine_reload(run->engine, parse(run, text), NULL, NULL, NULL) != RATION_OK)
        fail(run, "a policy loads with a state, and cannot be reloaded");
    snprintf(run->policy_text, sizeof(run->policy_text), "%s", text);
    run->is_reloaded = (how & 2) != 0;
    if (is_comparable)
        compare(run, loaded);
    if (how & 2)
        note_reload(run);
    if (how & 4) {
        ration_engine *old = run->engine;

        run->engine = loaded;
        run->created_at_ns = run->manual.ns;
        run->reloaded_at_ns = (how & 2) ? run->manual.ns : 0;
        if (run->manual.ns > run->loaded_at_ns)
            run->loaded_at_ns = run->manual.ns;
        loaded = old;
    }
    run->has_old_buckets = (how & 2) || (run->has_old_buckets && !(how & 4));
    ration_engine_free(loaded);
}

static void run_reload(struct run *run)
{
    char text[ENGINE_OPS_POLICY_MAX];
    ration_policy *policy;

    engine_ops_policy(&run->input, text);
    policy = parse(run, text);
    if (policy == NULL)
        return;
    trace("reload %s\n", text);
    if (ration_engine_reload(run->engine, policy, NULL, NULL, NULL) == RATION_OK)
        snprintf(run->policy_text, sizeof(run->policy_text), "%s", text);
    else
        ration_policy_free(policy); /* no room for more limits */
    run->has_old_buckets = true;
    note_reload(run);
}

static void run_clock(struct run *run)
{
    uint8_t byte = engine_ops_byte(&run->input);
    uint64_t ns = engine_ops_time_ns(&run->input);

    if (byte < 224)
        move_clock(run, ns);
    else
        run->manual.ns -= ns < run->manual.ns ? ns : run->manual.ns;
    trace("clock %" PRIu64 "\n", run->manual.ns);
}

static void run_operation(struct run *run)
{
    switch (engine_ops_byte(&run->input) % 16) {
    case 0:
        run_save(run);
        break;
    case 1:
        run_reload(run);
        break;
    case 2:
        run_charge(run);
        break;
    case 3:
        run_refund(run);
        break;
    case 4:
        run_reset(run);
        break;
    case 5:
    case 6:
        run_block(run);
        break;
    case 7:
    case 8:
        run_inline(run);
        break;
    case 9:
    case 10:
        run_clock(run);
        break;
    case 11:
        run_check(run, true);
        break;
    default:
        run_check(run, false);
    }
}

const char *engine_ops_run(const uint8_t *data, size_t size, engine_ops_bug *bug)
{
    static struct run run;
    struct ration_engine_options options;
    ration_policy *policy;

    memset(&run, 0, sizeof(run));
    run.input = (struct engine_ops_input){data, size};
    run.bug = bug;
    run.manual.ns = run.latest_ns = run.created_at_ns = ENGINE_OPS_START_NS;
    run.clock = ration_clock_manual(&run.manual);
    engine_ops_policy(&run.input, run.policy_text);
    trace("policy %s\n", run.policy_text);
    policy = parse(&run, run.policy_text);
    if (policy == NULL)
        return run.error;
    options = options_of(&run);
    if (ration_engine_create(&options, policy, &run.engine, NULL) != RATION_OK)
        return "an engine cannot be created";
    for (int i = 0; i < OPERATIONS_MAX && run.input.left > 0 && run.error[0] == '\0'; i++)
        run_operation(&run);
    if (run.error[0] == '\0')
        run_save(&run);
    ration_engine_free(run.engine);
    return run.error[0] != '\0' ? run.error : NULL;
}
