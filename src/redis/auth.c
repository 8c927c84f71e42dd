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

#define AROUND_BYTES 64 /* protocol bytes around the three arguments */
#define COMMAND_SIZE (2 * RATION_REDIS_TEXT_MAX + AROUND_BYTES)

static size_t write_command(const struct ration_redis_endpoint *endpoint,
                            char command[COMMAND_SIZE])
{
    int size;

    if (endpoint->user != NULL)
        size = snprintf(command, COMMAND_SIZE, "*3\r\n$4\r\nAUTH\r\n$%zu\r\n%s\r\n$%zu\r\n%s\r\n",
                        strlen(endpoint->user), endpoint->user, strlen(endpoint->password),
                        endpoint->password);
    else
        size = snprintf(command, COMMAND_SIZE, "*2\r\n$4\r\nAUTH\r\n$%zu\r\n%s\r\n",
                        strlen(endpoint->password), endpoint->password);
    return (size_t)size;
}

/*
 * hiredis frees its output buffer without wiping it. So the command is sent here, since it fits into the send
 * buffer of a new connection, and what was sent is wiped. What send() does not take is left to hiredis.
 */
static void send_and_wipe(struct redisAsyncContext *redis)
{
    char *output = redis->c.obuf;
    size_t size = sdslen(output);
    ssize_t sent = send(redis->c.fd, output, size, MSG_NOSIGNAL);
    size_t left = sent > 0 ? size - (size_t)sent : size;

    memmove(output, output + (size - left), left);
    explicit_bzero(output + left, size - left);
    sdssetlen(output, left);
}

unsigned ration_redis_auth_send(struct redisAsyncContext *redis,
                                const struct ration_redis_endpoint *endpoint,
                                redisCallbackFn *on_reply)
{
    char command[COMMAND_SIZE];
    bool is_queued;

    if (endpoint->password == NULL)
        return 0;
    is_queued = redisAsyncFormattedCommand(redis, on_reply, NULL, command,
                                           write_command(endpoint, command)) == REDIS_OK;
    explicit_bzero(command, sizeof(command));
    if (is_queued)
        send_and_wipe(redis);
    return is_queued;
}
