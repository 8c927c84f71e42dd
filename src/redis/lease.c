#include "redis/lease.h"

#include "base/time.h"
#include "redis/shape.h"
#include "redis/times.h"

void ration_redis_lease_write(const struct ration_redis_lease *lease,
                              const struct ration_redis_names *names,
                              struct ration_redis_words *words)
{
    const struct ration_rate *rate = &lease->limit->rate;
    uint64_t back = lease->back_tokens < rate->burst ? lease->back_tokens : rate->burst;

    ration_redis_word_u64(words, 1);
    ration_redis_name_write(names, &lease->key, lease->limit->name, words);
    ration_redis_word_now(words, lease->has_now, lease->now_ns);
    ration_redis_shape_write(lease->limit, false, &words->text);
    ration_redis_word_end(words);
    ration_redis_word_text(words, "");
    ration_redis_word_text(words, "");
    ration_redis_word_u64(words, lease->back_number);
    ration_redis_word_time(words, rate->capacity);
    ration_redis_word_time(words, ration_time_from_ns(lease->length_ns));
    ration_redis_word_time(words, ration_time_scale(rate->token, back));
    ration_redis_word_time(words, ration_time_from_ns(lease->back_age_ns));
    ration_redis_word_time(words, ration_time_scale(rate->token, lease->cost_tokens < rate->burst
                                                                     ? lease->cost_tokens
                                                                     : rate->burst));
    for (uint64_t tokens = lease->want_tokens < rate->burst ? lease->want_tokens : rate->burst;
         tokens > 0; tokens /= 2) {
        ration_redis_word_u64(words, tokens);
        ration_redis_word_time(words, ration_time_scale(rate->token, tokens));
    }
}
