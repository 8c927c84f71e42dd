/*
 * Runs files of rows through the library's call: the 16-byte bucket for what fits it, the
 * library's inner functions for the two algorithms that need more room.
 *
 *     rows_test FILE...
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/reserve.h"
#include "rows/rows.h"
#include "support/large_state.h"

#define RESERVATIONS_MAX 16
#define LOG_TOKENS_MAX   64

struct library {
    struct ration_limit limit;
    struct ration_bucket bucket;
    struct ration_reserve reserve;
    struct array_log log;
    uint64_t log_words[LOG_TOKENS_MAX];
    struct ration_bucket_reservation reservations[RESERVATIONS_MAX];
    size_t reservation_count;
};

static bool library_open(void *context, const struct ration_limit *limit)
{
    struct library *library = context;

    memset(library, 0, sizeof(*library));
    library->limit = *limit;
    library->log.ring = library->log_words;
    if (ration_bucket_fits(limit))
        return ration_bucket_init(&library->bucket, limit, 0) == RATION_OK;
    return limit->algorithm == RATION_BURST_RESERVE || limit->tokens <= LOG_TOKENS_MAX;
}

static void library_change(void *context, const struct ration_limit *limit, uint64_t now_ns)
{
    struct library *library = context;

    if (limit->algorithm == RATION_BURST_RESERVE) {
        library->reserve = ration_reserve_change(library->reserve, &library->limit, limit, now_ns);
    } else if (limit->algorithm == RATION_SLIDING_LOG) {
        array_log_change(&library->log, &library->limit, limit, now_ns);
    } else if (ration_bucket_change(&library->bucket, &library->limit, limit, RATION_CHANGE_KEEP,
                                    now_ns) != RATION_OK) {
        abort();
    }
    library->limit = *limit;
}

static struct ration_decision reserve_call(struct library *library,
                                           const struct rows_request *request, uint64_t *granted)
{
    const struct ration_limit *limit = &library->limit;
    struct ration_reserve_step step = {.next = library->reserve};

    switch (request->call) {
    case ROWS_TAKE:
    case ROWS_PEEK:
        step = ration_reserve_take(library->reserve, limit, request->tokens, 0, request->now_ns);
        break;
    case ROWS_RESERVE:
        step = ration_reserve_take(library->reserve, limit, request->tokens, request->time_ns,
                                   request->now_ns);
        break;
    case ROWS_UPTO:
        step = large_state_reserve_up_to(library->reserve, limit, request->tokens, request->now_ns,
                                         granted);
        break;
    case ROWS_REFUND:
        step.next =
            ration_reserve_refund(library->reserve, limit, request->tokens, request->now_ns);
        break;
    case ROWS_CHARGE:
        step.next =
            ration_reserve_charge(library->reserve, limit, request->tokens, request->now_ns);
        break;
    case ROWS_SET:
        step.next = ration_reserve_set(limit, request->tokens, request->now_ns);
        break;
    case ROWS_BLOCK:
        step.next = ration_reserve_block(library->reserve, limit, request->time_ns);
        break;
    default:
        abort();
    }
    if (request->call == ROWS_PEEK) { /* of the bucket as it stands */
        step.decision.remaining =
            ration_reserve_remaining(library->reserve, limit, request->now_ns);
        step.decision.reset_after_ns =
            ration_reserve_full_after_ns(library->reserve, request->now_ns);
    } else {
        library->reserve = step.next;
    }
    return step.decision;
}

static struct ration_decision log_call(struct library *library, const struct rows_request *request)
{
    struct ration_decision none = {.verdict = RATION_ALLOW};

    switch (request->call) {
    case ROWS_TAKE:
        return array_log_take(&library->log, &library->limit, request->tokens, request->now_ns);
    case ROWS_REFUND:
        array_log_refund(&library->log, &library->limit, request->tokens, request->now_ns);
        return none;
    case ROWS_CHARGE:
        array_log_charge(&library->log, &library->limit, request->tokens, request->now_ns);
        return none;
    case ROWS_SET:
        array_log_set(&library->log, &library->limit, request->tokens, request->now_ns);
        return none;
    default:
        abort();
    }
}

static struct ration_bucket_reservation *reservation_of(struct library *library, uint64_t number)
{
    if (number == 0 || number > library->reservation_count)
        abort();
    return &library->reservations[number - 1];
}

/* The calls that give no decision. */
static void bucket_update(struct library *library, const struct rows_request *request)
{
    struct ration_bucket *bucket = &library->bucket;
    const struct ration_limit *limit = &library->limit;
    ration_status status = RATION_OK;

    if (request->call == ROWS_REFUND)
        ration_bucket_refund(bucket, limit, request->tokens, request->now_ns);
    else if (request->call == ROWS_CHARGE)
        ration_bucket_charge(bucket, limit, request->tokens, request->now_ns);
    else if (request->call == ROWS_SET)
        ration_bucket_set(bucket, limit, request->tokens, request->now_ns);
    else if (request->call == ROWS_BLOCK)
        status = ration_bucket_block_until(bucket, limit, request->time_ns);
    else if (request->call == ROWS_SETTLE)
        status = ration_bucket_settle(bucket, limit, reservation_of(library, request->reservation),
                                      request->tokens, request->now_ns);
    else
        status = ration_bucket_cancel(bucket, limit, reservation_of(library, request->reservation),
                                      request->now_ns);
    if (status != RATION_OK)
        abort();
}

static struct ration_decision bucket_call(struct library *library,
                                          const struct rows_request *request, uint64_t *granted)
{
    struct ration_bucket *bucket = &library->bucket;
    const struct ration_limit *limit = &library->limit;
    struct ration_decision decision = {.verdict = RATION_ALLOW};

    switch (request->call) {
    case ROWS_TAKE:
        return ration_bucket_take(bucket, limit, request->tokens, request->now_ns);
    case ROWS_PEEK:
        return ration_bucket_peek(bucket, limit, request->tokens, request->now_ns);
    case ROWS_UPTO:
        *granted =
            ration_bucket_take_up_to(bucket, limit, request->tokens, request->now_ns, &decision);
        return decision;
    case ROWS_RESERVE:
        decision =
            ration_bucket_reserve(bucket, limit, request->tokens, request->time_ns, request->now_ns,
                                  &library->reservations[library->reservation_count]);
        library->reservation_count += decision.verdict == RATION_ALLOW;
        return decision;
    default:
        bucket_update(library, request);
        return decision;
    }
}

static struct ration_decision library_call(void *context, const struct rows_request *request,
                                           uint64_t *out_granted)
{
    struct library *library = context;

    if (library->limit.algorithm == RATION_BURST_RESERVE)
        return reserve_call(library, request, out_granted);
    if (library->limit.algorithm == RATION_SLIDING_LOG)
        return log_call(library, request);
    return bucket_call(library, request, out_granted);
}

int main(int argument_count, char **arguments)
{
    static struct library library;
    const struct rows_target target = {.name = "library",
                                       .open = library_open,
                                       .change = library_change,
                                       .call = library_call,
                                       .context = &library};
    int rows = 0;
    int wrong = 0;

    for (int index = 1; index < argument_count; index++) {
        int run = 0;
        int result = rows_run(arguments[index], &target, &run);

        if (result < 0)
            return EXIT_FAILURE;
        rows += run;
        wrong += result;
    }
    printf("%d rows, %d wrong\n", rows, wrong);
    return rows > 0 && wrong == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
