#include "redis/convert.h"

#include <string.h>

#include "core/change.h"
#include "redis/limit_tag.h"

#define ARGS_PER_CONVERSION 3 /* index of the bucket from 1, its stored text, its converted text */

/* Offset of the limit tag of a text; text->size if it has none. */
static size_t find_limit_tag(const struct ration_redis_text *text)
{
    size_t offset = text->size;

    while (offset > 0 && text->bytes[offset - 1] != ' ')
        offset--;
    return offset > 0 ? offset : text->size;
}

/* False: the text names no known limit. */
static bool read_limit(const struct ration_redis_text *text, struct ration_limit *limit)
{
    size_t offset = find_limit_tag(text);
    size_t end =
        text->size > offset && text->bytes[text->size - 1] == '!' ? text->size - 1 : text->size;

    return ration_redis_limit_tag_read(text->bytes + offset, end - offset, limit);
}

bool ration_redis_convert(const struct ration_redis_text *text,
                          const struct ration_redis_part *part, uint64_t now_ns,
                          struct ration_redis_argv *argv)
{
    struct ration_limit limit;
    struct ration_bucket_state bucket = {.limit = &limit};
    struct ration_redis_log_codec codec;
    struct ration_redis_annotations annotations = {.is_given = false};

    if (part->is_given || !read_limit(text, &limit) ||
        !ration_redis_state_read(text, now_ns, &codec, &bucket, &annotations.blocked_ns))
        return false;
    bucket = ration_bucket_state_change(
        &bucket, part->limit, now_ns > part->changed_ago_ns ? now_ns - part->changed_ago_ns : 0);
    ration_redis_lease_carry(text, &bucket, now_ns, &bucket, &annotations);
    ration_redis_state_write(&bucket, &annotations, argv);
    return true;
}

/* The last argument: the number of converted texts. */
static size_t read_conversion_count(const struct ration_redis_argv *argv)
{
    const char *last = ration_redis_argv_at(argv, argv->count - 1);
    size_t size = ration_redis_argv_size(argv, argv->count - 1), count = 0;

    for (size_t i = 0; i < size; i++)
        count = 10 * count + (size_t)(last[i] - '0');
    return count;
}

bool ration_redis_convert_all(const struct ration_redis_take_request *request,
                              const struct ration_redis_answer *answer,
                              struct ration_redis_argv *argv)
{
    uint64_t now_ns = answer->now_s * RATION_NS_PER_SECOND + answer->now_ns;
    uint64_t count = 0;

    ration_redis_argv_cut(argv,
                          argv->count - 1 - ARGS_PER_CONVERSION * read_conversion_count(argv));
    for (uint32_t i = 0; i < request->part_count && i < answer->text_count; i++) {
        const struct ration_redis_text *text = &answer->texts[i];
        struct ration_limit limit;

        if (text->bytes == NULL || request->parts[i].is_given)
            continue;
        if (!read_limit(text, &limit))
            return false;
        if (ration_change_is_none(&limit, request->parts[i].limit))
            continue;
        ration_redis_argv_add_u64(argv, i + 1);
        ration_redis_argv_add(argv, text->bytes, text->size);
        if (!ration_redis_convert(text, &request->parts[i], now_ns, argv))
            return false;
        count++;
    }
    ration_redis_argv_add_u64(argv, count);
    return count > 0;
}

static struct ration_redis_text argument_text(const struct ration_redis_argv *argv, size_t index)
{
    return (struct ration_redis_text){ration_redis_argv_at(argv, index),
                                      ration_redis_argv_size(argv, index)};
}

void ration_redis_convert_undo(const struct ration_redis_argv *argv,
                               struct ration_redis_take_result *result)
{
    size_t count = read_conversion_count(argv);
    size_t first = argv->count - 1 - ARGS_PER_CONVERSION * count;

    for (size_t index = first; index + 1 < argv->count; index += ARGS_PER_CONVERSION) {
        struct ration_redis_text number = argument_text(argv, index),
                                 converted = argument_text(argv, index + 2);
        size_t part = 0;

        for (size_t i = 0; i < number.size; i++)
            part = 10 * part + (size_t)(number.bytes[i] - '0');
        if (result->texts[part - 1].size == converted.size &&
            memcmp(result->texts[part - 1].bytes, converted.bytes, converted.size) == 0)
            result->texts[part - 1] = argument_text(argv, index + 1);
    }
}
