/*
 * The state of a bucket of any algorithm, as times to come.
 */
#include <stdlib.h>

#include "limiter/saved.h"

static struct ration_time to_come(struct ration_time moment, uint64_t now_ns)
{
    struct ration_time most = ration_time_from_ns(RATION_SAVED_TO_COME_NS_MAX);
    struct ration_time time = ration_time_sub_or_zero(moment, ration_time_from_ns(now_ns));

    return ration_time_less(most, time) ? most : time;
}

static int compare(const void *left, const void *right)
{
    uint64_t a = *(const uint64_t *)left;
    uint64_t b = *(const uint64_t *)right;

    return (a > b) - (a < b);
}

/*
 * Of each token the time after which it is back, as a take of it would be told; in runs of equal
 * ones. Sorted, since a ring that others write to meanwhile need not be.
 */
static void put_log(struct ration_chunk_writer *writer, const struct ration_any *any,
                    uint64_t now_ns, uint64_t *moments)
{
    size_t count = 0;
    uint64_t run = 0;

    for (uint64_t n = 1; n <= any->limit->tokens; n++) {
        struct ration_any_step step = ration_any_take(any, n, 0, now_ns);

        if (step.verdict == RATION_DENY)
            moments[count++] = ration_saved_to_come_ns(step.wait_ns, 0);
    }
    qsort(moments, count, sizeof(*moments), compare);
    for (size_t i = 0; i < count; i++) {
        run++;
        if (i + 1 < count && moments[i + 1] == moments[i])
            continue;
        ration_chunks_put(writer, run, 4);
        ration_chunks_put(writer, moments[i], 8);
        run = 0;
    }
    ration_chunks_put(writer, 0, 4);
}

static void put_sliding(struct ration_chunk_writer *writer, const struct ration_any *any,
                        uint64_t now_ns)
{
    /* nothing given back: the state as now sees it, in a window that has not ended */
    struct ration_sliding_window window =
        ration_algorithm_refund(any->limit, any->state.one, 0, now_ns).sliding;

    ration_chunks_put(writer, ration_saved_to_come_ns(window.end_ns, now_ns), 8);
    ration_chunks_put(writer, window.previous_tokens, 4);
    ration_chunks_put(writer, window.current_tokens, 4);
}

void ration_saved_put_state(struct ration_chunk_writer *writer, const struct ration_any *any,
                            uint64_t now_ns, uint64_t *moments)
{
    const union ration_state *one = &any->state.one;

    switch (any->limit->algorithm) {
    case RATION_SLIDING_LOG:
        put_log(writer, any, now_ns, moments);
        return;
    case RATION_BURST_RESERVE:
        ration_chunks_put_time(writer, to_come(any->state.reserve.tats[0], now_ns));
        ration_chunks_put_time(writer, to_come(any->state.reserve.tats[1], now_ns));
        return;
    case RATION_FIXED_WINDOW:
        ration_chunks_put(writer, ration_saved_to_come_ns(one->fixed.end_ns, now_ns), 8);
        ration_chunks_put(writer, one->fixed.count_tokens, 8);
        return;
    case RATION_SLIDING_WINDOW:
        put_sliding(writer, any, now_ns);
        return;
    default:
        if (any->limit->refill != RATION_REFILL_INTERVAL) {
            ration_chunks_put_time(writer, to_come(one->tat, now_ns));
            return;
        }
        ration_chunks_put(writer, ration_saved_to_come_ns(one->interval.full_at_ns, now_ns), 8);
        ration_chunks_put(writer, one->interval.spare_tokens, 8);
    }
}

static uint64_t get_to_come(struct ration_chunk_reader *reader)
{
    uint64_t ns = ration_chunks_get(reader, 8);

    if (ns > RATION_SAVED_TO_COME_NS_MAX)
        ration_chunks_refuse(reader, "it has a time that is too long");
    return reader->status == RATION_OK ? ns : 0;
}

/* A moment; zero, long past, if it is not to come any more. */
static struct ration_time get_moment(struct ration_chunk_reader *reader,
                                     struct ration_saved_time time)
{
    struct ration_time moment = ration_chunks_get_time(reader);
    struct ration_time age = ration_time_from_ns(time.age_ns);

    if (moment.ns > RATION_SAVED_TO_COME_NS_MAX)
        ration_chunks_refuse(reader, "it has a time that is too long");
    if (reader->status != RATION_OK || !ration_time_less(age, moment))
        return (struct ration_time){0, 0};
    return ration_time_add(ration_time_sub(moment, age), ration_time_from_ns(time.now_ns));
}

static void get_interval(struct ration_chunk_reader *reader, const struct ration_limit *limit,
                         struct ration_saved_time time, struct ration_interval *out_state)
{
    uint64_t left_ns = ration_saved_left_ns(time, get_to_come(reader));
    uint64_t spare = ration_chunks_get(reader, 8);

    if (spare >= limit->tokens)
        ration_chunks_refuse(reader, "it has an interval with more to spare than it brings");
    if (left_ns > 0)
        *out_state = (struct ration_interval){time.now_ns + left_ns, spare};
}

/* The first end of a window that is not before the moment at which one was to end. */
static uint64_t end_after(const struct ration_limit *limit, struct ration_saved_time time,
                          uint64_t left_ns)
{
    return (time.now_ns + left_ns + limit->period_ns - 1) / limit->period_ns * limit->period_ns;
}

static void get_fixed(struct ration_chunk_reader *reader, const struct ration_limit *limit,
                      struct ration_saved_time time, struct ration_fixed_window *out_state)
{
    uint64_t left_ns = ration_saved_left_ns(time, get_to_come(reader));
    uint64_t count = ration_chunks_get(reader, 8);

    if (left_ns > 0 && count > 0)
        *out_state = (struct ration_fixed_window){end_after(limit, time, left_ns), count};
}

/* An end that is later than it was makes both counts weigh more at every moment. */
static void get_sliding(struct ration_chunk_reader *reader, const struct ration_limit *limit,
                        struct ration_saved_time time, struct ration_sliding_window *out_state)
{
    uint64_t to_end_ns = get_to_come(reader);
    uint32_t previous = (uint32_t)ration_chunks_get(reader, 4);
    uint32_t current = (uint32_t)ration_chunks_get(reader, 4);
    uint64_t left_ns = ration_saved_left_ns(time, to_end_ns);

    if (left_ns == 0) { /* the window has ended: one later its count weighs for it */
        left_ns = ration_saved_left_ns(time, to_end_ns + limit->period_ns);
        previous = current;
        current = 0;
    }
    if (left_ns > 0 && (previous > 0 || current > 0))
        *out_state =
            (struct ration_sliding_window){end_after(limit, time, left_ns), previous, current};
}

static bool grow(struct ration_saved_log *log)
{
    size_t max = log->run_max > 0 ? 2 * log->run_max : 64;
    struct ration_saved_run *runs = realloc(log->runs, max * sizeof(*runs));

    if (runs == NULL)
        return false;
    log->runs = runs;
    log->run_max = max;
    return true;
}

/* Adds tokens that come back at a moment not earlier than those before. */
static bool add_run(struct ration_saved_log *log, uint64_t back_at_ns, uint64_t count)
{
    uint64_t before = log->run_count > 0 ? log->runs[log->run_count - 1].count_until : 0;

    if (log->run_count == log->run_max && !grow(log))
        return false;
    log->runs[log->run_count++] = (struct ration_saved_run){back_at_ns, before + count};
    return true;
}

static void get_log(struct ration_chunk_reader *reader, const struct ration_limit *limit,
                    struct ration_saved_time time, struct ration_saved_log *log)
{
    uint64_t total = 0;
    uint64_t last_ns = 0;
    uint64_t count;

    log->run_count = 0;
    log->tokens = limit->tokens;
    while ((count = ration_chunks_get(reader, 4)) > 0) { /* 0 also after a failure */
        uint64_t to_come = get_to_come(reader);
        uint64_t left_ns = ration_saved_left_ns(time, to_come);

        total += count;
        if (to_come < last_ns || total > limit->tokens) {
            ration_chunks_refuse(reader, "it has a log with too many tokens, or out of order");
            return;
        }
        last_ns = to_come;
        if (left_ns > 0 && !add_run(log, time.now_ns + left_ns, count)) {
            reader->status = RATION_ENOMEM;
            reader->fault = "no memory for its log";
            return;
        }
    }
}

static uint64_t read_log(const struct ration_log_reader *reader, uint64_t index)
{
    const struct ration_saved_log *log = reader->context;
    size_t low = 0;
    size_t high = log->run_count;
    uint64_t out = high > 0 ? log->runs[high - 1].count_until : 0;

    if (index < log->tokens - out)
        return 0;
    index -= log->tokens - out;
    while (low < high) { /* the first run that reaches beyond index */
        size_t middle = low + (high - low) / 2;

        if (log->runs[middle].count_until <= index)
            low = middle + 1;
        else
            high = middle;
    }
    return log->runs[low].back_at_ns;
}

struct ration_log_reader ration_saved_log_reader(const struct ration_saved_log *log)
{
    return (struct ration_log_reader){.read = read_log, .context = log};
}

void ration_saved_log_set(struct ration_saved_log *log, const struct ration_any *any)
{
    log->run_count = 0;
    log->tokens = any->limit->tokens;
    if (any->write.count > 0) /* there is room: it was changed from a log with tokens out */
        log->runs[log->run_count++] =
            (struct ration_saved_run){any->write.moment_ns, any->write.count};
}

void ration_saved_get_state(struct ration_chunk_reader *reader, const struct ration_limit *limit,
                            struct ration_saved_time time, struct ration_saved_log *log,
                            struct ration_any *out_any)
{
    union ration_any_state *state = &out_any->state;

    *out_any = (struct ration_any){.limit = limit};
    switch (limit->algorithm) {
    case RATION_SLIDING_LOG:
        get_log(reader, limit, time, log);
        out_any->reader = ration_saved_log_reader(log);
        if (log->run_count > 0)
            state->log.newest_ns = log->runs[log->run_count - 1].back_at_ns;
        break;
    case RATION_BURST_RESERVE:
        state->reserve.tats[0] = get_moment(reader, time);
        state->reserve.tats[1] = get_moment(reader, time);
        break;
    case RATION_FIXED_WINDOW:
        get_fixed(reader, limit, time, &state->one.fixed);
        break;
    case RATION_SLIDING_WINDOW:
        get_sliding(reader, limit, time, &state->one.sliding);
        break;
    default:
        if (limit->refill == RATION_REFILL_INTERVAL)
            get_interval(reader, limit, time, &state->one.interval);
        else
            state->one.tat = get_moment(reader, time);
    }
}
