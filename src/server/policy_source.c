#include "server/policy_source.h"

#include <inttypes.h>
#include <stdio.h>
#include <sys/stat.h>

/* builtin.yaml, as ration_embed() puts it here. */
extern const unsigned char ration_builtin_policy[], ration_builtin_policy_end[];

#define LINE_SIZE 4800

struct telling {
    const char *path; /* NULL: faults that are not of a file */
    ration_policy_line_fn *tell;
    void *context;
};

static void tell_fault(void *context, const struct ration_policy_fault *fault)
{
    const struct telling *telling = context;
    char line[LINE_SIZE];

    if (telling->path == NULL)
        snprintf(line, sizeof(line), "%s", fault->message);
    else if (fault->line == 0)
        snprintf(line, sizeof(line), "%s: %s", telling->path, fault->message);
    else
        snprintf(line, sizeof(line), "%s:%" PRIu32 ":%" PRIu32 ": %s", telling->path, fault->line,
                 fault->column, fault->message);
    telling->tell(telling->context, line);
}

static ration_status read_policy(const struct ration_settings *given, struct telling *telling,
                                 ration_policy **out_policy)
{
    if (given->policy_path != NULL)
        return ration_policy_load(given->policy_path, tell_fault, telling, out_policy);
    return ration_policy_parse(
        (const char *)ration_builtin_policy,
        (size_t)((uintptr_t)ration_builtin_policy_end - (uintptr_t)ration_builtin_policy),
        tell_fault, telling, out_policy);
}

/* A secret in the policy itself is for those only who may read secrets: as with check-secret-file. */
static ration_status check_mode(struct telling *telling, const struct ration_settings *settings)
{
    char message[RATION_ERROR_MESSAGE_MAX];
    struct ration_policy_fault fault = {settings->policy_secret_line,
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
    tell_fault(telling, &fault);
    return RATION_EINVAL;
}

static ration_status read_settings(struct telling *telling, const ration_policy *policy,
                                   struct ration_settings *settings)
{
    struct telling bare = *telling;
    ration_status status = ration_settings_read_policy(settings, policy, tell_fault, telling);

    bare.path = NULL;
    if (status == RATION_OK)
        status = check_mode(telling, settings);
    if (status == RATION_OK)
        status = ration_settings_complete(settings, tell_fault, &bare);
    return status;
}

ration_status ration_policy_source_read(const struct ration_settings *given,
                                        ration_policy_line_fn *tell, void *context,
                                        ration_policy **out_policy,
                                        struct ration_settings *out_settings)
{
    struct telling telling = {given->policy_path != NULL ? given->policy_path : "built-in policy",
                              tell, context};
    struct ration_settings settings;
    ration_policy *policy = NULL;
    ration_status status = read_policy(given, &telling, &policy);

    if (status == RATION_OK)
        status = ration_settings_copy(given, &settings);
    if (status == RATION_OK) {
        status = read_settings(&telling, policy, &settings);
        ration_policy_forget_settings(
            policy); /* what is read is not needed twice, and may be secret */
        if (status != RATION_OK)
            ration_settings_done(&settings);
    }
    if (status == RATION_ENOMEM)
        tell(context, "no memory to read the policy");
    if (status != RATION_OK) {
        ration_policy_free(policy);
        return status;
    }
    *out_policy = policy;
    *out_settings = settings;
    out_settings->trust.proxies = out_settings->proxies;
    return RATION_OK;
}
