/*
 * url: where Redis is, as people write it.
 *
 *     redis://[[user]:password@]host[:port][/database]
 *     unix:/path[?db=database]
 *     redis+sentinel://[[user]:password@]host[:port][,host[:port]...]/master[/database]
 *     redis+cluster://[[user]:password@]host[:port][,host[:port]...]
 *
 * User, password and the name of a master may be percent-encoded. User and password are those of the
 * nodes; those of sentinels come behind ?sentinel=.
 */
#ifndef RATION_REDIS_URL_H
#define RATION_REDIS_URL_H

#include "redis/link.h"

#define RATION_REDIS_TEXT_MAX      255
#define RATION_REDIS_ADDRESSES_MAX 16

enum ration_redis_kind {
    RATION_REDIS_SINGLE, /* one node */
    RATION_REDIS_SENTINEL,
    RATION_REDIS_CLUSTER
};

struct ration_redis_address {
    char host[RATION_REDIS_TEXT_MAX + 1];
    unsigned port;
};

/* What a URL says. Texts are inside; "" is none. */
struct ration_redis_url {
    enum ration_redis_kind kind;
    uint32_t address_count;                                            /* 0: unix_path */
    struct ration_redis_address addresses[RATION_REDIS_ADDRESSES_MAX]; /* of sentinels, if so */
    char unix_path[RATION_REDIS_TEXT_MAX + 1];
    char user[RATION_REDIS_TEXT_MAX + 1];
    char password[RATION_REDIS_TEXT_MAX + 1];
    char master[RATION_REDIS_TEXT_MAX + 1]; /* as sentinels call it */
    char sentinel_user[RATION_REDIS_TEXT_MAX + 1];
    char sentinel_password[RATION_REDIS_TEXT_MAX + 1];
    unsigned database;
};

/* Returns RATION_EINVAL, with error (may be NULL) telling what is wrong and what would be right. */
ration_status ration_redis_url_parse(const char *text, struct ration_redis_url *out_url,
                                     struct ration_error *error);

/*
 * The node at an address, or at the unix_path if address is NULL, as whom the URL says. Both texts are
 * borrowed for as long as the place is used.
 */
struct ration_redis_place ration_redis_url_place(const struct ration_redis_url *url,
                                                 const struct ration_redis_address *address);

#endif
