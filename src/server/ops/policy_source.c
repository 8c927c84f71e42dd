#include "server/ops/policy_source.h"

#include <inttypes.h>
#include <stdio.h>
#include <sys/stat.h>

/* The bytes of builtin.yaml, embedded by ration_embed(). */
extern const unsigned char ration_builtin_policy[], ration_builtin_policy_end[];

#define LINE_SIZE 4800

struct reporter {
    const char *path; /* NULL: the errors do not belong to a file */
    ration_policy_line_func *report;
    void *context;
};

static void report_error(void *context, const struct ration_policy_error *error)
{
    const struct reporter *reporter = context;
    char line[LINE_SIZE];

    if (reporter->path == NULL)
        snprintf(line, sizeof(line), "%s", error->message);
    else if (error->line == 0)
        snprintf(line, sizeof(line), "%s: %s", reporter->path, error->message);
    else
        snprintf(line, sizeof(line), "%s:%" PRIu32 ":%" PRIu32 ": %s", reporter->path, error->line,
                 error->column, error->message);
    reporter->report(reporter->context, line);
}

static ration_status read_policy(const struct ration_settings *given, struct reporter *reporter,
                                 ration_policy **out_policy)
{
    if (given->policy_path != NULL)
        return ration_policy_load(given->policy_path, report_error, reporter, out_policy);
    return ration_policy_parse(
        (const char *)ration_builtin_policy,
        (size_t)((uintptr_t)ration_builtin_policy_end - (uintptr_t)ration_builtin_policy),
        report_error, reporter, out_policy);
}

/* A policy that contains a secret must have no permissions for others, like a check-secret-file. */
static ration_status check_mode(struct reporter *reporter, const struct ration_settings *settings)
{
    char message[RATION_ERROR_MESSAGE_MAX];
    struct ration_policy_error error = {settings->policy_secret_line,
                                        settings->policy_secret_column, message};
    const char *path = settings->policy_path;
    struct stat status;

    if (path == NULL || settings->policy_secret == NULL || stat(path, &status) != 0 ||
        (status.st_mode & S_IRWXO) == 0)
        return RATION_OK;
    snprintf(
        message, sizeof(message),
        "%s is a secret, and others may use this file (mode %04o); run chmod o= %.300s, or put "
        "the secret into a file of its own with %s-file",
        settings->policy_secret, (unsigned)(status.st_mode & 07777), path, settings->policy_secret);
    report_error(reporter, &error);
    return RATION_EINVAL;
}

static ration_status read_settings(struct reporter *reporter, const ration_policy *policy,
                                   struct ration_settings *settings)
{
    struct reporter bare = *reporter;
    ration_status status = ration_settings_read_policy(settings, policy, report_error, reporter);

    bare.path = NULL;
    if (status == RATION_OK)
        status = check_mode(reporter, settings);
    if (status == RATION_OK)
        status = ration_settings_complete(settings, report_error, &bare);
    return status;
}

ration_status ration_policy_source_read(const struct ration_settings *given,
                                        ration_policy_line_func *report, void *context,
                                        ration_policy **out_policy,
                                        struct ration_settings *out_settings)
{
    struct reporter reporter = {given->policy_path != NULL ? given->policy_path : "built-in policy",
                                report, context};
    struct ration_settings settings;
    ration_policy *policy = NULL;
    ration_status status = read_policy(given, &reporter, &policy);

    if (status == RATION_OK)
        status = ration_settings_copy(given, &settings);
    if (status == RATION_OK) {
        status = read_settings(&reporter, policy, &settings);
        ration_policy_forget_settings(policy); /* no longer needed, and may be secret */
        if (status != RATION_OK)
            ration_settings_done(&settings);
    }
    if (status == RATION_ENOMEM)
        report(context, "not enough memory to read the policy");
    if (status != RATION_OK) {
        ration_policy_free(policy);
        return status;
    }
    *out_policy = policy;
    *out_settings = settings;
    out_settings->trust.proxies = out_settings->proxies;
    return RATION_OK;
}
