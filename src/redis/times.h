/*
 * times: moments and durations as the scripts read them.
 */
#ifndef RATION_REDIS_TIMES_H
#define RATION_REDIS_TIMES_H

#include "base/time.h"
#include "redis/words.h"

/* Seconds, and a rest in 2^-20 ns. */
static inline void ration_redis_word_time(struct ration_redis_words *words, struct ration_time time)
{
    ration_redis_word_u64(words, time.ns / RATION_NS_PER_SECOND);
    ration_redis_word_u64(words, (time.ns % RATION_NS_PER_SECOND << RATION_FRAC_BITS) + time.frac);
}

/* Seconds and nanoseconds. */
static inline void ration_redis_word_moment(struct ration_redis_words *words, uint64_t ns)
{
    ration_redis_word_u64(words, ns / RATION_NS_PER_SECOND);
    ration_redis_word_u64(words, ns % RATION_NS_PER_SECOND);
}

/* Now, or two words that mean Redis' own. */
static inline void ration_redis_word_now(struct ration_redis_words *words, bool has_now,
                                         uint64_t now_ns)
{
    if (has_now) {
        ration_redis_word_moment(words, ration_time_clamp(now_ns));
    } else {
        ration_redis_word_text(words, "");
        ration_redis_word_text(words, "");
    }
}

#endif
