#include "greedy.h"

#include <string.h>

#include "history.h"

struct greedy_result greedy_run(const struct subject *subject, const struct ration_limit *limit,
                                uint64_t start_ns, uint64_t count)
{
    static _Alignas(16) uint64_t state[SUBJECT_STATE_SIZE_MAX / 8];
    struct greedy_result result = {.last_ns = start_ns, .keeps_contract = true};
    struct history history;
    uint64_t now_ns = start_ns;
    uint64_t cost = limit->burst;

    memset(state, 0, subject->size(limit));
    history_init(&history, limit);
    for (uint64_t left = count + 1; left > 0;) {
        struct ration_decision d = subject->take(state, limit, cost, now_ns);

        result.decisions++;
        if (d.verdict != RATION_ALLOW) {
            now_ns += d.retry_after_ns;
            continue;
        }
        result.keeps_contract &= history_admit(&history, cost, now_ns);
        result.admitted_tokens += cost;
        result.last_ns = now_ns;
        cost = 1;
        left--;
    }
    return result;
}
