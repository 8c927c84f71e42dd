#include "server/ops/settings_table.h"

#include <stdio.h>
#include <string.h>

#include "base/units.h"
#include "ration/engine.h"
#include "ration/limiter.h"
#include "server/net/loops.h"
#include "server/ops/settings.h"

#define NS_PER_MS             UINT64_C(1000000)
#define NS_PER_S              UINT64_C(1000000000)
#define BYTES_MAX             (UINT64_C(1) << 30)
#define INLINE_KEYS_DEFAULT   1000000
#define TOP_KEYS_DEFAULT      100
#define TOP_KEYS_MAX          4096
#define RETRY_MAX_S           (UINT64_C(366) * 86400)
#define INLINE_FILL_DEFAULT_S 86400
#define INLINE_FILL_MAX_S     (UINT64_C(16) * 365 * 86400)
#define HTTP_IDLE_DEFAULT_MS  75000
#define DRAIN_DEFAULT_MS      10000
#define DRAIN_MAX_MS          3600000
#define HEAD_BYTES_MIN        1024
#define HEAD_BYTES_DEFAULT    16384 /* as in RATION_HTTP_LIMITS_DEFAULT */
#define BODY_BYTES_DEFAULT    (1 << 20)
#define ARGUMENT_BYTES_MIN    64
#define ARGUMENT_BYTES_MAX \
    (RATION_KEY_SIZE_MAX + 1) /* one more, so that the command rejects a key that is too long */

#define MEMBER(member)                                  \
    .offset = offsetof(struct ration_settings, member), \
    .size = sizeof(((struct ration_settings *)0)->member)
#define COUNT_MEMBER(member) .count_offset = offsetof(struct ration_settings, member)

/* One enum per limit of limits.h: its default, its bounds, and whether the word none is a value. */
enum { never = false, none = true };
#define LIMIT_BOUNDS(limit, default_value, min, max, may_be_none)               \
    enum limit##_bounds{limit##_default = (default_value), limit##_min = (min), \
                        limit##_max = (max), limit##_may_be_none = (may_be_none)};
RATION_SERVER_LIMIT_MAP(LIMIT_BOUNDS)
#undef LIMIT_BOUNDS

#define LIMIT(limit)                                                                       \
    .group = RATION_SETTINGS_BOUNDS, .default_value = limit##_default, .min = limit##_min, \
    .max = limit##_max, .may_be_none = limit##_may_be_none, MEMBER(limits.limit)

const struct ration_setting ration_settings_table[] = {
    {"http", "ADDRESS", "HTTP address: PORT, IP:PORT, unix:/PATH; a list", RATION_SETTING_ADDRESSES,
     RATION_SETTINGS_LISTENING, MEMBER(http), COUNT_MEMBER(http_count),
     .default_text = "127.0.0.1:8429"},
    {"resp", "ADDRESS", "Redis protocol address; a list", RATION_SETTING_ADDRESSES,
     RATION_SETTINGS_LISTENING, MEMBER(resp), COUNT_MEMBER(resp_count),
     .default_text = "127.0.0.1:6429"},
    {"unix-mode", "MODE", "Permissions of Unix sockets, in octal", RATION_SETTING_MODE,
     RATION_SETTINGS_LISTENING, MEMBER(unix_mode), .min = 1, .max = 0777, .default_value = 0660},
    {"threads", "N", "Event loop threads", RATION_SETTING_COUNT, RATION_SETTINGS_LISTENING,
     MEMBER(threads), .min = 1, .max = RATION_LOOPS_MAX, .default_text = "all usable CPUs"},

    {"policy", "FILE", "Policy file; see ration-policy(5)", RATION_SETTING_PATH,
     RATION_SETTINGS_LIMITING, MEMBER(policy_path), .is_argument_only = true,
     .default_text = "built-in"},
    {"state", "FILE", "File that saves buckets across restarts", RATION_SETTING_PATH,
     RATION_SETTINGS_LIMITING, MEMBER(state_path)},
    {"redis", "URL", "Redis that holds the buckets", RATION_SETTING_URL, RATION_SETTINGS_LIMITING,
     MEMBER(redis_url), .default_text = "in memory"},
    {"redis-file", "FILE", "File with the Redis URL, closed to others", RATION_SETTING_URL_FILE,
     RATION_SETTINGS_LIMITING, MEMBER(redis_url)},
    {"redis-prefix", "TEXT", "Prefix of every key written to Redis", RATION_SETTING_PATH,
     RATION_SETTINGS_LIMITING, MEMBER(redis_prefix), .default_text = "ration"},
    {"redis-key-secret", "TEXT", "Hash secret for keys >128 B; same on all nodes",
     RATION_SETTING_URL, RATION_SETTINGS_LIMITING, MEMBER(redis_key_secret),
     .is_always_secret = true},
    {"redis-key-secret-file", "FILE", "File with redis-key-secret, closed to others",
     RATION_SETTING_URL_FILE, RATION_SETTINGS_LIMITING, MEMBER(redis_key_secret)},
    {"redis-timeout", "TIME", "Redis reply timeout; see on_redis_error",
     RATION_SETTING_MILLISECONDS, RATION_SETTINGS_LIMITING, MEMBER(redis_timeout_ms), .min = 1,
     .max = 60000, .default_value = 20},
    {"redis-connect-timeout", "TIME", "Timeout for connecting to Redis",
     RATION_SETTING_MILLISECONDS, RATION_SETTINGS_LIMITING, MEMBER(redis_connect_timeout_ms),
     .min = 1, .max = 60000, .default_value = 1000},
    {"redis-retry-min", "TIME", "First delay before reconnecting to Redis",
     RATION_SETTING_MILLISECONDS, RATION_SETTINGS_LIMITING, MEMBER(redis_retry_min_ms), .min = 1,
     .max = 60000, .default_value = 100},
    {"redis-retry-max", "TIME", "Longest delay before reconnecting to Redis",
     RATION_SETTING_MILLISECONDS, RATION_SETTINGS_LIMITING, MEMBER(redis_retry_max_ms), .min = 1,
     .max = 600000, .default_value = 2000},
    {"node-count", "N", "Nodes sharing Redis; 1/N each if it is down", RATION_SETTING_COUNT,
     RATION_SETTINGS_LIMITING, MEMBER(node_count), .min = 1, .max = 100000, .default_value = 1},
    {"inline-keys", "N", "Keys of inline limits (CL.THROTTLE)", RATION_SETTING_COUNT,
     RATION_SETTINGS_LIMITING, MEMBER(inline_keys), .min = 1, .max = RATION_POLICY_KEYS_MAX,
     .default_value = INLINE_KEYS_DEFAULT},
    {"max-inline-fill", "TIME", "Max fill time of inline limits; 0: any", RATION_SETTING_SECONDS,
     RATION_SETTINGS_LIMITING, MEMBER(inline_fill_max_s), .min = 0, .max = INLINE_FILL_MAX_S,
     .default_value = INLINE_FILL_DEFAULT_S},
    {"top-keys", "N", "Most-denied keys tracked per limit; 0: off", RATION_SETTING_COUNT,
     RATION_SETTINGS_LIMITING, MEMBER(top_keys), .min = 0, .max = TOP_KEYS_MAX,
     .default_value = TOP_KEYS_DEFAULT},
    {"prefault", NULL, "Touch all memory at startup", RATION_SETTING_FLAG, RATION_SETTINGS_LIMITING,
     MEMBER(is_prefaulted)},
    {"huge-pages", "WHEN", "Huge pages (auto: tables <= 1/16 of RAM)", RATION_SETTING_CHOICE,
     RATION_SETTINGS_LIMITING, MEMBER(huge_pages), .words = "auto always never"},
    {"manual-clock", NULL, "Stop time until RATION.CLOCK sets it; for tests", RATION_SETTING_FLAG,
     RATION_SETTINGS_LIMITING, MEMBER(has_manual_clock)},

    {"check-secret", "TEXT", "Secret of clients that may check; visible in ps",
     RATION_SETTING_SECRET, RATION_SETTINGS_ACCESS, MEMBER(check_secret)},
    {"check-secret-file", "FILE", "File with the check secret, closed to others",
     RATION_SETTING_SECRET_FILE, RATION_SETTINGS_ACCESS, MEMBER(check_secret)},
    {"admin-secret", "TEXT", "Secret of admin clients; visible in ps", RATION_SETTING_SECRET,
     RATION_SETTINGS_ACCESS, MEMBER(admin_secret)},
    {"admin-secret-file", "FILE", "File with the admin secret, closed to others",
     RATION_SETTING_SECRET_FILE, RATION_SETTINGS_ACCESS, MEMBER(admin_secret)},
    {"insecure", NULL, "Listen beyond this host without a check secret", RATION_SETTING_FLAG,
     RATION_SETTINGS_ACCESS, MEMBER(is_insecure)},
    {"allowed-hosts", "HOST", "More names accepted in HTTP Host; a list", RATION_SETTING_HOSTS,
     RATION_SETTINGS_ACCESS, MEMBER(allowed_hosts), COUNT_MEMBER(allowed_host_count),
     .default_text = "none"},
    {"trusted-proxies", "NETWORK", "Proxy networks to trust, or unix; a list",
     RATION_SETTING_NETWORKS, RATION_SETTINGS_ACCESS, MEMBER(proxies),
     COUNT_MEMBER(trust.proxy_count), .default_text = "none"},
    {"client-ip-header", "HEADER", "Header with the client address", RATION_SETTING_CHOICE,
     RATION_SETTINGS_ACCESS, MEMBER(trust.header),
     .words = "none x-forwarded-for forwarded x-real-ip", .default_value = RATION_FORWARDED_FOR},

    {"deny-status", "STATUS", "HTTP status of a denied check", RATION_SETTING_COUNT,
     RATION_SETTINGS_ANSWERS, MEMBER(deny_status), .min = 400, .max = 599, .default_value = 429},
    {"retry-after-max", "TIME", "Cap on Retry-After; 0: no cap", RATION_SETTING_SECONDS,
     RATION_SETTINGS_ANSWERS, MEMBER(retry.seconds_max), .min = 0, .max = RETRY_MAX_S},
    {"retry-after-spread", "TIME", "Maximum random time added to Retry-After",
     RATION_SETTING_SECONDS, RATION_SETTINGS_ANSWERS, MEMBER(retry.spread_seconds), .min = 0,
     .max = RETRY_MAX_S},
    {"legacy-headers", "HOW", "X-RateLimit-* headers; format of Reset", RATION_SETTING_CHOICE,
     RATION_SETTINGS_ANSWERS, MEMBER(legacy_headers), .words = "off seconds unix",
     .default_value = RATION_LEGACY_HEADERS_OFF},

    {"max-connections", "N", "Open connections, as open files permit", RATION_SETTING_COUNT,
     LIMIT(connections_max)},
    {"max-connections-per-peer", "N", "Open connections per address or IPv6 /64",
     RATION_SETTING_COUNT, LIMIT(connections_per_peer_max)},
    {"max-input", "SIZE", "Pending input per connection", RATION_SETTING_BYTES,
     LIMIT(input_bytes_max), .default_text = "1MiB or more"},
    {"max-output", "SIZE", "Unsent reply bytes per connection", RATION_SETTING_BYTES,
     LIMIT(output_bytes_max)},
    {"max-connection-memory", "SIZE", "Buffers of all connections together", RATION_SETTING_BYTES,
     LIMIT(connection_memory_max)},
    {"auth-timeout", "TIME", "Time to authenticate, if a secret is set", RATION_SETTING_SECONDS,
     LIMIT(auth_timeout_s)},
    {"multi-timeout", "TIME", "Timeout from MULTI to EXEC or DISCARD", RATION_SETTING_SECONDS,
     LIMIT(multi_timeout_s)},
    {"header-timeout", "TIME", "Timeout to receive a request's headers",
     RATION_SETTING_MILLISECONDS, LIMIT(header_timeout_ms)},
    {"body-timeout", "TIME", "Timeout to receive a request's body", RATION_SETTING_MILLISECONDS,
     LIMIT(body_timeout_ms)},
    {"resp-idle-timeout", "TIME", "Idle timeout of the Redis protocol", RATION_SETTING_MILLISECONDS,
     LIMIT(idle_timeout_ms)},
    {"http-idle-timeout", "TIME", "Idle timeout of HTTP", RATION_SETTING_MILLISECONDS,
     RATION_SETTINGS_BOUNDS, MEMBER(http_idle_timeout_ms), .min = idle_timeout_ms_min,
     .max = idle_timeout_ms_max, .default_value = HTTP_IDLE_DEFAULT_MS, .may_be_none = true},
    {"write-timeout", "TIME", "Timeout for a client to read its replies",
     RATION_SETTING_MILLISECONDS, LIMIT(write_timeout_ms)},
    {"linger-timeout", "TIME", "Time to read on after the last reply", RATION_SETTING_MILLISECONDS,
     LIMIT(linger_timeout_ms)},
    {"shutdown-timeout", "TIME", "Time to finish requests at shutdown", RATION_SETTING_MILLISECONDS,
     RATION_SETTINGS_BOUNDS, MEMBER(shutdown_timeout_ms), .min = 0, .max = DRAIN_MAX_MS,
     .default_value = DRAIN_DEFAULT_MS},
    {"accept-backlog", "N", "Connections the kernel queues for accept", RATION_SETTING_COUNT,
     LIMIT(accept_backlog)},
    {"max-pipeline", "N", "Requests of one read decided together", RATION_SETTING_COUNT,
     RATION_SETTINGS_BOUNDS, MEMBER(pipeline_max), .min = 1, .max = RATION_SETTINGS_PIPELINE_MAX,
     .default_value = RATION_SETTINGS_PIPELINE_MAX},
    {"max-arguments", "N", "Arguments of one Redis protocol command", RATION_SETTING_COUNT,
     RATION_SETTINGS_BOUNDS, MEMBER(resp_limits.arguments_max), .min = 8,
     .max = RATION_RESP_ARGUMENTS_MAX, .default_value = RATION_RESP_ARGUMENTS_MAX},
    {"max-argument-size", "SIZE", "Size of one Redis protocol argument", RATION_SETTING_BYTES,
     RATION_SETTINGS_BOUNDS, MEMBER(resp_limits.argument_bytes_max), .min = ARGUMENT_BYTES_MIN,
     .max = ARGUMENT_BYTES_MAX, .default_value = ARGUMENT_BYTES_MAX},
    {"max-attribute-size", "SIZE", "Size of one request attribute's value", RATION_SETTING_BYTES,
     RATION_SETTINGS_BOUNDS, MEMBER(attribute_bytes_max), .min = 64,
     .max = RATION_ATTRIBUTE_BYTES_MAX, .default_value = RATION_ATTRIBUTE_BYTES_DEFAULT},
    {"max-header-size", "SIZE", "Size of an HTTP request's headers", RATION_SETTING_BYTES,
     RATION_SETTINGS_BOUNDS, MEMBER(http_limits.head_bytes_max), .min = HEAD_BYTES_MIN,
     .max = 1 << 20, .default_value = HEAD_BYTES_DEFAULT},
    {"max-body-size", "SIZE", "Size of an HTTP request's body", RATION_SETTING_BYTES,
     RATION_SETTINGS_BOUNDS, MEMBER(http_limits.body_bytes_max), .min = 0, .max = BYTES_MAX / 2,
     .default_value = BODY_BYTES_DEFAULT},

    {"core-dumps", NULL, "Allow core dumps despite secrets; they hold keys", RATION_SETTING_FLAG,
     RATION_SETTINGS_OTHER, MEMBER(allows_core_dumps)},
    {"log-format", "FORMAT", "Format of log lines on standard error", RATION_SETTING_CHOICE,
     RATION_SETTINGS_OTHER, MEMBER(log_is_json), .words = "text json"},
    {"log-level", "LEVEL", "Least severe lines to log", RATION_SETTING_CHOICE,
     RATION_SETTINGS_OTHER, MEMBER(log_level), .words = "info warning error"},
};

const size_t ration_settings_table_count =
    sizeof(ration_settings_table) / sizeof(ration_settings_table[0]);

_Static_assert(sizeof(ration_settings_table) / sizeof(ration_settings_table[0]) <=
                   RATION_SETTINGS_COUNT_MAX,
               "sources[] has an element for each setting");

static const char *settings_group_text(enum ration_setting_group group)
{
    static const char *const texts[RATION_SETTINGS_GROUPS] = {
        [RATION_SETTINGS_LISTENING] = "Listening",
        [RATION_SETTINGS_LIMITING] = "Limits and storage",
        [RATION_SETTINGS_ACCESS] = "Access",
        [RATION_SETTINGS_ANSWERS] = "HTTP responses",
        [RATION_SETTINGS_BOUNDS] = "Resource limits and timeouts",
        [RATION_SETTINGS_OTHER] = "Other",
    };

    return texts[group];
}

/* Writes a value of a number as a person would write it; "" for other kinds of settings. */
static void print_number(const struct ration_setting *setting, uint64_t number, char *buffer,
                         size_t buffer_size)
{
    buffer[0] = '\0';
    switch (setting->kind) {
    case RATION_SETTING_MILLISECONDS:
        ration_units_print_duration(number * NS_PER_MS, buffer, buffer_size);
        break;
    case RATION_SETTING_SECONDS:
        ration_units_print_duration(number * NS_PER_S, buffer, buffer_size);
        break;
    case RATION_SETTING_BYTES:
        ration_units_print_bytes(number, buffer, buffer_size);
        break;
    case RATION_SETTING_COUNT:
        ration_units_print_count(number, buffer, buffer_size);
        break;
    case RATION_SETTING_MODE:
        snprintf(buffer, buffer_size, "0%o", (unsigned)number);
        break;
    default:
        break;
    }
}

/* Fits any text of settings_range_text(). */
#define RANGE_SIZE 160

/* Writes "1ms to 1min", the values that a number may have; "" for other kinds of settings. Returns buffer. */
static const char *settings_range_text(const struct ration_setting *setting,
                                       char buffer[RANGE_SIZE])
{
    char min[RATION_SETTING_DEFAULT_SIZE], max[RATION_SETTING_DEFAULT_SIZE];

    buffer[0] = '\0';
    print_number(setting, setting->min, min, sizeof(min));
    print_number(setting, setting->max, max, sizeof(max));
    if (min[0] != '\0')
        snprintf(buffer, RANGE_SIZE, "%s to %s%s", min, max, setting->may_be_none ? ", none" : "");
    return buffer;
}

static const char *default_choice_text(const struct ration_setting *setting,
                                       char buffer[RATION_SETTING_DEFAULT_SIZE])
{
    const char *word = setting->words;

    for (uint64_t i = 0; i < setting->default_value; i++)
        word += strcspn(word, " ") + 1;
    snprintf(buffer, RATION_SETTING_DEFAULT_SIZE, "%.*s", (int)strcspn(word, " "), word);
    return buffer;
}

const char *ration_settings_default_text(const struct ration_setting *setting,
                                         char buffer[RATION_SETTING_DEFAULT_SIZE])
{
    buffer[0] = '\0';
    if (setting->default_text != NULL) {
        snprintf(buffer, RATION_SETTING_DEFAULT_SIZE, "%s", setting->default_text);
        return buffer;
    }
    if (setting->may_be_none && setting->default_value == RATION_LIMIT_NONE)
        return strcpy(buffer, "none");
    if (setting->kind == RATION_SETTING_CHOICE)
        return default_choice_text(setting, buffer);
    print_number(setting, setting->default_value, buffer, RATION_SETTING_DEFAULT_SIZE);
    return buffer;
}

#define LINE_WIDTH 80
#define NAME_WIDTH 29 /* of the longest option with its metavariable */

static void print_setting(FILE *stream, const struct ration_setting *setting)
{
    char default_value[RATION_SETTING_DEFAULT_SIZE], name[NAME_WIDTH + 32];

    snprintf(name, sizeof(name), "--%s%s%s", setting->name,
             setting->metavariable != NULL ? " " : "",
             setting->metavariable != NULL ? setting->metavariable : "");
    ration_settings_default_text(setting, default_value);
    fprintf(stream, "  %-*s %s", NAME_WIDTH, name, setting->help);
    if (default_value[0] != '\0') {
        size_t width = NAME_WIDTH + strlen("  ") + strlen(" ") + strlen(setting->help) +
                       strlen(" []") + strlen(default_value);

        if (width > LINE_WIDTH)
            fprintf(stream, "\n  %-*s", NAME_WIDTH, "");
        fprintf(stream, " [%s]", default_value);
    }
    fputc('\n', stream);
    if (setting->words != NULL)
        fprintf(stream, "  %-*s one of: %s\n", NAME_WIDTH, "", setting->words);
}

void ration_settings_print_help(FILE *stream)
{
    for (int group = 0; group < RATION_SETTINGS_GROUPS; group++) {
        fprintf(stream, "\n%s:\n", settings_group_text((enum ration_setting_group)group));
        for (size_t i = 0; i < ration_settings_table_count; i++) {
            if ((int)ration_settings_table[i].group == group)
                print_setting(stream, &ration_settings_table[i]);
        }
    }
}

void ration_settings_print_list(FILE *stream)
{
    for (size_t i = 0; i < ration_settings_table_count; i++) {
        const struct ration_setting *setting = &ration_settings_table[i];
        char default_value[RATION_SETTING_DEFAULT_SIZE], range[RANGE_SIZE];

        fprintf(stream, "%s\t%s\t%s\t%s\t%s\t%s\t%s\n", setting->name,
                setting->metavariable != NULL ? setting->metavariable : "",
                ration_settings_default_text(setting, default_value),
                setting->words != NULL ? setting->words : "", setting->help,
                settings_group_text(setting->group), settings_range_text(setting, range));
    }
}
