#include "redis/url.h"

#include <string.h>

#include "base/refuse.h"

#define PORT_DEFAULT 6379
#define PORT_MAX     65535
#define DATABASE_MAX 65535

static const char forms[] = "redis://[user:password@]host[:port][/database] or unix:/path[?db=n]";

static int hex_digit(char byte)
{
    if (byte >= '0' && byte <= '9')
        return byte - '0';
    if (byte >= 'a' && byte <= 'f')
        return byte - 'a' + 10;
    return byte >= 'A' && byte <= 'F' ? byte - 'A' + 10 : -1;
}

/* Copies a part of the URL, decoded. False: it is too long, or an escape is none. */
static bool copy(const char *begin, const char *end, bool decodes, char *out)
{
    size_t size = 0;

    for (const char *at = begin; at < end; at++) {
        char byte = *at;

        if (decodes && byte == '%') {
            int high = end - at > 2 ? hex_digit(at[1]) : -1;
            int low = end - at > 2 ? hex_digit(at[2]) : -1;

            if (high < 0 || low < 0)
                return false;
            byte = (char)(high * 16 + low);
            at += 2;
        }
        if (size == RATION_REDIS_TEXT_MAX || byte == '\0')
            return false;
        out[size++] = byte;
    }
    out[size] = '\0';
    return true;
}

/* A number up to most, and nothing else. */
static bool read_number(const char *begin, const char *end, unsigned most, unsigned *out_number)
{
    unsigned number = 0;

    if (begin == end)
        return false;
    for (const char *at = begin; at < end; at++) {
        if (*at < '0' || *at > '9' || number > most)
            return false;
        number = number * 10 + (unsigned)(*at - '0');
    }
    *out_number = number;
    return number <= most;
}

/* host[:port], where an IPv6 address is in brackets. */
static ration_status read_host(const char *begin, const char *end, struct ration_redis_url *url,
                               struct ration_error *error)
{
    const char *bracket = *begin == '[' ? memchr(begin, ']', (size_t)(end - begin)) : NULL;
    const char *host_begin = bracket != NULL ? begin + 1 : begin;
    const char *rest = bracket != NULL ? bracket + 1 : begin;
    const char *colon = memchr(rest, ':', (size_t)(end - rest));
    const char *host_end = bracket != NULL ? bracket : colon != NULL ? colon : end;

    if (*begin == '[' && bracket == NULL)
        return ration_refuse(error, RATION_EINVAL, "an address that begins with [ ends with ]");
    if (host_begin == host_end || !copy(host_begin, host_end, false, url->host))
        return ration_refuse(error, RATION_EINVAL, "there is no host; write %s", forms);
    if (bracket != NULL && rest != end && colon != rest)
        return ration_refuse(error, RATION_EINVAL, "behind ] comes :port or nothing");
    if (colon != NULL && (!read_number(colon + 1, end, PORT_MAX, &url->port) || url->port == 0))
        return ration_refuse(error, RATION_EINVAL, "a port is a number from 1 to 65535");
    return RATION_OK;
}

static ration_status read_tcp(const char *text, struct ration_redis_url *url,
                              struct ration_error *error)
{
    const char *slash = strchr(text, '/');
    const char *end = slash != NULL ? slash : text + strlen(text);
    const char *at = memrchr(text, '@', (size_t)(end - text));
    const char *colon = at != NULL ? memchr(text, ':', (size_t)(at - text)) : NULL;

    url->port = PORT_DEFAULT;
    if (at != NULL && (colon == NULL || !copy(text, colon, true, url->user) ||
                       !copy(colon + 1, at, true, url->password)))
        return ration_refuse(error, RATION_EINVAL,
                             "before @ comes user:password or :password, of up to 255 bytes each, "
                             "with : / @ and %% written as %%3A %%2F %%40 and %%25");
    if (slash != NULL && slash[1] != '\0' &&
        !read_number(slash + 1, slash + strlen(slash), DATABASE_MAX, &url->database))
        return ration_refuse(error, RATION_EINVAL, "behind / comes the number of a database");
    return read_host(at != NULL ? at + 1 : text, end, url, error);
}

static ration_status read_unix(const char *text, struct ration_redis_url *url,
                               struct ration_error *error)
{
    const char *question = strchr(text, '?');
    const char *end = question != NULL ? question : text + strlen(text);

    if (text[0] != '/' || !copy(text, end, true, url->unix_path))
        return ration_refuse(error, RATION_EINVAL,
                             "unix: is followed by an absolute path of up to 255 bytes");
    if (question != NULL &&
        (strncmp(question, "?db=", 4) != 0 ||
         !read_number(question + 4, question + strlen(question), DATABASE_MAX, &url->database)))
        return ration_refuse(error, RATION_EINVAL,
                             "behind ? comes db= and the number of a database");
    return RATION_OK;
}

ration_status ration_redis_url_parse(const char *text, struct ration_redis_url *out_url,
                                     struct ration_error *error)
{
    static const char tcp[] = "redis://", local[] = "unix:", tls[] = "rediss://";
    struct ration_redis_url url = {.port = 0};
    ration_status status;

    if (strncmp(text, tcp, sizeof(tcp) - 1) == 0)
        status = read_tcp(text + sizeof(tcp) - 1, &url, error);
    else if (strncmp(text, local, sizeof(local) - 1) == 0)
        status = read_unix(text + sizeof(local) - 1, &url, error);
    else if (strncmp(text, tls, sizeof(tls) - 1) == 0)
        status = ration_refuse(error, RATION_EINVAL,
                               "TLS is not spoken here: put stunnel or a proxy on this host before "
                               "it, and name its socket (docs/redis.md)");
    else
        status = ration_refuse(error, RATION_EINVAL, "write %s", forms);
    if (status == RATION_OK)
        *out_url = url;
    return status;
}

struct ration_redis_place ration_redis_url_place(const struct ration_redis_url *url)
{
    return (struct ration_redis_place){
        .host = url->host[0] != '\0' ? url->host : NULL,
        .unix_path = url->unix_path[0] != '\0' ? url->unix_path : NULL,
        .port = url->port,
        .user = url->user[0] != '\0' ? url->user : NULL,
        .password = url->password[0] != '\0' ? url->password : NULL,
        .database = url->database,
    };
}
