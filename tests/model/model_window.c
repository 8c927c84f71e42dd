/* The algorithms that count: fixed window, sliding window, sliding log. */
#include <string.h>

#include "model_parts.h"

/* --- windows, numbered from the clock's zero --- */

static bool is_fixed(const struct model *m)
{
    return m->limit->algorithm == RATION_FIXED_WINDOW;
}

/*
 * The windows as they stand at now. Time that runs back stays in the window reached, if anything
 * is counted there: a full bucket is one that was never used (R7).
 */
static struct model_windows windows_at(const struct model *m, uint64_t now_ns)
{
    struct model_windows w = m->windows;
    uint64_t index = now_ns / m->limit->period_ns;

    if (w.current_tokens == 0 && w.previous_tokens == 0)
        w.index = index;
    if (index > w.index) {
        w.previous_tokens = index == w.index + 1 && !is_fixed(m) ? w.current_tokens : 0;
        w.current_tokens = 0;
        w.index = index;
    }
    return w;
}

static model_units window_start(const struct model *m, uint64_t index)
{
    return (model_units)index * (model_units)m->limit->period_ns;
}

/* The part of the window that is still to come, in ns. */
static model_units window_left(const struct model *m, const struct model_windows *w,
                               uint64_t now_ns)
{
    model_units passed = max_units((model_units)now_ns - window_start(m, w->index), 0);

    return (model_units)m->limit->period_ns - passed;
}

/* tokens - estimate, times the window's length. */
static model_units windows_room(const struct model *m, const struct model_windows *w,
                                uint64_t now_ns)
{
    model_units length = (model_units)m->limit->period_ns;

    return ((model_units)m->limit->tokens - (model_units)w->current_tokens) * length -
           (model_units)w->previous_tokens * window_left(m, w, now_ns);
}

/*
 * The first moment in window index at which weighted, counted in the window before it, leaves
 * room tokens; its end if there is none.
 */
static model_units first_moment(const struct model *m, uint64_t index, uint64_t weighted,
                                model_units room)
{
    model_units length = (model_units)m->limit->period_ns;
    model_units left = length;

    if (room < 0)
        left = 0;
    else if (weighted > 0)
        left = min_units(divide_down(room * length, (model_units)weighted), length);
    return window_start(m, index) + length - left;
}

uint64_t model_windows_wait(const struct model *m, uint64_t cost, uint64_t now_ns)
{
    struct model_windows w = windows_at(m, now_ns);
    model_units room = (model_units)m->limit->tokens - (model_units)cost;

    if (windows_room(m, &w, now_ns) >= (model_units)cost * (model_units)m->limit->period_ns)
        return 0;

    model_units moment =
        first_moment(m, w.index, w.previous_tokens, room - (model_units)w.current_tokens);
    if (!is_fixed(m) && moment == window_start(m, w.index + 1))
        moment = first_moment(m, w.index + 1, w.current_tokens, room);
    return (uint64_t)(moment - (model_units)now_ns);
}

uint64_t model_windows_remaining(const struct model *m, uint64_t now_ns)
{
    struct model_windows w = windows_at(m, now_ns);
    model_units room = max_units(windows_room(m, &w, now_ns), 0);

    return (uint64_t)divide_down(room, (model_units)m->limit->period_ns);
}

uint64_t model_windows_full_after(const struct model *m, uint64_t now_ns)
{
    struct model_windows w = windows_at(m, now_ns);
    uint64_t windows = 0;

    if (w.current_tokens > 0)
        windows = is_fixed(m) ? 1 : 2;
    else if (w.previous_tokens > 0)
        windows = 1;
    return windows == 0 ? 0 : (uint64_t)(window_start(m, w.index + windows) - (model_units)now_ns);
}

void model_windows_pay(struct model *m, uint64_t cost, uint64_t now_ns)
{
    uint64_t count_max = is_fixed(m) ? UINT64_MAX : UINT32_MAX;

    m->windows = windows_at(m, now_ns);
    m->windows.current_tokens = (uint64_t)min_units(
        (model_units)m->windows.current_tokens + (model_units)cost, (model_units)count_max);
}

void model_windows_refund(struct model *m, uint64_t tokens, uint64_t now_ns)
{
    if (!is_fixed(m))
        m->windows = windows_at(m, now_ns);

    struct model_windows *w = &m->windows;
    uint64_t now_back = tokens < w->current_tokens ? tokens : w->current_tokens;
    uint64_t rest = tokens - now_back;

    w->current_tokens -= now_back;
    w->previous_tokens -= rest < w->previous_tokens ? rest : w->previous_tokens;
}

/* Returns to the window in which the tokens were counted, while it is remembered. */
void model_windows_release(struct model *m, const struct model_release *r)
{
    struct model_windows *w = &m->windows;
    uint64_t *count = NULL;

    if (w->index == r->mark.windows.index)
        count = &w->current_tokens;
    else if (!is_fixed(m) && w->index == r->mark.windows.index + 1)
        count = &w->previous_tokens;
    if (count != NULL)
        *count -= r->unused_tokens < *count ? r->unused_tokens : *count;
}

void model_windows_set(struct model *m, uint64_t tokens, uint64_t now_ns)
{
    uint64_t limit_tokens = m->limit->tokens;

    m->windows.index = now_ns / m->limit->period_ns;
    m->windows.previous_tokens = 0;
    m->windows.current_tokens = tokens < limit_tokens ? limit_tokens - tokens : 0;
}

/* --- log --- */

/* Tokens that have not come back by now, of the last limit->tokens that were written. */
static uint64_t log_out(const struct model *m, uint64_t now_ns)
{
    uint64_t out = 0;

    for (uint64_t i = m->log_count; i > 0 && m->log[i - 1].back_at_ns > now_ns; i--)
        out += m->log[i - 1].tokens;
    return out;
}

uint64_t model_log_wait(const struct model *m, uint64_t cost, uint64_t now_ns)
{
    uint64_t free_tokens = m->limit->tokens - log_out(m, now_ns);

    for (uint64_t i = 0; i < m->log_count && free_tokens < cost; i++) {
        if (m->log[i].back_at_ns <= now_ns)
            continue;
        free_tokens += m->log[i].tokens;
        if (free_tokens >= cost)
            return m->log[i].back_at_ns - now_ns;
    }
    return 0;
}

uint64_t model_log_remaining(const struct model *m, uint64_t now_ns)
{
    return m->limit->tokens - log_out(m, now_ns);
}

uint64_t model_log_full_after(const struct model *m, uint64_t now_ns)
{
    uint64_t newest = m->log_count > 0 ? m->log[m->log_count - 1].back_at_ns : 0;

    return newest > now_ns ? newest - now_ns : 0;
}

/* Forgets the oldest tokens, so that no more than the limit's are kept. */
static void log_trim(struct model *m)
{
    uint64_t total = 0;
    uint64_t first = m->log_count;

    while (first > 0 && total < m->limit->tokens)
        total += m->log[--first].tokens;
    if (total > m->limit->tokens)
        m->log[first].tokens -= total - m->limit->tokens;
    if (first > 0)
        memmove(m->log, m->log + first, (m->log_count - first) * sizeof m->log[0]);
    m->log_count -= first;
}

void model_log_pay(struct model *m, uint64_t cost, uint64_t now_ns)
{
    uint64_t tokens = cost < m->limit->tokens ? cost : m->limit->tokens;
    uint64_t newest = m->log_count > 0 ? m->log[m->log_count - 1].back_at_ns : 0;
    uint64_t back_at = now_ns + m->limit->period_ns;

    if (tokens == 0)
        return;
    if (m->log_count == MODEL_LOG_COUNT_MAX)
        __builtin_trap();
    m->log[m->log_count++] = (struct model_log_entry){back_at > newest ? back_at : newest, tokens};
    log_trim(m);
}

void model_log_refund(struct model *m, uint64_t tokens)
{
    while (tokens > 0 && m->log_count > 0) {
        struct model_log_entry *last = &m->log[m->log_count - 1];
        uint64_t back = tokens < last->tokens ? tokens : last->tokens;

        last->tokens -= back;
        tokens -= back;
        if (last->tokens == 0)
            m->log_count--;
    }
}

/* Returns tokens of its own moment, while that is in the window: other moments stay. */
void model_log_release(struct model *m, const struct model_release *r, uint64_t now_ns)
{
    uint64_t left = r->unused_tokens;
    uint64_t kept = 0;

    for (uint64_t i = 0; i < m->log_count; i++) {
        struct model_log_entry *entry = &m->log[i];
        bool is_its_own = entry->back_at_ns == r->mark.log_back_at_ns && entry->back_at_ns > now_ns;
        uint64_t back = is_its_own ? (left < entry->tokens ? left : entry->tokens) : 0;

        entry->tokens -= back;
        left -= back;
        if (entry->tokens > 0)
            m->log[kept++] = *entry;
    }
    m->log_count = kept;
}

void model_log_set(struct model *m, uint64_t tokens, uint64_t now_ns)
{
    m->log_count = 0;
    if (tokens < m->limit->tokens)
        model_log_pay(m, m->limit->tokens - tokens, now_ns);
}
