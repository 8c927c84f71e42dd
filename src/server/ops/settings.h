/*
 * settings: the configuration of a server, from its command line, its environment and its policy's server: section.
 *
 * Every setting has one name, spelled as each source spells names: --retry-after-max 60s, RATION_RETRY_AFTER_MAX=60s
 * and retry_after_max: 60s. The command line overrides the environment, which overrides the policy. (settings_table.c
 * has the table.)
 */
#ifndef RATION_SERVER_OPS_SETTINGS_H
#define RATION_SERVER_OPS_SETTINGS_H

#include <stdbool.h>
#include <stdio.h>

#include "base/address.h"
#include "codec/http/fields.h"
#include "codec/http/forwarded.h"
#include "codec/http/http_request.h"
#include "codec/resp/resp_request.h"
#include "ration/policy.h"
#include "server/net/limits.h"
#include "server/ops/secret.h"

#define RATION_SETTINGS_ADDRESSES_MAX 8
#define RATION_SETTINGS_PROXIES_MAX   256
#define RATION_SETTINGS_HOSTS_MAX     64
#define RATION_SETTINGS_URL_MAX       4096 /* of a URL that is read from a file */
#define RATION_SETTINGS_PIPELINE_MAX  1024 /* elements of the batch arrays of a loop */
#define RATION_SETTINGS_COUNT_MAX     64   /* at least the number of settings in the table */

/* The source of a setting's value; a higher one wins. */
enum ration_settings_source {
    RATION_SETTINGS_DEFAULT = 0,
    RATION_SETTINGS_POLICY,
    RATION_SETTINGS_ENVIRONMENT,
    RATION_SETTINGS_ARGUMENTS
};

/* Huge pages make large tables faster, but the first access to a page takes 2 MiB of memory. */
enum ration_huge_pages {
    RATION_HUGE_PAGES_AUTO = 0,
    RATION_HUGE_PAGES_ALWAYS,
    RATION_HUGE_PAGES_NEVER
};

enum ration_legacy_headers {
    RATION_LEGACY_HEADERS_OFF = 0,
    RATION_LEGACY_HEADERS_SECONDS,
    RATION_LEGACY_HEADERS_UNIX
};

struct ration_settings {
    /* Listening. The settings own all texts. */
    char *http[RATION_SETTINGS_ADDRESSES_MAX];
    size_t http_count;
    char *resp[RATION_SETTINGS_ADDRESSES_MAX];
    size_t resp_count;
    uint32_t unix_mode;

    char *policy_path; /* NULL: the built-in policy */
    char *state_path;  /* NULL: buckets are not saved */
    uint32_t threads;
    uint64_t inline_keys;
    uint64_t inline_fill_max_s; /* longest fill time of an inline limit */
    uint32_t top_keys;
    bool is_prefaulted;
    enum ration_huge_pages huge_pages;
    char *redis_url; /* NULL: buckets live in memory */
    char *redis_prefix;
    char *redis_key_secret; /* owned; NULL: the hash has no key */
    uint32_t redis_timeout_ms;
    uint32_t redis_connect_timeout_ms;
    uint32_t redis_retry_min_ms;
    uint32_t redis_retry_max_ms;
    uint32_t node_count;
    bool has_manual_clock;

    /* Access. */
    struct ration_secret check_secret;
    struct ration_secret admin_secret;
    bool allows_core_dumps; /* even if secrets are set */
    bool is_insecure;       /* may listen beyond loopback without a check secret */
    char *allowed_hosts[RATION_SETTINGS_HOSTS_MAX]; /* names in Host besides localhost; owned */
    size_t allowed_host_count;

    /* Behind proxies. */
    struct ration_network proxies[RATION_SETTINGS_PROXIES_MAX];
    struct ration_forwarded_trust trust; /* its proxies point to the array above */

    /* HTTP responses. */
    uint32_t deny_status; /* of GET /v1/check */
    struct ration_fields_retry retry;
    enum ration_legacy_headers legacy_headers;

    /* Resource limits and timeouts. */
    struct ration_server_limits limits;
    struct ration_resp_limits resp_limits;
    struct ration_http_limits http_limits;
    uint32_t attribute_bytes_max;
    uint32_t pipeline_max; /* requests of one read that are decided together */
    uint32_t http_idle_timeout_ms;
    uint32_t shutdown_timeout_ms;

    bool log_is_json;
    uint32_t log_level; /* enum ration_log_level: the least severe that is logged */

    /* The first secret that the policy contains in plain text: its setting's name (NULL: none) and position. */
    const char *policy_secret;
    uint32_t policy_secret_line;
    uint32_t policy_secret_column;

    uint8_t
        sources[RATION_SETTINGS_COUNT_MAX]; /* enum ration_settings_source, by index in the table */
};

/* Sets every setting to its default. The caller releases the settings with ration_settings_done(). */
void ration_settings_init(struct ration_settings *settings);
void ration_settings_done(struct ration_settings *settings);

/* Copies settings; the caller releases the copy separately. Returns RATION_ENOMEM if there is no memory. */
ration_status ration_settings_copy(const struct ration_settings *settings,
                                   struct ration_settings *out_settings);

/*
 * Reads the arguments of a command line: --name value, --name=value, --flag. Calls on_error() for every error, without
 * a line; then returns RATION_EINVAL, and the settings can only be released.
 */
ration_status ration_settings_read_arguments(struct ration_settings *settings, int argument_count,
                                             char **arguments, ration_policy_error_func *on_error,
                                             void *context);

/*
 * Reads the variables of environment, as in environ, that are called RATION_ and the name of a setting in upper case.
 * Calls on_error() as above. Other variables that begin with RATION_ are ignored, because orchestrators set such ones.
 */
ration_status ration_settings_read_environment(struct ration_settings *settings,
                                               char *const *environment,
                                               ration_policy_error_func *on_error, void *context);

/* Reads a policy's server: section, whose names have underscores. Otherwise as above, with lines. */
ration_status ration_settings_read_policy(struct ration_settings *settings,
                                          const ration_policy *policy,
                                          ration_policy_error_func *on_error, void *context);

/*
 * As ration_settings_read_policy(), for a caller that only validates a policy, perhaps on another host: opens no
 * file, and treats a secret that would be read from a file as set.
 */
ration_status ration_settings_set_policy_defaults(struct ration_settings *settings,
                                                  const ration_policy *policy,
                                                  ration_policy_error_func *on_error,
                                                  void *context);

/*
 * Checks conditions that involve several settings, and sets values that follow from others. Called after all
 * sources are read. Calls on_error() for every error, without a line.
 */
ration_status ration_settings_complete(struct ration_settings *settings,
                                       ration_policy_error_func *on_error, void *context);

/* Whether a client secret, or a Redis URL or key secret that counts as secret, is set. */
bool ration_settings_have_secrets(const struct ration_settings *settings);

/*
 * Replaces the Redis URL, if it contains a password, and the Redis key secret by texts that can only be compared.
 * Called once the server has used them. False: no memory.
 */
bool ration_settings_hide_secrets(struct ration_settings *settings);

/* Overwrite secrets in the arguments and in the environment, where other processes could read them. */
void ration_settings_hide_arguments(int argument_count, char **arguments);
void ration_settings_hide_environment(char *const *environment);

/* Calls report() with the name of each setting whose value differs. Both settings are complete. */
typedef void ration_settings_report_func(void *context, const char *name);
void ration_settings_compare(const struct ration_settings *settings,
                             const struct ration_settings *other,
                             ration_settings_report_func *report, void *context);

/* Returns the one of words that a mistyped word is most like; NULL if it is like none. For names of commands. */
const char *ration_settings_nearest_word(const char *word, const char *const *words, size_t count);

/* Prints all settings for a person, by group. */
void ration_settings_print_help(FILE *stream);

/* Prints all settings for programs: name, metavariable, default, words, help and group, separated by tabs. */
void ration_settings_print_list(FILE *stream);

#endif
