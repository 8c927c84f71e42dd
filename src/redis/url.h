/*
 * url: the address of Redis, as users write it.
 *
 *     redis://[[user]:password@]host[:port][/database]
 *     unix:/path[?db=database]
 *     redis+sentinel://[[user]:password@]host[:port][,host[:port]...]/master[/database]
 *     redis+cluster://[[user]:password@]host[:port][,host[:port]...]
 *
 * User, password and the name of a master may be percent-encoded. User and password are those of the nodes; those
 * of the sentinels follow ?sentinel=.
 */
#ifndef RATION_REDIS_URL_H
#define RATION_REDIS_URL_H

#include "redis/redis_connection.h"

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

/* A parsed URL. Strings are stored inside; "" means none. */
struct ration_redis_url {
    enum ration_redis_kind kind;
    uint32_t address_count; /* 0: unix_path is used */
    /* of the sentinels, for RATION_REDIS_SENTINEL */
    struct ration_redis_address addresses[RATION_REDIS_ADDRESSES_MAX];
    char unix_path[RATION_REDIS_TEXT_MAX + 1];
    char user[RATION_REDIS_TEXT_MAX + 1];
    char password[RATION_REDIS_TEXT_MAX + 1];
    char master[RATION_REDIS_TEXT_MAX + 1]; /* the name that the sentinels use */
    char sentinel_user[RATION_REDIS_TEXT_MAX + 1];
    char sentinel_password[RATION_REDIS_TEXT_MAX + 1];
    unsigned database;
};

/* Returns RATION_EINVAL; error (may be NULL) then says what is wrong and what is expected. */
ration_status ration_redis_url_parse(const char *text, struct ration_redis_url *out_url,
                                     struct ration_error *error);

/*
 * The endpoint at an address, or at unix_path if address is NULL, with the URL's credentials. url and address
 * are borrowed for as long as the endpoint is used.
 */
struct ration_redis_endpoint ration_redis_url_endpoint(const struct ration_redis_url *url,
                                                       const struct ration_redis_address *address);

#endif
