#include "server/ops/auth_failures.h"

#include <stdlib.h>
#include <string.h>

#include "server/ops/log.h"

#define IPV6_HOST_BITS 64

struct ration_auth_failures {
    ration_limiter *limiter; /* one bucket per address */
    struct ration_limit lines;
    struct ration_bucket lines_bucket;
    uint64_t unlogged_count; /* atomic: failures since the last logged one */
};

struct ration_auth_failures *ration_auth_failures_create(const struct ration_clock *clock)
{
    struct ration_auth_failures *failures = calloc(1, sizeof(*failures));
    struct ration_rule rule = {0};
    struct ration_limiter_options options = {.struct_size = sizeof(options),
                                             .rules = &rule,
                                             .rule_count = 1,
                                             .keys_max = RATION_AUTH_FAILURES_KEYS,
                                             .clock = clock,
                                             .name = "auth failures"};

    if (failures != NULL &&
        ration_limit_parse(RATION_AUTH_FAILURES_LIMIT, &rule.limit, NULL) == RATION_OK &&
        ration_limit_parse(RATION_AUTH_FAILURES_LINES, &failures->lines, NULL) == RATION_OK &&
        ration_limiter_create(&options, &failures->limiter, NULL) == RATION_OK)
        return failures;
    free(failures);
    return NULL;
}

void ration_auth_failures_free(struct ration_auth_failures *failures)
{
    if (failures == NULL)
        return;
    ration_limiter_free(failures->limiter);
    free(failures);
}

static void log_failure(struct ration_auth_failures *failures, const struct ration_address *peer,
                        const char *what, bool is_delayed, uint64_t now_ns)
{
    char address[RATION_ADDRESS_TEXT_SIZE] = "a Unix socket";
    uint64_t count = __atomic_add_fetch(&failures->unlogged_count, 1, __ATOMIC_RELAXED);

    if (!ration_bucket_allow_at(&failures->lines_bucket, &failures->lines, 1, now_ns))
        return;
    (void)__atomic_sub_fetch(&failures->unlogged_count, count, __ATOMIC_RELAXED);
    if (peer->family != 0)
        address[ration_address_print(peer, address)] = '\0';
    ration_log(RATION_LOG_WARNING,
               "wrong %s from %s%s; %llu failed attempts from all addresses since the last line "
               "about them",
               what, address, is_delayed ? " (the reply is delayed by 1 s)" : "",
               (unsigned long long)count);
}

void ration_auth_failures_add(struct ration_service *service, struct ration_connection *connection,
                              const char *what)
{
    struct ration_auth_failures *failures = service->auth_failures;
    struct ration_address prefix = *ration_connection_peer(connection);
    struct ration_key key = {&prefix, sizeof(prefix)};
    uint64_t now_ns = ration_service_now(service, connection);
    bool is_delayed;

    if (failures == NULL)
        return;
    if (prefix.family == 6)
        ration_address_mask(&prefix, IPV6_HOST_BITS);
    is_delayed = !ration_limiter_allow_at(failures->limiter, &key, 1, now_ns);
    if (is_delayed)
        ration_connection_delay(connection);
    log_failure(failures, ration_connection_peer(connection), what, is_delayed, now_ns);
}
