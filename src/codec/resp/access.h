/*
 * access: the access level of a client, and the level that a route or a command needs.
 *
 * A server has two secrets, the check secret and the admin secret. A client has one of three
 * levels, each of which includes those before it:
 *
 *     open     no secret: health, documentation, and the commands with which a client authenticates
 *     check    checks, and requests that describe the policy and the server
 *     admin    everything that shows keys, changes buckets, or changes the server
 *
 * The tables of routes and commands give the level that each entry needs. An entry without a level
 * is refused to every client: the zero value is not a level.
 */
#ifndef RATION_CODEC_RESP_ACCESS_H
#define RATION_CODEC_RESP_ACCESS_H

#include <stdbool.h>

enum ration_access {
    RATION_ACCESS_UNSET = 0,
    RATION_ACCESS_OPEN,
    RATION_ACCESS_CHECK,
    RATION_ACCESS_ADMIN
};

/* Whether a client with the level granted may use an entry that needs the level needed. */
static inline bool ration_access_permits(enum ration_access granted, enum ration_access needed)
{
    return needed != RATION_ACCESS_UNSET && granted >= needed;
}

/* Returns "open", "check" or "admin". */
static inline const char *ration_access_text(enum ration_access access)
{
    static const char *const texts[] = {"unset", "open", "check", "admin"};

    return texts[access];
}

#endif
