/*
 * resp_admin: what operators ask and do.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "proto/check.h"
#include "server/limit_list.h"
#include "server/limit_name.h"
#include "server/reload.h"
#include "server/resp_session.h"
#include "server/top.h"

#define TOP_FIELDS        4
#define TOP_COUNT_DEFAULT 10

/* name, limit, match, key and shadow, and the numbers. */
#define ONE_MORE(name) +1
#define LIMIT_FIELDS   (5 RATION_ADMIN_NUMBERS_MAP(ONE_MORE))

/* Words that come before the attributes of a request. */
struct edit_words {
    struct ration_key limit_name;
    bool has_limit;
    uint64_t tokens;
    bool has_tokens; /* may still be given; so has_block */
    uint64_t block_ns;
    bool has_block;
};

/* How long a block is, in units of so many nanoseconds. What overflows is longer than the engine allows. */
static bool read_block(const struct ration_key *word, uint64_t unit_ns, uint64_t *out_ns)
{
    uint64_t number;

    if (!ration_word_number(word, &number))
        return false;
    if (__builtin_mul_overflow(number, unit_ns, out_ns))
        *out_ns = UINT64_MAX;
    return true;
}

/* One option and its value; 0: it is none, and attributes begin. -1: answered with an error. */
static int read_option(struct ration_resp_desk *desk, size_t index, struct edit_words *edit)
{
    struct ration_words words = ration_desk_words(desk);
    const struct ration_key *name = &words.items[index];
    const struct ration_key *value = &words.items[index + 1];
    bool is_number = true;

    if (ration_commands_is_word(name, "limit") && !edit->has_limit) {
        edit->has_limit = true;
        edit->limit_name = *value;
    } else if (ration_commands_is_word(name, "tokens") && edit->has_tokens) {
        edit->has_tokens = false;
        is_number = ration_word_number(value, &edit->tokens);
    } else if (ration_commands_is_word(name, "seconds") && edit->has_block) {
        edit->has_block = false;
        is_number = read_block(value, RATION_NS_PER_SECOND, &edit->block_ns);
    } else if (ration_commands_is_word(name, "ms") && edit->has_block) {
        edit->has_block = false;
        is_number = read_block(value, RATION_NS_PER_MS, &edit->block_ns);
    } else {
        return 0;
    }
    if (is_number)
        return 1;
    ration_desk_error(desk, RATION_ERROR_INTEGER);
    return -1;
}

/* Options, then attributes. False: answered with an error. */
static bool read_edit(struct ration_resp_desk *desk, struct edit_words *words_out,
                      struct ration_edit *out_edit)
{
    struct ration_words words = ration_desk_words(desk);
    size_t first = 1;
    size_t count = 0;

    while (first + 1 < words.count) {
        int taken = read_option(desk, first, words_out);

        if (taken < 0)
            return false;
        if (taken == 0)
            break;
        first += 2;
    }
    if (!ration_desk_attributes(desk, first, desk->attributes, RATION_ATTRIBUTES_MAX, &count))
        return false;
    *out_edit = (struct ration_edit){.attributes = desk->attributes, .attribute_count = count};
    return true;
}

/* The name of a limit that there is, for as long as the visit; NULL: answered with an error. */
static const char *find_limit(struct ration_resp_desk *desk, const struct ration_visit *visit,
                              enum ration_limit_names among, const struct ration_key *name)
{
    char reason[RATION_LIMIT_NAME_TEXT_SIZE];
    char error[RATION_LIMIT_NAME_TEXT_SIZE + sizeof("ERR ")];
    const char *found = ration_limit_name_find(visit, among, name, reason);

    if (found == NULL) {
        snprintf(error, sizeof(error), "ERR %s", reason);
        ration_desk_error(desk, error);
        ration_connection_yield(desk->connection); /* the guess is slow */
    }
    return found;
}

/* How many limits it concerned, or why it could not be done. */
static void answer_edit(struct ration_resp_desk *desk, ration_status status, size_t count)
{
    if (status == RATION_OK)
        ration_resp_write_count(desk->output, count);
    else if (status == RATION_EUNFIT)
        ration_desk_error(desk, "ERR none of the limits that apply can be blocked: shadow limits "
                                "deny nobody");
    else if (status == RATION_ERANGE)
        ration_desk_error(desk, "ERR " RATION_BLOCK_TOO_LONG);
    else if (status == RATION_ESTORE)
        ration_desk_error(desk, "ERR Redis cannot be asked; what was done is not known");
    else if (status == RATION_ENOMEM)
        ration_desk_error(desk, "ERR the key finds no place in the table, and is not blocked");
    else
        ration_desk_error(
            desk, "ERR a request has at most 64 attributes, none of them twice, an ip "
                  "that is an address, values of at most attribute-bytes-max, and at most 16 "
                  "limits that apply");
}

static void on_edited(void *context, ration_status status, size_t count)
{
    struct ration_connection *connection = context;
    struct ration_resp_desk *desk = ration_resp_desk_take(connection);
    size_t size_before = desk->output->size;

    desk->session->editing = NULL;
    answer_edit(desk, status, count);
    if (desk->session->is_edit_silent)
        ration_output_rewind(desk->output, size_before);
    ration_connection_resume(connection);
}

/* In Redis: answered now, or when it is done. */
static void edit_later(struct ration_resp_desk *desk, const struct ration_gate_task *task)
{
    desk->session->is_edit_silent = desk->session->reply_mode != RATION_REPLY_ON;
    ration_connection_hold(desk->connection); /* if it is done at once, this is over at once */
    desk->session->editing =
        ration_gate_edit_begin(desk->part->link, task, on_edited, desk->connection);
}

static ration_status edit_now(ration_gate *gate, const struct ration_gate_task *task,
                              size_t *out_count)
{
    switch (task->kind) {
    case RATION_EDIT_REFUND:
        return ration_gate_refund(gate, task->edit, task->tokens, task->now_ns, out_count);
    case RATION_EDIT_RESET:
        return ration_gate_reset(gate, task->edit, task->now_ns, out_count);
    default:
        return ration_gate_block_until(gate, task->edit, task->until_ns, task->now_ns, out_count);
    }
}

static void run_edit(struct ration_resp_desk *desk, enum ration_gate_edit_kind kind,
                     const struct ration_edit *edit, const struct edit_words *words)
{
    struct ration_gate_task task = {
        .kind = kind, .edit = edit, .tokens = words->tokens, .now_ns = ration_desk_now(desk)};
    ration_status status;
    size_t count = 0;

    if (__builtin_add_overflow(task.now_ns, words->block_ns, &task.until_ns))
        task.until_ns = UINT64_MAX;
    if (desk->part->link != NULL) {
        edit_later(desk, &task);
        return;
    }
    status = edit_now(desk->service->gate, &task, &count);
    answer_edit(desk, status, count);
}

/* What is done to the limits of a request. */
static void serve_edit(struct ration_resp_desk *desk, enum ration_gate_edit_kind kind,
                       struct edit_words *words)
{
    ration_gate *gate = desk->service->gate;
    struct ration_edit edit;
    struct ration_visit visit;
    uint64_t steps = 0;

    if (!read_edit(desk, words, &edit))
        return;
    if (words->has_block) {
        ration_desk_error(desk, "ERR for how long? RATION.BLOCK SECONDS s | MS ms [LIMIT name] "
                                "attribute value ...");
        return;
    }
    ration_gate_enter(gate, &visit);
    if (words->has_limit)
        edit.limit_name = find_limit(desk, &visit, RATION_LIMIT_NAMES_POLICY, &words->limit_name);
    edit.guard = &visit;
    edit.match_steps = &steps;
    if (!words->has_limit || edit.limit_name != NULL)
        run_edit(desk, kind, &edit, words);
    ration_gate_leave(&visit);
    ration_connection_charge(desk->connection, steps);
}

void ration_desk_refund(struct ration_resp_desk *desk)
{
    serve_edit(desk, RATION_EDIT_REFUND, &(struct edit_words){.has_tokens = true, .tokens = 1});
}

void ration_desk_reset_keys(struct ration_resp_desk *desk)
{
    serve_edit(desk, RATION_EDIT_RESET, &(struct edit_words){.tokens = 0});
}

void ration_desk_block(struct ration_resp_desk *desk)
{
    serve_edit(desk, RATION_EDIT_BLOCK, &(struct edit_words){.has_block = true});
}

struct top_words {
    enum ration_top by;
    uint64_t count;
    const struct ration_key *limit_name; /* NULL: all of them */
};

static bool read_top(struct ration_resp_desk *desk, struct top_words *top)
{
    struct ration_words words = ration_desk_words(desk);

    for (size_t i = 1; i < words.count; i += 2) {
        const struct ration_key *value = &words.items[i + 1];

        if (i + 1 == words.count)
            return false;
        if (ration_commands_is_word(&words.items[i], "by")) {
            if (ration_commands_is_word(value, "cost"))
                top->by = RATION_TOP_COST;
            else if (!ration_commands_is_word(value, "denied"))
                return false;
        } else if (ration_commands_is_word(&words.items[i], "count")) {
            if (!ration_word_number(value, &top->count) || top->count == 0 ||
                top->count > RATION_TOP_MAX)
                return false;
        } else if (ration_commands_is_word(&words.items[i], "limit")) {
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

    ration_top_add_throttle(list, walk->service->gate);
    ration_resp_write_array(&walk->text, list->count);
    for (size_t i = 0; i < list->count; i++)
        write_top_item(&walk->text, ration_session_version(walk->connection), &list->items[i]);
    return true;
}

static void start_top(struct ration_resp_desk *desk, const struct top_words *top,
                      const char *limit_name)
{
    static const struct ration_walk_kind kind = {.size = sizeof(struct ration_top_walk),
                                                 .begin = ration_top_walk_begin,
                                                 .visit = ration_top_walk_visit,
                                                 .rest = write_top,
                                                 .head = ration_resp_walk_head,
                                                 .end = ration_resp_walk_end};
    struct ration_walk *walk = ration_desk_walk(desk, &kind);

    if (walk != NULL)
        ration_top_walk_start(walk, top->by, top->count, limit_name, ration_desk_now(desk));
}

void ration_desk_top(struct ration_resp_desk *desk)
{
    struct top_words top = {.by = RATION_TOP_DENIED, .count = TOP_COUNT_DEFAULT};
    struct ration_visit visit;
    const char *name = NULL;

    if (!read_top(desk, &top)) {
        ration_desk_error(desk, "ERR syntax error: RATION.TOP [BY DENIED|COST] [COUNT 1 to 100] "
                                "[LIMIT name]");
        return;
    }
    ration_gate_enter(desk->service->gate, &visit);
    if (top.limit_name != NULL)
        name = find_limit(desk, &visit, RATION_LIMIT_NAMES_ALL, top.limit_name);
    if (top.limit_name == NULL || name != NULL)
        start_top(desk, &top, name);
    ration_gate_leave(&visit);
}

static void write_count_field(struct ration_output *output, const char *name, uint64_t count)
{
    ration_resp_write_bulk_text(output, name);
    ration_resp_write_count(output, count);
}

static void write_limit(struct ration_output *output, enum ration_resp_version version,
                        const struct ration_admin_limit *limit)
{
    const struct ration_policy_limit *of_policy = limit->limit;

    ration_resp_write_map(output, version, LIMIT_FIELDS);
    ration_resp_write_bulk_text(output, "name");
    ration_resp_write_bulk_text(output, of_policy->limit.name);
    ration_resp_write_bulk_text(output, "limit");
    ration_resp_write_bulk_text(output, limit->text);
    ration_resp_write_bulk_text(output, "match");
    ration_resp_write_bulk_text(output, limit->match);
    ration_resp_write_bulk_text(output, "key");
    ration_resp_write_array(output, of_policy->key_count);
    for (size_t i = 0; i < of_policy->key_count; i++)
        ration_resp_write_bulk_text(output, of_policy->key_names[i]);
    write_count_field(output, "shadow", of_policy->is_shadow);
#define WRITE_NUMBER(name) write_count_field(output, #name, limit->name);
    RATION_ADMIN_NUMBERS_MAP(WRITE_NUMBER)
#undef WRITE_NUMBER
}

static void begin_limits(struct ration_walk *walk)
{
    ration_resp_write_array(&walk->text, walk->item_count);
}

static void visit_limits(struct ration_walk *walk, const struct ration_visit *visit, size_t first,
                         size_t count)
{
    for (size_t i = first; i < first + count; i++) {
        struct ration_admin_limit limit;

        ration_limit_list_get(visit, i, &limit);
        write_limit(&walk->text, ration_session_version(walk->connection), &limit);
    }
}

void ration_desk_limits(struct ration_resp_desk *desk)
{
    static const struct ration_walk_kind kind = {.size = sizeof(struct ration_walk),
                                                 .begin = begin_limits,
                                                 .visit = visit_limits,
                                                 .head = ration_resp_walk_head,
                                                 .end = ration_resp_walk_end};

    ration_desk_start_walk(desk, &kind);
}

/* An error is one line, and not long: what is cut off is in the log. */
static void write_not_reloaded(struct ration_resp_desk *desk, const char *text)
{
    static const char more[] = " ... (all of it is in the log)";
    char error[RATION_RESP_ERROR_BYTES_MAX + 1];
    int size = snprintf(error, sizeof(error), "ERR the policy was not reloaded: %s", text);

    if (size >= (int)sizeof(error))
        memcpy(error + sizeof(error) - sizeof(more), more, sizeof(more));
    ration_desk_error(desk, error);
}

/* The reply to a task is written from size_before on; the connection may be gone after this. */
static void end_task(struct ration_resp_desk *desk, size_t size_before)
{
    if (desk->session->is_reload_silent)
        ration_output_rewind(desk->output, size_before);
    ration_connection_resume(desk->connection);
}

static void answer_reload(struct ration_connection *connection,
                          const struct ration_reload_result *result)
{
    struct ration_resp_desk *desk = ration_resp_desk_take(connection);
    size_t size_before = desk->output->size;

    if (!result->is_done)
        write_not_reloaded(desk, result->text);
    else
        ration_resp_write_bulk_text(desk->output, result->text);
    end_task(desk, size_before);
}

/* Has the reloader's thread do the task, and answer() write the reply later. */
static void begin_task(struct ration_resp_desk *desk, enum ration_reloader_task task,
                       ration_reload_answer *answer)
{
    desk->session->is_reload_silent = desk->session->reply_mode != RATION_REPLY_ON;
    if (!ration_reloader_serve(desk->service->reloader, task, desk->connection, answer,
                               &desk->session->reload))
        ration_desk_error(desk, "ERR the server is short of memory");
}

void ration_desk_reload(struct ration_resp_desk *desk)
{
    begin_task(desk, RATION_RELOADER_RELOAD, answer_reload);
}

static void answer_flush(struct ration_connection *connection,
                         const struct ration_reload_result *result)
{
    struct ration_resp_desk *desk = ration_resp_desk_take(connection);
    size_t size_before = desk->output->size;

    if (!result->is_done)
        ration_desk_error(desk, "ERR " RATION_INLINE_IN_REDIS);
    else
        ration_resp_write_simple(desk->output, "OK");
    end_task(desk, size_before);
}

/* RATION.FLUSH INLINE: not on the loop, since clearing may visit every slot of a large table. */
void ration_desk_flush_inline(struct ration_resp_desk *desk)
{
    struct ration_words words = ration_desk_words(desk);

    if (!ration_commands_is_word(&words.items[1], "inline"))
        ration_desk_error(desk, "ERR syntax error: RATION.FLUSH INLINE");
    else
        begin_task(desk, RATION_RELOADER_CLEAR_INLINE, answer_flush);
}

/* Limiters are made when the manual clock is near 0, and know no time beyond their range. */
static void set_clock(struct ration_resp_desk *desk, uint64_t ns, bool is_advance)
{
    struct ration_manual_clock *manual = desk->service->manual;
    uint64_t from_ns = is_advance ? ration_desk_now(desk) : 0;
    char error[128];

    if (from_ns > RATION_LIMITER_TIME_MAX_NS || ns > RATION_LIMITER_TIME_MAX_NS - from_ns) {
        snprintf(error, sizeof(error),
                 "ERR the clock goes from 0 to %" PRIu64 " ns (17 years), where the tables' time "
                 "ends",
                 RATION_LIMITER_TIME_MAX_NS);
        ration_desk_error(desk, error);
        return;
    }
    if (is_advance)
        ration_manual_clock_advance(manual, ns);
    else
        ration_manual_clock_set(manual, ns);
    ration_resp_write_simple(desk->output, "OK");
}

void ration_desk_clock(struct ration_resp_desk *desk)
{
    struct ration_words words = ration_desk_words(desk);
    struct ration_manual_clock *manual = desk->service->manual;
    uint64_t number = 0;

    if (ration_commands_is_word(&words.items[1], "get") && words.count == 2) {
        ration_resp_write_count(desk->output, ration_desk_now(desk));
        return;
    }
    if (words.count != 3 || !(ration_commands_is_word(&words.items[1], "set") ||
                              ration_commands_is_word(&words.items[1], "advance"))) {
        ration_desk_error(desk, "ERR syntax error: RATION.CLOCK GET | SET ns | ADVANCE ns");
    } else if (manual == NULL) {
        ration_desk_error(desk,
                          "ERR the clock is the real one: start with --manual-clock to set it");
    } else if (!ration_word_number(&words.items[2], &number)) {
        ration_desk_error(desk, RATION_ERROR_INTEGER);
    } else {
        set_clock(desk, number, ration_commands_is_word(&words.items[1], "advance"));
    }
}

/* Forgets keys of limits that came with requests. */
void ration_desk_delete(struct ration_resp_desk *desk)
{
    struct ration_words words = ration_desk_words(desk);
    ration_limiter *throttle = ration_gate_throttle(desk->service->gate);
    uint64_t now_ns = ration_desk_now(desk);
    size_t count = 0;

    if (desk->part->link != NULL) {
        edit_later(desk, &(struct ration_gate_task){.kind = RATION_EDIT_RESET,
                                                    .keys = words.items + 1,
                                                    .key_count = words.count - 1,
                                                    .now_ns = now_ns});
        return;
    }
    for (size_t i = 1; i < words.count; i++) {
        struct ration_decision decision;

        if (ration_limiter_look(throttle, &words.items[i], 0, now_ns, &decision, NULL) == RATION_OK)
            count += decision.reset_after_ns > 0;
        (void)ration_limiter_reset(throttle, &words.items[i], now_ns);
    }
    ration_resp_write_count(desk->output, count);
}
