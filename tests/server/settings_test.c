/* Settings: messages and positions of errors, precedence of sources, and derived values. */
#include "support/resp_limits.h"
#include "support/unit.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "server/ops/credentials.h"
#include "server/ops/settings.h"
#include "server/ops/settings_table.h"
#include "server/ops/settings_value.h"

#define TEXT_SIZE 8192
#define WORDS_MAX 16

/* Errors, a line each. */
struct reported {
    char text[TEXT_SIZE];
    size_t used;
};

static void note(void *context, const struct ration_policy_error *error)
{
    struct reported *reported = context;
    char place[32] = "";

    if (error->line > 0)
        snprintf(place, sizeof(place), "%u:%u: ", error->line, error->column);
    reported->used += (size_t)snprintf(reported->text + reported->used, TEXT_SIZE - reported->used,
                                       "%s%s\n", place, error->message);
}

/* Reads the arguments of a command line, separated by spaces. */
static ration_status read_arguments(struct ration_settings *settings, const char *line,
                                    struct reported *reported)
{
    char copy[TEXT_SIZE];
    char *words[WORDS_MAX];
    int count = 0;

    snprintf(copy, sizeof(copy), "%s", line);
    for (char *word = strtok(copy, " "); word != NULL; word = strtok(NULL, " "))
        words[count++] = word;
    return ration_settings_read_arguments(settings, count, words, note, reported);
}

/* Reads a policy whose section server: has these lines, from line 2 on. */
static ration_status read_section(struct ration_settings *settings, const char *lines,
                                  struct reported *reported)
{
    char text[TEXT_SIZE];
    ration_policy *policy;
    ration_status status;

    snprintf(text, sizeof(text), "server:\n%slimits: [{name: a, rate: 1/s}]\n", lines);
    assert_int_equal(ration_policy_parse(text, strlen(text), note, reported, &policy), RATION_OK);
    status = ration_settings_read_policy(settings, policy, note, reported);
    ration_policy_free(policy);
    return status;
}

/* Reads a command line, then a section, then completes. Returns the first status that is not OK. */
static ration_status read_both(struct ration_settings *settings, const char *line,
                               const char *section, struct reported *reported)
{
    ration_status status;

    memset(reported, 0, sizeof(*reported));
    ration_settings_init(settings);
    status = read_arguments(settings, line, reported);
    if (status == RATION_OK)
        status = read_section(settings, section, reported);
    if (status == RATION_OK)
        status = ration_settings_complete(settings, note, reported);
    return status;
}

static void refused(const char *line, const char *section, const char *wanted)
{
    struct ration_settings settings;
    struct reported reported;

    assert_int_equal(read_both(&settings, line, section, &reported), RATION_EINVAL);
    assert_string_equal(reported.text, wanted);
    ration_settings_done(&settings);
}

static void accepted(const char *line, const char *section, struct ration_settings *settings)
{
    struct reported reported;
    ration_status status = read_both(settings, line, section, &reported);

    assert_string_equal(reported.text, "");
    assert_int_equal(status, RATION_OK);
}

/* The table ----------------------------------------------------------------------------------- */

static const struct ration_setting *setting_named(const char *name)
{
    for (size_t i = 0; i < ration_settings_table_count; i++) {
        if (strcmp(ration_settings_table[i].name, name) == 0)
            return &ration_settings_table[i];
    }
    return NULL;
}

static const struct ration_setting *setting_at(size_t offset)
{
    for (size_t i = 0; i < ration_settings_table_count; i++) {
        if (ration_settings_table[i].offset == offset)
            return &ration_settings_table[i];
    }
    return NULL;
}

static bool ends(const char *name, const char *end)
{
    return strlen(name) > strlen(end) && strcmp(name + strlen(name) - strlen(end), end) == 0;
}

static void every_limit_is_a_setting(void **state)
{
    enum { never = false, none = true };

    (void)state;
#define CHECK(limit, default_of, min_of, max_of, may_be)                                    \
    {                                                                                       \
        const struct ration_setting *setting =                                              \
            setting_at(offsetof(struct ration_settings, limits.limit));                     \
        assert_non_null(setting);                                                           \
        assert_true(setting->default_value == (uint64_t)(default_of));                      \
        assert_true(setting->min == (min_of) && setting->max == (max_of));                  \
        assert_true(setting->may_be_none == (may_be));                                      \
        assert_true((setting->kind == RATION_SETTING_MILLISECONDS) == ends(#limit, "_ms")); \
        assert_true((setting->kind == RATION_SETTING_SECONDS) == ends(#limit, "_s"));       \
    }
    RATION_SERVER_LIMIT_MAP(CHECK)
#undef CHECK
}

static void the_table_is_consistent(void **state)
{
    (void)state;
    for (size_t i = 0; i < ration_settings_table_count; i++) {
        const struct ration_setting *setting = &ration_settings_table[i];

        assert_true(strspn(setting->name, "abcdefghijklmnopqrstuvwxyz-") == strlen(setting->name));
        assert_ptr_equal(setting_named(setting->name), setting); /* no duplicate name */
        assert_true((setting->kind == RATION_SETTING_FLAG) == (setting->metavariable == NULL));
        assert_true((setting->kind == RATION_SETTING_CHOICE) == (setting->words != NULL));
        assert_null(strchr(setting->help, '\n'));
        if (setting->max > 0 && setting->default_text == NULL &&
            !(setting->may_be_none && setting->default_value == RATION_LIMIT_NONE))
            assert_in_range(setting->default_value, setting->min, setting->max);
        if (ration_settings_value_is_list(setting))
            assert_true(setting->count_offset > 0);
    }
}

/* The default that --help shows parses to the default. */
static void defaults_are_what_is_documented(void **state)
{
    (void)state;
    for (size_t i = 0; i < ration_settings_table_count; i++) {
        const struct ration_setting *setting = &ration_settings_table[i];
        struct ration_settings default_value, read;
        char text[RATION_SETTING_DEFAULT_SIZE];

        ration_settings_default_text(setting, text);
        if (text[0] == '\0' || setting->default_text != NULL)
            continue;
        ration_settings_init(&default_value);
        ration_settings_init(&read);
        ration_settings_value_clear(setting, &read);
        assert_int_equal(ration_settings_value_read(setting, text, strlen(text), &read, NULL),
                         RATION_OK);
        assert_true(ration_settings_value_is_same(setting, &default_value, &read));
    }
}

static void without_settings_the_defaults_apply(void **state)
{
    struct ration_settings settings;

    (void)state;
    accepted("", "  {}\n", &settings);
    assert_int_equal(settings.http_count, 1);
    assert_string_equal(settings.http[0], "127.0.0.1:8429");
    assert_string_equal(settings.resp[0], "127.0.0.1:6429");
    assert_int_equal(settings.unix_mode, 0660);
    assert_in_range(settings.threads, 1, 64);
    assert_int_equal(settings.inline_keys, 1000000);
    assert_int_equal(settings.top_keys, 100);
    assert_int_equal(settings.deny_status, 429);
    assert_int_equal(settings.trust.header, RATION_FORWARDED_FOR);
    assert_int_equal(settings.trust.proxy_count, 0);
    assert_false(settings.trust.trusts_unix);
    assert_int_equal(settings.legacy_headers, RATION_LEGACY_HEADERS_OFF);
    assert_int_equal(settings.http_idle_timeout_ms, 75000);
    assert_int_equal(settings.shutdown_timeout_ms, 10000);
    assert_int_equal(settings.pipeline_max, 1024);
    assert_int_equal(settings.resp_limits.argument_bytes_max,
                     resp_limits_default.argument_bytes_max);
    assert_memory_equal(&settings.http_limits, &RATION_HTTP_LIMITS_DEFAULT,
                        sizeof(settings.http_limits));
    assert_true(settings.limits.input_bytes_max >= ration_http_bytes_max(&settings.http_limits));
    assert_false(settings.log_is_json || settings.is_prefaulted || settings.is_insecure);
    assert_null(settings.state_path);
    assert_false(settings.check_secret.is_set);
    ration_settings_done(&settings);
}

/* Values -------------------------------------------------------------------------------------- */

static void an_error_says_which_values_are_valid(void **state)
{
    static const char *const rows[][2] = {
        {"--threads 0", "--threads cannot be '0'; write a number from 1 to 64\n"},
        {"--threads 65", "--threads cannot be '65'; write a number from 1 to 64\n"},
        {"--threads -1", "--threads cannot be '-1'; write a number from 1 to 64\n"},
        {"--threads 2x", "--threads cannot be '2x'; write a number from 1 to 64\n"},
        {"--threads=", "--threads cannot be ''; write a number from 1 to 64\n"},
        {"--threads", "--threads needs a value; write --threads N\n"},
        {"--unix-mode 999", "--unix-mode cannot be '999'; write octal digits from 1 to 0777\n"},
        {"--unix-mode 1777", "--unix-mode cannot be '1777'; write octal digits from 1 to 0777\n"},
        {"--deny-status 399", "--deny-status cannot be '399'; write a number from 400 to 599\n"},
        {"--deny-status 600", "--deny-status cannot be '600'; write a number from 400 to 599\n"},
        {"--top-keys 5000", "--top-keys cannot be '5000'; write a number from 0 to 4096\n"},
        {"--inline-keys 0", "--inline-keys cannot be '0'; write a number from 1 to 1000000000\n"},
        {"--max-connections none",
         "--max-connections cannot be 'none'; write a number from 1 to 16777216\n"},
        {"--max-connections-per-peer 0", "--max-connections-per-peer cannot be '0'; "
                                         "write a number from 1 to 16777216, or none\n"},
        {"--header-timeout 1.5ms", "--header-timeout cannot be '1.5ms'; "
                                   "write a time (1500ms or 1.5s) from 1ms to 12d, or none\n"},
        {"--shutdown-timeout 2h",
         "--shutdown-timeout cannot be '2h'; write a time (1500ms or 1.5s) from 0s to 1h\n"},
        {"--retry-after-max 1500ms",
         "--retry-after-max cannot be '1500ms'; write a time (90s or 2min) from 0s to 366d\n"},
        {"--retry-after-spread soon",
         "--retry-after-spread cannot be 'soon'; write a time (90s or 2min) from 0s to 366d\n"},
        {"--prefault=maybe", "--prefault cannot be 'maybe'; write true or false\n"},
        {"--client-ip-header via",
         "--client-ip-header cannot be 'via'; write none, x-forwarded-for, "
         "forwarded or x-real-ip\n"},
        {"--legacy-headers yes", "--legacy-headers cannot be 'yes'; write off, seconds or unix\n"},
        {"--log-format xml", "--log-format cannot be 'xml'; write text or json\n"},
        {"--state=", "--state is empty; write the path of a file\n"},
        {"--check-secret=", "--check-secret is empty; leave the setting out to have none\n"},
        {"--check-secret-file /nowhere/at/all",
         "--check-secret-file: cannot open /nowhere/at/all: No such file or directory\n"},
        {"--trusted-proxies 10.0.0.1/8",
         "--trusted-proxies: the address has bits beyond the first 8: write 10.0.0.0/8\n"},
        {"--http none --http 127.0.0.1:0", "--http has none and other values; write none alone\n"},
        {"--http 127.0.0.1:0 --http none", "--http has none and other values; write none alone\n"},
        {"--http none --resp none", "http and resp are both none; listen on one of them\n"},
        {"--threads 1 --threads 1", "--threads is given twice; keep one\n"},
        {"--check-secret a --check-secret-file b",
         "--check-secret is given twice, or from a file too; keep one\n"},
        {"--threds 2", "there is no setting --threds; did you mean --threads\n"},
        {"--max-conections=2", "there is no setting --max-conections; "
                               "did you mean --max-connections\n"},
        {"--retry_after_max 2", "there is no setting --retry_after_max; "
                                "did you mean --retry-after-max\n"},
        {"--port 80",
         "there is no setting --port; pass --http ADDRESS:PORT and --resp ADDRESS:PORT\n"},
        {"--header-timeout 1500",
         "--header-timeout cannot be '1500'; write a time (1500ms or 1.5s) from 1ms to "
         "12d, or none\n"},
        {"--max-output 1",
         "--max-output cannot be '1'; write a size (65536, 64KB or 64KiB) from 4KiB to 1GiB\n"},
        {"--max-output 64KX",
         "--max-output cannot be '64KX'; write a size (65536, 64KB or 64KiB) from 4KiB to 1GiB\n"},
        {"--trusted-proxies 10.0.0.0/8,,unix",
         "--trusted-proxies has an empty element; write A,B or none\n"},
        {"--zzz", "there is no setting --zzz; see ration serve --help\n"},
        {"--hlep", "there is no setting --hlep; did you mean --help\n"},
        {"--print-setings", "there is no setting --print-setings; did you mean --print-settings\n"},
        {"threads", "'threads' is not an option; write --name value, as in --policy policy.yaml\n"},
        {"--max-input 4k", "max-input is 4000, but a request may have 1130504 bytes; "
                           "raise it, or lower max-body-size\n"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
        refused(rows[i][0], "  {}\n", rows[i][1]);
}

static void every_error_is_reported_at_once(void **state)
{
    (void)state;
    refused("--threads 0 --nonsuch 3 --log-format xml", "  {}\n",
            "--threads cannot be '0'; write a number from 1 to 64\n"
            "there is no setting --nonsuch; see ration serve --help\n"
            "--log-format cannot be 'xml'; write text or json\n");
    refused("",
            "  threads: 0\n"
            "  policy: other.yaml\n"
            "  http: [127.0.0.1:0, '127.0.0.1:99999']\n"
            "  deny_status: [429, 503]\n"
            "  inlien_keys: 5\n",
            "2:12: threads cannot be '0'; write a number from 1 to 64\n"
            "3:3: policy cannot be set here; pass --policy on the command line\n"
            "4:23: http: '127.0.0.1:99999' has no port from 0 to 65535: write 127.0.0.1:8429\n"
            "5:3: deny_status is one value, and this is a list; write the value alone\n"
            "6:3: there is no setting inlien_keys; did you mean inline_keys\n");
}

static void a_policy_writes_names_with_underscores(void **state)
{
    struct ration_settings settings;

    (void)state;
    accepted("", "  retry_after_max: 1min\n  retry_after_spread: 5s\n", &settings);
    assert_int_equal(settings.retry.seconds_max, 60);
    assert_int_equal(settings.retry.spread_seconds, 5);
    ration_settings_done(&settings);
    refused("", "  top-keys: 1\n", "2:3: there is no setting top-keys; did you mean top_keys\n");
}

static void zero_bytes_are_refused(void **state)
{
    (void)state;
    refused("", "  state: \"a\\0b\"\n", "2:10: state has a zero byte; write it without\n");
}

static void times_have_units(void **state)
{
    struct ration_settings settings;

    (void)state;
    accepted("--header-timeout 1.5s --body-timeout=2500ms --write-timeout none "
             "--shutdown-timeout 0 --http-idle-timeout none",
             "  {}\n", &settings);
    assert_int_equal(settings.limits.header_timeout_ms, 1500);
    assert_int_equal(settings.limits.body_timeout_ms, 2500);
    assert_int_equal(settings.limits.write_timeout_ms, RATION_LIMIT_NONE);
    assert_int_equal(settings.shutdown_timeout_ms, 0);
    assert_int_equal(settings.http_idle_timeout_ms, RATION_LIMIT_NONE);
    ration_settings_done(&settings);
}

static void sizes_may_have_units(void **state)
{
    struct ration_settings settings;

    (void)state;
    accepted("--max-output 16KB --max-connection-memory 2MiB --max-body-size=70_000", "  {}\n",
             &settings);
    assert_int_equal(settings.limits.output_bytes_max, 16000);
    assert_int_equal(settings.limits.connection_memory_max, 2 << 20);
    assert_int_equal(settings.http_limits.body_bytes_max, 70000);
    ration_settings_done(&settings);
}

static void lists_may_have_commas(void **state)
{
    struct ration_settings settings;

    (void)state;
    accepted("--http 8429,localhost:1 --trusted-proxies 10.0.0.0/8,unix --allowed-hosts none",
             "  {}\n", &settings);
    assert_int_equal(settings.http_count, 2);
    assert_string_equal(settings.http[1], "localhost:1");
    assert_int_equal(settings.trust.proxy_count, 1);
    assert_true(settings.trust.trusts_unix);
    ration_settings_done(&settings);
}

/* Precedence ---------------------------------------------------------------------------------- */

static void the_command_line_takes_precedence(void **state)
{
    struct ration_settings settings;

    (void)state;
    accepted("--threads 3 --http none --prefault=false --log-format json",
             "  threads: 5\n  http: [127.0.0.1:1, 127.0.0.1:2]\n  prefault: true\n"
             "  resp: 127.0.0.1:3\n  log_format: text\n",
             &settings);
    assert_int_equal(settings.threads, 3);
    assert_int_equal(settings.http_count, 0);
    assert_int_equal(settings.resp_count, 1);
    assert_string_equal(settings.resp[0], "127.0.0.1:3");
    assert_false(settings.is_prefaulted);
    assert_true(settings.log_is_json);
    ration_settings_done(&settings);
}

static void overridden_settings_are_still_checked(void **state)
{
    (void)state;
    refused("--threads 3", "  threads: 99\n",
            "2:12: threads cannot be '99'; write a number from 1 to 64\n");
}

static void lists_repeat_on_the_command_line(void **state)
{
    struct ration_settings settings;
    char line[TEXT_SIZE] = "";

    (void)state;
    accepted("--http 127.0.0.1:1 --http=[::1]:2 --trusted-proxies 10.0.0.0/8 "
             "--trusted-proxies unix --trusted-proxies ::1",
             "  {}\n", &settings);
    assert_int_equal(settings.http_count, 2);
    assert_string_equal(settings.http[1], "[::1]:2");
    assert_int_equal(settings.trust.proxy_count, 2);
    assert_true(settings.trust.trusts_unix);
    assert_ptr_equal(settings.trust.proxies, settings.proxies);
    ration_settings_done(&settings);
    for (int i = 0; i <= RATION_SETTINGS_ADDRESSES_MAX / 2; i++)
        strcat(line, "--http=127.0.0.1:0 --http=127.0.0.1:0 ");
    refused(line, "  {}\n",
            "--http has more than 8 addresses; list at most 8\n--http has more than 8 addresses; "
            "list at most 8\n");
}

static void note_name(void *context, const char *name)
{
    struct reported *reported = context;

    reported->used +=
        (size_t)snprintf(reported->text + reported->used, TEXT_SIZE - reported->used, "%s ", name);
}

static void changed_settings_are_named(void **state)
{
    struct ration_settings before, after;
    struct reported reported = {0};

    (void)state;
    accepted("--threads 2 --check-secret x", "  {}\n", &before);
    accepted("--threads 2 --check-secret y",
             "  threads: 9\n  http: 127.0.0.1:0\n  state: s\n  trusted_proxies: unix\n", &after);
    ration_settings_compare(&before, &after, note_name, &reported);
    assert_string_equal(reported.text, "http state check-secret trusted-proxies ");
    ration_settings_done(&after);
    assert_int_equal(ration_settings_copy(&before, &after), RATION_OK);
    memset(&reported, 0, sizeof(reported));
    ration_settings_compare(&before, &after, note_name, &reported);
    assert_string_equal(reported.text, "");
    assert_ptr_not_equal(before.http[0], after.http[0]);
    ration_settings_done(&before);
    ration_settings_done(&after);
}

/* The environment ----------------------------------------------------------------------------- */

/* Reads variables and arguments and completes the settings. Returns the status. */
static ration_status read_sources(const char *const *environment, char **arguments,
                                  int argument_count, struct ration_settings *settings,
                                  struct reported *reported)
{
    ration_status status;

    memset(reported, 0, sizeof(*reported));
    ration_settings_init(settings);
    status = ration_settings_read_environment(settings, (char *const *)(uintptr_t)environment, note,
                                              reported);
    if (status == RATION_OK)
        status =
            ration_settings_read_arguments(settings, argument_count, arguments, note, reported);
    return status;
}

static void the_command_line_overrides_the_environment(void **state)
{
    char secret[] = "RATION_CHECK_SECRET=hidden";
    const char *environment[] = {"HOME=/",
                                 "RATION_THREADS=3",
                                 "RATION_TOP_KEYS=7",
                                 "RATION_TRUSTED_PROXIES=10.0.0.0/8,unix",
                                 "RATION_POLICY=p.yaml",
                                 "RATION_SERVICE_HOST=10.0.0.1",
                                 "RATION_PREFAULT=true",
                                 secret,
                                 NULL};
    char threads[] = "--threads", two[] = "2";
    char *arguments[] = {threads, two};
    struct ration_settings settings;
    struct reported reported;

    (void)state;
    assert_int_equal(read_sources(environment, arguments, 2, &settings, &reported), RATION_OK);
    assert_string_equal(reported.text, "");
    assert_int_equal(settings.threads, 2);
    assert_int_equal(settings.top_keys, 7);
    assert_int_equal(settings.trust.proxy_count, 1);
    assert_true(settings.is_prefaulted && settings.check_secret.is_set);
    assert_string_equal(settings.policy_path, "p.yaml");
    ration_settings_hide_environment((char *const *)(uintptr_t)environment);
    assert_string_equal(secret, "RATION_CHECK_SECRET=******");
    assert_string_equal(environment[1], "RATION_THREADS=3");
    ration_settings_done(&settings);
}

static void wrong_variables_are_reported(void **state)
{
    const char *wrong[] = {"RATION_THREADS=0", NULL};
    const char *unknown[] = {"RATION_MAX_CONECTIONS=5", NULL};
    const char *flag[] = {"RATION_PREFAULT=1", NULL};
    struct ration_settings settings;
    struct reported reported;

    (void)state;
    assert_int_equal(read_sources(wrong, NULL, 0, &settings, &reported), RATION_EINVAL);
    assert_string_equal(reported.text,
                        "RATION_THREADS cannot be '0'; write a number from 1 to 64\n");
    ration_settings_done(&settings);
    assert_int_equal(read_sources(unknown, NULL, 0, &settings, &reported), RATION_OK);
    assert_string_equal(reported.text, "");
    ration_settings_done(&settings);
    assert_int_equal(read_sources(flag, NULL, 0, &settings, &reported), RATION_EINVAL);
    assert_string_equal(reported.text, "RATION_PREFAULT cannot be '1'; write true or false\n");
    ration_settings_done(&settings);
}

/* Access -------------------------------------------------------------------------------------- */

#define NO_SECRET                                                                    \
    " can be reached from other hosts, and there is no check secret; give one with " \
    "--check-secret-file, or listen on 127.0.0.1 or a Unix socket, or pass --insecure\n"

static void other_hosts_need_a_secret(void **state)
{
    static const char *const fine[] = {
        "--http 127.0.0.1:0 --resp 127.9.9.9:0",
        "--http [::1]:0 --resp unix:/run/x --http @abstract",
        "--http 0.0.0.0:0 --resp *:0 --check-secret c",
        "--http 0.0.0.0:0 --resp :1 --insecure",
        "--http none --resp 192.0.2.1:1 --check-secret c --admin-secret a",
    };
    struct ration_settings settings;

    (void)state;
    for (size_t i = 0; i < sizeof(fine) / sizeof(fine[0]); i++) {
        accepted(fine[i], "  {}\n", &settings);
        ration_settings_done(&settings);
    }
    refused("--http 0.0.0.0:1", "  {}\n", "http 0.0.0.0:1" NO_SECRET);
    refused("--http [::]:1", "  {}\n", "http [::]:1" NO_SECRET);
    refused("--http *:1 --admin-secret a", "  {}\n", "http *:1" NO_SECRET);
    refused("--resp 128.0.0.1:1 --admin-secret a", "  {}\n", "resp 128.0.0.1:1" NO_SECRET);
    refused("--resp 127.0.0.1:1 --resp [fe80::1]:1", "  {}\n", "resp [fe80::1]:1" NO_SECRET);
    refused("", "  resp: ':1'\n  http: ':1'\n", "resp :1" NO_SECRET "http :1" NO_SECRET);
}

static void secrets_differ(void **state)
{
    struct ration_settings settings;

    (void)state;
    refused("--check-secret same --admin-secret same", "  {}\n",
            "check-secret and admin-secret are the same, so every client that checks would be an "
            "admin; use two secrets\n");
    accepted("--check-secret c --admin-secret a", "  {}\n", &settings);
    ration_settings_done(&settings);
}

static void hosts_are_names(void **state)
{
    struct ration_settings settings;

    (void)state;
    accepted("--allowed-hosts Ration.example --allowed-hosts ration", "  {}\n", &settings);
    assert_int_equal(settings.allowed_host_count, 2);
    assert_string_equal(settings.allowed_hosts[0], "Ration.example");
    ration_settings_done(&settings);
    accepted("", "  allowed_hosts: [a, b.example, c]\n", &settings);
    assert_int_equal(settings.allowed_host_count, 3);
    ration_settings_done(&settings);
    refused(
        "--allowed-hosts ration:8429", "  {}\n",
        "--allowed-hosts cannot be 'ration:8429'; write the name of a host without a port, such "
        "as ration.example.com\n");
    refused("--allowed-hosts=", "  {}\n",
            "--allowed-hosts has an empty element; write A,B or none\n");
}

/* The access level of a client without a secret, by the settings and the client's address. */
static void access_without_a_secret(void **state)
{
    static const struct {
        const char *options;
        enum ration_access here, elsewhere;
    } rows[] = {
        {"", RATION_ACCESS_ADMIN, RATION_ACCESS_CHECK},
        {"--insecure", RATION_ACCESS_ADMIN, RATION_ACCESS_CHECK},
        {"--admin-secret a", RATION_ACCESS_CHECK, RATION_ACCESS_CHECK},
        {"--check-secret c", RATION_ACCESS_OPEN, RATION_ACCESS_OPEN},
        {"--check-secret c --admin-secret a", RATION_ACCESS_OPEN, RATION_ACCESS_OPEN},
    };
    static const struct ration_address here[] = {
        {.family = 0}, {.bytes = {127, 9, 9, 9}, .family = 4}, {.bytes = {[15] = 1}, .family = 6}};
    static const struct ration_address elsewhere[] = {
        {.bytes = {126, 0, 0, 1}, .family = 4},
        {.bytes = {192, 0, 2, 1}, .family = 4},
        {.bytes = {[15] = 2}, .family = 6},
        {.bytes = {0xfe, 0x80, [15] = 1}, .family = 6}};
    struct ration_settings settings;

    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        accepted(rows[i].options, "  {}\n", &settings);
        for (size_t k = 0; k < sizeof(here) / sizeof(here[0]); k++)
            assert_int_equal(ration_credentials_without_secret(&settings, &here[k]), rows[i].here);
        for (size_t k = 0; k < sizeof(elsewhere) / sizeof(elsewhere[0]); k++)
            assert_int_equal(ration_credentials_without_secret(&settings, &elsewhere[k]),
                             rows[i].elsewhere);
        ration_settings_done(&settings);
    }
}

static void write_secret(const char *path, const char *text, mode_t mode)
{
    int file = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);

    assert_true(file >= 0);
    assert_int_equal(write(file, text, strlen(text)), strlen(text));
    assert_int_equal(fchmod(file, mode), 0);
    close(file);
}

static void secrets_come_from_files_that_others_cannot_read(void **state)
{
    char path[] = "/tmp/ration-secret-XXXXXX", line[128], wanted[256];
    char large[RATION_SECRET_BYTES_MAX + 2];
    static const struct {
        const char *text;
        const char *secret;
    } rows[] = {{"s3cret", "s3cret"},
                {"s3cret\n", "s3cret"},
                {"s3cret\r\n", "s3cret"},
                {" two words ", " two words "}};
    struct ration_settings settings;

    (void)state;
    close(mkstemp(path));
    snprintf(line, sizeof(line), "--check-secret-file %s", path);
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        write_secret(path, rows[i].text, 0640);
        accepted(line, "  {}\n", &settings);
        assert_true(
            ration_secret_is(&settings.check_secret, rows[i].secret, strlen(rows[i].secret)));
        assert_false(
            ration_secret_is(&settings.check_secret, rows[i].secret, strlen(rows[i].secret) - 1));
        ration_settings_done(&settings);
        assert_false(settings.check_secret.is_set);
    }
    for (mode_t other = 1; other <= 4; other *= 2) {
        write_secret(path, "s3cret", 0600 | other);
        snprintf(wanted, sizeof(wanted),
                 "--check-secret-file: others may use %s (mode 060%o); run chmod o= %s\n", path,
                 (unsigned)other, path);
        refused(line, "  {}\n", wanted);
    }
    write_secret(path, "two\nlines\n", 0600);
    refused(line, "  {}\n",
            "--check-secret-file has a control byte; a secret is one line of text\n");
    write_secret(path, "\n", 0600);
    refused(line, "  {}\n", "--check-secret-file is empty; leave the setting out to have none\n");
    memset(large, 'x', sizeof(large) - 1);
    large[sizeof(large) - 1] = '\0';
    write_secret(path, large, 0600);
    refused(line, "  {}\n", "--check-secret-file has more than 512 bytes; use a shorter one\n");
    write_secret(path, large + 1, 0600);
    accepted(line, "  {}\n", &settings);
    assert_true(ration_secret_is(&settings.check_secret, large + 1, RATION_SECRET_BYTES_MAX));
    ration_settings_done(&settings);
    unlink(path);
}

static void secrets_on_a_command_line_are_overwritten(void **state)
{
    char words[][64] = {"--check-secret",   "abc",     "--admin-secret=defg", "--redis",
                        "redis://:pw@host", "--redis", "redis://host",        "--check-secret"};
    static const char *const after[] = {
        "--check-secret",   "***",     "--admin-secret=****", "--redis",
        "****************", "--redis", "redis://host",        "--check-secret"};
    char *arguments[sizeof(words) / sizeof(words[0])];
    int count = (int)(sizeof(words) / sizeof(words[0]));

    (void)state;
    for (int i = 0; i < count; i++)
        arguments[i] = words[i];
    ration_settings_hide_arguments(count, arguments);
    for (int i = 0; i < count; i++)
        assert_string_equal(words[i], after[i]);
}

static void hidden_urls_are_compared(void **state)
{
    struct ration_settings one, same, other, plain;
    struct reported names = {0};

    (void)state;
    accepted("--redis redis://:pw@host", "  {}\n", &one);
    accepted("--redis redis://:pw@host", "  {}\n", &same);
    accepted("--redis redis://:pv@host", "  {}\n", &other);
    accepted("--redis redis://host", "  {}\n", &plain);
    assert_true(ration_settings_have_secrets(&one));
    assert_false(ration_settings_have_secrets(&plain));
    for (int i = 0; i < 2; i++) { /* hiding twice changes nothing */
        assert_true(ration_settings_hide_secrets(&one) && ration_settings_hide_secrets(&same));
        assert_true(ration_settings_hide_secrets(&other) && ration_settings_hide_secrets(&plain));
    }
    assert_null(strstr(one.redis_url, "pw"));
    assert_string_equal(plain.redis_url, "redis://host");
    ration_settings_compare(&one, &same, note_name, &names);
    assert_string_equal(names.text, "");
    ration_settings_compare(&one, &other, note_name, &names);
    ration_settings_compare(&one, &plain, note_name, &names);
    assert_string_equal(names.text, "redis redis ");
    ration_settings_done(&one);
    ration_settings_done(&same);
    ration_settings_done(&other);
    ration_settings_done(&plain);
}

static void a_url_comes_from_a_file(void **state)
{
    char path[] = "/tmp/ration-url-XXXXXX", line[128], wanted[256];
    struct ration_settings settings;

    (void)state;
    close(mkstemp(path));
    snprintf(line, sizeof(line), "--redis-file %s", path);
    write_secret(path, "redis://:pw@host\n", 0640);
    accepted(line, "  {}\n", &settings);
    assert_string_equal(settings.redis_url, "redis://:pw@host");
    ration_settings_done(&settings);
    write_secret(path, "redis://:pw@host\n", 0644);
    snprintf(wanted, sizeof(wanted),
             "--redis-file: others may use %s (mode 0644); run chmod o= %s\n", path, path);
    refused(line, "  {}\n", wanted);
    snprintf(line, sizeof(line), "--redis redis://host --redis-file %s", path);
    refused(line, "  {}\n", "--redis is given twice, or from a file too; keep one\n");
    unlink(path);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_limit_is_a_setting),
        cmocka_unit_test(the_table_is_consistent),
        cmocka_unit_test(defaults_are_what_is_documented),
        cmocka_unit_test(without_settings_the_defaults_apply),
        cmocka_unit_test(an_error_says_which_values_are_valid),
        cmocka_unit_test(every_error_is_reported_at_once),
        cmocka_unit_test(a_policy_writes_names_with_underscores),
        cmocka_unit_test(zero_bytes_are_refused),
        cmocka_unit_test(times_have_units),
        cmocka_unit_test(sizes_may_have_units),
        cmocka_unit_test(lists_may_have_commas),
        cmocka_unit_test(the_command_line_overrides_the_environment),
        cmocka_unit_test(wrong_variables_are_reported),
        cmocka_unit_test(the_command_line_takes_precedence),
        cmocka_unit_test(overridden_settings_are_still_checked),
        cmocka_unit_test(lists_repeat_on_the_command_line),
        cmocka_unit_test(changed_settings_are_named),
        cmocka_unit_test(other_hosts_need_a_secret),
        cmocka_unit_test(secrets_differ),
        cmocka_unit_test(hosts_are_names),
        cmocka_unit_test(access_without_a_secret),
        cmocka_unit_test(secrets_come_from_files_that_others_cannot_read),
        cmocka_unit_test(secrets_on_a_command_line_are_overwritten),
        cmocka_unit_test(hidden_urls_are_compared),
        cmocka_unit_test(a_url_comes_from_a_file),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
