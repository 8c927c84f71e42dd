/*
 * words: a Redis command in the making. Any bytes, any number of words up to the room.
 */
#ifndef RATION_REDIS_WORDS_H
#define RATION_REDIS_WORDS_H

#include "base/output.h"

#define RATION_REDIS_WORDS_MAX 384

struct ration_redis_words {
    struct ration_output text; /* all words, one after the other */
    size_t ends[RATION_REDIS_WORDS_MAX];
    size_t count;
};

void ration_redis_words_init(struct ration_redis_words *words);
void ration_redis_words_done(struct ration_redis_words *words);

/* Empty again; memory is kept. */
void ration_redis_words_reset(struct ration_redis_words *words);

/* Without all words from this one on. */
void ration_redis_words_cut(struct ration_redis_words *words, size_t count);

/* A word more. Without memory, or with too many, text.is_failed. */
void ration_redis_word(struct ration_redis_words *words, const void *bytes, size_t size);
void ration_redis_word_text(struct ration_redis_words *words, const char *text);
void ration_redis_word_u64(struct ration_redis_words *words, uint64_t number);

/* Ends a word that was written to words->text by pieces. */
void ration_redis_word_end(struct ration_redis_words *words);

static inline size_t ration_redis_word_size(const struct ration_redis_words *words, size_t index)
{
    return words->ends[index] - (index > 0 ? words->ends[index - 1] : 0);
}

static inline const char *ration_redis_word_at(const struct ration_redis_words *words, size_t index)
{
    return words->text.bytes + (index > 0 ? words->ends[index - 1] : 0);
}

#endif
