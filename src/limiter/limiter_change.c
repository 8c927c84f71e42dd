/*
 * limiter_change: replaces the limits of all keys, while other threads decide.
 */
#include "base/error.h"
#include "base/os.h"
#include "limiter/limiter_internal.h"

/*
 * One thread changes limits at a time; a dump or a scan holds the lock so that limits do not change. A child of
 * fork() may have inherited the lock from a thread that does not exist in the child: there the lock is
 * initialised again.
 */
void ration_limiter_lock(struct ration_limiter *limiter)
{
    uint64_t process = ration_os_process_id();
    uint64_t seen = __atomic_load_n(&limiter->lock_process, __ATOMIC_ACQUIRE);

    while (seen != process) {
        if (seen != UINT64_MAX &&
            __atomic_compare_exchange_n(&limiter->lock_process, &seen, UINT64_MAX, false,
                                        __ATOMIC_ACQUIRE, __ATOMIC_ACQUIRE)) {
            pthread_mutex_init(&limiter->change_lock, NULL);
            __atomic_store_n(&limiter->lock_process, process, __ATOMIC_RELEASE);
        }
        seen = __atomic_load_n(&limiter->lock_process, __ATOMIC_ACQUIRE);
    }
    pthread_mutex_lock(&limiter->change_lock);
}

void ration_limiter_unlock(struct ration_limiter *limiter)
{
    pthread_mutex_unlock(&limiter->change_lock);
}

/* Keys that lost their slot no longer count as keys of the table. */
static void count_removed(struct ration_limiter *limiter, uint64_t count)
{
    ration_counters_add_limiter(limiter->counts.counters, RATION_COUNT_RECLAIMED, count);
}

static void replace_rules(struct ration_limiter *limiter, const struct ration_rule *rules,
                          size_t rule_count, enum ration_change change)
{
    struct ration_store *store = limiter->store;
    uint64_t now_ns = ration_clock_now(&limiter->clock);

    ration_config_table_replace(&limiter->configs, rules, rule_count, change, now_ns);
    count_removed(limiter,
                  store->calls->renew(store, &limiter->configs, limiter->section_index, now_ns));
}

void ration_limiter_clear(struct ration_limiter *limiter, const struct ration_rule *rules,
                          size_t rule_count)
{
    struct ration_store *store = limiter->store;
    uint64_t now_ns;

    ration_limiter_lock(limiter);
    now_ns = ration_clock_now(&limiter->clock);
    ration_config_table_replace(&limiter->configs, rules, rule_count, RATION_CHANGE_RESET, now_ns);
    count_removed(limiter,
                  store->calls->clear(store, &limiter->configs, limiter->section_index, now_ns));
    ration_limiter_unlock(limiter);
}

ration_status ration_limiter_change(ration_limiter *limiter, const struct ration_rule *rules,
                                    size_t rule_count, enum ration_change change,
                                    struct ration_error *error)
{
    ration_status status;

    if ((unsigned)change > RATION_CHANGE_RESET)
        return ration_error_set(error, RATION_EINVAL,
                                "change must be RATION_CHANGE_KEEP or RATION_CHANGE_RESET (got %u)",
                                (unsigned)change);
    ration_limiter_lock(limiter);
    status = ration_config_table_check(&limiter->configs, rules, rule_count, error);
    if (status == RATION_OK && limiter->stack != NULL && limiter->stack->limiter_max > 1 &&
        !limiter->stack->calls_name_limiters)
        status = ration_config_table_check_stacked(rules, rule_count, error);
    if (status == RATION_OK)
        replace_rules(limiter, rules, rule_count, change);
    ration_limiter_unlock(limiter);
    return status;
}
