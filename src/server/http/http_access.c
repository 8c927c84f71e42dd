/*
 * http_access: authenticates a request, and decides whether it is permitted.
 *
 * A web page can make its visitor's browser send requests to any address that the browser reaches, including
 * this server's. Three headers reveal such a page, and the page cannot change any of them:
 *
 *     Sec-Fetch-Site   the relation of the page's site to this server. Browsers send it to loopback and over TLS
 *     Origin           the page's own origin. Browsers send it with POST, and with requests by scripts
 *     Host             the name that the browser resolved. A foreign name that resolves to this server
 *                      (DNS rebinding) makes the page "same-origin"; only the name reveals the page
 *
 * A proxy must therefore not forward the first two headers of its clients, and must send a Host that is accepted here.
 */
#include <string.h>
#include <strings.h>

#include "server/http/http_worker.h"
#include "server/ops/auth_failures.h"
#include "server/ops/credentials.h"

/* "http://" + Host, or "https://" where TLS ends at a proxy. */
static bool is_own_origin(const struct ration_http_worker *worker, const struct ration_key *origin)
{
    static const char *const schemes[] = {"http://", "https://"};
    const struct ration_key *host = &worker->request.host;

    for (size_t i = 0; i < sizeof(schemes) / sizeof(schemes[0]); i++) {
        size_t size = strlen(schemes[i]);

        if (host->size > 0 && origin->size == size + host->size &&
            memcmp(origin->bytes, schemes[i], size) == 0 &&
            memcmp((const char *)origin->bytes + size, host->bytes, host->size) == 0)
            return true;
    }
    return false;
}

/* Host without its port, and without the final dot of a name. */
static struct ration_key host_name(const struct ration_key *host)
{
    const char *bytes = host->bytes;
    const char *colon = host->size > 0 ? memrchr(bytes, ':', host->size) : NULL;
    size_t size = colon != NULL ? (size_t)(colon - bytes) : host->size;

    if (size > 0 && bytes[size - 1] == '.')
        size--;
    return (struct ration_key){bytes, size};
}

/* Whether Host names this server. An IP address always does: another host's address does not lead here. */
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

/* The same, with the last accepted Host cached: a proxy sends the same Host every time. */
static bool is_own_host(struct ration_http_worker *worker)
{
    const struct ration_key *host = &worker->request.host;

    /* a browser always sends Host, and cannot reach a Unix socket */
    if (host->size == 0 || ration_connection_peer(worker->connection)->family == 0)
        return true;
    if (host->size == worker->own_host_size &&
        memcmp(host->bytes, worker->own_host, host->size) == 0)
        return true;
    if (!is_listed_host(worker->service->settings, host))
        return false;
    if (host->size <= sizeof(worker->own_host)) {
        memcpy(worker->own_host, host->bytes, host->size);
        worker->own_host_size = host->size;
    }
    return true;
}

/* Authorization: Bearer SECRET. */
static enum ration_access access_of_authorization(const struct ration_http_worker *worker,
                                                  const struct ration_key *value)
{
    static const char scheme[] = "bearer ";
    struct ration_key start = {value->bytes, sizeof(scheme) - 1};

    if (value->size < start.size || !ration_http_is_any_case(&start, scheme))
        return RATION_ACCESS_UNSET;
    return ration_credentials_of_secret(worker->service->settings,
                                        (const char *)value->bytes + start.size,
                                        value->size - start.size);
}

bool ration_http_accept_origin(struct ration_http_worker *worker)
{
    enum ration_access presented_access = RATION_ACCESS_UNSET;
    size_t authorization_count = 0;
    bool is_foreign = false;

    for (size_t i = 0; i < worker->request.header_count; i++) {
        const struct ration_http_header *header = &worker->request.headers[i];

        if (ration_http_is(&header->name, "authorization")) {
            presented_access = access_of_authorization(worker, &header->value);
            authorization_count++;
        } else if (ration_http_is(&header->name, "sec-fetch-site")) {
            is_foreign |= !ration_http_is(&header->value, "same-origin") &&
                          !ration_http_is(&header->value, "none");
        } else if (ration_http_is(&header->name, "origin")) {
            is_foreign |= !is_own_origin(worker, &header->value);
        }
    }
    worker->has_secret = authorization_count == 1 && presented_access != RATION_ACCESS_UNSET;
    worker->has_wrong_secret = authorization_count > 0 && !worker->has_secret;
    worker->access =
        worker->has_secret
            ? presented_access
            : ration_credentials_without_secret(worker->service->settings,
                                                ration_connection_peer(worker->connection));
    if (is_foreign)
        ration_http_worker_problem(
            worker, 403,
            "Sec-Fetch-Site or Origin says that a page of another site sends this request. A proxy "
            "must not forward these headers of its clients.",
            NULL);
    else if (!is_own_host(worker))
        ration_http_worker_problem(
            worker, 403,
            "Host is not a name of this server: use an address or localhost, "
            "or list the name in the setting allowed-hosts.",
            NULL);
    else
        return true;
    return false;
}

void ration_http_count_wrong_secret(struct ration_http_worker *worker)
{
    if (worker->has_wrong_secret)
        ration_auth_failures_add(worker->service, worker->connection, "secret");
}

static bool refuse_unauthenticated(struct ration_http_worker *worker, const char *detail)
{
    ration_http_count_wrong_secret(worker);
    ration_service_add(worker->loop_worker, RATION_SERVICE_AUTH_FAILURES, 1);
    ration_http_worker_problem_with(worker, 401, detail, "WWW-Authenticate",
                                    "Bearer realm=\"ration\"");
    return false;
}

bool ration_http_permit(struct ration_http_worker *worker, enum ration_access needed)
{
    bool admin_is_off =
        needed == RATION_ACCESS_ADMIN && !worker->service->settings->admin_secret.is_set;

    /* Only where a wrong secret is counted: elsewhere the connection's looser limits would reveal a right one. */
    if (worker->has_secret && needed != RATION_ACCESS_OPEN && !admin_is_off)
        ration_connection_set_authenticated(worker->connection, true);
    if (ration_access_permits(worker->access, needed))
        return true;
    if (needed == RATION_ACCESS_CHECK)
        return refuse_unauthenticated(
            worker, "This needs the server's check secret, as Authorization: Bearer SECRET.");
    if (admin_is_off)
        ration_http_worker_problem(worker, 403,
                                   "This needs an admin secret, and the server has none: set "
                                   "admin-secret-file.",
                                   NULL);
    else if (worker->has_secret)
        ration_http_worker_problem(
            worker, 403, "This needs the admin secret; the request has the check secret.", NULL);
    else
        return refuse_unauthenticated(
            worker, "This needs the server's admin secret, as Authorization: Bearer SECRET.");
    return false;
}

/* Whether the policy has limits whose cost is an attribute; cached for each policy generation. */
static bool has_cost_attributes(struct ration_http_worker *worker,
                                const struct ration_engine_guard *guard)
{
    const ration_policy *policy = ration_engine_policy(guard);
    uint64_t generation = ration_engine_generation(guard);

    if (worker->costs_generation != generation) {
        worker->costs_generation = generation;
        worker->has_cost_attributes = false;
        for (size_t i = 0; i < ration_policy_limit_count(policy); i++)
            worker->has_cost_attributes |=
                ration_policy_limit_at(policy, i)->cost_kind == RATION_POLICY_COST_ATTRIBUTE;
    }
    return worker->has_cost_attributes;
}

bool ration_http_brings_cost(struct ration_http_worker *worker,
                             const struct ration_engine_guard *guard,
                             const struct ration_check_request *request)
{
    const ration_policy *policy = ration_engine_policy(guard);

    if (!has_cost_attributes(worker, guard))
        return false;
    for (size_t i = 0; i < ration_policy_limit_count(policy); i++) {
        const struct ration_policy_limit *limit = ration_policy_limit_at(policy, i);

        for (size_t k = 0; k < request->attribute_count; k++) {
            const struct ration_attribute *attribute = &request->attributes[k];

            if (limit->cost_kind == RATION_POLICY_COST_ATTRIBUTE &&
                ration_http_is(&attribute->name, limit->cost_name) &&
                !ration_http_is(&attribute->value, "0") && !ration_http_is(&attribute->value, "1"))
                return true;
        }
    }
    return false;
}

/* An image on any web page can cause such a GET, and browsers do not always send the headers that reveal it. */
bool ration_http_permit_inline(struct ration_http_worker *worker)
{
    const struct ration_settings *settings = worker->service->settings;

    if (worker->has_secret)
        return true;
    if (settings->check_secret.is_set || settings->admin_secret.is_set)
        return refuse_unauthenticated(worker,
                                      "A GET with a limit or with a cost above 1 needs a "
                                      "secret, as Authorization: Bearer SECRET. Or use POST.");
    ration_http_worker_problem(worker, 403,
                               "A GET with a limit or with a cost above 1 needs a secret, and the "
                               "server has none. Use POST with application/json.",
                               NULL);
    return false;
}
