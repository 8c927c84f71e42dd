/*
 * settings: what a server is told about itself, by its command line and by its policy's server: section.
 *
 * Every setting has one name, written with dashes, for both: --retry-after-max 60 and
 * retry-after-max: 60. The command line wins. (settings.c has the table.)
 */
#ifndef RATION_SERVER_SETTINGS_H
#define RATION_SERVER_SETTINGS_H

#include <stdbool.h>
#include <stdio.h>

#include "base/address.h"
#include "proto/fields.h"
#include "proto/forwarded.h"
#include "proto/http_request.h"
#include "proto/resp_request.h"
#include "ration/policy.h"
#include "server/limits.h"
#include "server/secret.h"

#define RATION_SETTINGS_ADDRESSES_MAX 8
#define RATION_SETTINGS_PROXIES_MAX   256
#define RATION_SETTINGS_HOSTS_MAX     64
#define RATION_SETTINGS_URL_MAX       4096 /* of a URL that is read from a file */
#define RATION_SETTINGS_PIPELINE_MAX  1024 /* what a loop has room for */
#define RATION_SETTINGS_COUNT_MAX     64   /* settings that there are */

/* Who gave a setting its value; a later one of these wins. */
enum ration_settings_source {
    RATION_SETTINGS_PRESET = 0,
    RATION_SETTINGS_POLICY,
    RATION_SETTINGS_ARGUMENTS
};

/* Faster beyond some megabytes, but whatever is touched takes 2 MiB. */
enum ration_huge_pages {
    RATION_HUGE_PAGES_AUTO = 0,
    RATION_HUGE_PAGES_ALWAYS,
    RATION_HUGE_PAGES_NEVER
};

enum ration_x_ratelimit { RATION_X_NONE = 0, RATION_X_DELTA, RATION_X_EPOCH };

struct ration_settings {
    /* Where to listen. Texts are owned by the settings. */
    char *http[RATION_SETTINGS_ADDRESSES_MAX];
    size_t http_count;
    char *resp[RATION_SETTINGS_ADDRESSES_MAX];
    size_t resp_count;
    uint32_t unix_mode;

    char *policy_path; /* NULL: the built-in policy */
    char *state_path;  /* NULL: debts are not kept */
    uint32_t threads;
    uint64_t throttle_keys;
    uint64_t inline_fill_max_s; /* the longest fill time of a limit in a request */
    uint32_t top_keys;
    bool is_prefaulted;
    enum ration_huge_pages huge_pages;
    char *redis_url; /* NULL: limits live in memory */
    char *redis_prefix;
    char *redis_key_secret; /* owned; NULL: the hash has no key */
    uint32_t redis_deadline_ms;
    uint32_t redis_connect_ms;
    uint32_t redis_rest_ms;
    uint32_t redis_rest_max_ms;
    uint32_t node_count;
    bool has_manual_clock;

    /* Who may do what. */
    struct ration_secret check_secret;
    struct ration_secret admin_secret;
    bool allows_core_dumps;    /* although there are secrets */
    bool is_open_to_strangers; /* may listen beyond loopback without a check secret */
    char *allowed_hosts[RATION_SETTINGS_HOSTS_MAX]; /* names in Host besides localhost; owned */
    size_t allowed_host_count;

    /* Behind proxies. */
    struct ration_network proxies[RATION_SETTINGS_PROXIES_MAX];
    struct ration_forwarded_trust trust; /* its proxies are those above */

    /* Answers. */
    uint32_t deny_status; /* of GET /v1/check */
    struct ration_fields_retry retry;
    enum ration_x_ratelimit x_ratelimit;

    /* Bounds. */
    struct ration_server_limits limits;
    struct ration_resp_limits resp_limits;
    struct ration_http_limits http_limits;
    uint32_t attribute_bytes_max;
    uint32_t pipeline_max; /* requests of one read that are decided together */
    uint32_t idle_deadline_http_ms;
    uint32_t drain_deadline_ms;

    bool logs_json;

    /* The first secret that is written in the policy itself: its name, NULL if there is none, and its line. */
    const char *policy_secret;
    uint32_t policy_secret_line;
    uint32_t policy_secret_column;

    uint8_t sources[RATION_SETTINGS_COUNT_MAX]; /* enum ration_settings_source, as in the table */
};

/* Every setting at its default. Release what is read with ration_settings_done(). */
void ration_settings_init(struct ration_settings *settings);
void ration_settings_done(struct ration_settings *settings);

/* Makes *out_settings the same; released on its own. Returns RATION_ENOMEM. */
ration_status ration_settings_copy(const struct ration_settings *settings,
                                   struct ration_settings *out_settings);

/*
 * Reads the words of a command line: --name value, --name=value, --flag. Every fault is told, without
 * a line; then returns RATION_EINVAL, with settings fit to be released only.
 */
ration_status ration_settings_read_arguments(struct ration_settings *settings, int argument_count,
                                             char **arguments, ration_policy_fault_fn *fault,
                                             void *context);

/* Reads a policy's section server:, whose names may also have underscores. The same otherwise. */
ration_status ration_settings_read_policy(struct ration_settings *settings,
                                          const ration_policy *policy,
                                          ration_policy_fault_fn *fault, void *context);

/*
 * The same for who only checks a policy, perhaps on another host: no file is opened, and a secret that
 * would be read from one counts as given.
 */
ration_status ration_settings_suppose_policy(struct ration_settings *settings,
                                             const ration_policy *policy,
                                             ration_policy_fault_fn *fault, void *context);

/*
 * Checks what no setting can tell alone, and fills in what follows from others; after all is read.
 * Faults are told without a line.
 */
ration_status ration_settings_complete(struct ration_settings *settings,
                                       ration_policy_fault_fn *fault, void *context);

/* Whether a client's secret or a password of Redis is set. */
bool ration_settings_have_secrets(const struct ration_settings *settings);

/*
 * Replaces the URL of Redis, if it holds a password, by a text that can only be compared with others: once the server has
 * read it. False: no memory.
 */
bool ration_settings_hide_secrets(struct ration_settings *settings);

/* Overwrites the secrets among the words of a command line, where other processes could read them. */
void ration_settings_hide_arguments(int argument_count, char **arguments);

/* Calls tell with the name of each setting whose value differs. Both are complete. */
typedef void ration_settings_tell_fn(void *context, const char *name);
void ration_settings_compare(const struct ration_settings *settings,
                             const struct ration_settings *other, ration_settings_tell_fn *tell,
                             void *context);

/* All settings for a person, by groups. */
void ration_settings_print_help(FILE *stream);

/* All settings for programs: name, metavariable, default, words and help, apart by tabs. */
void ration_settings_print_list(FILE *stream);

#endif
