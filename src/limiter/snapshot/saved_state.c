/*
 * saved_state: writes and reads the state of a bucket of any algorithm, with times as durations from now.
 */
#include <stdlib.h>

#include "limiter/snapshot/saved.h"

static struct ration_time duration_until(struct ration_time expires_at, uint64_t now_ns)
{
    struct ration_time duration_max = ration_time_from_ns(RATION_SAVED_DURATION_NS_MAX);
    struct ration_time time = ration_time_sub_or_zero(expires_at, ration_time_from_ns(now_ns));

    return ration_time_less(duration_max, time) ? duration_max : time;
}

static int compare_u64(const void *left, const void *right)
{
    uint64_t a = *(const uint64_t *)left;
    uint64_t b = *(const uint64_t *)right;

    return (a > b) - (a < b);
}

/*
 * Writes the duration after which each token returns, as a denied take would report it; in runs of equal
 * durations. They are sorted, since a ring that other threads write meanwhile need not be in order.
 */
static void put_log(struct ration_chunk_writer *writer, const struct ration_bucket_state *bucket,
                    uint64_t now_ns, uint64_t *return_after_ns)
{
    size_t count = 0;
    uint64_t run = 0;

    for (uint64_t n = 1; n <= bucket->limit->tokens; n++) {
        struct ration_bucket_state_step step = ration_bucket_state_take(bucket, n, 0, now_ns);

        if (step.verdict == RATION_DENY)
            return_after_ns[count++] = ration_saved_duration_ns(step.wait_ns, 0);
    }
    qsort(return_after_ns, count, sizeof(*return_after_ns), compare_u64);
    for (size_t i = 0; i < count; i++) {
        run++;
        if (i + 1 < count && return_after_ns[i + 1] == return_after_ns[i])
            continue;
        ration_chunks_put(writer, run, 4);
        ration_chunks_put(writer, return_after_ns[i], 8);
        run = 0;
    }
    ration_chunks_put(writer, 0, 4);
}

static void put_sliding(struct ration_chunk_writer *writer,
                        const struct ration_bucket_state *bucket, uint64_t now_ns)
{
    /* a refund of nothing: the state as of now, in a window that has not ended */
    struct ration_sliding_window window =
        ration_algorithm_refund(bucket->limit, bucket->state.one, 0, now_ns).sliding;

    ration_chunks_put(writer, ration_saved_duration_ns(window.end_ns, now_ns), 8);
    ration_chunks_put(writer, window.previous_tokens, 4);
    ration_chunks_put(writer, window.current_tokens, 4);
}

void ration_saved_put_state(struct ration_chunk_writer *writer,
                            const struct ration_bucket_state *bucket, uint64_t now_ns,
                            uint64_t *return_after_ns)
{
    const union ration_state *one = &bucket->state.one;

    switch (bucket->limit->algorithm) {
    case RATION_SLIDING_LOG:
        put_log(writer, bucket, now_ns, return_after_ns);
        return;
    case RATION_BURST_RESERVE:
        ration_chunks_put_time(writer, duration_until(bucket->state.reserve.tats[0], now_ns));
        ration_chunks_put_time(writer, duration_until(bucket->state.reserve.tats[1], now_ns));
        return;
    case RATION_FIXED_WINDOW:
        ration_chunks_put(writer, ration_saved_duration_ns(one->fixed.end_ns, now_ns), 8);
        ration_chunks_put(writer, one->fixed.count_tokens, 8);
        return;
    case RATION_SLIDING_WINDOW:
        put_sliding(writer, bucket, now_ns);
        return;
    default:
        if (bucket->limit->refill != RATION_REFILL_INTERVAL) {
            ration_chunks_put_time(writer, duration_until(one->tat, now_ns));
            return;
        }
        ration_chunks_put(writer, ration_saved_duration_ns(one->interval.full_at_ns, now_ns), 8);
        ration_chunks_put(writer, one->interval.spare_tokens, 8);
    }
}

static uint64_t get_duration(struct ration_chunk_reader *reader)
{
    uint64_t ns = ration_chunks_get(reader, 8);

    if (ns > RATION_SAVED_DURATION_NS_MAX)
        ration_chunks_refuse(reader, "it has a time that is too long");
    return reader->status == RATION_OK ? ns : 0;
}

/* Reads a time; returns zero (long past) if it has passed. */
static struct ration_time get_time(struct ration_chunk_reader *reader,
                                   struct ration_saved_time time)
{
    struct ration_time duration = ration_chunks_get_time(reader);
    struct ration_time age = ration_time_from_ns(time.age_ns);

    if (duration.ns > RATION_SAVED_DURATION_NS_MAX)
        ration_chunks_refuse(reader, "it has a time that is too long");
    if (reader->status != RATION_OK || !ration_time_less(age, duration))
        return (struct ration_time){0, 0};
    return ration_time_add(ration_time_sub(duration, age), ration_time_from_ns(time.now_ns));
}

static void get_interval(struct ration_chunk_reader *reader, const struct ration_limit *limit,
                         struct ration_saved_time time, struct ration_interval *out_state)
{
    uint64_t left_ns = ration_saved_left_ns(time, get_duration(reader));
    uint64_t spare = ration_chunks_get(reader, 8);

    if (spare >= limit->tokens)
        ration_chunks_refuse(reader, "it has an interval with more spare tokens than it adds");
    if (left_ns > 0)
        *out_state = (struct ration_interval){time.now_ns + left_ns, spare};
}

/* The first end of a window that is not before the time at which the saved window ends. */
static uint64_t window_end_after(const struct ration_limit *limit, struct ration_saved_time time,
                                 uint64_t left_ns)
{
    return (time.now_ns + left_ns + limit->period_ns - 1) / limit->period_ns * limit->period_ns;
}

static void get_fixed(struct ration_chunk_reader *reader, const struct ration_limit *limit,
                      struct ration_saved_time time, struct ration_fixed_window *out_state)
{
    uint64_t left_ns = ration_saved_left_ns(time, get_duration(reader));
    uint64_t count = ration_chunks_get(reader, 8);

    if (left_ns > 0 && count > 0)
        *out_state = (struct ration_fixed_window){window_end_after(limit, time, left_ns), count};
}

/* A window end that is later than the saved one makes both counts weigh more at any time. */
static void get_sliding(struct ration_chunk_reader *reader, const struct ration_limit *limit,
                        struct ration_saved_time time, struct ration_sliding_window *out_state)
{
    uint64_t to_end_ns = get_duration(reader);
    uint32_t previous = (uint32_t)ration_chunks_get(reader, 4);
    uint32_t current = (uint32_t)ration_chunks_get(reader, 4);
    uint64_t left_ns = ration_saved_left_ns(time, to_end_ns);

    /* the window has ended: in the next one its count is the previous count */
    if (left_ns == 0) {
        left_ns = ration_saved_left_ns(time, to_end_ns + limit->period_ns);
        previous = current;
        current = 0;
    }
    if (left_ns > 0 && (previous > 0 || current > 0))
        *out_state = (struct ration_sliding_window){window_end_after(limit, time, left_ns),
                                                    previous, current};
}

static bool grow_runs(struct ration_saved_log *log)
{
    size_t max = log->run_max > 0 ? 2 * log->run_max : 64;
    struct ration_saved_run *runs = realloc(log->runs, max * sizeof(*runs));

    if (runs == NULL)
        return false;
    log->runs = runs;
    log->run_max = max;
    return true;
}

/* Adds tokens that return no earlier than those before them. */
static bool add_run(struct ration_saved_log *log, uint64_t back_at_ns, uint64_t count)
{
    uint64_t before = log->run_count > 0 ? log->runs[log->run_count - 1].count_until : 0;

    if (log->run_count == log->run_max && !grow_runs(log))
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
        uint64_t duration_ns = get_duration(reader);
        uint64_t left_ns = ration_saved_left_ns(time, duration_ns);

        total += count;
        if (duration_ns < last_ns || total > limit->tokens) {
            ration_chunks_refuse(reader, "it has a log with too many tokens, or out of order");
            return;
        }
        last_ns = duration_ns;
        if (left_ns > 0 && !add_run(log, time.now_ns + left_ns, count)) {
            reader->status = RATION_ENOMEM;
            reader->reason = "no memory for its log";
            return;
        }
    }
}

static uint64_t read_log(const struct ration_log_ring_reader *reader, uint64_t index)
{
    const struct ration_saved_log *log = reader->context;
    size_t low = 0;
    size_t high = log->run_count;
    uint64_t out = high > 0 ? log->runs[high - 1].count_until : 0;

    if (index < log->tokens - out)
        return 0;
    index -= log->tokens - out;
    while (low < high) { /* find the first run that contains index */
        size_t middle = low + (high - low) / 2;

        if (log->runs[middle].count_until <= index)
            low = middle + 1;
        else
            high = middle;
    }
    return log->runs[low].back_at_ns;
}

struct ration_log_ring_reader ration_saved_log_reader(const struct ration_saved_log *log)
{
    return (struct ration_log_ring_reader){.read = read_log, .context = log};
}

void ration_saved_log_set(struct ration_saved_log *log, const struct ration_bucket_state *bucket)
{
    log->run_count = 0;
    log->tokens = bucket->limit->tokens;
    /* there is room: it was converted from a log with tokens in use */
    if (bucket->write.count > 0)
        log->runs[log->run_count++] =
            (struct ration_saved_run){bucket->write.moment_ns, bucket->write.count};
}

void ration_saved_get_state(struct ration_chunk_reader *reader, const struct ration_limit *limit,
                            struct ration_saved_time time, struct ration_saved_log *log,
                            struct ration_bucket_state *out_bucket)
{
    union ration_bucket_words *state = &out_bucket->state;

    *out_bucket = (struct ration_bucket_state){.limit = limit};
    switch (limit->algorithm) {
    case RATION_SLIDING_LOG:
        get_log(reader, limit, time, log);
        out_bucket->reader = ration_saved_log_reader(log);
        if (log->run_count > 0)
            state->log.newest_ns = log->runs[log->run_count - 1].back_at_ns;
        break;
    case RATION_BURST_RESERVE:
        state->reserve.tats[0] = get_time(reader, time);
        state->reserve.tats[1] = get_time(reader, time);
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
            state->one.tat = get_time(reader, time);
    }
}
