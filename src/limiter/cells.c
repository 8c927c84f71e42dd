#include "limiter/state.h"

#include <string.h>

#include "base/time.h"

#define FRAC_BITS 20

/* Which of the ways in state.h a limit's state lies in cells. */
enum way { WAY_TAT, WAY_RESERVE, WAY_INTERVAL, WAY_WIDE_INTERVAL, WAY_FIXED, WAY_SLIDING, WAY_LOG };

static enum way way_of(const struct ration_limit *limit)
{
    switch (limit->algorithm) {
    case RATION_BURST_RESERVE:
        return WAY_RESERVE;
    case RATION_FIXED_WINDOW:
        return WAY_FIXED;
    case RATION_SLIDING_WINDOW:
        return WAY_SLIDING;
    case RATION_SLIDING_LOG:
        return WAY_LOG;
    default:
        if (limit->refill != RATION_REFILL_INTERVAL)
            return WAY_TAT;
        return limit->tokens <= RATION_FRAC_COUNT ? WAY_INTERVAL : WAY_WIDE_INTERVAL;
    }
}

struct ration_any_layout ration_any_layout(const struct ration_limit *limit)
{
    switch (way_of(limit)) {
    case WAY_RESERVE:
        return (struct ration_any_layout){.cell_count = 2, .moment_mask = 3};
    case WAY_WIDE_INTERVAL:
    case WAY_SLIDING:
        return (struct ration_any_layout){.cell_count = 2, .moment_mask = 1};
    case WAY_LOG:
        return (struct ration_any_layout){
            .cell_count = 2, .moment_mask = 1, .ring_cells = (uint32_t)limit->tokens};
    default:
        return (struct ration_any_layout){.cell_count = 1, .moment_mask = 1};
    }
}

bool ration_any_is_alike(const struct ration_limit *a, const struct ration_limit *b)
{
    enum way way = way_of(a);

    if (a->algorithm != b->algorithm || way != way_of(b))
        return false;
    return way == WAY_TAT || way == WAY_RESERVE ||
           (a->period_ns == b->period_ns && a->tokens == b->tokens);
}

/* 64 bits of anything in a cell that is no moment. */
static struct ration_time cell_of(uint64_t word)
{
    return (struct ration_time){word >> FRAC_BITS, word & (RATION_FRAC_COUNT - 1)};
}

static uint64_t word_of(struct ration_time cell)
{
    return cell.ns << FRAC_BITS | cell.frac;
}

static struct ration_time since(struct ration_time time, uint64_t epoch_ns)
{
    return ration_time_sub_or_zero(time, ration_time_from_ns(epoch_ns));
}

static struct ration_time back(struct ration_time cell, uint64_t epoch_ns)
{
    return (struct ration_time){cell.ns + epoch_ns, cell.frac};
}

static struct ration_fixed_window read_fixed(const struct ration_limit *limit,
                                             struct ration_time cell, uint64_t epoch_ns)
{
    uint64_t ns = cell.ns + epoch_ns;
    uint64_t end_ns = ns / limit->period_ns * limit->period_ns;
    uint64_t whole = ns - end_ns;
    uint64_t most = UINT64_MAX >> FRAC_BITS;

    if (cell.ns == 0)
        return (struct ration_fixed_window){0, 0};
    return (struct ration_fixed_window){end_ns,
                                        (whole < most ? whole : most) << FRAC_BITS | cell.frac};
}

/* A count above what a period has room for is not told apart from the most that it has. */
static struct ration_time write_fixed(const struct ration_limit *limit,
                                      struct ration_fixed_window window, uint64_t epoch_ns)
{
    struct ration_time count = cell_of(window.count_tokens);

    if (window.count_tokens == 0)
        return (struct ration_time){0, 0};
    if (count.ns >= limit->period_ns)
        count = (struct ration_time){limit->period_ns - 1, RATION_FRAC_COUNT - 1};
    return since((struct ration_time){window.end_ns + count.ns, count.frac}, epoch_ns);
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
        window.end_ns -= limit->period_ns; /* it weighs for one window more */
    return window;
}

static void write_sliding(const struct ration_limit *limit, struct ration_sliding_window window,
                          struct ration_time *cells, uint64_t epoch_ns)
{
    uint64_t until_ns = window.end_ns + (window.current_tokens > 0 ? limit->period_ns : 0);

    cells[0] = cells[1] = (struct ration_time){0, 0};
    if (window.current_tokens == 0 && window.previous_tokens == 0)
        return;
    cells[0] = since(ration_time_from_ns(until_ns), epoch_ns);
    cells[1] = cell_of((uint64_t)window.previous_tokens << 32 | window.current_tokens);
}

bool ration_any_is_ordered(const struct ration_limit *limit)
{
    enum way way = way_of(limit);

    return way == WAY_TAT || way == WAY_RESERVE || way == WAY_FIXED;
}

void ration_any_read(struct ration_any *any, const struct ration_time *cells, uint64_t epoch_ns)
{
    union ration_any_state *state = &any->state;

    memset(state, 0, sizeof(*state));
    switch (way_of(any->limit)) {
    case WAY_TAT:
        state->one.tat = back(cells[0], epoch_ns);
        break;
    case WAY_RESERVE:
        state->reserve.tats[0] = back(cells[0], epoch_ns);
        state->reserve.tats[1] = back(cells[1], epoch_ns);
        break;
    case WAY_INTERVAL:
        state->one.interval = (struct ration_interval){cells[0].ns + epoch_ns, cells[0].frac};
        break;
    case WAY_WIDE_INTERVAL:
        state->one.interval = (struct ration_interval){cells[0].ns + epoch_ns, word_of(cells[1])};
        break;
    case WAY_FIXED:
        state->one.fixed = read_fixed(any->limit, cells[0], epoch_ns);
        break;
    case WAY_SLIDING:
        state->one.sliding = read_sliding(any->limit, cells, epoch_ns);
        break;
    case WAY_LOG:
        state->log = (struct ration_log_head){cells[0].ns + epoch_ns, word_of(cells[1])};
    }
}

void ration_any_write(const struct ration_any *any, struct ration_time *cells, uint64_t epoch_ns)
{
    const union ration_any_state *state = &any->state;

    switch (way_of(any->limit)) {
    case WAY_TAT:
        cells[0] = since(state->one.tat, epoch_ns);
        break;
    case WAY_RESERVE:
        cells[0] = since(state->reserve.tats[0], epoch_ns);
        cells[1] = since(state->reserve.tats[1], epoch_ns);
        break;
    case WAY_INTERVAL:
        cells[0] = since(
            (struct ration_time){state->one.interval.full_at_ns, state->one.interval.spare_tokens},
            epoch_ns);
        break;
    case WAY_WIDE_INTERVAL:
        cells[0] = since(ration_time_from_ns(state->one.interval.full_at_ns), epoch_ns);
        cells[1] = cell_of(state->one.interval.spare_tokens);
        break;
    case WAY_FIXED:
        cells[0] = write_fixed(any->limit, state->one.fixed, epoch_ns);
        break;
    case WAY_SLIDING:
        write_sliding(any->limit, state->one.sliding, cells, epoch_ns);
        break;
    case WAY_LOG:
        cells[0] = since(ration_time_from_ns(state->log.newest_ns), epoch_ns);
        cells[1] = cell_of(state->log.head_index);
    }
}

void ration_any_origin(const struct ration_limit *limit, struct ration_time *cells,
                       uint64_t origin_ns, uint64_t epoch_ns)
{
    struct ration_any any = {.limit = limit};
    uint64_t aligned_ns = (origin_ns + epoch_ns) / limit->period_ns * limit->period_ns;

    switch (way_of(limit)) {
    case WAY_SLIDING:
        /* Whatever was reclaimed weighed until a window's end, at most a full window's count. */
        if (origin_ns > 0 && aligned_ns > epoch_ns + limit->period_ns)
            any.state.one.sliding = (struct ration_sliding_window){aligned_ns - limit->period_ns, 0,
                                                                   (uint32_t)limit->tokens};
        write_sliding(limit, any.state.one.sliding, cells, epoch_ns);
        break;
    case WAY_FIXED:
        /* Likewise, whatever was counted in windows that have ended. */
        if (origin_ns > 0 && aligned_ns > epoch_ns)
            any.state.one.fixed = (struct ration_fixed_window){aligned_ns, limit->tokens};
        cells[0] = write_fixed(limit, any.state.one.fixed, epoch_ns);
        break;
    case WAY_RESERVE:
        cells[0] = cells[1] = ration_time_from_ns(origin_ns);
        break;
    case WAY_LOG:
    case WAY_WIDE_INTERVAL:
        cells[0] = ration_time_from_ns(origin_ns);
        cells[1] = (struct ration_time){0, 0};
        break;
    default:
        cells[0] = ration_time_from_ns(origin_ns);
    }
}

void ration_any_remember(const struct ration_any *any, struct ration_time *cells, uint64_t since_ns,
                         uint64_t epoch_ns)
{
    struct ration_time now = ration_time_from_ns(since_ns);

    switch (way_of(any->limit)) {
    case WAY_FIXED:
    case WAY_SLIDING:
        if (ration_time_less(cells[0], now))
            ration_any_origin(any->limit, cells, since_ns, epoch_ns);
        break;
    case WAY_RESERVE:
        cells[1] = ration_time_max(cells[1], now);
        cells[0] = ration_time_max(cells[0], now);
        break;
    default:
        cells[0] = ration_time_max(cells[0], now);
    }
}
