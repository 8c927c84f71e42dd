/*
 * http_access: who sends a request, and whether it may.
 *
 * A page in somebody's browser can send requests to any address that the browser reaches, this server's
 * among them. Three headers reveal such a page, and none of them can be changed by it:
 *
 *     Sec-Fetch-Site   what the page is to this server. Sent by browsers to loopback and over TLS
 *     Origin           the page's own origin. Sent with POST, and with requests by scripts
 *     Host             the name that the browser resolved. A foreign name that resolves to this server
 *                      (DNS rebinding) makes the page "same-origin", and only its name gives it away
 *
 * A proxy must therefore not forward the first two of its own clients, and send a Host that is known here.
 */
#include <string.h>
#include <strings.h>

#include "server/auth_failures.h"
#include "server/credentials.h"
#include "server/http_desk.h"

/* "http://" + Host, or "https://" where TLS ends at a proxy. */
static bool is_own_origin(const struct ration_http_desk *desk, const struct ration_key *origin)
{
    static const char *const schemes[] = {"http://", "https://"};
    const struct ration_key *host = &desk->request.host;

    for (size_t i = 0; i < sizeof(schemes) / sizeof(schemes[0]); i++) {
        size_t size = strlen(schemes[i]);

        if (host->size > 0 && origin->size == size + host->size &&
            memcmp(origin->bytes, schemes[i], size) == 0 &&
            memcmp((const char *)origin->bytes + size, host->bytes, host->size) == 0)
            return true;
    }
    return false;
}

/* Host without its port, and without the dot that a name may end in. */
static struct ration_key host_name(const struct ration_key *host)
{
    const char *bytes = host->bytes;
    const char *colon = host->size > 0 ? memrchr(bytes, ':', host->size) : NULL;
    size_t size = colon != NULL ? (size_t)(colon - bytes) : host->size;

    if (size > 0 && bytes[size - 1] == '.')
        size--;
    return (struct ration_key){bytes, size};
}

/* Whether Host is a name of this server. An address is: no other host's address leads here. */
static bool is_listed_host(const struct ration_settings *settings, const struct ration_key *host)
{
    struct ration_key name = host_name(host);
    struct ration_address address;

    if (ration_address_parse_node(host->bytes, host->size, &address) ||
        ration_http_is_any_case(&name, "localhost"))
        return true;
    for (size_t i = 0; i < settings->allowed_host_count; i++)
        if (strlen(settings->allowed_hosts[i]) == name.size &&
            strncasecmp(settings->allowed_hosts[i], name.bytes, name.size) == 0)
            return true;
    return false;
}

/* The same, remembering the last one: a proxy sends the same Host every time. */
static bool is_own_host(struct ration_http_desk *desk)
{
    const struct ration_key *host = &desk->request.host;

    /* no browser leaves Host out, or reaches a Unix socket */
    if (host->size == 0 || ration_connection_peer(desk->connection)->family == 0)
        return true;
    if (host->size == desk->own_host_size && memcmp(host->bytes, desk->own_host, host->size) == 0)
        return true;
    if (!is_listed_host(desk->service->settings, host))
        return false;
    if (host->size <= sizeof(desk->own_host)) {
        memcpy(desk->own_host, host->bytes, host->size);
        desk->own_host_size = host->size;
    }
    return true;
}

/* Authorization: Bearer SECRET. */
static enum ration_access access_of(const struct ration_http_desk *desk,
                                    const struct ration_key *value)
{
    static const char scheme[] = "bearer ";
    struct ration_key start = {value->bytes, sizeof(scheme) - 1};

    if (value->size < start.size || !ration_http_is_any_case(&start, scheme))
        return RATION_ACCESS_UNSET;
    return ration_credentials_of_secret(
        desk->service->settings, (const char *)value->bytes + start.size, value->size - start.size);
}

bool ration_http_accept_origin(struct ration_http_desk *desk)
{
    enum ration_access presented = RATION_ACCESS_UNSET;
    size_t authorization_count = 0;
    bool is_foreign = false;

    for (size_t i = 0; i < desk->request.header_count; i++) {
        const struct ration_http_header *header = &desk->request.headers[i];

        if (ration_http_is(&header->name, "authorization")) {
            presented = access_of(desk, &header->value);
            authorization_count++;
        } else if (ration_http_is(&header->name, "sec-fetch-site")) {
            is_foreign |= !ration_http_is(&header->value, "same-origin") &&
                          !ration_http_is(&header->value, "none");
        } else if (ration_http_is(&header->name, "origin")) {
            is_foreign |= !is_own_origin(desk, &header->value);
        }
    }
    desk->has_secret = authorization_count == 1 && presented != RATION_ACCESS_UNSET;
    desk->has_wrong_secret = authorization_count > 0 && !desk->has_secret;
    desk->access = desk->has_secret
                       ? presented
                       : ration_credentials_without_secret(
                             desk->service->settings, ration_connection_peer(desk->connection));
    if (is_foreign)
        ration_http_desk_problem(
            desk, 403,
            "Sec-Fetch-Site or Origin says that a page of another site sends this request. A proxy "
            "must not forward these headers of its clients.",
            NULL);
    else if (!is_own_host(desk))
        ration_http_desk_problem(desk, 403,
                                 "Host is not a name of this server: use an address or localhost, "
                                 "or list the name in the setting allowed-hosts.",
                                 NULL);
    else
        return true;
    return false;
}

void ration_http_note_wrong_secret(struct ration_http_desk *desk)
{
    if (desk->has_wrong_secret)
        ration_auth_failures_add(desk->service, desk->connection, "secret");
}

static bool refuse_unauthenticated(struct ration_http_desk *desk, const char *detail)
{
    ration_http_note_wrong_secret(desk);
    ration_service_add(desk->part, RATION_SERVICE_AUTH_FAILURES, 1);
    ration_http_desk_problem_with(desk, 401, detail, "WWW-Authenticate", "Bearer realm=\"ration\"");
    return false;
}

bool ration_http_permit(struct ration_http_desk *desk, enum ration_access needed)
{
    bool admin_is_off =
        needed == RATION_ACCESS_ADMIN && !desk->service->settings->admin_secret.is_set;

    /* Only where a wrong secret is counted: elsewhere the bounds of the connection would reveal a right one. */
    if (desk->has_secret && needed != RATION_ACCESS_OPEN && !admin_is_off)
        ration_connection_set_authenticated(desk->connection, true);
    if (ration_access_permits(desk->access, needed))
        return true;
    if (needed == RATION_ACCESS_CHECK)
        return refuse_unauthenticated(
            desk, "This needs the server's check secret, as Authorization: Bearer SECRET.");
    if (admin_is_off)
        ration_http_desk_problem(desk, 403,
                                 "This needs an admin secret, and the server has none: set "
                                 "admin-secret-file.",
                                 NULL);
    else if (desk->has_secret)
        ration_http_desk_problem(
            desk, 403, "This needs the admin secret, and the check secret was presented.", NULL);
    else
        return refuse_unauthenticated(
            desk, "This needs the server's admin secret, as Authorization: Bearer SECRET.");
    return false;
}

/* Whether the policy has limits whose cost is an attribute; remembered for as long as the policy stays. */
static bool has_cost_attributes(struct ration_http_desk *desk, const struct ration_visit *visit)
{
    const ration_policy *policy = ration_gate_policy(visit);
    uint64_t generation = ration_gate_generation(visit);

    if (desk->costs_generation != generation) {
        desk->costs_generation = generation;
        desk->has_cost_attributes = false;
        for (size_t i = 0; i < ration_policy_limit_count(policy); i++)
            desk->has_cost_attributes |=
                ration_policy_limit_at(policy, i)->cost_kind == RATION_POLICY_COST_ATTRIBUTE;
    }
    return desk->has_cost_attributes;
}

bool ration_http_brings_cost(struct ration_http_desk *desk, const struct ration_visit *visit,
                             const struct ration_asked *asked)
{
    const ration_policy *policy = ration_gate_policy(visit);

    if (!has_cost_attributes(desk, visit))
        return false;
    for (size_t i = 0; i < ration_policy_limit_count(policy); i++) {
        const struct ration_policy_limit *limit = ration_policy_limit_at(policy, i);

        for (size_t k = 0; k < asked->attribute_count; k++) {
            const struct ration_attribute *attribute = &asked->attributes[k];

            if (limit->cost_kind == RATION_POLICY_COST_ATTRIBUTE &&
                ration_http_is(&attribute->name, limit->cost_name) &&
                !ration_http_is(&attribute->value, "0") && !ration_http_is(&attribute->value, "1"))
                return true;
        }
    }
    return false;
}

/* An image on any page can be such a GET, and browsers do not always reveal the page. */
bool ration_http_permit_inline(struct ration_http_desk *desk)
{
    const struct ration_settings *settings = desk->service->settings;

    if (desk->has_secret)
        return true;
    if (settings->check_secret.is_set || settings->admin_secret.is_set)
        return refuse_unauthenticated(desk,
                                      "A GET with a limit or with a cost above 1 needs a "
                                      "secret, as Authorization: Bearer SECRET. Or use POST.");
    ration_http_desk_problem(desk, 403,
                             "A GET with a limit or with a cost above 1 needs a secret, and the "
                             "server has none. Use POST with application/json.",
                             NULL);
    return false;
}
