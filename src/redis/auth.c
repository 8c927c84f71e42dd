#include "redis/auth.h"

#include <hiredis/hiredis.h>
#include <hiredis/sds.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#include "redis/url.h"

#if HIREDIS_MAJOR >= 1
#define sdslen    hi_sdslen
#define sdssetlen hi_sdssetlen
#endif

#define AROUND_BYTES 64 /* what a command of three words has around them */
#define COMMAND_SIZE (2 * RATION_REDIS_TEXT_MAX + AROUND_BYTES)

static size_t write_command(const struct ration_redis_place *place, char command[COMMAND_SIZE])
{
    int size;

    if (place->user != NULL)
        size = snprintf(command, COMMAND_SIZE, "*3\r\n$4\r\nAUTH\r\n$%zu\r\n%s\r\n$%zu\r\n%s\r\n",
                        strlen(place->user), place->user, strlen(place->password), place->password);
    else
        size = snprintf(command, COMMAND_SIZE, "*2\r\n$4\r\nAUTH\r\n$%zu\r\n%s\r\n",
                        strlen(place->password), place->password);
    return (size_t)size;
}

/*
 * hiredis releases its output as it is. What is in it is sent here, which a new connection has room for, and wiped. If it
 * could not be sent whole, which a later write would notice, hiredis sends it.
 */
static void send_and_wipe(struct redisAsyncContext *redis)
{
    char *output = redis->c.obuf;
    size_t size = sdslen(output);

    if (send(redis->c.fd, output, size, MSG_NOSIGNAL) != (ssize_t)size)
        return;
    explicit_bzero(output, size);
    sdssetlen(output, 0);
}

unsigned ration_redis_auth_send(struct redisAsyncContext *redis,
                                const struct ration_redis_place *place, redisCallbackFn *replied)
{
    char command[COMMAND_SIZE];
    bool is_begun;

    if (place->password == NULL)
        return 0;
    is_begun = redisAsyncFormattedCommand(redis, replied, NULL, command,
                                          write_command(place, command)) == REDIS_OK;
    explicit_bzero(command, sizeof(command));
    if (is_begun)
        send_and_wipe(redis);
    return is_begun;
}
