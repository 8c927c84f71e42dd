#include "limiter/bucket_state.h"

#include <string.h>

#include "base/time.h"

/* The layouts of a state in cells that bucket_state.h lists. */
enum state_layout {
    LAYOUT_TAT,
    LAYOUT_RESERVE,
    LAYOUT_INTERVAL,
    LAYOUT_WIDE_INTERVAL,
    LAYOUT_FIXED,
    LAYOUT_SLIDING,
    LAYOUT_LOG
};

static enum state_layout layout_of(const struct ration_limit *limit)
{
    switch (limit->algorithm) {
    case RATION_BURST_RESERVE:
        return LAYOUT_RESERVE;
    case RATION_FIXED_WINDOW:
        return LAYOUT_FIXED;
    case RATION_SLIDING_WINDOW:
        return LAYOUT_SLIDING;
    case RATION_SLIDING_LOG:
        return LAYOUT_LOG;
    default:
        if (limit->refill != RATION_REFILL_INTERVAL)
            return LAYOUT_TAT;
        return limit->tokens <= RATION_FRAC_COUNT ? LAYOUT_INTERVAL : LAYOUT_WIDE_INTERVAL;
    }
}

struct ration_bucket_state_layout ration_bucket_state_layout(const struct ration_limit *limit)
{
    switch (layout_of(limit)) {
    case LAYOUT_RESERVE:
        return (struct ration_bucket_state_layout){.cell_count = 2, .expiry_mask = 3};
    case LAYOUT_WIDE_INTERVAL:
    case LAYOUT_SLIDING:
        return (struct ration_bucket_state_layout){.cell_count = 2, .expiry_mask = 1};
    case LAYOUT_LOG:
        return (struct ration_bucket_state_layout){
            .cell_count = 2, .expiry_mask = 1, .ring_cells = (uint32_t)limit->tokens};
    default:
        return (struct ration_bucket_state_layout){.cell_count = 1, .expiry_mask = 1};
    }
}

bool ration_bucket_state_is_same_layout(const struct ration_limit *a, const struct ration_limit *b)
{
    enum state_layout layout = layout_of(a);

    if (a->algorithm != b->algorithm || layout != layout_of(b))
        return false;
    return layout == LAYOUT_TAT || layout == LAYOUT_RESERVE ||
           (a->period_ns == b->period_ns && a->tokens == b->tokens);
}

/* Stores any 64 bits in a cell that is not a time. */
static struct ration_time cell_of(uint64_t word)
{
    return (struct ration_time){word >> RATION_FRAC_BITS, word & (RATION_FRAC_COUNT - 1)};
}

static uint64_t word_of(struct ration_time cell)
{
    return cell.ns << RATION_FRAC_BITS | cell.frac;
}

static struct ration_time to_epoch_time(struct ration_time time, uint64_t epoch_ns)
{
    return ration_time_sub_or_zero(time, ration_time_from_ns(epoch_ns));
}

static struct ration_time to_clock_time(struct ration_time cell, uint64_t epoch_ns)
{
    return (struct ration_time){cell.ns + epoch_ns, cell.frac};
}

static struct ration_fixed_window read_fixed(const struct ration_limit *limit,
                                             struct ration_time cell, uint64_t epoch_ns)
{
    uint64_t ns = cell.ns + epoch_ns;
    uint64_t end_ns = ns / limit->period_ns * limit->period_ns;
    uint64_t whole = ns - end_ns;
    uint64_t count_max = UINT64_MAX >> RATION_FRAC_BITS;

    if (cell.ns == 0)
        return (struct ration_fixed_window){0, 0};
    return (struct ration_fixed_window){
        end_ns, (whole < count_max ? whole : count_max) << RATION_FRAC_BITS | cell.frac};
}

/* A count above the largest that fits a period is stored as the largest. */
static struct ration_time write_fixed(const struct ration_limit *limit,
                                      struct ration_fixed_window window, uint64_t epoch_ns)
{
    struct ration_time count = cell_of(window.count_tokens);

    if (window.count_tokens == 0)
        return (struct ration_time){0, 0};
    if (count.ns >= limit->period_ns)
        count = (struct ration_time){limit->period_ns - 1, RATION_FRAC_COUNT - 1};
    return to_epoch_time((struct ration_time){window.end_ns + count.ns, count.frac}, epoch_ns);
}

static struct ration_sliding_window read_sliding(const struct ration_limit *limit,
                                                 const struct ration_time *cells, uint64_t epoch_ns)
{
    uint64_t counts = word_of(cells[1]);
    struct ration_sliding_window window = {
        .end_ns = cells[0].ns + epoch_ns,
        .previous_tokens = (uint32_t)(counts >> 32),
        .current_tokens = (uint32_t)counts,
    };

    if (window.current_tokens > 0)
        window.end_ns -= limit->period_ns; /* the current count weighs for one more window */
    return window;
}

static void write_sliding(const struct ration_limit *limit, struct ration_sliding_window window,
                          struct ration_time *cells, uint64_t epoch_ns)
{
    uint64_t until_ns = window.end_ns + (window.current_tokens > 0 ? limit->period_ns : 0);

    cells[0] = cells[1] = (struct ration_time){0, 0};
    if (window.current_tokens == 0 && window.previous_tokens == 0)
        return;
    cells[0] = to_epoch_time(ration_time_from_ns(until_ns), epoch_ns);
    cells[1] = cell_of((uint64_t)window.previous_tokens << 32 | window.current_tokens);
}

bool ration_bucket_state_is_ordered(const struct ration_limit *limit)
{
    enum state_layout layout = layout_of(limit);

    return layout == LAYOUT_TAT || layout == LAYOUT_RESERVE || layout == LAYOUT_FIXED;
}

void ration_bucket_state_read(struct ration_bucket_state *bucket, const struct ration_time *cells,
                              uint64_t epoch_ns)
{
    union ration_bucket_words *state = &bucket->state;

    memset(state, 0, sizeof(*state));
    switch (layout_of(bucket->limit)) {
    case LAYOUT_TAT:
        state->one.tat = to_clock_time(cells[0], epoch_ns);
        break;
    case LAYOUT_RESERVE:
        state->reserve.tats[0] = to_clock_time(cells[0], epoch_ns);
        state->reserve.tats[1] = to_clock_time(cells[1], epoch_ns);
        break;
    case LAYOUT_INTERVAL:
        state->one.interval = (struct ration_interval){cells[0].ns + epoch_ns, cells[0].frac};
        break;
    case LAYOUT_WIDE_INTERVAL:
        state->one.interval = (struct ration_interval){cells[0].ns + epoch_ns, word_of(cells[1])};
        break;
    case LAYOUT_FIXED:
        state->one.fixed = read_fixed(bucket->limit, cells[0], epoch_ns);
        break;
    case LAYOUT_SLIDING:
        state->one.sliding = read_sliding(bucket->limit, cells, epoch_ns);
        break;
    case LAYOUT_LOG:
        state->log = (struct ration_log_ring_head){cells[0].ns + epoch_ns, word_of(cells[1])};
    }
}

void ration_bucket_state_write(const struct ration_bucket_state *bucket, struct ration_time *cells,
                               uint64_t epoch_ns)
{
    const union ration_bucket_words *state = &bucket->state;

    switch (layout_of(bucket->limit)) {
    case LAYOUT_TAT:
        cells[0] = to_epoch_time(state->one.tat, epoch_ns);
        break;
    case LAYOUT_RESERVE:
        cells[0] = to_epoch_time(state->reserve.tats[0], epoch_ns);
        cells[1] = to_epoch_time(state->reserve.tats[1], epoch_ns);
        break;
    case LAYOUT_INTERVAL:
        cells[0] = to_epoch_time(
            (struct ration_time){state->one.interval.full_at_ns, state->one.interval.spare_tokens},
            epoch_ns);
        break;
    case LAYOUT_WIDE_INTERVAL:
        cells[0] = to_epoch_time(ration_time_from_ns(state->one.interval.full_at_ns), epoch_ns);
        cells[1] = cell_of(state->one.interval.spare_tokens);
        break;
    case LAYOUT_FIXED:
        cells[0] = write_fixed(bucket->limit, state->one.fixed, epoch_ns);
        break;
    case LAYOUT_SLIDING:
        write_sliding(bucket->limit, state->one.sliding, cells, epoch_ns);
        break;
    case LAYOUT_LOG:
        cells[0] = to_epoch_time(ration_time_from_ns(state->log.newest_ns), epoch_ns);
        cells[1] = cell_of(state->log.head_index);
    }
}

void ration_bucket_state_at_watermark(const struct ration_limit *limit, struct ration_time *cells,
                                      uint64_t watermark_ns, uint64_t epoch_ns)
{
    struct ration_bucket_state bucket = {.limit = limit};
    uint64_t aligned_ns = (watermark_ns + epoch_ns) / limit->period_ns * limit->period_ns;

    switch (layout_of(limit)) {
    case LAYOUT_SLIDING:
        /* A reclaimed bucket weighed until the end of a window, with at most a full window's count. */
        if (watermark_ns > 0 && aligned_ns > epoch_ns + limit->period_ns)
            bucket.state.one.sliding = (struct ration_sliding_window){aligned_ns - limit->period_ns,
                                                                      0, (uint32_t)limit->tokens};
        write_sliding(limit, bucket.state.one.sliding, cells, epoch_ns);
        break;
    case LAYOUT_FIXED:
        /*
         * Likewise, a reclaimed bucket counted only in windows that have ended, with at most a full window's
         * count.
         */
        if (watermark_ns > 0 && aligned_ns > epoch_ns)
            bucket.state.one.fixed = (struct ration_fixed_window){aligned_ns, limit->tokens};
        cells[0] = write_fixed(limit, bucket.state.one.fixed, epoch_ns);
        break;
    case LAYOUT_RESERVE:
        cells[0] = cells[1] = ration_time_from_ns(watermark_ns);
        break;
    case LAYOUT_LOG:
    case LAYOUT_WIDE_INTERVAL:
        cells[0] = ration_time_from_ns(watermark_ns);
        cells[1] = (struct ration_time){0, 0};
        break;
    default:
        cells[0] = ration_time_from_ns(watermark_ns);
    }
}

void ration_bucket_state_remember(const struct ration_bucket_state *bucket,
                                  struct ration_time *cells, uint64_t since_ns, uint64_t epoch_ns)
{
    struct ration_time now = ration_time_from_ns(since_ns);

    switch (layout_of(bucket->limit)) {
    case LAYOUT_FIXED:
    case LAYOUT_SLIDING:
        if (ration_time_less(cells[0], now))
            ration_bucket_state_at_watermark(bucket->limit, cells, since_ns, epoch_ns);
        break;
    case LAYOUT_RESERVE:
        cells[1] = ration_time_max(cells[1], now);
        cells[0] = ration_time_max(cells[0], now);
        break;
    default:
        cells[0] = ration_time_max(cells[0], now);
    }
}
