/*
 * change: other limits for all keys, while others decide.
 */
#include "limiter/limiter.h"

ration_status ration_limiter_change(ration_limiter *limiter, const struct ration_rule *rules,
                                    size_t rule_count, enum ration_change change,
                                    struct ration_error *error)
{
    ration_status status;

    pthread_mutex_lock(&limiter->change_lock);
    status = ration_configs_check(&limiter->configs, rules, rule_count, error);
    if (status == RATION_OK && limiter->stack != NULL && limiter->stack->limiter_count > 1)
        status = ration_configs_check_stacked(rules, rule_count, error);
    if (status == RATION_OK) {
        uint64_t number = limiter->configs.current->number + 1;

        if (number >= RATION_CONFIG_COUNT)
            limiter->store->calls->retire(limiter->store, &limiter->configs, limiter->section_index,
                                          (uint32_t)(number % RATION_CONFIG_COUNT),
                                          ration_clock_now(&limiter->clock));
        ration_configs_replace(&limiter->configs, rules, rule_count, change);
    }
    pthread_mutex_unlock(&limiter->change_lock);
    return status;
}
