/*
 * resp_batch: checks and inline checks, decided together if they came in one read.
 */
#include <string.h>

#include "codec/json/check_answer.h"
#include "server/resp/resp_worker.h"

bool ration_resp_arg_number(const struct ration_key *argument, uint64_t *out_number)
{
    const unsigned char *digits = argument->bytes;
    uint64_t number = 0;

    if (argument->size == 0)
        return false;
    for (size_t i = 0; i < argument->size; i++) {
        if (digits[i] < '0' || digits[i] > '9' || __builtin_mul_overflow(number, 10, &number) ||
            __builtin_add_overflow(number, (uint64_t)(digits[i] - '0'), &number))
            return false;
    }
    *out_number = number;
    return true;
}

void ration_resp_write_inline_result(struct ration_resp_worker *worker, ration_status status,
                                     const struct ration_decision *decision)
{
    if (status != RATION_OK)
        ration_resp_error(worker, "ERR the key is too long: at most 65535 bytes");
    else
        ration_cl_throttle_write(worker->output, decision);
}

static void decide_inline(struct ration_resp_worker *worker)
{
    size_t count = worker->inline_count;
    uint64_t began_ns = ration_service_durations_begin(&worker->loop_worker->durations);

    ration_limiter_take_batch(ration_engine_inline_limiter(worker->service->engine), worker->items,
                              count, ration_resp_now(worker));
    ration_service_durations_end(&worker->loop_worker->durations, began_ns, count);
    for (size_t i = 0; i < count; i++)
        ration_resp_write_inline_result(worker, worker->items[i].status, &worker->decisions[i]);
    worker->inline_count = 0;
    worker->batch_number++;
}

/*
 * A decision as RESP, with the field names of the JSON in codec/json/check_answer.h:
 *
 *     verdict, limit, burst, remaining, retry_after_ns, reset_after_ns, delay_ns, banned, degraded
 *
 * It is a map in RESP3 and a flat array of names and values in RESP2. A wait that never ends is -1,
 * as in CL.THROTTLE. If no limit applied, limit is null, and so are burst, remaining and
 * reset_after_ns. banned and degraded are 1 or 0.
 */
#define CHECK_FIELD_COUNT 9

static void write_count(struct ration_output *output, const char *name, uint64_t count)
{
    ration_resp_write_bulk_text(output, name);
    ration_resp_write_count(output, count);
}

static void write_wait(struct ration_output *output, const char *name, uint64_t wait_ns)
{
    ration_resp_write_bulk_text(output, name);
    if (wait_ns == RATION_FOREVER)
        ration_resp_write_integer(output, -1);
    else
        ration_resp_write_count(output, wait_ns);
}

static void write_null(struct ration_output *output, enum ration_resp_version version,
                       const char *name)
{
    ration_resp_write_bulk_text(output, name);
    ration_resp_write_null(output, version);
}

static void write_answer(struct ration_output *output, enum ration_resp_version version,
                         const struct ration_check_answer *answer)
{
    const struct ration_decision *decision = &answer->decision;
    bool is_allowed = decision->verdict == RATION_ALLOW;

    ration_resp_write_map(output, version, CHECK_FIELD_COUNT);
    ration_resp_write_bulk_text(output, "verdict");
    ration_resp_write_bulk_text(output, ration_decision_verdict_name(decision->verdict));
    if (answer->limit_name != NULL) {
        ration_resp_write_bulk_text(output, "limit");
        ration_resp_write_bulk_text(output, answer->limit_name);
        write_count(output, "burst", decision->limit);
        write_count(output, "remaining", decision->remaining);
        write_wait(output, "retry_after_ns", decision->retry_after_ns);
        write_wait(output, "reset_after_ns", decision->reset_after_ns);
        write_wait(output, "delay_ns", decision->delay_ns);
    } else {
        write_null(output, version, "limit");
        write_null(output, version, "burst");
        write_null(output, version, "remaining");
        write_wait(output, "retry_after_ns", is_allowed ? 0 : RATION_FOREVER);
        write_null(output, version, "reset_after_ns");
        write_wait(output, "delay_ns", 0);
    }
    write_count(output, "banned", answer->is_banned);
    write_count(output, "degraded", answer->is_degraded);
}

void ration_resp_write_check(struct ration_resp_worker *worker, const struct ration_check *check)
{
    struct ration_check_answer answer = {
        .decision = check->decision,
        .limit_name = check->limit != NULL ? check->limit->limit.name : NULL,
        .is_banned = check->policy_verdict == RATION_POLICY_BANNED,
        .is_degraded = check->is_degraded != 0,
    };

    if (check->status == RATION_OK) {
        write_answer(worker->output, ration_resp_version_of(worker), &answer);
        return;
    }
    ration_service_add(worker->loop_worker, RATION_SERVICE_RESP_ERRORS, 1);
    ration_output_append_text(worker->output, "-ERR ");
    ration_output_append_text(worker->output, check->reason);
    ration_output_append_text(worker->output, "\r\n");
}

bool ration_resp_postpone(struct ration_resp_worker *worker, size_t first)
{
    size_t count = worker->check_count - first;

    worker->check_count = 0;
    worker->attribute_count = 0;
    if (__builtin_expect(count == 0, 1))
        return true;
    worker->postponed = worker->check_starts[first];
    worker->postponed_count = count;
    worker->is_waiting = true;
    ration_connection_yield(worker->connection);
    return false;
}

/* Decides as many checks as the remaining match steps permit. True: all are decided. */
static bool decide_checks(struct ration_resp_worker *worker)
{
    size_t count;
    uint64_t steps = 0;
    uint64_t began_ns = ration_service_durations_begin(&worker->loop_worker->durations);
    struct ration_engine_guard guard;

    ration_engine_lock(worker->service->engine, &guard);
    count = ration_engine_check_some(&guard, worker->checks, worker->check_count,
                                     ration_connection_match_steps_left(worker->connection),
                                     ration_resp_now(worker));
    ration_service_durations_end(&worker->loop_worker->durations, began_ns, count);
    for (size_t i = 0; i < count; i++) {
        ration_resp_write_check(worker, &worker->checks[i]);
        steps += worker->checks[i].match_steps;
    }
    ration_engine_unlock(&guard);
    ration_connection_charge(worker->connection, steps);
    return ration_resp_postpone(worker, count);
}

bool ration_resp_flush_batch(struct ration_resp_worker *worker)
{
    if (__builtin_expect(worker->loop_worker->engine_connection != NULL, 0))
        return ration_resp_flush_async(worker);
    if (worker->inline_count > 0)
        decide_inline(worker);
    return worker->check_count == 0 || decide_checks(worker);
}

/* Writes an error after the replies of the batch. */
static void flush_and_error(struct ration_resp_worker *worker, const char *error)
{
    if (ration_resp_flush_batch(worker))
        ration_resp_error(worker, error);
}

static size_t cache_index(const struct ration_cl_throttle *inline_check)
{
    uint64_t hash = inline_check->tokens * UINT64_C(0x9e3779b97f4a7c15) ^
                    inline_check->period_ns * UINT64_C(0xc2b2ae3d27d4eb4f) ^
                    inline_check->burst * UINT64_C(0x165667b19e3779f9);

    return (size_t)(hash >> 40) % RATION_LIMIT_CACHE_COUNT;
}

/*
 * The limit of an inline check, from the cache: most requests carry a limit that was used before. NULL: the limit
 * is invalid, and the request is answered; or the batch had to be flushed and the request must be read again.
 */
static const struct ration_limit *get_limit(struct ration_resp_worker *worker,
                                            const struct ration_cl_throttle *inline_check)
{
    struct ration_cached_limit *cached = &worker->limits[cache_index(inline_check)];
    char error[RATION_CL_THROTTLE_ERROR_SIZE];
    struct ration_limit limit;

    if (cached->tokens == inline_check->tokens && cached->period_ns == inline_check->period_ns &&
        cached->burst == inline_check->burst) {
        cached->batch_number = worker->batch_number;
        return &cached->limit;
    }
    if (!ration_cl_throttle_make_limit(inline_check, &limit, error)) {
        flush_and_error(worker, error);
        return NULL;
    }
    if (ration_service_check_inline(worker->service, &limit) != RATION_OK) {
        flush_and_error(worker, "ERR " RATION_INLINE_FILL_REASON);
        return NULL;
    }
    if (worker->inline_count > 0 && cached->batch_number == worker->batch_number &&
        !ration_resp_flush_batch(
            worker)) /* an inline check of the batch points to the replaced limit */
        return NULL;
    *cached = (struct ration_cached_limit){inline_check->tokens, inline_check->period_ns,
                                           inline_check->burst, worker->batch_number, limit};
    return &cached->limit;
}

void ration_resp_inline_check(struct ration_resp_worker *worker, bool is_gcra)
{
    struct ration_resp_args args = ration_resp_args_of(worker);
    char error[RATION_CL_THROTTLE_ERROR_SIZE];
    struct ration_cl_throttle inline_check;
    const struct ration_limit *limit;
    size_t index;

    if (!(is_gcra ? ration_cl_throttle_parse_gcra
                  : ration_cl_throttle_parse)(args.items, args.count, &inline_check, error)) {
        flush_and_error(worker, error);
        return;
    }
    if ((worker->check_count > 0 ||
         worker->inline_count >= worker->service->settings->pipeline_max) &&
        !ration_resp_flush_batch(worker))
        return;
    limit = get_limit(worker, &inline_check);
    if (limit == NULL)
        return;
    index = worker->inline_count++;
    worker->keys[index] = inline_check.key;
    worker->items[index] = (struct ration_batch_item){
        .request = &worker->keys[index],
        .cost_tokens = inline_check.quantity,
        .limit = limit,
        .decision = &worker->decisions[index],
    };
}

bool ration_resp_attributes(struct ration_resp_worker *worker, size_t first,
                            struct ration_attribute *attributes, size_t attributes_max,
                            size_t *out_count)
{
    struct ration_resp_args args = ration_resp_args_of(worker);
    size_t count = (args.count - first) / 2;

    if ((args.count - first) % 2 != 0) {
        ration_resp_error(worker, "ERR attributes come in pairs: name value [name value ...]");
        return false;
    }
    if (count > attributes_max) {
        ration_resp_error(worker, "ERR a request has at most 64 attributes");
        return false;
    }
    for (size_t i = 0; i < count; i++) {
        attributes[i] =
            (struct ration_attribute){args.items[first + 2 * i], args.items[first + 2 * i + 1]};
        if (ration_commands_is_word(&attributes[i].name, "cost")) {
            ration_resp_error(worker, "ERR COST n comes before the attributes, and only once");
            return false;
        }
    }
    *out_count = count;
    return true;
}

/* Whether ration_resp_attributes() will accept the arguments from first on. */
static bool attributes_are_valid(struct ration_resp_args args, size_t first)
{
    if ((args.count - first) % 2 != 0 || args.count - first > 2 * RATION_ATTRIBUTES_MAX)
        return false;
    for (size_t i = first; i < args.count; i += 2)
        if (ration_commands_is_word(&args.items[i], "cost"))
            return false;
    return true;
}

void ration_resp_check(struct ration_resp_worker *worker, bool is_peek)
{
    struct ration_resp_args args = ration_resp_args_of(worker);
    struct ration_attribute *attributes;
    uint64_t cost_tokens = 1;
    size_t first = 1;
    size_t count = 0;

    if (worker->inline_count > 0 ||
        worker->check_count >= worker->service->settings->pipeline_max ||
        worker->attribute_count + RATION_ATTRIBUTES_MAX > RATION_RESP_ATTRIBUTES_MAX)
        if (!ration_resp_flush_batch(worker))
            return;
    if (args.count > 2 && ration_commands_is_word(&args.items[1], "cost")) {
        if (!ration_resp_arg_number(&args.items[2], &cost_tokens)) {
            flush_and_error(worker, RATION_ERROR_INTEGER);
            return;
        }
        first = 3;
    }
    attributes = worker->attributes + worker->attribute_count;
    if (!attributes_are_valid(args, first) &&
        !ration_resp_flush_batch(
            worker)) /* its error is written at once, after the batch's replies */
        return;
    if (!ration_resp_attributes(worker, first, attributes, RATION_ATTRIBUTES_MAX, &count))
        return;
    worker->check_starts[worker->check_count] = worker->request_start;
    worker->checks[worker->check_count++] = (struct ration_check){
        .attributes = attributes,
        .attribute_count = count,
        .cost_tokens = cost_tokens,
        .is_peek = is_peek,
    };
    worker->attribute_count += count;
}
