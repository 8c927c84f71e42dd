/*
 * path: one way to write the path of a request.
 *
 *     /login   //login   /%6Cogin   /a/../login   /login;x=1   /./login/?x=1
 *
 * are all /login (the last is /login/).
 *
 * A proxy tells the path as the client wrote it, and the service behind may read all of these as the
 * same. A limit on /login must not be left by writing it another way.
 */
#ifndef RATION_PROTO_PATH_H
#define RATION_PROTO_PATH_H

#include <stdbool.h>

#include "ration/limiter.h"

/*
 * Takes the path out of a target: without scheme and host, query and fragment, escapes decoded, runs of
 * slashes folded, dot segments resolved (never above the root). Written over the target's own bytes,
 * where the path lies then. What is not an escape (%zz) stays as it is. Parameters of segments (;x=1) are
 * dropped.
 * False: services disagree about what this path is, so nobody can say which limit applies. It has
 *   - .. and an empty segment: /login//../x is /x in nginx, and /login/x in Node and Python's urljoin();
 *   - . or .. and an escaped slash (/a/..%2Fb), or parameters of that segment (/a/..;/b);
 *   - an escaped slash in a parameter (/a;%2F../b);
 *   - a backslash, or a control character, each escaped or not; a space that is not escaped.
 */
bool ration_path_normalize(char *target, size_t size, struct ration_key *out_path);

#endif
