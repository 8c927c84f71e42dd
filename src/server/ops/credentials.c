#include "server/ops/credentials.h"

#include <string.h>

#include "codec/resp/commands.h"
#include "server/ops/routes.h"
#include "server/ops/service.h"

static bool is_on_this_host(const struct ration_address *peer)
{
    static const struct ration_address loopback6 = {.bytes = {[15] = 1}, .family = 6};

    switch (peer->family) {
    case 0: /* a Unix socket */
        return true;
    case 4:
        return peer->bytes[0] == 127;
    default:
        return memcmp(peer, &loopback6, sizeof(loopback6)) == 0;
    }
}

enum ration_access ration_credentials_without_secret(const struct ration_settings *settings,
                                                     const struct ration_address *peer)
{
    if (settings->check_secret.is_set)
        return RATION_ACCESS_OPEN;
    if (settings->admin_secret.is_set || !is_on_this_host(peer))
        return RATION_ACCESS_CHECK;
    return RATION_ACCESS_ADMIN;
}

enum ration_access ration_credentials_of_secret(const struct ration_settings *settings,
                                                const void *secret, size_t secret_size)
{
    /* both are compared, so that the time does not reveal which one matched */
    bool is_check = ration_secret_is(&settings->check_secret, secret, secret_size);
    bool is_admin = ration_secret_is(&settings->admin_secret, secret, secret_size);

    return is_admin ? RATION_ACCESS_ADMIN : is_check ? RATION_ACCESS_CHECK : RATION_ACCESS_UNSET;
}

void ration_credentials_print_list(FILE *stream)
{
    for (size_t i = 0; i < ration_http_route_count; i++) {
        const struct ration_http_route *route = &ration_http_routes[i];

        if (route->get != NULL)
            fprintf(stream, "http\tGET %s\t%s\n", route->path, ration_access_text(route->access));
        if (route->post != NULL)
            fprintf(stream, "http\tPOST %s\t%s\n", route->path, ration_access_text(route->access));
    }
    for (size_t i = 0; i < RATION_COMMAND_COUNT; i++)
        fprintf(stream, "resp\t%s\t%s\n", ration_commands[i].name,
                ration_access_text(ration_commands[i].access));
}
