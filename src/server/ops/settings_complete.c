/*
 * settings_complete: checks and defaults that involve several settings.
 */
#include <inttypes.h>
#include <netinet/in.h>
#include <stdarg.h>
#include <string.h>

#include "server/net/endpoint.h"
#include "server/ops/settings.h"
#include "server/ops/settings_table.h"
#include "server/ops/settings_value.h"

/* Bytes of a RESP request besides its largest argument: its command, other arguments, lengths. */
#define RESP_AROUND_BYTES 4096

struct completion {
    struct ration_settings *settings;
    ration_policy_error_func *on_error;
    void *context;
    ration_status status;
};

static void __attribute__((format(printf, 2, 3)))
report_error(struct completion *completion, const char *format, ...)
{
    char message[RATION_ERROR_MESSAGE_MAX];
    struct ration_policy_error error = {0, 0, message};
    va_list arguments;

    va_start(arguments, format);
    vsnprintf(message, sizeof(message), format, arguments);
    va_end(arguments);
    completion->status = RATION_EINVAL;
    if (completion->on_error != NULL)
        completion->on_error(completion->context, &error);
}

/* Sets the defaults of address lists that no source set. */
static void set_default_lists(struct completion *completion)
{
    struct ration_settings *settings = completion->settings;

    for (size_t i = 0; i < ration_settings_table_count; i++) {
        const struct ration_setting *setting = &ration_settings_table[i];

        if (setting->kind != RATION_SETTING_ADDRESSES ||
            settings->sources[i] != RATION_SETTINGS_DEFAULT ||
            *(size_t *)((char *)settings + setting->count_offset) > 0)
            continue;
        if (ration_settings_value_read(setting, setting->default_text,
                                       strlen(setting->default_text), settings, NULL) != RATION_OK)
            completion->status = RATION_ENOMEM;
    }
}

static bool is_given(const struct ration_settings *settings, size_t offset)
{
    size_t index = 0;

    while (ration_settings_table[index].offset != offset)
        index++;
    return settings->sources[index] != RATION_SETTINGS_DEFAULT;
}

static uint64_t max_u64(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

/* The input buffer holds a whole request while it arrives, so it bounds the size of requests. */
static void check_input_bytes(struct completion *completion)
{
    struct ration_settings *settings = completion->settings;
    uint64_t http = settings->http_count > 0 ? ration_http_bytes_max(&settings->http_limits) : 0;
    uint64_t resp =
        settings->resp_count > 0 ? settings->resp_limits.argument_bytes_max + RESP_AROUND_BYTES : 0;
    uint64_t needed = max_u64(http, resp);

    if (!is_given(settings, offsetof(struct ration_settings, limits.input_bytes_max)))
        settings->limits.input_bytes_max =
            (uint32_t)max_u64(settings->limits.input_bytes_max, needed);
    else if (settings->limits.input_bytes_max < needed)
        report_error(completion,
                     "max-input is %" PRIu32 ", but a request may have %" PRIu64 " bytes; "
                     "raise it, or lower %s",
                     settings->limits.input_bytes_max, needed,
                     http >= resp ? "max-body-size" : "max-argument-size");
}

static void derive_protocol_limits(struct ration_settings *settings)
{
    struct ration_resp_limits *resp = &settings->resp_limits;
    struct ration_http_limits *http = &settings->http_limits;

    http->headers_max = RATION_HTTP_HEADERS_MAX;
    http->target_bytes_max = RATION_HTTP_LIMITS_DEFAULT.target_bytes_max;
    if (http->target_bytes_max > http->head_bytes_max)
        http->target_bytes_max = http->head_bytes_max;
    resp->request_bytes_max = settings->limits.input_bytes_max;
    resp->inline_bytes_max = RATION_RESP_INLINE_BYTES_MAX;
    if (resp->inline_bytes_max > resp->request_bytes_max)
        resp->inline_bytes_max = resp->request_bytes_max;
    settings->trust.proxies = settings->proxies;
}

/* Whether only this host can reach the address. An invalid address was rejected before. */
static bool is_local_address(const char *address)
{
    struct ration_endpoint endpoint;
    const struct sockaddr_in *in = (const struct sockaddr_in *)&endpoint.address;
    const struct sockaddr_in6 *in6 = (const struct sockaddr_in6 *)&endpoint.address;

    if (ration_endpoint_parse(address, &endpoint, NULL) != RATION_OK)
        return false;
    if (endpoint.address.ss_family == AF_INET)
        return ntohl(in->sin_addr.s_addr) >> 24 == 127;
    if (endpoint.address.ss_family == AF_INET6)
        return IN6_IS_ADDR_LOOPBACK(&in6->sin6_addr);
    return true;
}

/* An address that other hosts can reach needs a check secret: any client could use up the tokens of others. */
static void require_check_secret(struct completion *completion, char *const *addresses,
                                 size_t count, const char *protocol)
{
    const struct ration_settings *settings = completion->settings;

    if (settings->is_insecure || settings->check_secret.is_set)
        return;
    for (size_t i = 0; i < count; i++) {
        if (!is_local_address(addresses[i]))
            report_error(
                completion,
                "%s %.200s can be reached from other hosts, and there is no check secret; give one "
                "with --check-secret-file, or listen on 127.0.0.1 or a Unix socket, or pass "
                "--insecure",
                protocol, addresses[i]);
    }
}

ration_status ration_settings_complete(struct ration_settings *settings,
                                       ration_policy_error_func *on_error, void *context)
{
    struct completion completion = {settings, on_error, context, RATION_OK};

    set_default_lists(&completion);
    if (settings->http_count + settings->resp_count == 0)
        report_error(&completion, "http and resp are both none; listen on one of them");
    check_input_bytes(&completion);
    derive_protocol_limits(settings);
    require_check_secret(&completion, settings->resp, settings->resp_count, "resp");
    require_check_secret(&completion, settings->http, settings->http_count, "http");
    if (settings->check_secret.is_set && memcmp(&settings->check_secret, &settings->admin_secret,
                                                sizeof(settings->check_secret)) == 0)
        report_error(&completion,
                     "check-secret and admin-secret are the same, so every client that checks "
                     "would be an admin; use two secrets");
    return completion.status;
}
