/*
 * path: normalizes the path of a request.
 *
 *     /login   //login   /%6Cogin   /a/../login   /login;x=1   /./login/?x=1
 *
 * all become /login (the last becomes /login/).
 *
 * A proxy forwards the path as the client wrote it, and the service behind it may treat all of
 * these as the same path. A client must not be able to evade a limit on /login by spelling it
 * differently.
 */
#ifndef RATION_CODEC_HTTP_PATH_H
#define RATION_CODEC_HTTP_PATH_H

#include <stdbool.h>

#include "ration/limiter.h"

/*
 * Extracts the path from a target: removes scheme, host, query and fragment, decodes escapes,
 * merges repeated slashes, and resolves dot segments (never above the root). The result is written
 * over the bytes of target. Invalid escapes (%zz) are left unchanged. Parameters of segments (;x=1)
 * are removed.
 *
 * Returns false if services disagree about the meaning of the path, so that it is unclear which
 * limit applies. This is a path with
 *   - .. and an empty segment: /login//../x is /x in nginx, and /login/x in Node and Python's urljoin();
 *   - . or .. and an escaped slash (/a/..%2Fb), or parameters of that segment (/a/..;/b);
 *   - an escaped slash in a parameter (/a;%2F../b);
 *   - a backslash or a control character, escaped or not; a space that is not escaped.
 */
bool ration_path_normalize(char *target, size_t size, struct ration_key *out_path);

#endif
