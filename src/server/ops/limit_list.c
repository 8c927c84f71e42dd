#include "server/ops/limit_list.h"

void ration_limit_list_get(const struct ration_engine_guard *guard, size_t limit_index,
                           struct ration_admin_limit *out_limit)
{
    const ration_policy *policy = ration_engine_policy(guard);
    const struct ration_policy_limit *limit = ration_policy_limit_at(policy, limit_index);
    struct ration_limit unnamed = limit->limit;
    struct ration_limiter_report report;

    ration_limiter_read_report(ration_engine_limiter(guard, limit_index), &report);
    *out_limit = (struct ration_admin_limit){
        .limit = limit,
        .tokens = limit->limit.tokens,
        .period_ns = limit->limit.period_ns,
        .burst = limit->limit.burst,
        .keys_max = limit->keys_max,
        .keys = report.limiter.created - report.limiter.reclaimed,
        .allowed = report.rules[0].allowed,
        .denied = report.rules[0].denied,
        .never = report.rules[0].never,
        .near_limit = report.rules[0].near_limit,
        .shadow_denied = report.rules[0].shadow_denied,
        .overflow = report.limiter.overflow_shared + report.limiter.overflow_deny +
                    report.limiter.overflow_allow,
    };
    unnamed.name[0] = '\0';
    (void)ration_limit_print(&unnamed, out_limit->text, sizeof(out_limit->text));
    ration_policy_describe(policy, limit_index, out_limit->match, sizeof(out_limit->match));
}
