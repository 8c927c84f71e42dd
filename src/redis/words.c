#include "redis/words.h"

#define TEXT_BYTES_MAX \
    ((size_t)2 << 20) /* sixteen of the longest logs, as they were and converted */

void ration_redis_words_init(struct ration_redis_words *words)
{
    ration_output_init(&words->text, TEXT_BYTES_MAX);
    words->count = 0;
}

void ration_redis_words_done(struct ration_redis_words *words)
{
    ration_output_done(&words->text);
    words->count = 0;
}

void ration_redis_words_reset(struct ration_redis_words *words)
{
    ration_output_reset(&words->text);
    words->count = 0;
}

void ration_redis_words_cut(struct ration_redis_words *words, size_t count)
{
    if (words->text.is_failed)
        return;
    ration_output_rewind(&words->text, count > 0 ? words->ends[count - 1] : 0);
    words->count = count;
}

void ration_redis_word_end(struct ration_redis_words *words)
{
    if (words->count == RATION_REDIS_WORDS_MAX)
        words->text.is_failed = true;
    else
        words->ends[words->count++] = words->text.size;
}

void ration_redis_word(struct ration_redis_words *words, const void *bytes, size_t size)
{
    ration_output_append(&words->text, bytes, size);
    ration_redis_word_end(words);
}

void ration_redis_word_text(struct ration_redis_words *words, const char *text)
{
    ration_redis_word(words, text, strlen(text));
}

void ration_redis_word_u64(struct ration_redis_words *words, uint64_t number)
{
    ration_output_append_u64(&words->text, number);
    ration_redis_word_end(words);
}
