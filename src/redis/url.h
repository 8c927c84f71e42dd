/*
 * url: where Redis is, as people write it.
 *
 *     redis://[[user]:password@]host[:port][/database]
 *     unix:/path[?db=database]
 *
 * User and password may be percent-encoded.
 */
#ifndef RATION_REDIS_URL_H
#define RATION_REDIS_URL_H

#include "redis/link.h"

#define RATION_REDIS_TEXT_MAX 255

/* What a URL says. Texts are inside. */
struct ration_redis_url {
    char host[RATION_REDIS_TEXT_MAX + 1]; /* "": unix_path */
    char unix_path[RATION_REDIS_TEXT_MAX + 1];
    unsigned port;
    char user[RATION_REDIS_TEXT_MAX + 1]; /* "": none */
    char password[RATION_REDIS_TEXT_MAX + 1];
    unsigned database;
};

/* Returns RATION_EINVAL, with error (may be NULL) telling what is wrong and what would be right. */
ration_status ration_redis_url_parse(const char *text, struct ration_redis_url *out_url,
                                     struct ration_error *error);

/* The place that a URL names; it borrows the URL's texts. */
struct ration_redis_place ration_redis_url_place(const struct ration_redis_url *url);

#endif
