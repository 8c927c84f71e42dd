/* script: runs one of the project's scripts, or one with a bug, in a real Redis. */
#ifndef RATION_TESTS_REDIS_SCRIPT_H
#define RATION_TESTS_REDIS_SCRIPT_H

#include <hiredis/hiredis.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "chance.h"
#include "redis/scripts.h"

#define SCRIPT_SIZE_MAX 65536

static inline redisContext *connect_or_exit(const char *socket)
{
    redisContext *redis = socket != NULL ? redisConnectUnix(socket) : NULL;

    if (redis == NULL || redis->err != 0) {
        fprintf(stderr, "no redis\n");
        exit(2);
    }
    return redis;
}

/* Loads the script in the file, or the project's own one if path is NULL. The reply is its SHA1. */
static inline redisReply *load_script(redisContext *redis, const char *path,
                                      enum ration_redis_script script)
{
    static char text[SCRIPT_SIZE_MAX];
    struct ration_redis_script_text right = ration_redis_script_text(script);
    size_t size = right.size;
    FILE *file = path != NULL ? fopen(path, "re") : NULL;
    redisReply *loaded;

    if (path == NULL)
        memcpy(text, right.bytes, size);
    else
        size = file != NULL ? fread(text, 1, sizeof(text), file) : 0;
    if (file != NULL)
        fclose(file);
    loaded = redisCommand(redis, "SCRIPT LOAD %b", text, size);
    if (loaded == NULL || loaded->type != REDIS_REPLY_STRING) {
        fprintf(stderr, "the script does not load: %s\n", loaded != NULL ? loaded->str : "");
        exit(1);
    }
    return loaded;
}

static inline redisReply *run_script(redisContext *redis, const char *sha,
                                     const struct ration_redis_argv *words)
{
    static const char *pointers[RATION_REDIS_ARGV_MAX + 2];
    static size_t sizes[RATION_REDIS_ARGV_MAX + 2];
    redisReply *reply;

    pointers[0] = "EVALSHA";
    sizes[0] = 7;
    pointers[1] = sha;
    sizes[1] = strlen(sha);
    for (size_t i = 0; i < words->count; i++) {
        pointers[i + 2] = ration_redis_argv_at(words, i);
        sizes[i + 2] = ration_redis_argv_size(words, i);
    }
    reply = redisCommandArgv(redis, (int)words->count + 2, pointers, sizes);
    if (reply == NULL || reply->type == REDIS_REPLY_ERROR) {
        fprintf(stderr, "redis: %s\n", reply != NULL ? reply->str : redis->errstr);
        exit(1);
    }
    return reply;
}

#endif
