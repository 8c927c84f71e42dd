#include "redis/url.h"

#include <string.h>

#include "base/error.h"

#define PORT_DEFAULT  6379
#define PORT_SENTINEL 26379
#define PORT_MAX      65535
#define DATABASE_MAX  65535

static const char url_forms[] =
    "redis://[user:password@]host[:port][/database], unix:/path[?db=n], "
    "redis+sentinel://host:port,host:port/master or redis+cluster://host:port,host:port";

static int hex_digit(char byte)
{
    if (byte >= '0' && byte <= '9')
        return byte - '0';
    if (byte >= 'a' && byte <= 'f')
        return byte - 'a' + 10;
    return byte >= 'A' && byte <= 'F' ? byte - 'A' + 10 : -1;
}

/* Copies a part of the URL, and decodes it. False: it is too long, or an escape is invalid. */
static bool copy_decoded(const char *begin, const char *end, bool decodes, char *out)
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

/* Reads a number of at most max, and nothing else. */
static bool read_number(const char *begin, const char *end, unsigned max, unsigned *out_number)
{
    unsigned number = 0;

    if (begin == end)
        return false;
    for (const char *at = begin; at < end; at++) {
        if (*at < '0' || *at > '9' || number > max)
            return false;
        number = number * 10 + (unsigned)(*at - '0');
    }
    *out_number = number;
    return number <= max;
}

/* Reads user:password or :password. */
static ration_status read_credentials(const char *begin, const char *end, const char *where,
                                      char *user, char *password, struct ration_error *error)
{
    const char *colon = memchr(begin, ':', (size_t)(end - begin));

    if (colon == NULL || !copy_decoded(begin, colon, true, user) ||
        !copy_decoded(colon + 1, end, true, password))
        return ration_error_set(error, RATION_EINVAL,
                                "expected user:password or :password %s, up to 255 bytes each, "
                                "with : / @ and %% written as %%3A %%2F %%40 and %%25",
                                where);
    return RATION_OK;
}

/* Reads host[:port], where an IPv6 address is in brackets. */
static ration_status read_address(const char *begin, const char *end,
                                  struct ration_redis_address *address, struct ration_error *error)
{
    const char *bracket = *begin == '[' ? memchr(begin, ']', (size_t)(end - begin)) : NULL;
    const char *host_begin = bracket != NULL ? begin + 1 : begin;
    const char *rest = bracket != NULL ? bracket + 1 : begin;
    const char *colon = memchr(rest, ':', (size_t)(end - rest));
    const char *host_end = bracket != NULL ? bracket : colon != NULL ? colon : end;

    if (*begin == '[' && bracket == NULL)
        return ration_error_set(error, RATION_EINVAL, "an address that begins with [ ends with ]");
    if (host_begin == host_end || !copy_decoded(host_begin, host_end, false, address->host))
        return ration_error_set(error, RATION_EINVAL, "there is no host; write %s", url_forms);
    if (bracket != NULL && rest != end && colon != rest)
        return ration_error_set(error, RATION_EINVAL, "expected :port or nothing after ]");
    if (colon != NULL &&
        (!read_number(colon + 1, end, PORT_MAX, &address->port) || address->port == 0))
        return ration_error_set(error, RATION_EINVAL, "a port is a number from 1 to 65535");
    return RATION_OK;
}

/* Reads one address, or several separated by commas. */
static ration_status read_addresses(const char *begin, const char *end, unsigned port,
                                    struct ration_redis_url *url, struct ration_error *error)
{
    const char *at = begin, *comma;
    ration_status status;

    do {
        struct ration_redis_address *address = &url->addresses[url->address_count];

        comma = memchr(at, ',', (size_t)(end - at));
        if (comma != NULL && url->kind == RATION_REDIS_SINGLE)
            return ration_error_set(
                error, RATION_EINVAL,
                "redis:// has one address; those of several nodes are written as "
                "redis+cluster:// or redis+sentinel://");
        if (url->address_count == RATION_REDIS_ADDRESSES_MAX)
            return ration_error_set(error, RATION_EINVAL, "there are more than %d addresses",
                                    RATION_REDIS_ADDRESSES_MAX);
        address->port = port;
        status = read_address(at, comma != NULL ? comma : end, address, error);
        url->address_count++;
        if (comma != NULL)
            at = comma + 1;
    } while (comma != NULL && status == RATION_OK);
    return status;
}

/* Reads what follows the addresses, from the slash up to end. slash is NULL if nothing does. */
static ration_status read_path(const char *slash, const char *end, struct ration_redis_url *url,
                               struct ration_error *error)
{
    const char *database = slash;

    if (url->kind == RATION_REDIS_CLUSTER && slash != NULL && slash + 1 < end)
        return ration_error_set(error, RATION_EINVAL,
                                "a cluster has no databases: nothing may follow its addresses");
    if (url->kind == RATION_REDIS_SENTINEL) {
        database = slash != NULL ? memchr(slash + 1, '/', (size_t)(end - slash - 1)) : NULL;
        if (slash == NULL ||
            !copy_decoded(slash + 1, database != NULL ? database : end, true, url->master) ||
            url->master[0] == '\0')
            return ration_error_set(error, RATION_EINVAL,
                                    "expected / and the name of the master, up to 255 bytes, "
                                    "after the addresses of the sentinels");
    }
    if (database != NULL && database + 1 < end &&
        !read_number(database + 1, end, DATABASE_MAX, &url->database))
        return ration_error_set(error, RATION_EINVAL, "expected the number of a database after /");
    return RATION_OK;
}

/* Reads the credentials for the sentinels. */
static ration_status read_sentinel_credentials(const char *question, struct ration_redis_url *url,
                                               struct ration_error *error)
{
    static const char name[] = "?sentinel=";
    const char *begin = question + sizeof(name) - 1;

    if (strncmp(question, name, sizeof(name) - 1) != 0)
        return ration_error_set(error, RATION_EINVAL,
                                "expected sentinel=user:password or sentinel=:password after ?");
    return read_credentials(begin, begin + strlen(begin), "after ?sentinel=", url->sentinel_user,
                            url->sentinel_password, error);
}

static ration_status read_tcp(const char *text, unsigned port, struct ration_redis_url *url,
                              struct ration_error *error)
{
    const char *question = url->kind == RATION_REDIS_SENTINEL ? strchr(text, '?') : NULL;
    const char *path_end = question != NULL ? question : text + strlen(text);
    const char *slash = memchr(text, '/', (size_t)(path_end - text));
    const char *end = slash != NULL ? slash : path_end;
    const char *at = memrchr(text, '@', (size_t)(end - text));
    ration_status status = RATION_OK;

    if (url->kind != RATION_REDIS_SENTINEL && strchr(text, '?') != NULL)
        return ration_error_set(error, RATION_EINVAL,
                                "unexpected ?: write the number of the database after /");
    if (at != NULL)
        status = read_credentials(text, at, "before @", url->user, url->password, error);
    if (status == RATION_OK && question != NULL)
        status = read_sentinel_credentials(question, url, error);
    if (status == RATION_OK)
        status = read_path(slash, path_end, url, error);
    return status == RATION_OK ? read_addresses(at != NULL ? at + 1 : text, end, port, url, error)
                               : status;
}

static ration_status read_unix(const char *text, struct ration_redis_url *url,
                               struct ration_error *error)
{
    const char *question = strchr(text, '?');
    const char *end = question != NULL ? question : text + strlen(text);
    const char *at = strncmp(text, "//", 2) == 0 ? memchr(text, '@', (size_t)(end - text)) : NULL;

    if (at != NULL &&
        read_credentials(text + 2, at, "before @", url->user, url->password, error) != RATION_OK)
        return RATION_EINVAL;
    if (at != NULL)
        text = at + 1;
    if (text[0] != '/' || !copy_decoded(text, end, true, url->unix_path))
        return ration_error_set(error, RATION_EINVAL,
                                "unix: is followed by an absolute path of up to 255 bytes; "
                                "unix:// by user:password@ and the path");
    if (question != NULL &&
        (strncmp(question, "?db=", 4) != 0 ||
         !read_number(question + 4, question + strlen(question), DATABASE_MAX, &url->database)))
        return ration_error_set(error, RATION_EINVAL,
                                "expected db= and the number of a database after ?");
    return RATION_OK;
}

ration_status ration_redis_url_parse(const char *text, struct ration_redis_url *out_url,
                                     struct ration_error *error)
{
    static const struct {
        const char *text;
        enum ration_redis_kind kind;
        unsigned port;
    } schemes[] = {{"redis://", RATION_REDIS_SINGLE, PORT_DEFAULT},
                   {"redis+sentinel://", RATION_REDIS_SENTINEL, PORT_SENTINEL},
                   {"redis+cluster://", RATION_REDIS_CLUSTER, PORT_DEFAULT}};
    static const char unix_prefix[] = "unix:", tls_prefix[] = "rediss://";
    struct ration_redis_url url = {.kind = RATION_REDIS_SINGLE};
    ration_status status = RATION_EINVAL;
    size_t scheme = 0;

    while (scheme < sizeof(schemes) / sizeof(schemes[0]) &&
           strncmp(text, schemes[scheme].text, strlen(schemes[scheme].text)) != 0)
        scheme++;
    if (scheme < sizeof(schemes) / sizeof(schemes[0])) {
        url.kind = schemes[scheme].kind;
        status = read_tcp(text + strlen(schemes[scheme].text), schemes[scheme].port, &url, error);
    } else if (strncmp(text, unix_prefix, sizeof(unix_prefix) - 1) == 0) {
        status = read_unix(text + sizeof(unix_prefix) - 1, &url, error);
    } else if (strncmp(text, tls_prefix, sizeof(tls_prefix) - 1) == 0) {
        (void)ration_error_set(error, RATION_EINVAL,
                               "TLS is not supported: run stunnel or a proxy on this host, and "
                               "use the address of its socket (docs/redis.md)");
    } else {
        (void)ration_error_set(error, RATION_EINVAL, "write %s", url_forms);
    }
    if (status == RATION_OK)
        *out_url = url;
    explicit_bzero(&url, sizeof(url)); /* passwords */
    return status;
}

struct ration_redis_endpoint ration_redis_url_endpoint(const struct ration_redis_url *url,
                                                       const struct ration_redis_address *address)
{
    return (struct ration_redis_endpoint){
        .host = address != NULL ? address->host : NULL,
        .unix_path = address == NULL ? url->unix_path : NULL,
        .port = address != NULL ? address->port : 0,
        .user = url->user[0] != '\0' ? url->user : NULL,
        .password = url->password[0] != '\0' ? url->password : NULL,
        .database = url->database,
    };
}
