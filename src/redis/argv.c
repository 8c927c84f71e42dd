#include "redis/argv.h"

#define TEXT_BYTES_MAX ((size_t)2 << 20) /* sixteen of the longest logs, stored and converted */

void ration_redis_argv_init(struct ration_redis_argv *argv)
{
    ration_output_init(&argv->text, TEXT_BYTES_MAX);
    argv->count = 0;
}

void ration_redis_argv_done(struct ration_redis_argv *argv)
{
    ration_output_done(&argv->text);
    argv->count = 0;
}

void ration_redis_argv_reset(struct ration_redis_argv *argv)
{
    ration_output_reset(&argv->text);
    argv->count = 0;
}

void ration_redis_argv_cut(struct ration_redis_argv *argv, size_t count)
{
    if (argv->text.is_failed)
        return;
    ration_output_rewind(&argv->text, count > 0 ? argv->ends[count - 1] : 0);
    argv->count = count;
}

void ration_redis_argv_end(struct ration_redis_argv *argv)
{
    if (argv->count == RATION_REDIS_ARGV_MAX)
        argv->text.is_failed = true;
    else
        argv->ends[argv->count++] = argv->text.size;
}

void ration_redis_argv_add(struct ration_redis_argv *argv, const void *bytes, size_t size)
{
    ration_output_append(&argv->text, bytes, size);
    ration_redis_argv_end(argv);
}

void ration_redis_argv_add_text(struct ration_redis_argv *argv, const char *text)
{
    ration_redis_argv_add(argv, text, strlen(text));
}

void ration_redis_argv_add_u64(struct ration_redis_argv *argv, uint64_t number)
{
    ration_output_append_u64(&argv->text, number);
    ration_redis_argv_end(argv);
}
