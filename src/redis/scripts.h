/*
 * scripts: what runs inside Redis. Each connection loads them all, and then they are called by their names; where a
 * name is not known, since Redis has forgotten its scripts, the text is sent once more.
 *
 *     take     several buckets decided together
 *     lease    a cost, and tokens drawn for later
 *     edit     a token bucket that is refunded, filled or blocked by hand
 *     swap     any other bucket replaced, if it is as it was
 */
#ifndef RATION_REDIS_SCRIPTS_H
#define RATION_REDIS_SCRIPTS_H

#include "redis/words.h"

enum ration_redis_script {
    RATION_REDIS_TAKE,
    RATION_REDIS_LEASE,
    RATION_REDIS_EDIT,
    RATION_REDIS_SWAP,
    RATION_REDIS_SCRIPT_COUNT
};

struct ration_redis_script_text {
    const unsigned char *bytes;
    size_t size;
};

struct ration_redis_script_text ration_redis_script_text(enum ration_redis_script script);

/* The two words that a call of a script begins with. */
void ration_redis_word_script(struct ration_redis_words *words, enum ration_redis_script script);

/* The same call with the script's text instead of its name. */
void ration_redis_words_repeat(struct ration_redis_words *words, enum ration_redis_script script);

#endif
