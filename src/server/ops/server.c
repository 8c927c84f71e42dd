#include "server/ops/server.h"

#include <inttypes.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "server/net/loops.h"
#include "server/ops/auth_failures.h"
#include "server/ops/log.h"
#include "server/ops/policy_source.h"
#include "server/ops/reloader.h"
#include "server/ops/sd_notify.h"
#include "server/ops/service.h"
#include "server/ops/state_file.h"

/* About how many bytes a key uses in a table; tables of at most 1/AMPLE_ONE_IN of the memory count as small. */
#define KEY_BYTES    64
#define AMPLE_ONE_IN 16

/* A server's objects, in the order in which they are created; take_down() frees them in reverse order. */
struct server {
    struct ration_settings *given;
    struct ration_settings settings;
    struct ration_manual_clock manual;
    struct ration_clock clock;
    struct ration_service service;
    struct ration_reloader *reloader;
    bool has_settings;
    bool has_state_lock;
    int state_lock;
    bool is_draining;
    bool is_protected;   /* by ration_secret_protect_process() */
    unsigned http_index; /* index of the first listener of the protocol */
    unsigned resp_index;
};

static bool log_failure(const char *what, const struct ration_error *error)
{
    ration_log(RATION_LOG_ERROR, "%s: %s", what, error->message);
    return false;
}

static void log_policy_error(void *unused, const char *line)
{
    (void)unused;
    ration_log(RATION_LOG_ERROR, "%s", line);
}

/* The "s" after a count, if it is not 1. */
static const char *plural_suffix(uint64_t count)
{
    return count == 1 ? "" : "s";
}

/* Starting ------------------------------------------------------------------------------------ */

static bool read_policy(struct server *server, ration_policy **out_policy)
{
    if (ration_policy_source_read(server->given, log_policy_error, NULL, out_policy,
                                  &server->settings) != RATION_OK)
        return false;
    server->has_settings = true;
    server->settings.trust.proxies = server->settings.proxies;
    ration_log_open(2, server->settings.log_is_json,
                    (enum ration_log_level)server->settings.log_level);
    if (server->settings.policy_path != NULL)
        ration_log(RATION_LOG_INFO, "policy %.300s: %zu limit%s", server->settings.policy_path,
                   ration_policy_limit_count(*out_policy),
                   plural_suffix(ration_policy_limit_count(*out_policy)));
    return true;
}

/* Whether all tables, when full, use only a small part of the machine's memory. */
static bool is_memory_ample(const ration_policy *policy)
{
    uint64_t memory_bytes = (uint64_t)sysconf(_SC_PHYS_PAGES) * (uint64_t)sysconf(_SC_PAGESIZE);
    uint64_t keys = 0;

    for (size_t i = 0; i < ration_policy_limit_count(policy); i++)
        keys += ration_policy_limit_at(policy, i)->keys_max;
    return keys <= memory_bytes / KEY_BYTES / AMPLE_ONE_IN;
}

static bool open_engine(struct server *server, ration_policy *policy)
{
    const struct ration_settings *settings = &server->settings;
    struct ration_redis redis = {
        .url = settings->redis_url,
        .prefix = settings->redis_prefix,
        .timeout_ns = (uint64_t)settings->redis_timeout_ms * RATION_NS_PER_MS,
        .connect_timeout_ns = (uint64_t)settings->redis_connect_timeout_ms * RATION_NS_PER_MS,
        .retry_min_ns = (uint64_t)settings->redis_retry_min_ms * RATION_NS_PER_MS,
        .retry_max_ns = (uint64_t)settings->redis_retry_max_ms * RATION_NS_PER_MS,
        .node_count = settings->node_count,
        .key_secret = settings->redis_key_secret,
    };
    struct ration_engine_options options = {
        .struct_size = sizeof(options),
        .redis = settings->redis_url != NULL ? &redis : NULL,
        .sends_time = settings->has_manual_clock,
        .clock = settings->has_manual_clock ? &server->clock : NULL,
        .inline_keys_max = settings->inline_keys,
        .top_keys = settings->top_keys,
        .attribute_bytes_max = settings->attribute_bytes_max,
        .is_prefaulted = settings->is_prefaulted,
        /* With Redis, tables are first touched when Redis is unavailable: the kernel clears small pages faster. */
        .uses_huge_pages = settings->huge_pages == RATION_HUGE_PAGES_ALWAYS ||
                           (settings->huge_pages == RATION_HUGE_PAGES_AUTO &&
                            settings->redis_url == NULL && is_memory_ample(policy)),
    };
    struct ration_error error = {.message = "not enough memory"};
    bool is_loaded = false;
    ration_status status;

    if (settings->state_path == NULL) {
        status = ration_engine_create(&options, policy, &server->service.engine, &error);
        return status == RATION_OK || log_failure(options.redis != NULL && status != RATION_ENOMEM
                                                      ? "cannot store the limits in Redis"
                                                      : "cannot create the policy's limits",
                                                  &error);
    }
    if (ration_state_file_lock(settings->state_path, &server->state_lock, &error) != RATION_OK)
        return log_failure("cannot use the state file", &error);
    server->has_state_lock = true;
    if (ration_state_file_probe(settings->state_path, &error) != RATION_OK)
        return log_failure("cannot write the state file", &error);
    status = ration_state_file_open(settings->state_path, &options, policy, &server->service.engine,
                                    &is_loaded, &error);
    if (status != RATION_OK) {
        ration_log(RATION_LOG_ERROR, "%s", error.message);
        return false;
    }
    ration_log(RATION_LOG_INFO,
               is_loaded ? "restored state from %.300s"
                         : "no saved state in %.300s: starting with empty buckets",
               settings->state_path);
    return true;
}

/* The engine takes ownership of the policy only if it is created. */
static bool make_engine(struct server *server)
{
    ration_policy *policy;

    if (!read_policy(server, &policy))
        return false;
    server->is_protected =
        ration_settings_have_secrets(&server->settings) && !server->settings.allows_core_dumps;
    if (server->is_protected)
        ration_secret_protect_process(true);
    server->clock = ration_clock_manual(&server->manual);
    server->service.manual = server->settings.has_manual_clock ? &server->manual : NULL;
    if (!open_engine(server, policy)) {
        ration_policy_free(policy);
        return false;
    }
    if (ration_settings_hide_secrets(server->given) &&
        ration_settings_hide_secrets(&server->settings))
        return true;
    ration_log(RATION_LOG_ERROR, "not enough memory to start");
    return false;
}

static bool make_loops(struct server *server)
{
    struct ration_loops_options options = {
        .loop_count = server->settings.threads,
        .limits = server->settings.limits,
    };
    struct ration_error error;

    if (server->settings.has_manual_clock)
        options.clock = server->clock;
    if (ration_loops_create(&options, &server->service.loops, &error) != RATION_OK)
        return log_failure("cannot start", &error);
    for (unsigned i = 0; i < ration_loops_count(server->service.loops); i++) {
        if (ration_service_open_loop(&server->service, ration_loops_at(server->service.loops, i)) !=
            RATION_OK) {
            ration_log(RATION_LOG_ERROR, "not enough memory for event loop %u", i);
            return false;
        }
        if (ration_engine_is_remote(server->service.engine) &&
            ration_service_open_redis(&server->service,
                                      ration_loops_at(server->service.loops, i)) != RATION_OK) {
            ration_log(RATION_LOG_ERROR, "not enough memory for a connection to Redis");
            return false;
        }
    }
    return true;
}

static bool listen_on(struct server *server, char *const *addresses, size_t count,
                      const struct ration_protocol *protocol, uint32_t idle_timeout_ms)
{
    for (size_t i = 0; i < count; i++) {
        const struct ration_listen_options options = {
            .address = addresses[i],
            .protocol = protocol,
            .context = &server->service,
            .unix_mode = server->settings.unix_mode,
            .idle_timeout_ms = idle_timeout_ms,
        };
        struct ration_error error;

        if (ration_loops_listen(server->service.loops, &options, &error) != RATION_OK) {
            ration_log(RATION_LOG_ERROR, "cannot listen on %s %.200s: %s", protocol->name,
                       addresses[i], error.message);
            return false;
        }
    }
    return true;
}

static bool listen_on_all(struct server *server)
{
    const struct ration_settings *settings = &server->settings;

    server->http_index = 0;
    server->resp_index = (unsigned)settings->http_count;
    return listen_on(server, settings->http, settings->http_count, &ration_http_protocol,
                     settings->http_idle_timeout_ms) &&
           listen_on(server, settings->resp, settings->resp_count, &ration_resp_protocol,
                     settings->limits.idle_timeout_ms);
}

/* Signals ------------------------------------------------------------------------------------- */

static void on_hangup(struct ration_loop *loop, void *argument)
{
    struct server *server = argument;

    (void)loop;
    ration_reloader_request(server->reloader);
}

/* The first signal lets connections finish; the second closes them. The state is saved in both cases. */
static void on_stop_signal(struct ration_loop *loop, void *argument)
{
    struct server *server = argument;
    uint32_t deadline_ms = server->is_draining ? 0 : server->settings.shutdown_timeout_ms;
    struct ration_loop_counters counters;

    (void)loop;
    __atomic_store_n(&server->service.is_ready, false, __ATOMIC_RELEASE);
    ration_loops_counters(server->service.loops, &counters);
    if (server->is_draining)
        ration_log(RATION_LOG_WARNING,
                   "second signal: closing %" PRIu64 " connection%s immediately", counters.open,
                   plural_suffix(counters.open));
    else
        ration_log(RATION_LOG_INFO,
                   "shutting down: %" PRIu64 " connection%s %s %" PRIu32 " ms to finish",
                   counters.open, plural_suffix(counters.open), counters.open == 1 ? "has" : "have",
                   deadline_ms);
    server->is_draining = true;
    ration_sd_notify("STOPPING=1");
    ration_loops_drain(server->service.loops, deadline_ms, NULL, NULL);
}

static bool catch_signals(struct server *server)
{
    struct ration_error error;

    if (ration_loops_on_signal(server->service.loops, SIGHUP, on_hangup, server, &error) !=
            RATION_OK ||
        ration_loops_on_signal(server->service.loops, SIGTERM, on_stop_signal, server, &error) !=
            RATION_OK ||
        ration_loops_on_signal(server->service.loops, SIGINT, on_stop_signal, server, &error) !=
            RATION_OK)
        return log_failure("cannot start", &error);
    return true;
}

/* Running ------------------------------------------------------------------------------------- */

static bool is_tcp(const char *address)
{
    return strncmp(address, "unix:", strlen("unix:")) != 0;
}

/* Suggests first commands to a user who has started the server without a policy. */
static void log_what_to_try(const struct server *server)
{
    const struct ration_loops *loops = server->service.loops;
    bool has_secret = server->settings.check_secret.is_set;

    ration_log(RATION_LOG_INFO, "no --policy is set: the built-in policy is in force");
    if (server->settings.http_count > 0) {
        const char *address = ration_loops_address(loops, server->http_index);

        if (is_tcp(address))
            ration_log(RATION_LOG_INFO,
                       "try: curl -i %s'http://%s/v1/check?path=/login&ip=192.0.2.7'",
                       has_secret ? "-H 'Authorization: Bearer SECRET' " : "", address);
    }
    if (server->settings.resp_count > 0) {
        const char *address = ration_loops_address(loops, server->resp_index);
        const char *port = strrchr(address, ':');

        if (is_tcp(address) && port != NULL)
            ration_log(RATION_LOG_INFO,
                       "try: redis-cli -p %s %sRATION.CHECK path /login ip 192.0.2.7", port + 1,
                       has_secret ? "-a SECRET " : "");
    }
    if (server->settings.http_count > 0 && !has_secret) {
        const char *address = ration_loops_address(loops, server->http_index);

        if (is_tcp(address))
            ration_log(RATION_LOG_INFO, "try: open http://%s/metrics in a browser", address);
    }
}

static void on_ready(struct ration_loop *loop, void *argument)
{
    struct server *server = argument;
    size_t count = server->settings.http_count + server->settings.resp_count;

    (void)loop;
    if (server->is_draining)
        return;
    __atomic_store_n(&server->service.is_ready, true, __ATOMIC_RELEASE);
    for (unsigned i = 0; i < count; i++)
        ration_log(RATION_LOG_INFO, "listening on %s %s",
                   i < server->settings.http_count ? "http" : "resp",
                   ration_loops_address(server->service.loops, i));
    if (server->settings.policy_path == NULL)
        log_what_to_try(server);
    ration_sd_notify("READY=1");
}

static bool start_and_run(struct server *server)
{
    struct ration_error error;

    server->service.settings = &server->settings;
    server->service.started_wall_s = (uint64_t)time(NULL);
    if (!make_engine(server) || !make_loops(server) || !listen_on_all(server) ||
        !catch_signals(server))
        return false;
    server->service.auth_failures =
        ration_auth_failures_create(server->service.manual != NULL ? &server->clock : NULL);
    if (server->service.auth_failures == NULL ||
        ration_reloader_create(&server->service, server->given, &server->reloader) != RATION_OK ||
        !ration_service_when_ready(&server->service, on_ready, server)) {
        ration_log(RATION_LOG_ERROR, "not enough memory to start");
        return false;
    }
    if (ration_loops_run(server->service.loops, &error) != RATION_OK)
        return log_failure("cannot start", &error);
    return true;
}

/* Shutting down ------------------------------------------------------------------------------- */

/* The server is shutting down already: no signal may kill it before the state is saved. */
static void block_signals(void)
{
    sigset_t set;

    sigemptyset(&set);
    sigaddset(&set, SIGHUP);
    sigaddset(&set, SIGTERM);
    sigaddset(&set, SIGINT);
    pthread_sigmask(SIG_BLOCK, &set, NULL);
}

static uint64_t sum_over_loops(const struct server *server, enum ration_service_count which)
{
    struct ration_loops *loops = server->service.loops;
    uint64_t count = 0;

    for (unsigned i = 0; i < ration_loops_count(loops); i++) {
        const struct ration_worker *worker = ration_loop_user(ration_loops_at(loops, i));

        if (worker != NULL)
            count += __atomic_load_n(&worker->counts[which], __ATOMIC_RELAXED);
    }
    return count;
}

static bool save_state(struct server *server)
{
    const char *path = server->settings.state_path;
    struct ration_error error = {.message = ""};

    if (path == NULL)
        return true;
    if (ration_state_file_save(path, server->service.engine,
                               ration_engine_now(server->service.engine), &error) != RATION_OK)
        return log_failure("cannot save the state", &error);
    ration_log(RATION_LOG_INFO, "saved the state to %.300s", path);
    return true;
}

static void log_what_was_served(const struct server *server)
{
    uint64_t requests = sum_over_loops(server, RATION_SERVICE_HTTP_REQUESTS);
    uint64_t commands = sum_over_loops(server, RATION_SERVICE_RESP_COMMANDS);
    struct ration_loop_counters counters;

    ration_loops_counters(server->service.loops, &counters);
    ration_log(RATION_LOG_INFO,
               "stopped: served %" PRIu64 " HTTP request%s and %" PRIu64
               " RESP command%s over %" PRIu64 " connection%s",
               requests, plural_suffix(requests), commands, plural_suffix(commands),
               counters.accepted, plural_suffix(counters.accepted));
}

static void take_down(struct server *server)
{
    struct ration_loops *loops = server->service.loops;

    ration_reloader_free(server->reloader);
    for (unsigned i = 0; loops != NULL && i < ration_loops_count(loops); i++)
        ration_service_close_loop(ration_loops_at(loops, i));
    ration_loops_free(loops);
    ration_auth_failures_free(server->service.auth_failures);
    ration_engine_free(server->service.engine);
    if (server->has_state_lock)
        ration_state_file_unlock(server->state_lock);
    if (server->has_settings)
        ration_settings_done(&server->settings);
    if (server->is_protected)
        ration_secret_protect_process(false); /* the secrets are freed */
}

bool ration_server_run(struct ration_settings *given)
{
    struct server server = {.given = given};
    bool is_ok;

    ration_log_open(2, given->log_is_json, (enum ration_log_level)given->log_level);
    is_ok = start_and_run(&server);
    if (is_ok) {
        block_signals();
        is_ok = save_state(&server);
        log_what_was_served(&server);
    }
    take_down(&server);
    return is_ok;
}
