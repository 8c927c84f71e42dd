/*
 * resp_admin: commands of operators: refund, reset, block, top, limits, reload, clock, flush, delete.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "codec/http/check.h"
#include "server/ops/limit_name.h"
#include "server/ops/reloader.h"
#include "server/ops/top.h"
#include "server/resp/resp_worker.h"

#define TOP_FIELDS        4
#define TOP_COUNT_DEFAULT 10

/* Fields of a limit: name, limit, match, key, shadow, and the numbers. */
#define ONE_MORE(name) +1
#define LIMIT_FIELDS   (5 RATION_ADMIN_NUMBERS_MAP(ONE_MORE))

/* Options that come before the attributes of a request. */
struct admin_options {
    struct ration_key limit_name;
    bool has_limit;
    uint64_t tokens;
    bool accepts_tokens; /* TOKENS is allowed, and not read yet */
    uint64_t block_ns;
    bool expects_block; /* SECONDS or MS is required, and not read yet */
};

/* Parses the duration of a block in units of unit_ns. An overflow becomes UINT64_MAX, which the engine rejects. */
static bool read_block(const struct ration_key *argument, uint64_t unit_ns, uint64_t *out_ns)
{
    uint64_t number;

    if (!ration_resp_arg_number(argument, &number))
        return false;
    if (__builtin_mul_overflow(number, unit_ns, out_ns))
        *out_ns = UINT64_MAX;
    return true;
}

/* Reads one option and its value: 1. 0: it is not an option, so attributes begin. -1: answered with an error. */
static int read_option(struct ration_resp_worker *worker, size_t index,
                       struct admin_options *options)
{
    struct ration_resp_args args = ration_resp_args_of(worker);
    const struct ration_key *name = &args.items[index];
    const struct ration_key *value = &args.items[index + 1];
    bool is_number = true;

    if (ration_commands_is_word(name, "limit") && !options->has_limit) {
        options->has_limit = true;
        options->limit_name = *value;
    } else if (ration_commands_is_word(name, "tokens") && options->accepts_tokens) {
        options->accepts_tokens = false;
        is_number = ration_resp_arg_number(value, &options->tokens);
    } else if (ration_commands_is_word(name, "seconds") && options->expects_block) {
        options->expects_block = false;
        is_number = read_block(value, RATION_NS_PER_SECOND, &options->block_ns);
    } else if (ration_commands_is_word(name, "ms") && options->expects_block) {
        options->expects_block = false;
        is_number = read_block(value, RATION_NS_PER_MS, &options->block_ns);
    } else {
        return 0;
    }
    if (is_number)
        return 1;
    ration_resp_error(worker, RATION_ERROR_INTEGER);
    return -1;
}

/* Reads options, then attributes. False: answered with an error. */
static bool read_admin_op(struct ration_resp_worker *worker, struct admin_options *out_options,
                          struct ration_admin_op *out_op)
{
    struct ration_resp_args args = ration_resp_args_of(worker);
    size_t first = 1;
    size_t count = 0;

    while (first + 1 < args.count) {
        int taken = read_option(worker, first, out_options);

        if (taken < 0)
            return false;
        if (taken == 0)
            break;
        first += 2;
    }
    if (!ration_resp_attributes(worker, first, worker->attributes, RATION_ATTRIBUTES_MAX, &count))
        return false;
    *out_op = (struct ration_admin_op){.attributes = worker->attributes, .attribute_count = count};
    return true;
}

/* The name as the policy stores it, valid while the guard is held; NULL: no such limit, and the request is answered. */
static const char *find_limit_name(struct ration_resp_worker *worker,
                                   const struct ration_engine_guard *guard,
                                   enum ration_limit_names among, const struct ration_key *name)
{
    char reason[RATION_LIMIT_NAME_TEXT_SIZE];
    char error[RATION_LIMIT_NAME_TEXT_SIZE + sizeof("ERR ")];
    const char *found = ration_limit_name_find(guard, among, name, reason);

    if (found == NULL) {
        snprintf(error, sizeof(error), "ERR %s", reason);
        ration_resp_error(worker, error);
        ration_connection_yield(worker->connection); /* finding a similar name is slow */
    }
    return found;
}

/* Replies with the number of limits concerned, or an error. */
static void write_admin_result(struct ration_resp_worker *worker, ration_status status,
                               size_t count)
{
    if (status == RATION_OK)
        ration_resp_write_count(worker->output, count);
    else if (status == RATION_EUNSUPPORTED)
        ration_resp_error(worker, "ERR none of the limits that apply can be blocked: shadow limits "
                                  "deny nobody");
    else if (status == RATION_ERANGE)
        ration_resp_error(worker, "ERR " RATION_BLOCK_TOO_LONG);
    else if (status == RATION_ESTORE)
        ration_resp_error(worker,
                          "ERR Redis is unavailable; whether the change was made is not known");
    else if (status == RATION_ENOMEM)
        ration_resp_error(worker,
                          "ERR the table has no free slot for the key, and the key is not blocked");
    else
        ration_resp_error(
            worker, "ERR a request has at most 64 attributes, none of them twice, an ip "
                    "that is an address, values of at most max-attribute-size, and at most 16 "
                    "limits that apply");
}

static void on_admin_done(void *context, ration_status status, size_t count)
{
    struct ration_connection *connection = context;
    struct ration_resp_worker *worker = ration_resp_worker_take(connection);
    size_t size_before = worker->output->size;

    worker->session->admin_run = NULL;
    write_admin_result(worker, status, count);
    if (worker->session->is_admin_silent)
        ration_output_rewind(worker->output, size_before);
    ration_connection_resume(connection);
}

/* Executes the operation in Redis; on_admin_done() replies, perhaps before this returns. */
static void start_admin_op(struct ration_resp_worker *worker,
                           const struct ration_engine_admin_task *task)
{
    worker->session->is_admin_silent = worker->session->reply_mode != RATION_REPLY_ON;
    ration_connection_pause(
        worker->connection); /* on_admin_done() may resume it before begin returns */
    worker->session->admin_run = ration_engine_admin_begin(worker->loop_worker->engine_connection,
                                                           task, on_admin_done, worker->connection);
}

static ration_status apply_admin_op(ration_engine *engine,
                                    const struct ration_engine_admin_task *task, size_t *out_count)
{
    switch (task->kind) {
    case RATION_ADMIN_REFUND:
        return ration_engine_refund(engine, task->op, task->tokens, task->now_ns, out_count);
    case RATION_ADMIN_RESET:
        return ration_engine_reset(engine, task->op, task->now_ns, out_count);
    default:
        return ration_engine_block_until(engine, task->op, task->until_ns, task->now_ns, out_count);
    }
}

static void run_admin_op(struct ration_resp_worker *worker, enum ration_admin_op_kind kind,
                         const struct ration_admin_op *op, const struct admin_options *options)
{
    struct ration_engine_admin_task task = {
        .kind = kind, .op = op, .tokens = options->tokens, .now_ns = ration_resp_now(worker)};
    ration_status status;
    size_t count = 0;

    if (__builtin_add_overflow(task.now_ns, options->block_ns, &task.until_ns))
        task.until_ns = UINT64_MAX;
    if (worker->loop_worker->engine_connection != NULL) {
        start_admin_op(worker, &task);
        return;
    }
    status = apply_admin_op(worker->service->engine, &task, &count);
    write_admin_result(worker, status, count);
}

/* Serves an operation on the limits that apply to a request. */
static void serve_admin_op(struct ration_resp_worker *worker, enum ration_admin_op_kind kind,
                           struct admin_options *options)
{
    ration_engine *engine = worker->service->engine;
    struct ration_admin_op op;
    struct ration_engine_guard guard;
    uint64_t steps = 0;

    if (!read_admin_op(worker, options, &op))
        return;
    if (options->expects_block) {
        ration_resp_error(
            worker, "ERR the duration is missing: RATION.BLOCK SECONDS s | MS ms [LIMIT name] "
                    "attribute value ...");
        return;
    }
    ration_engine_lock(engine, &guard);
    if (options->has_limit)
        op.limit_name =
            find_limit_name(worker, &guard, RATION_LIMIT_NAMES_POLICY, &options->limit_name);
    op.guard = &guard;
    op.match_steps = &steps;
    if (!options->has_limit || op.limit_name != NULL)
        run_admin_op(worker, kind, &op, options);
    ration_engine_unlock(&guard);
    ration_connection_charge(worker->connection, steps);
}

void ration_resp_refund(struct ration_resp_worker *worker)
{
    serve_admin_op(worker, RATION_ADMIN_REFUND,
                   &(struct admin_options){.accepts_tokens = true, .tokens = 1});
}

void ration_resp_reset_keys(struct ration_resp_worker *worker)
{
    serve_admin_op(worker, RATION_ADMIN_RESET, &(struct admin_options){.tokens = 0});
}

void ration_resp_block(struct ration_resp_worker *worker)
{
    serve_admin_op(worker, RATION_ADMIN_BLOCK, &(struct admin_options){.expects_block = true});
}

struct top_options {
    enum ration_top by;
    uint64_t count;
    const struct ration_key *limit_name; /* NULL: all limits */
};

static bool read_top_options(struct ration_resp_worker *worker, struct top_options *top)
{
    struct ration_resp_args args = ration_resp_args_of(worker);

    for (size_t i = 1; i < args.count; i += 2) {
        const struct ration_key *value = &args.items[i + 1];

        if (i + 1 == args.count)
            return false;
        if (ration_commands_is_word(&args.items[i], "by")) {
            if (ration_commands_is_word(value, "cost"))
                top->by = RATION_TOP_COST;
            else if (!ration_commands_is_word(value, "denied"))
                return false;
        } else if (ration_commands_is_word(&args.items[i], "count")) {
            if (!ration_resp_arg_number(value, &top->count) || top->count == 0 ||
                top->count > RATION_TOP_MAX)
                return false;
        } else if (ration_commands_is_word(&args.items[i], "limit")) {
            top->limit_name = value;
        } else {
            return false;
        }
    }
    return true;
}

static void write_top_item(struct ration_output *output, enum ration_resp_version version,
                           const struct ration_top_item *item)
{
    size_t name_size = item->key.name_size < RATION_TOP_KEY_NAME_MAX ? (size_t)item->key.name_size
                                                                     : RATION_TOP_KEY_NAME_MAX;

    ration_resp_write_map(output, version, TOP_FIELDS);
    ration_resp_write_bulk_text(output, "limit");
    ration_resp_write_bulk_text(output, item->limit_name);
    ration_resp_write_bulk_text(output, "key");
    ration_resp_write_bulk(output, item->key.name, name_size);
    ration_resp_write_bulk_text(output, "count");
    ration_resp_write_count(output, item->key.count);
    ration_resp_write_bulk_text(output, "error");
    ration_resp_write_count(output, item->key.error);
}

static bool write_top(struct ration_walk *walk)
{
    struct ration_top_list *list = &((struct ration_top_walk *)walk)->list;

    ration_top_add_inline(list, walk->service->engine);
    ration_resp_write_array(&walk->text, list->count);
    for (size_t i = 0; i < list->count; i++)
        write_top_item(&walk->text, ration_resp_session_version(walk->connection), &list->items[i]);
    return true;
}

static void start_top(struct ration_resp_worker *worker, const struct top_options *top,
                      const char *limit_name)
{
    static const struct ration_walk_kind kind = {.size = sizeof(struct ration_top_walk),
                                                 .begin = ration_top_walk_begin,
                                                 .visit = ration_top_walk_visit,
                                                 .finish = write_top,
                                                 .head = ration_resp_walk_head,
                                                 .end = ration_resp_walk_end};
    struct ration_walk *walk = ration_resp_walk(worker, &kind);

    if (walk != NULL)
        ration_top_walk_start(walk, top->by, top->count, limit_name, ration_resp_now(worker));
}

void ration_resp_top(struct ration_resp_worker *worker)
{
    struct top_options top = {.by = RATION_TOP_DENIED, .count = TOP_COUNT_DEFAULT};
    struct ration_engine_guard guard;
    const char *name = NULL;

    if (!read_top_options(worker, &top)) {
        ration_resp_error(worker, "ERR syntax error: RATION.TOP [BY DENIED|COST] [COUNT 1 to 100] "
                                  "[LIMIT name]");
        return;
    }
    ration_engine_lock(worker->service->engine, &guard);
    if (top.limit_name != NULL)
        name = find_limit_name(worker, &guard, RATION_LIMIT_NAMES_ALL, top.limit_name);
    if (top.limit_name == NULL || name != NULL)
        start_top(worker, &top, name);
    ration_engine_unlock(&guard);
}

static void write_count_field(struct ration_output *output, const char *name, uint64_t count)
{
    ration_resp_write_bulk_text(output, name);
    ration_resp_write_count(output, count);
}

static void write_limit(struct ration_output *output, enum ration_resp_version version,
                        const struct ration_admin_limit *limit)
{
    const struct ration_policy_limit *policy_limit = limit->limit;

    ration_resp_write_map(output, version, LIMIT_FIELDS);
    ration_resp_write_bulk_text(output, "name");
    ration_resp_write_bulk_text(output, policy_limit->limit.name);
    ration_resp_write_bulk_text(output, "limit");
    ration_resp_write_bulk_text(output, limit->text);
    ration_resp_write_bulk_text(output, "match");
    ration_resp_write_bulk_text(output, limit->match);
    ration_resp_write_bulk_text(output, "key");
    ration_resp_write_array(output, policy_limit->key_count);
    for (size_t i = 0; i < policy_limit->key_count; i++)
        ration_resp_write_bulk_text(output, policy_limit->key_names[i]);
    write_count_field(output, "shadow", policy_limit->is_shadow);
#define WRITE_NUMBER(name) write_count_field(output, #name, limit->name);
    RATION_ADMIN_NUMBERS_MAP(WRITE_NUMBER)
#undef WRITE_NUMBER
}

static void begin_limits(struct ration_walk *walk)
{
    ration_resp_write_array(&walk->text, walk->item_count);
}

static void visit_limits(struct ration_walk *walk, const struct ration_engine_guard *guard,
                         size_t first, size_t count)
{
    for (size_t i = first; i < first + count; i++) {
        struct ration_admin_limit limit;

        ration_limit_list_get(guard, i, &limit);
        write_limit(&walk->text, ration_resp_session_version(walk->connection), &limit);
    }
}

void ration_resp_limits(struct ration_resp_worker *worker)
{
    static const struct ration_walk_kind kind = {.size = sizeof(struct ration_walk),
                                                 .begin = begin_limits,
                                                 .visit = visit_limits,
                                                 .head = ration_resp_walk_head,
                                                 .end = ration_resp_walk_end};

    ration_resp_start_walk(worker, &kind);
}

/* An error is one short line; the log has the whole text. */
static void write_not_reloaded(struct ration_resp_worker *worker, const char *text)
{
    static const char more[] = " ... (the whole text is in the log)";
    char error[RATION_RESP_ERROR_BYTES_MAX + 1];
    int size = snprintf(error, sizeof(error), "ERR the policy was not reloaded: %s", text);

    if (size >= (int)sizeof(error))
        memcpy(error + sizeof(error) - sizeof(more), more, sizeof(more));
    ration_resp_error(worker, error);
}

/* Ends a task whose reply is written from size_before on. The connection may be freed after this. */
static void end_task(struct ration_resp_worker *worker, size_t size_before)
{
    if (worker->session->is_reload_silent)
        ration_output_rewind(worker->output, size_before);
    ration_connection_resume(worker->connection);
}

static void answer_reload(struct ration_connection *connection,
                          const struct ration_reload_result *result)
{
    struct ration_resp_worker *worker = ration_resp_worker_take(connection);
    size_t size_before = worker->output->size;

    if (!result->is_done)
        write_not_reloaded(worker, result->text);
    else
        ration_resp_write_bulk_text(worker->output, result->text);
    end_task(worker, size_before);
}

/* Starts a task on the reloader's thread; answer() writes the reply when the task is done. */
static void begin_task(struct ration_resp_worker *worker, enum ration_reloader_task task,
                       ration_reload_answer *answer)
{
    worker->session->is_reload_silent = worker->session->reply_mode != RATION_REPLY_ON;
    if (!ration_reloader_serve(worker->service->reloader, task, worker->connection, answer,
                               &worker->session->reload))
        ration_resp_error(worker, "ERR the server is short of memory");
}

void ration_resp_reload(struct ration_resp_worker *worker)
{
    begin_task(worker, RATION_RELOADER_RELOAD, answer_reload);
}

static void answer_clear_inline(struct ration_connection *connection,
                                const struct ration_reload_result *result)
{
    struct ration_resp_worker *worker = ration_resp_worker_take(connection);
    size_t size_before = worker->output->size;

    if (!result->is_done)
        ration_resp_error(worker, "ERR " RATION_INLINE_IN_REDIS);
    else
        ration_resp_write_simple(worker->output, "OK");
    end_task(worker, size_before);
}

/* RATION.FLUSH INLINE: not on the loop, since clearing may visit every slot of a large table. */
void ration_resp_flush_inline(struct ration_resp_worker *worker)
{
    struct ration_resp_args args = ration_resp_args_of(worker);

    if (!ration_commands_is_word(&args.items[1], "inline"))
        ration_resp_error(worker, "ERR syntax error: RATION.FLUSH INLINE");
    else
        begin_task(worker, RATION_RELOADER_CLEAR_INLINE, answer_clear_inline);
}

/* Limiters are created when the manual clock is near 0, and support no time beyond their range. */
static void set_clock(struct ration_resp_worker *worker, uint64_t ns, bool is_advance)
{
    struct ration_manual_clock *manual = worker->service->manual;
    uint64_t from_ns = is_advance ? ration_resp_now(worker) : 0;
    char error[128];

    if (from_ns > RATION_LIMITER_TIME_MAX_NS || ns > RATION_LIMITER_TIME_MAX_NS - from_ns) {
        snprintf(error, sizeof(error),
                 "ERR the clock goes from 0 to %" PRIu64 " ns (17 years), where the tables' time "
                 "ends",
                 RATION_LIMITER_TIME_MAX_NS);
        ration_resp_error(worker, error);
        return;
    }
    if (is_advance)
        ration_clock_manual_advance(manual, ns);
    else
        ration_clock_manual_set(manual, ns);
    ration_resp_write_simple(worker->output, "OK");
}

void ration_resp_clock(struct ration_resp_worker *worker)
{
    struct ration_resp_args args = ration_resp_args_of(worker);
    struct ration_manual_clock *manual = worker->service->manual;
    uint64_t number = 0;

    if (ration_commands_is_word(&args.items[1], "get") && args.count == 2) {
        ration_resp_write_count(worker->output, ration_resp_now(worker));
        return;
    }
    if (args.count != 3 || !(ration_commands_is_word(&args.items[1], "set") ||
                             ration_commands_is_word(&args.items[1], "advance"))) {
        ration_resp_error(worker, "ERR syntax error: RATION.CLOCK GET | SET ns | ADVANCE ns");
    } else if (manual == NULL) {
        ration_resp_error(worker,
                          "ERR the clock is the real one: start with --manual-clock to set it");
    } else if (!ration_resp_arg_number(&args.items[2], &number)) {
        ration_resp_error(worker, RATION_ERROR_INTEGER);
    } else {
        set_clock(worker, number, ration_commands_is_word(&args.items[1], "advance"));
    }
}

/* DEL: resets keys of inline limits. Replies with the number of keys that had tokens in use. */
void ration_resp_delete(struct ration_resp_worker *worker)
{
    struct ration_resp_args args = ration_resp_args_of(worker);
    ration_limiter *inline_limiter = ration_engine_inline_limiter(worker->service->engine);
    uint64_t now_ns = ration_resp_now(worker);
    size_t count = 0;

    if (worker->loop_worker->engine_connection != NULL) {
        start_admin_op(worker, &(struct ration_engine_admin_task){.kind = RATION_ADMIN_RESET,
                                                                  .keys = args.items + 1,
                                                                  .key_count = args.count - 1,
                                                                  .now_ns = now_ns});
        return;
    }
    for (size_t i = 1; i < args.count; i++) {
        struct ration_decision decision;

        if (ration_limiter_peek(inline_limiter, &args.items[i], 0, now_ns, &decision, NULL) ==
            RATION_OK)
            count += decision.reset_after_ns > 0;
        (void)ration_limiter_reset(inline_limiter, &args.items[i], now_ns);
    }
    ration_resp_write_count(worker->output, count);
}
