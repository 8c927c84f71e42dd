/* ration policy: checks a policy file, and explains how it applies to a request. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "command.h"
#include "load/escape.h"
#include "ration/ration.h"
#include "server/ops/settings.h"

#define SHOWN_SIZE       2560
#define SHOWN_KEY_SIZE   320
#define DESCRIPTION_SIZE 512
#define KEY_NAMES_SIZE   1200
#define COST_TEXT        "cost"

static void print_usage(FILE *stream)
{
    fputs("usage: ration policy check FILE\n"
          "       ration policy explain FILE NAME=VALUE... [cost=N]\n\n"
          "check lists the limits of a policy, or every error with FILE:LINE:COLUMN.\n"
          "Exits with 0 if the policy is valid, 2 if not.\n\n"
          "explain shows which limits apply to a request, with which key and cost, and\n"
          "why the others do not. Exits with 1 if the policy bans the request.\n\n"
          "Example: ration policy check policy.yaml\n"
          "         ration policy explain policy.yaml method=GET path=/x ip=192.0.2.7\n",
          stream);
}

/* Escapes text of a file or of the command line for a terminal. Returns buffer. */
static const char *escape_text(const char *text, char buffer[SHOWN_SIZE])
{
    return load_escape(text, strlen(text), buffer, SHOWN_SIZE);
}

static void print_error(void *context, const struct ration_policy_error *error)
{
    char path[SHOWN_SIZE], message[SHOWN_SIZE];

    escape_text(context, path);
    escape_text(error->message, message);
    if (error->line == 0)
        fprintf(stderr, "%s: %s\n", path, message);
    else
        fprintf(stderr, "%s:%" PRIu32 ":%" PRIu32 ": %s\n", path, error->line, error->column,
                message);
}

static ration_policy *load_policy(char *path)
{
    ration_policy *policy = NULL;
    char shown[SHOWN_SIZE];
    ration_status status = ration_policy_load(path, print_error, path, &policy);

    if (status != RATION_OK &&
        status != RATION_EINVAL) /* otherwise print_error() has reported it */
        fprintf(stderr, "%s: %s\n", escape_text(path, shown), ration_status_text(status));
    return policy;
}

/* Writes "user, ip", or "-" for a limit with one bucket for all requests. */
static const char *key_names(const struct ration_policy_limit *limit, char buffer[KEY_NAMES_SIZE])
{
    size_t used = 0;

    strcpy(buffer, "-");
    for (size_t i = 0; i < limit->key_count; i++)
        used += (size_t)snprintf(buffer + used, KEY_NAMES_SIZE - used, "%s%s", i > 0 ? ", " : "",
                                 limit->key_names[i]);
    return buffer;
}

/* Writes the limit in policy syntax, without its name. */
static const char *limit_text(const struct ration_policy_limit *limit,
                              char buffer[RATION_LIMIT_TEXT_SIZE])
{
    struct ration_limit unnamed = limit->limit;

    unnamed.name[0] = '\0';
    ration_limit_print(&unnamed, buffer, RATION_LIMIT_TEXT_SIZE);
    return buffer;
}

static size_t max_size(size_t a, size_t b)
{
    return a > b ? a : b;
}

struct widths {
    size_t name;
    size_t key;
    size_t limit;
};

static struct widths measure_columns(const ration_policy *policy)
{
    struct widths widths = {strlen("NAME"), strlen("KEY"), strlen("LIMIT")};

    for (size_t i = 0; i < ration_policy_limit_count(policy); i++) {
        const struct ration_policy_limit *limit = ration_policy_limit_at(policy, i);
        char key[KEY_NAMES_SIZE], text[RATION_LIMIT_TEXT_SIZE];
        widths.name = max_size(widths.name, strlen(limit->limit.name));
        widths.key = max_size(widths.key, strlen(key_names(limit, key)));
        widths.limit = max_size(widths.limit, strlen(limit_text(limit, text)));
    }
    return widths;
}

static void print_row(const struct widths *widths, const char *name, const char *key,
                      const char *limit, const char *match, const char *note)
{
    printf("%-*s  %-*s  %-*s  %s%s\n", (int)widths->name, name, (int)widths->key, key,
           (int)widths->limit, limit, match, note);
}

static void print_missing_option(void *context, const struct ration_policy_error *error)
{
    char path[SHOWN_SIZE], message[SHOWN_SIZE];

    fprintf(stderr, "%s: ration serve needs more options: %s\n", escape_text(context, path),
            escape_text(error->message, message));
}

/*
 * Whether ration serve would accept the section server:. An invalid value is an error whatever
 * other options the server gets. A setting that only the command line can supply (a secret, for
 * example) is reported, but is no error.
 */
static bool check_settings(const ration_policy *policy, char *path)
{
    struct ration_settings settings;
    char shown[SHOWN_SIZE];
    ration_status status;

    ration_settings_init(&settings);
    status = ration_settings_set_policy_defaults(&settings, policy, print_error, path);
    if (status == RATION_OK)
        (void)ration_settings_complete(&settings, print_missing_option, path);
    else if (status != RATION_EINVAL)
        fprintf(stderr, "%s: %s\n", escape_text(path, shown), ration_status_text(status));
    ration_settings_done(&settings);
    return status == RATION_OK;
}

static int check_policy(char *path)
{
    ration_policy *policy = load_policy(path);
    struct widths widths;

    if (policy == NULL || !check_settings(policy, path)) {
        ration_policy_free(policy);
        return EXIT_USAGE;
    }
    widths = measure_columns(policy);
    print_row(&widths, "NAME", "KEY", "LIMIT", "MATCH", "");
    for (size_t i = 0; i < ration_policy_limit_count(policy); i++) {
        const struct ration_policy_limit *limit = ration_policy_limit_at(policy, i);
        char key[KEY_NAMES_SIZE], text[RATION_LIMIT_TEXT_SIZE], match[DESCRIPTION_SIZE];
        char shown[SHOWN_SIZE];
        print_row(&widths, limit->limit.name, key_names(limit, key), limit_text(limit, text),
                  escape_text(ration_policy_describe(policy, i, match, sizeof(match)), shown),
                  limit->is_shadow ? " (shadow)" : "");
    }
    ration_policy_free(policy);
    return EXIT_DONE;
}

/* The request given on the command line. */
struct request {
    struct ration_attribute attributes[RATION_ATTRIBUTES_MAX];
    size_t count;
    uint64_t cost_tokens;
};

static int read_cost(const char *text, uint64_t *out_cost_tokens)
{
    uint64_t cost = 0;

    for (const char *digit = text; *digit; digit++) {
        if (*digit < '0' || *digit > '9' || __builtin_mul_overflow(cost, 10, &cost) ||
            __builtin_add_overflow(cost, (uint64_t)(*digit - '0'), &cost))
            return -1;
    }
    if (*text == '\0')
        return -1;
    *out_cost_tokens = cost;
    return 0;
}

static int read_request(int word_count, char **words, struct request *request)
{
    char shown[SHOWN_SIZE];

    request->count = 0;
    request->cost_tokens = 1;
    for (int i = 0; i < word_count; i++) {
        char *equals = strchr(words[i], '=');

        if (equals == NULL || equals == words[i]) {
            fprintf(stderr, "ration policy: '%s' is not an attribute: write NAME=VALUE\n",
                    escape_text(words[i], shown));
            return -1;
        }
        if (strncmp(words[i], COST_TEXT "=", strlen(COST_TEXT "=")) == 0) {
            if (read_cost(equals + 1, &request->cost_tokens) != 0) {
                fprintf(stderr, "ration policy: a cost must be decimal digits (got '%s')\n",
                        escape_text(equals + 1, shown));
                return -1;
            }
            continue;
        }
        if (request->count == RATION_ATTRIBUTES_MAX) {
            fprintf(stderr, "ration policy: a request has at most %d attributes\n",
                    RATION_ATTRIBUTES_MAX);
            return -1;
        }
        request->attributes[request->count++] = (struct ration_attribute){
            {words[i], (size_t)(equals - words[i])}, {equals + 1, strlen(equals + 1)}};
    }
    return 0;
}

static void print_applied(const ration_policy *policy, size_t index, const struct request *request)
{
    static char room[RATION_KEY_SIZE_MAX];
    const struct ration_policy_limit *limit = ration_policy_limit_at(policy, index);
    char text[RATION_LIMIT_TEXT_SIZE], shown[SHOWN_KEY_SIZE];
    struct ration_key key;
    uint64_t cost;

    printf("%s: applies%s, %s\n", limit->limit.name, limit->is_shadow ? " as a shadow" : "",
           limit_text(limit, text));
    if (ration_policy_key(policy, index, request->attributes, request->count, room, sizeof(room),
                          &key) != RATION_OK)
        printf("    key   none: ip is not an address, or the key is longer than %d bytes\n",
               RATION_KEY_SIZE_MAX);
    else if (limit->key_count == 0)
        printf("    key   none: one bucket for all\n");
    else
        printf("    key   '%s'\n", load_escape(key.bytes, key.size, shown, sizeof(shown)));
    if (ration_policy_cost(policy, index, request->attributes, request->count, request->cost_tokens,
                           &cost) != RATION_OK)
        printf("    cost  none: %s is not decimal digits\n", limit->cost_name);
    else
        printf("    cost  %" PRIu64 "\n", cost);
}

static void print_limits(const ration_policy *policy, const struct ration_policy_match *match,
                         const struct request *request)
{
    size_t next = 0;

    for (size_t i = 0; i < ration_policy_limit_count(policy); i++) {
        char why[DESCRIPTION_SIZE], shown[SHOWN_SIZE];

        if (next < match->limit_count && match->limits[next] == i) {
            print_applied(policy, i, request);
            next++;
            continue;
        }
        ration_policy_explain(policy, i, request->attributes, request->count, why, sizeof(why));
        printf("%s: does not apply: %s\n", ration_policy_limit_at(policy, i)->limit.name,
               escape_text(why, shown));
    }
}

static int explain_request(const ration_policy *policy, const struct request *request)
{
    struct ration_policy_match match;

    if (ration_policy_find_matches(policy, request->attributes, request->count, &match) !=
        RATION_OK) {
        fprintf(stderr,
                "ration policy: cannot evaluate the request: an attribute is given twice, ip is "
                "not an address, or more than %d limits apply\n",
                RATION_POLICY_MATCHES_MAX);
        return EXIT_USAGE;
    }
    if (match.verdict == RATION_POLICY_LIMITS) {
        print_limits(policy, &match, request);
        return EXIT_DONE;
    }
    printf("%s by the entry in line %" PRIu32 "\n",
           match.verdict == RATION_POLICY_BANNED ? "banned" : "exempt", match.item_line);
    return match.verdict == RATION_POLICY_BANNED ? EXIT_NO : EXIT_DONE;
}

static int explain_policy(char *path, int word_count, char **words)
{
    struct request request;
    ration_policy *policy;
    int status;

    if (read_request(word_count, words, &request) != 0)
        return EXIT_USAGE;
    policy = load_policy(path);
    if (policy == NULL)
        return EXIT_USAGE;
    status = explain_request(policy, &request);
    ration_policy_free(policy);
    return status;
}

/* Whether --help is the last argument, after the name of a subcommand or alone. */
static bool asks_help(int argument_count, char **arguments)
{
    return argument_count > 0 && argument_count < 3 &&
           ration_command_asks_help(1, arguments + argument_count - 1);
}

/* Reports why the words after ration policy are no call of a subcommand. */
static int reject_call(int argument_count, char **arguments)
{
    static const char *const names[] = {"check", "explain"}, *const options[] = {"--help"};
    bool is_check;

    if (argument_count == 0) {
        print_usage(stderr);
        return EXIT_USAGE;
    }
    for (int i = 0; i < argument_count && i < 2; i++)
        if (arguments[i][0] == '-' && arguments[i][1] != '\0')
            return ration_command_reject_word("ration policy", "option", arguments[i], "", options,
                                              1);
    is_check = strcmp(arguments[0], names[0]) == 0;
    if (!is_check && strcmp(arguments[0], names[1]) != 0)
        return ration_command_reject_word("ration policy", "command", arguments[0],
                                          "ration policy ", names, 2);
    if (argument_count == 1)
        fprintf(stderr, "ration policy: which file? Write ration policy %s FILE\n", arguments[0]);
    else
        fprintf(stderr, "ration policy: check takes one file\n");
    return EXIT_USAGE;
}

int ration_command_policy(int argument_count, char **arguments)
{
    bool has_file = argument_count >= 2 && arguments[1][0] != '-';

    if (asks_help(argument_count, arguments)) {
        print_usage(stdout);
        return EXIT_DONE;
    }
    if (has_file && argument_count == 2 && strcmp(arguments[0], "check") == 0)
        return check_policy(arguments[1]);
    if (has_file && strcmp(arguments[0], "explain") == 0)
        return explain_policy(arguments[1], argument_count - 2, arguments + 2);
    return reject_call(argument_count, arguments);
}
