#include "server/settings_table.h"

#include <stdio.h>
#include <string.h>

#include "base/units.h"
#include "ration/gate.h"
#include "ration/limiter.h"
#include "server/loops.h"
#include "server/settings.h"

#define NS_PER_MS            UINT64_C(1000000)
#define NS_PER_S             UINT64_C(1000000000)
#define BYTES_MOST           (UINT64_C(1) << 30)
#define KEYS_PRESET          1000000
#define TOP_KEYS             100
#define TOP_KEYS_MOST        4096
#define RETRY_MOST_S         (UINT64_C(366) * 86400)
#define INLINE_FILL_PRESET_S 86400
#define INLINE_FILL_MOST_S   (UINT64_C(16) * 365 * 86400)
#define HTTP_IDLE_MS         75000
#define DRAIN_MS             10000
#define DRAIN_MOST_MS        3600000
#define HEAD_LEAST           1024
#define HEAD_PRESET          16384 /* as in RATION_HTTP_LIMITS_DEFAULT */
#define BODY_PRESET          (1 << 20)
#define ARGUMENT_LEAST       64
#define ARGUMENT_MOST        (RATION_KEY_SIZE_MAX + 1) /* so a key too long is the command's to refuse */

#define AT(member)                                      \
    .offset = offsetof(struct ration_settings, member), \
    .size = sizeof(((struct ration_settings *)0)->member)
#define COUNT_AT(member) .count_offset = offsetof(struct ration_settings, member)

/* The bounds of limits.h, by their names. */
enum { never = false, none = true };
#define LIMIT_BOUNDS(limit, preset, least, most, may_be_none)                                      \
    enum limit##_bounds{limit##_preset = (preset), limit##_least = (least), limit##_most = (most), \
                        limit##_may_be_none = (may_be_none)};
RATION_SERVER_LIMIT_MAP(LIMIT_BOUNDS)
#undef LIMIT_BOUNDS

#define LIMIT(limit)                                                                   \
    .group = RATION_SETTINGS_BOUNDS, .preset = limit##_preset, .least = limit##_least, \
    .most = limit##_most, .may_be_none = limit##_may_be_none, AT(limits.limit)

const struct ration_setting ration_settings_table[] = {
    {"http", "ADDRESS", "listen for HTTP here: an address and a port, unix:/path, or none; a list",
     RATION_SETTING_ADDRESSES, RATION_SETTINGS_LISTENING, AT(http), COUNT_AT(http_count),
     .preset_text = "127.0.0.1:8429"},
    {"resp", "ADDRESS", "listen for the Redis protocol here; a list", RATION_SETTING_ADDRESSES,
     RATION_SETTINGS_LISTENING, AT(resp), COUNT_AT(resp_count), .preset_text = "127.0.0.1:6429"},
    {"unix-mode", "MODE", "permissions of Unix sockets, in octal", RATION_SETTING_MODE,
     RATION_SETTINGS_LISTENING, AT(unix_mode), .least = 1, .most = 0777, .preset = 0660},
    {"threads", "N", "event loops, each a thread", RATION_SETTING_COUNT, RATION_SETTINGS_LISTENING,
     AT(threads), .least = 1, .most = RATION_LOOPS_MAX, .preset_text = "the CPUs it may use"},

    {"policy", "FILE", "limits, and whom they are for; see ration-policy(5)", RATION_SETTING_PATH,
     RATION_SETTINGS_LIMITING, AT(policy_path), .is_argument_only = true,
     .preset_text = "a built-in one"},
    {"state", "FILE", "keep debts here while the server is not running", RATION_SETTING_PATH,
     RATION_SETTINGS_LIMITING, AT(state_path)},
    {"redis", "URL",
     "limits live there: redis://host, unix:/path, redis+sentinel://host/master, "
     "redis+cluster://host",
     RATION_SETTING_URL, RATION_SETTINGS_LIMITING, AT(redis_url), .preset_text = "in memory"},
    {"redis-file", "FILE", "read the URL, with its password, from a file that others cannot read",
     RATION_SETTING_URL_FILE, RATION_SETTINGS_LIMITING, AT(redis_url)},
    {"redis-prefix", "TEXT", "of the names of all keys in Redis", RATION_SETTING_PATH,
     RATION_SETTINGS_LIMITING, AT(redis_prefix), .preset_text = "ration"},
    {"redis-key-secret", "TEXT",
     "keys the hash that stands for keys of more than 128 bytes in Redis; the same on all nodes",
     RATION_SETTING_URL, RATION_SETTINGS_LIMITING, AT(redis_key_secret), .is_always_secret = true},
    {"redis-key-secret-file", "FILE", "the same from a file that others cannot read",
     RATION_SETTING_URL_FILE, RATION_SETTINGS_LIMITING, AT(redis_key_secret)},
    {"redis-deadline-ms", "TIME", "for an answer of Redis; then on_backend_error decides",
     RATION_SETTING_MILLISECONDS, RATION_SETTINGS_LIMITING, AT(redis_deadline_ms), .least = 1,
     .most = 60000, .preset = 20},
    {"redis-connect-ms", "TIME", "for a connection to Redis, from its first packet",
     RATION_SETTING_MILLISECONDS, RATION_SETTINGS_LIMITING, AT(redis_connect_ms), .least = 1,
     .most = 60000, .preset = 1000},
    {"redis-rest-ms", "TIME", "before a lost connection is tried again, at first",
     RATION_SETTING_MILLISECONDS, RATION_SETTINGS_LIMITING, AT(redis_rest_ms), .least = 1,
     .most = 60000, .preset = 100},
    {"redis-rest-max-ms", "TIME", "the same, when it was tried in vain",
     RATION_SETTING_MILLISECONDS, RATION_SETTINGS_LIMITING, AT(redis_rest_max_ms), .least = 1,
     .most = 600000, .preset = 2000},
    {"nodes", "N", "that share the limits in Redis: without it, each has one part of so many",
     RATION_SETTING_COUNT, RATION_SETTINGS_LIMITING, AT(node_count), .least = 1, .most = 100000,
     .preset = 1},
    {"throttle-keys", "N", "keys of limits that come with requests (CL.THROTTLE)",
     RATION_SETTING_COUNT, RATION_SETTINGS_LIMITING, AT(throttle_keys), .least = 1,
     .most = RATION_POLICY_KEYS_MAX, .preset = KEYS_PRESET},
    {"inline-fill-max", "TIME",
     "the longest time in which a limit in a request (CL.THROTTLE) may fill; 0: any",
     RATION_SETTING_SECONDS, RATION_SETTINGS_LIMITING, AT(inline_fill_max_s), .least = 0,
     .most = INLINE_FILL_MOST_S, .preset = INLINE_FILL_PRESET_S},
    {"top-keys", "N", "of each limit, the keys that are denied most are known; 0: none",
     RATION_SETTING_COUNT, RATION_SETTINGS_LIMITING, AT(top_keys), .least = 0,
     .most = TOP_KEYS_MOST, .preset = TOP_KEYS},
    {"prefault", NULL, "touch all memory at the start", RATION_SETTING_FLAG,
     RATION_SETTINGS_LIMITING, AT(is_prefaulted)},
    {"huge-pages", "WHEN", "auto: if all tables take no more than 1/16 of the memory",
     RATION_SETTING_CHOICE, RATION_SETTINGS_LIMITING, AT(huge_pages), .words = "auto always never"},
    {"manual-clock", NULL, "time stands still until it is set (RATION.CLOCK); for tests",
     RATION_SETTING_FLAG, RATION_SETTINGS_LIMITING, AT(has_manual_clock)},

    {"check-secret", "TEXT",
     "secret of clients that may check; other users of this host can see it here",
     RATION_SETTING_SECRET, RATION_SETTINGS_ACCESS, AT(check_secret)},
    {"check-secret-file", "FILE", "the same, read from a file that only the server's user can read",
     RATION_SETTING_SECRET_FILE, RATION_SETTINGS_ACCESS, AT(check_secret)},
    {"admin-secret", "TEXT",
     "secret of clients that may also reset, block, reload and see keys; visible as above",
     RATION_SETTING_SECRET, RATION_SETTINGS_ACCESS, AT(admin_secret)},
    {"admin-secret-file", "FILE", "the same, read from a file that only the server's user can read",
     RATION_SETTING_SECRET_FILE, RATION_SETTINGS_ACCESS, AT(admin_secret)},
    {"open-to-strangers", NULL, "listen beyond this host without a check secret",
     RATION_SETTING_FLAG, RATION_SETTINGS_ACCESS, AT(is_open_to_strangers)},
    {"allowed-hosts", "HOST",
     "accept HTTP requests with this name in Host, besides localhost and addresses; a list",
     RATION_SETTING_HOSTS, RATION_SETTINGS_ACCESS, AT(allowed_hosts), COUNT_AT(allowed_host_count),
     .preset_text = "none"},
    {"trusted-proxies", "NETWORK",
     "believe what these say of a client's address; also unix; a list", RATION_SETTING_NETWORKS,
     RATION_SETTINGS_ACCESS, AT(proxies), COUNT_AT(trust.proxy_count), .preset_text = "none"},
    {"client-header", "HEADER", "the header in which they say it", RATION_SETTING_CHOICE,
     RATION_SETTINGS_ACCESS, AT(trust.header), .words = "none x-forwarded-for forwarded x-real-ip",
     .preset = RATION_FORWARDED_FOR},

    {"deny-status", "STATUS", "of an HTTP check that is denied", RATION_SETTING_COUNT,
     RATION_SETTINGS_ANSWERS, AT(deny_status), .least = 400, .most = 599, .preset = 429},
    {"retry-after-max", "SECONDS", "tell no longer wait in Retry-After; 0: the real one",
     RATION_SETTING_SECONDS, RATION_SETTINGS_ANSWERS, AT(retry.seconds_max), .least = 0,
     .most = RETRY_MOST_S},
    {"retry-after-spread", "SECONDS",
     "add up to so much at random, so that not all come back at once", RATION_SETTING_SECONDS,
     RATION_SETTINGS_ANSWERS, AT(retry.spread_seconds), .least = 0, .most = RETRY_MOST_S},
    {"x-ratelimit", "HOW", "send X-RateLimit-* too, with a reset in seconds or as a time",
     RATION_SETTING_CHOICE, RATION_SETTINGS_ANSWERS, AT(x_ratelimit), .words = "none delta epoch",
     .preset = RATION_X_NONE},

    {"connections-max", "N", "open at once; as far as files go", RATION_SETTING_COUNT,
     LIMIT(connections_max)},
    {"connections-per-peer-max", "N", "open at once from one address, or one IPv6 /64",
     RATION_SETTING_COUNT, LIMIT(connections_per_peer_max)},
    {"input-bytes-max", "BYTES", "received and not yet handled, of one connection",
     RATION_SETTING_COUNT, LIMIT(input_bytes_max),
     .preset_text = "1048576, or what a request needs"},
    {"output-bytes-max", "BYTES", "replies not yet taken, of one connection; and one reply",
     RATION_SETTING_COUNT, LIMIT(output_bytes_max)},
    {"connection-memory-max", "BYTES",
     "buffers of all connections: partial requests, MULTI queues, replies not yet taken",
     RATION_SETTING_COUNT, LIMIT(connection_memory_max)},
    {"auth-timeout", "SECONDS",
     "from connecting to authenticating, where a secret is needed; HTTP: also between requests "
     "without it",
     RATION_SETTING_SECONDS, LIMIT(auth_timeout_s)},
    {"multi-timeout", "SECONDS", "from MULTI to EXEC or DISCARD", RATION_SETTING_SECONDS,
     LIMIT(multi_timeout_s)},
    {"head-deadline-ms", "TIME", "from a request's first byte to the end of its head",
     RATION_SETTING_MILLISECONDS, LIMIT(head_deadline_ms)},
    {"body-deadline-ms", "TIME", "from the head of a request to its end",
     RATION_SETTING_MILLISECONDS, LIMIT(body_deadline_ms)},
    {"idle-deadline-ms", "TIME", "between requests of the Redis protocol",
     RATION_SETTING_MILLISECONDS, LIMIT(idle_deadline_ms)},
    {"idle-deadline-http-ms", "TIME", "between requests of HTTP", RATION_SETTING_MILLISECONDS,
     RATION_SETTINGS_BOUNDS, AT(idle_deadline_http_ms), .least = idle_deadline_ms_least,
     .most = idle_deadline_ms_most, .preset = HTTP_IDLE_MS, .may_be_none = true},
    {"write-deadline-ms", "TIME", "for a client to take what was answered",
     RATION_SETTING_MILLISECONDS, LIMIT(write_deadline_ms)},
    {"linger-deadline-ms", "TIME", "to hear a client out after the last answer",
     RATION_SETTING_MILLISECONDS, LIMIT(linger_deadline_ms)},
    {"drain-deadline-ms", "TIME", "for requests under way when the server is told to end",
     RATION_SETTING_MILLISECONDS, RATION_SETTINGS_BOUNDS, AT(drain_deadline_ms), .least = 0,
     .most = DRAIN_MOST_MS, .preset = DRAIN_MS},
    {"accept-backlog", "N", "connections that the system keeps waiting", RATION_SETTING_COUNT,
     LIMIT(accept_backlog)},
    {"pipeline-max", "N", "requests of one read that are decided together", RATION_SETTING_COUNT,
     RATION_SETTINGS_BOUNDS, AT(pipeline_max), .least = 1, .most = RATION_SETTINGS_PIPELINE_MAX,
     .preset = RATION_SETTINGS_PIPELINE_MAX},
    {"arguments-max", "N", "of one command of the Redis protocol", RATION_SETTING_COUNT,
     RATION_SETTINGS_BOUNDS, AT(resp_limits.arguments_max), .least = 8,
     .most = RATION_RESP_ARGUMENTS_MAX, .preset = RATION_RESP_ARGUMENTS_MAX},
    {"argument-bytes-max", "BYTES", "of each of them", RATION_SETTING_COUNT, RATION_SETTINGS_BOUNDS,
     AT(resp_limits.argument_bytes_max), .least = ARGUMENT_LEAST, .most = ARGUMENT_MOST,
     .preset = ARGUMENT_MOST},
    {"attribute-bytes-max", "BYTES", "of the value of each attribute of a request",
     RATION_SETTING_COUNT, RATION_SETTINGS_BOUNDS, AT(attribute_bytes_max), .least = 64,
     .most = RATION_ATTRIBUTE_BYTES_MAX, .preset = RATION_ATTRIBUTE_BYTES_DEFAULT},
    {"head-bytes-max", "BYTES", "of the head of an HTTP request", RATION_SETTING_COUNT,
     RATION_SETTINGS_BOUNDS, AT(http_limits.head_bytes_max), .least = HEAD_LEAST, .most = 1 << 20,
     .preset = HEAD_PRESET},
    {"body-bytes-max", "BYTES", "of the body of an HTTP request", RATION_SETTING_COUNT,
     RATION_SETTINGS_BOUNDS, AT(http_limits.body_bytes_max), .least = 0, .most = BYTES_MOST / 2,
     .preset = BODY_PRESET},

    {"core-dumps", NULL, "allow core dumps although there are secrets; they hold clients' keys",
     RATION_SETTING_FLAG, RATION_SETTINGS_OTHER, AT(allows_core_dumps)},
    {"log", "FORMAT", "lines on the standard error", RATION_SETTING_CHOICE, RATION_SETTINGS_OTHER,
     AT(logs_json), .words = "text json"},
};

const size_t ration_settings_table_count =
    sizeof(ration_settings_table) / sizeof(ration_settings_table[0]);

_Static_assert(sizeof(ration_settings_table) / sizeof(ration_settings_table[0]) <=
                   RATION_SETTINGS_COUNT_MAX,
               "each setting has a source");

const char *ration_settings_group_text(enum ration_setting_group group)
{
    static const char *const texts[RATION_SETTINGS_GROUPS] = {
        [RATION_SETTINGS_LISTENING] = "Where to listen",
        [RATION_SETTINGS_LIMITING] = "What to limit",
        [RATION_SETTINGS_ACCESS] = "Who may do what",
        [RATION_SETTINGS_ANSWERS] = "How HTTP answers",
        [RATION_SETTINGS_BOUNDS] = "Bounds that clients meet",
        [RATION_SETTINGS_OTHER] = "Other",
    };

    return texts[group];
}

static const char *choice_text(const struct ration_setting *setting,
                               char buffer[RATION_SETTING_PRESET_SIZE])
{
    const char *word = setting->words;

    for (uint64_t i = 0; i < setting->preset; i++)
        word += strcspn(word, " ") + 1;
    snprintf(buffer, RATION_SETTING_PRESET_SIZE, "%.*s", (int)strcspn(word, " "), word);
    return buffer;
}

const char *ration_setting_preset_text(const struct ration_setting *setting,
                                       char buffer[RATION_SETTING_PRESET_SIZE])
{
    buffer[0] = '\0';
    if (setting->preset_text != NULL) {
        snprintf(buffer, RATION_SETTING_PRESET_SIZE, "%s", setting->preset_text);
        return buffer;
    }
    if (setting->may_be_none && setting->preset == RATION_LIMIT_NONE)
        return strcpy(buffer, "none");
    switch (setting->kind) {
    case RATION_SETTING_MILLISECONDS:
        ration_units_print_duration(setting->preset * NS_PER_MS, buffer,
                                    RATION_SETTING_PRESET_SIZE);
        break;
    case RATION_SETTING_SECONDS:
    case RATION_SETTING_COUNT:
        ration_units_print_count(setting->preset, buffer, RATION_SETTING_PRESET_SIZE);
        break;
    case RATION_SETTING_MODE:
        snprintf(buffer, RATION_SETTING_PRESET_SIZE, "0%o", (unsigned)setting->preset);
        break;
    case RATION_SETTING_CHOICE:
        return choice_text(setting, buffer);
    default:
        break;
    }
    return buffer;
}
