#include "redis/convert.h"

#include <string.h>

#include "core/change.h"
#include "redis/shape.h"

#define WORDS_EACH 3 /* which bucket, its text, and what stands for it */

/* Where a text tells its limit; text->size if it does not. */
static size_t shape_at(const struct ration_redis_text *text)
{
    size_t at = text->size;

    while (at > 0 && text->bytes[at - 1] != ' ')
        at--;
    return at > 0 ? at : text->size;
}

/* False: it is of no limit that is known. */
static bool read_limit(const struct ration_redis_text *text, struct ration_limit *limit)
{
    size_t at = shape_at(text);
    size_t end =
        text->size > at && text->bytes[text->size - 1] == '!' ? text->size - 1 : text->size;

    return ration_redis_shape_read(text->bytes + at, end - at, limit);
}

bool ration_redis_convert(const struct ration_redis_text *text,
                          const struct ration_redis_part *part, uint64_t now_ns,
                          struct ration_redis_words *words)
{
    struct ration_limit limit;
    struct ration_any any = {.limit = &limit};
    struct ration_redis_runs runs;
    struct ration_redis_beside beside = {.is_given = false};

    if (part->is_given || !read_limit(text, &limit) ||
        !ration_redis_state_read(text, now_ns, &runs, &any, &beside.hold_ns))
        return false;
    any = ration_any_change(&any, part->limit,
                            now_ns > part->changed_ago_ns ? now_ns - part->changed_ago_ns : 0);
    ration_redis_lease_carry(text, &any, now_ns, &any, &beside);
    ration_redis_state_write(&any, &beside, words);
    return true;
}

/* How many texts stand for others. */
static size_t count_of(const struct ration_redis_words *words)
{
    const char *last = ration_redis_word_at(words, words->count - 1);
    size_t size = ration_redis_word_size(words, words->count - 1), count = 0;

    for (size_t i = 0; i < size; i++)
        count = 10 * count + (size_t)(last[i] - '0');
    return count;
}

bool ration_redis_convert_all(const struct ration_redis_ask *ask,
                              const struct ration_redis_answer *answer,
                              struct ration_redis_words *words)
{
    uint64_t now_ns = answer->now_s * RATION_NS_PER_SECOND + answer->now_ns;
    uint64_t count = 0;

    ration_redis_words_cut(words, words->count - 1 - WORDS_EACH * count_of(words));
    for (uint32_t i = 0; i < ask->part_count && i < answer->text_count; i++) {
        const struct ration_redis_text *text = &answer->texts[i];
        struct ration_limit limit;

        if (text->bytes == NULL || ask->parts[i].is_given)
            continue;
        if (!read_limit(text, &limit))
            return false;
        if (ration_change_is_none(&limit, ask->parts[i].limit))
            continue;
        ration_redis_word_u64(words, i + 1);
        ration_redis_word(words, text->bytes, text->size);
        if (!ration_redis_convert(text, &ask->parts[i], now_ns, words))
            return false;
        count++;
    }
    ration_redis_word_u64(words, count);
    return count > 0;
}

static struct ration_redis_text text_at(const struct ration_redis_words *words, size_t index)
{
    return (struct ration_redis_text){ration_redis_word_at(words, index),
                                      ration_redis_word_size(words, index)};
}

void ration_redis_convert_undo(const struct ration_redis_words *words,
                               struct ration_redis_told *told)
{
    size_t count = count_of(words);
    size_t first = words->count - 1 - WORDS_EACH * count;

    for (size_t at = first; at + 1 < words->count; at += WORDS_EACH) {
        struct ration_redis_text number = text_at(words, at), instead = text_at(words, at + 2);
        size_t part = 0;

        for (size_t i = 0; i < number.size; i++)
            part = 10 * part + (size_t)(number.bytes[i] - '0');
        if (told->texts[part - 1].size == instead.size &&
            memcmp(told->texts[part - 1].bytes, instead.bytes, instead.size) == 0)
            told->texts[part - 1] = text_at(words, at + 1);
    }
}
