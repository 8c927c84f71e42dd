#include "support/engine_ops_rules.h"

#define STEADY_BURST 7
#define STEADY_RATE  3 /* tokens per second */

engine_ops_check_bug *engine_ops_check_bug_planted;

void engine_ops_check(ration_engine *engine, struct ration_check *check, uint64_t now_ns)
{
    ration_engine_check(engine, check, 1, now_ns);
    if (engine_ops_check_bug_planted != NULL)
        engine_ops_check_bug_planted(engine, check, now_ns);
}

static struct ration_decision peek(ration_engine *engine, const struct ration_check *like,
                                   uint64_t tokens, uint64_t now_ns)
{
    struct ration_check check = {.attributes = like->attributes,
                                 .attribute_count = like->attribute_count,
                                 .cost_tokens = tokens,
                                 .is_peek = true};

    engine_ops_check(engine, &check, now_ns);
    return check.decision;
}

bool engine_ops_is_too_much(const struct engine_ops_admission *admissions, size_t count)
{
    unsigned __int128 sum = 0;

    for (size_t i = count; i-- > 0;) {
        unsigned __int128 passed_ns = admissions[count - 1].at_ns - admissions[i].at_ns;

        sum += admissions[i].tokens;
        if (sum * RATION_NS_PER_SECOND >
            (unsigned __int128)STEADY_BURST * RATION_NS_PER_SECOND + STEADY_RATE * passed_ns)
            return true;
    }
    return false;
}

struct ration_check engine_ops_take(ration_engine *engine,
                                    const struct ration_attribute *attributes,
                                    size_t attribute_count, uint64_t tokens, uint64_t now_ns,
                                    const char **out_error)
{
    struct ration_check check = {
        .attributes = attributes, .attribute_count = attribute_count, .cost_tokens = tokens};
    struct ration_decision same = peek(engine, &check, tokens, now_ns);
    struct ration_decision before = peek(engine, &check, 0, now_ns), after;

    engine_ops_check(engine, &check, now_ns);
    after = peek(engine, &check, 0, now_ns);
    if (same.verdict != check.decision.verdict ||
        same.retry_after_ns != check.decision.retry_after_ns)
        *out_error = "a peek has another verdict than the check that follows, or another wait";
    else if (check.decision.verdict != RATION_ALLOW &&
             (before.remaining != after.remaining || before.reset_after_ns != after.reset_after_ns))
        *out_error = "R2: a denial changes a bucket";
    return check;
}

const char *engine_ops_check_retry(ration_engine *engine, const struct ration_check *denied,
                                   uint64_t now_ns)
{
    uint64_t wait_ns = denied->decision.retry_after_ns;

    if (peek(engine, denied, denied->cost_tokens, now_ns + wait_ns).verdict != RATION_ALLOW)
        return "R4: denied again when the wait is over";
    if (wait_ns == 0 ||
        peek(engine, denied, denied->cost_tokens, now_ns + wait_ns - 1).verdict == RATION_ALLOW)
        return "R4: admitted before the wait is over";
    return NULL;
}
