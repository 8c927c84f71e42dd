#include "redis/lease.h"

#include "base/time.h"
#include "redis/limit_tag.h"
#include "redis/times.h"

void ration_redis_lease_write(const struct ration_redis_lease *lease,
                              const struct ration_redis_names *names,
                              struct ration_redis_argv *argv)
{
    const struct ration_rate *rate = &lease->limit->rate;
    uint64_t back = lease->back_tokens < rate->burst ? lease->back_tokens : rate->burst;

    ration_redis_argv_add_u64(argv, 1);
    ration_redis_name_write(names, &lease->key, lease->limit->name, argv);
    ration_redis_argv_add_now(argv, lease->has_now, lease->now_ns);
    ration_redis_limit_tag_write(lease->limit, false, &argv->text);
    ration_redis_argv_end(argv);
    ration_redis_argv_add_text(argv, "");
    ration_redis_argv_add_text(argv, "");
    ration_redis_argv_add_u64(argv, lease->back_number);
    ration_redis_argv_add_time(argv, rate->capacity);
    ration_redis_argv_add_time(argv, ration_time_from_ns(lease->length_ns));
    ration_redis_argv_add_time(argv, ration_time_scale(rate->token, back));
    ration_redis_argv_add_time(argv, ration_time_from_ns(lease->back_age_ns));
    ration_redis_argv_add_time(argv, ration_time_scale(rate->token, lease->cost_tokens < rate->burst
                                                                        ? lease->cost_tokens
                                                                        : rate->burst));
    for (uint64_t tokens = lease->want_tokens < rate->burst ? lease->want_tokens : rate->burst;
         tokens > 0; tokens /= 2) {
        ration_redis_argv_add_u64(argv, tokens);
        ration_redis_argv_add_time(argv, ration_time_scale(rate->token, tokens));
    }
}
