/*
 * settings: reads options, variables and the server: section into one struct, as the table directs.
 *
 * A source (the command line, the environment, a policy) overwrites a value only if a lower source set it. A value that
 * loses is parsed all the same, into settings that are thrown away: an error in a file is reported even where the
 * command line overrides the value.
 */
#include "server/ops/settings.h"

#include <inttypes.h>
#include <sched.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "server/net/loops.h"
#include "server/ops/settings_table.h"
#include "server/ops/settings_value.h"

/* Defaults ------------------------------------------------------------------------------------ */

static uint32_t usable_cpu_count(void)
{
    cpu_set_t cpus;
    int count = sched_getaffinity(0, sizeof(cpus), &cpus) == 0 ? CPU_COUNT(&cpus) : 1;

    return count < 1 ? 1 : count > RATION_LOOPS_MAX ? RATION_LOOPS_MAX : (uint32_t)count;
}

static void set_default(const struct ration_setting *setting, struct ration_settings *settings)
{
    char *member = (char *)settings + setting->offset;

    if (setting->size == sizeof(uint32_t))
        memcpy(member, &(uint32_t){(uint32_t)setting->default_value}, sizeof(uint32_t));
    else if (setting->size == sizeof(uint64_t))
        memcpy(member, &setting->default_value, sizeof(uint64_t));
}

void ration_settings_init(struct ration_settings *settings)
{
    memset(settings, 0, sizeof(*settings));
    for (size_t i = 0; i < ration_settings_table_count; i++) {
        const struct ration_setting *setting = &ration_settings_table[i];

        /* Texts and secrets have no default here; ration_settings_complete() sets those of lists. */
        if (!ration_settings_value_is_text(setting) && !ration_settings_value_is_list(setting))
            set_default(setting, settings);
    }
    settings->threads = usable_cpu_count();
}

void ration_settings_done(struct ration_settings *settings)
{
    for (size_t i = 0; i < ration_settings_table_count; i++)
        ration_settings_value_clear(&ration_settings_table[i], settings);
}

static bool copy_texts(char **texts, size_t count)
{
    bool is_complete = true;

    for (size_t i = 0; i < count; i++) {
        texts[i] = texts[i] != NULL ? strdup(texts[i]) : NULL;
        is_complete &= texts[i] != NULL;
    }
    return is_complete;
}

ration_status ration_settings_copy(const struct ration_settings *settings,
                                   struct ration_settings *out_settings)
{
    struct ration_settings copy = *settings;
    bool is_complete = copy_texts(copy.http, copy.http_count);

    is_complete &= copy_texts(copy.resp, copy.resp_count);
    is_complete &= copy_texts(copy.allowed_hosts, copy.allowed_host_count);
    is_complete &= copy_texts(&copy.policy_path, 1) || settings->policy_path == NULL;
    is_complete &= copy_texts(&copy.state_path, 1) || settings->state_path == NULL;
    is_complete &= copy_texts(&copy.redis_url, 1) || settings->redis_url == NULL;
    is_complete &= copy_texts(&copy.redis_prefix, 1) || settings->redis_prefix == NULL;
    is_complete &= copy_texts(&copy.redis_key_secret, 1) || settings->redis_key_secret == NULL;
    if (!is_complete) {
        ration_settings_done(&copy);
        return RATION_ENOMEM;
    }
    *out_settings = copy;
    out_settings->trust.proxies = out_settings->proxies;
    return RATION_OK;
}

/* Reading ------------------------------------------------------------------------------------- */

struct reader {
    struct ration_settings *settings;
    struct ration_settings *hidden; /* for values that a higher source overrides; thrown away */
    enum ration_settings_source source;
    ration_policy_error_func *on_error;
    void *context;
    uint32_t line;
    uint32_t column;
    ration_status (*read)(const struct ration_setting *setting, const char *text, size_t size,
                          struct ration_settings *settings, struct ration_error *error);
    bool is_none[RATION_SETTINGS_COUNT_MAX];  /* the list was given as none */
    bool is_given[RATION_SETTINGS_COUNT_MAX]; /* by this source */
    bool has_errors;
    bool is_short_of_memory;
};

static void __attribute__((format(printf, 2, 3)))
report_error(struct reader *reader, const char *format, ...)
{
    char message[RATION_ERROR_MESSAGE_MAX];
    struct ration_policy_error error = {reader->line, reader->column, message};
    va_list arguments;

    va_start(arguments, format);
    vsnprintf(message, sizeof(message), format, arguments);
    va_end(arguments);
    reader->has_errors = true;
    if (reader->on_error != NULL)
        reader->on_error(reader->context, &error);
}

/* How a source spells the names of settings. */
static const struct spelling {
    const char *prefix;
    char separator;
    bool is_upper;
} spellings[] = {
    [RATION_SETTINGS_POLICY] = {"", '_', false},
    [RATION_SETTINGS_ENVIRONMENT] = {"RATION_", '_', true},
    [RATION_SETTINGS_ARGUMENTS] = {"--", '-', false},
};

#define NAME_SIZE 64 /* fits a setting's name with its prefix */

/* Writes the name as the reader's source spells it. Returns buffer. */
static const char *spell_name(const struct reader *reader, const char *name, char buffer[NAME_SIZE])
{
    const struct spelling *spelling = &spellings[reader->source];
    size_t prefix_size = strlen(spelling->prefix);

    snprintf(buffer, NAME_SIZE, "%s%s", spelling->prefix, name);
    for (char *byte = buffer + prefix_size; *byte != '\0'; byte++) {
        if (*byte == '-')
            *byte = spelling->separator;
        else if (spelling->is_upper && *byte >= 'a' && *byte <= 'z')
            *byte = (char)(*byte - 'a' + 'A');
    }
    return buffer;
}

/* Options that other servers have, and what to pass here. */
static const char *hint_for(const char *name, size_t size)
{
    if (ration_text_is_listed(name, size, "port bind listen host address addr", false))
        return "pass --http ADDRESS:PORT and --resp ADDRESS:PORT";
    if (ration_text_is_listed(name, size, "config conf file", false))
        return "pass --policy FILE";
    return NULL;
}

/*
 * Returns the index in the table of the setting that the source spells so, prefix included; the table's count if there
 * is none. *out_nearest is then the name of a similar setting, in buffer, or NULL.
 */
static size_t look_up(const struct reader *reader, const char *name, size_t size,
                      char buffer[NAME_SIZE], const char **out_nearest)
{
    char spelled[RATION_SETTINGS_COUNT_MAX][NAME_SIZE];
    const char *names[RATION_SETTINGS_COUNT_MAX];
    const char *nearest;

    for (size_t i = 0; i < ration_settings_table_count; i++) {
        names[i] = spell_name(reader, ration_settings_table[i].name, spelled[i]);
        if (strlen(names[i]) == size && memcmp(names[i], name, size) == 0)
            return i;
    }
    nearest = ration_text_nearest(name, size, names, ration_settings_table_count);
    *out_nearest = nearest != NULL ? strcpy(buffer, nearest) : NULL;
    return ration_settings_table_count;
}

/* As look_up(), and reports an error if there is no such setting. */
static size_t find_setting(struct reader *reader, const char *name, size_t size)
{
    char quote[RATION_TEXT_QUOTE_SIZE], buffer[NAME_SIZE];
    const char *nearest = NULL, *hint;
    size_t prefix_size = strlen(spellings[reader->source].prefix);
    size_t index = look_up(reader, name, size, buffer, &nearest);

    if (index < ration_settings_table_count)
        return index;
    hint = hint_for(name + prefix_size, size - prefix_size);
    if (reader->source == RATION_SETTINGS_ARGUMENTS) {
        const char *const options[] = {"--help", "--print-settings", "--access", nearest};

        nearest = ration_text_nearest(name, size, options, nearest != NULL ? 4 : 3);
    }
    if (hint == NULL && nearest == NULL)
        hint = "see ration serve --help";
    report_error(reader, "there is no setting %s; %s%s", ration_text_quote(name, size, quote),
                 hint != NULL ? hint : "did you mean ", hint != NULL ? "" : nearest);
    return ration_settings_table_count;
}

/* The first setting with the same member: check-secret and check-secret-file set one value. */
static size_t first_of_member(size_t index)
{
    size_t first = 0;

    while (ration_settings_table[first].offset != ration_settings_table[index].offset)
        first++;
    return first;
}

/* Whether this source may set the setting, and has not done so before; if not, reports an error. */
static bool may_be_given(struct reader *reader, size_t index)
{
    const struct ration_setting *setting = &ration_settings_table[index];
    size_t first = first_of_member(index);
    bool repeats = reader->is_given[first];
    char name[NAME_SIZE];

    if (setting->is_argument_only && reader->source == RATION_SETTINGS_POLICY) {
        report_error(reader, "%s cannot be set here; pass --%s on the command line",
                     spell_name(reader, setting->name, name), setting->name);
        return false;
    }
    if (repeats &&
        !(ration_settings_value_is_list(setting) && reader->source == RATION_SETTINGS_ARGUMENTS)) {
        if (ration_settings_value_may_be_file(&ration_settings_table[first]))
            report_error(reader, "%s is given twice, or from a file too; keep one",
                         spell_name(reader, ration_settings_table[first].name, name));
        else
            report_error(reader, "%s is given twice; keep one",
                         spell_name(reader, setting->name, name));
        return false;
    }
    return true;
}

/* The settings that a value is written to: the real ones, or reader->hidden if a higher source wins. */
static struct ration_settings *target_settings(struct reader *reader, size_t index)
{
    size_t first = first_of_member(index);
    bool wins = reader->settings->sources[first] <= (uint8_t)reader->source;
    struct ration_settings *settings = wins ? reader->settings : reader->hidden;

    if (!reader->is_given[first])
        ration_settings_value_clear(&ration_settings_table[index], settings);
    reader->is_given[first] = true;
    if (wins)
        settings->sources[first] = (uint8_t)reader->source;
    return settings;
}

/* A list may be the single word none. True: this value needs no further parsing. */
static bool read_none(struct reader *reader, size_t index, const char *text, size_t count_before)
{
    const struct ration_setting *setting = &ration_settings_table[index];
    bool is_none = strcmp(text, "none") == 0;
    char name[NAME_SIZE];

    if (!ration_settings_value_is_list(setting))
        return false;
    if ((is_none && count_before > 0) || reader->is_none[index]) {
        report_error(reader, "%s has none and other values; write none alone",
                     spell_name(reader, setting->name, name));
        return true;
    }
    reader->is_none[index] = is_none;
    return is_none;
}

/* Messages about values begin with the name as the table has it. */
static void report_value_error(struct reader *reader, const struct ration_setting *setting,
                               const char *message)
{
    size_t size = strlen(setting->name);
    char name[NAME_SIZE];

    if (strncmp(message, setting->name, size) == 0)
        report_error(reader, "%s%s", spell_name(reader, setting->name, name), message + size);
    else
        report_error(reader, "%s", message);
}

static void read_value(struct reader *reader, size_t index, struct ration_settings *settings,
                       const char *text, size_t size)
{
    const struct ration_setting *setting = &ration_settings_table[index];
    size_t count = ration_settings_value_is_list(setting)
                       ? *(size_t *)((char *)settings + setting->count_offset)
                       : 0;
    struct ration_error error;
    ration_status status;

    if (read_none(reader, index, text, count))
        return;
    if (reader->source == RATION_SETTINGS_POLICY &&
        ration_settings_value_is_secret(setting, text) && reader->settings->policy_secret == NULL) {
        reader->settings->policy_secret = setting->name;
        reader->settings->policy_secret_line = reader->line;
        reader->settings->policy_secret_column = reader->column;
    }
    status = reader->read(setting, text, size, settings, &error);
    if (status == RATION_ENOMEM)
        reader->is_short_of_memory = true;
    if (status != RATION_OK)
        report_value_error(reader, setting, error.message);
}

/* Reads a value, or for a list several that are separated by commas. */
static void read_values(struct reader *reader, size_t index, const char *text)
{
    struct ration_settings *settings = target_settings(reader, index);
    char *copy, *rest, *item, name[NAME_SIZE];

    if (!ration_settings_value_is_list(&ration_settings_table[index])) {
        read_value(reader, index, settings, text, strlen(text));
        return;
    }
    copy = rest = strdup(text);
    reader->is_short_of_memory |= copy == NULL;
    while ((item = strsep(&rest, ",")) != NULL) {
        while (*item == ' ')
            item++;
        if (*item != '\0')
            read_value(reader, index, settings, item, strlen(item));
        else
            report_error(reader, "%s has an empty element; write A,B or none",
                         spell_name(reader, ration_settings_table[index].name, name));
    }
    free(copy);
}

static ration_status begin_reading(struct reader *reader)
{
    reader->hidden = malloc(sizeof(*reader->hidden));
    if (reader->hidden == NULL)
        return RATION_ENOMEM;
    ration_settings_init(reader->hidden);
    return RATION_OK;
}

static ration_status end_reading(struct reader *reader)
{
    ration_settings_done(reader->hidden);
    free(reader->hidden);
    if (reader->is_short_of_memory)
        return RATION_ENOMEM;
    return reader->has_errors ? RATION_EINVAL : RATION_OK;
}

/* The command line ---------------------------------------------------------------------------- */

/* Reads one option; returns how many arguments it took. */
static int read_option(struct reader *reader, int argument_count, char **arguments)
{
    const char *name = arguments[0];
    size_t name_size = strcspn(name, "=");
    const char *value = name[name_size] == '=' ? name + name_size + 1 : NULL;
    size_t index = find_setting(reader, name, name_size);
    int used = 1;

    if (index ==
        ration_settings_table_count) /* skips the next argument too if it may be the value */
        return value == NULL && argument_count > 1 && arguments[1][0] != '-' ? 2 : 1;
    if (value == NULL && ration_settings_table[index].metavariable == NULL) {
        value = "true";
    } else if (value == NULL) {
        value = argument_count > 1 ? arguments[1] : NULL;
        used = 2;
    }
    if (value == NULL) {
        report_error(reader, "--%s needs a value; write --%s %s", ration_settings_table[index].name,
                     ration_settings_table[index].name, ration_settings_table[index].metavariable);
        return 1;
    }
    if (may_be_given(reader, index))
        read_values(reader, index, value);
    return used;
}

ration_status ration_settings_read_arguments(struct ration_settings *settings, int argument_count,
                                             char **arguments, ration_policy_error_func *on_error,
                                             void *context)
{
    struct reader reader = {.settings = settings,
                            .source = RATION_SETTINGS_ARGUMENTS,
                            .on_error = on_error,
                            .context = context,
                            .read = ration_settings_value_read};
    char quote[RATION_TEXT_QUOTE_SIZE];
    int used = 0;

    if (begin_reading(&reader) != RATION_OK)
        return RATION_ENOMEM;
    while (used < argument_count) {
        if (strncmp(arguments[used], "--", 2) == 0 && arguments[used][2] != '\0') {
            used += read_option(&reader, argument_count - used, arguments + used);
            continue;
        }
        report_error(&reader,
                     "'%s' is not an option; write --name value, as in --policy policy.yaml",
                     ration_text_quote(arguments[used], strlen(arguments[used]), quote));
        used++;
    }
    return end_reading(&reader);
}

void ration_settings_hide_arguments(int argument_count, char **arguments)
{
    for (int i = 0; i < argument_count; i++) {
        char *name = arguments[i] + 2;
        size_t name_size = strncmp(arguments[i], "--", 2) == 0 ? strcspn(name, "=") : 0;
        char *value = name_size > 0 && name[name_size] == '=' ? name + name_size + 1
                      : i + 1 < argument_count                ? arguments[i + 1]
                                                              : name + name_size;

        for (size_t j = 0; j < ration_settings_table_count && name_size > 0; j++) {
            const char *known = ration_settings_table[j].name;

            if (strlen(known) == name_size && strncmp(known, name, name_size) == 0 &&
                ration_settings_value_is_secret(&ration_settings_table[j], value))
                memset(value, '*', strlen(value));
        }
    }
}

const char *ration_settings_nearest_word(const char *word, const char *const *words, size_t count)
{
    return ration_text_nearest(word, strlen(word), words, count);
}

/* The environment ------------------------------------------------------------------------------ */

static const char variable_prefix[] = "RATION_";

static void read_variable(struct reader *reader, const char *variable)
{
    size_t name_size = strcspn(variable, "=");
    char buffer[NAME_SIZE];
    const char *nearest;
    size_t index = look_up(reader, variable, name_size, buffer, &nearest);

    if (index < ration_settings_table_count && may_be_given(reader, index))
        read_values(reader, index, variable + name_size + 1);
}

ration_status ration_settings_read_environment(struct ration_settings *settings,
                                               char *const *environment,
                                               ration_policy_error_func *on_error, void *context)
{
    struct reader reader = {.settings = settings,
                            .source = RATION_SETTINGS_ENVIRONMENT,
                            .on_error = on_error,
                            .context = context,
                            .read = ration_settings_value_read};

    if (begin_reading(&reader) != RATION_OK)
        return RATION_ENOMEM;
    for (; *environment != NULL; environment++) {
        if (strncmp(*environment, variable_prefix, strlen(variable_prefix)) == 0 &&
            strchr(*environment, '=') != NULL)
            read_variable(&reader, *environment);
    }
    return end_reading(&reader);
}

void ration_settings_hide_environment(char *const *environment)
{
    struct reader reader = {.source = RATION_SETTINGS_ENVIRONMENT};

    for (; *environment != NULL; environment++) {
        char buffer[NAME_SIZE], *value = strchr(*environment, '=');
        const char *nearest;
        size_t index = value != NULL ? look_up(&reader, *environment,
                                               (size_t)(value - *environment), buffer, &nearest)
                                     : ration_settings_table_count;

        if (index < ration_settings_table_count &&
            ration_settings_value_is_secret(&ration_settings_table[index], value + 1))
            memset(value + 1, '*', strlen(value + 1));
    }
}

/* The policy ---------------------------------------------------------------------------------- */

static void read_setting(struct reader *reader, const struct ration_policy_setting *given)
{
    struct ration_settings *settings;
    size_t index;

    reader->line = given->line;
    reader->column = given->column;
    index = find_setting(reader, given->name, strlen(given->name));
    if (index == ration_settings_table_count || !may_be_given(reader, index))
        return;
    if (given->is_list && !ration_settings_value_is_list(&ration_settings_table[index])) {
        report_error(reader, "%s is one value, and this is a list; write the value alone",
                     given->name);
        return;
    }
    settings = target_settings(reader, index);
    for (size_t i = 0; i < given->value_count; i++) {
        reader->line = given->values[i].line;
        reader->column = given->values[i].column;
        read_value(reader, index, settings, given->values[i].text, given->values[i].size);
    }
}

static ration_status read_policy(struct reader *reader, const ration_policy *policy)
{
    reader->source = RATION_SETTINGS_POLICY;
    if (begin_reading(reader) != RATION_OK)
        return RATION_ENOMEM;
    for (size_t i = 0; i < ration_policy_setting_count(policy); i++)
        read_setting(reader, ration_policy_setting_at(policy, i));
    return end_reading(reader);
}

ration_status ration_settings_read_policy(struct ration_settings *settings,
                                          const ration_policy *policy,
                                          ration_policy_error_func *on_error, void *context)
{
    struct reader reader = {.settings = settings,
                            .on_error = on_error,
                            .context = context,
                            .read = ration_settings_value_read};

    return read_policy(&reader, policy);
}

ration_status ration_settings_set_policy_defaults(struct ration_settings *settings,
                                                  const ration_policy *policy,
                                                  ration_policy_error_func *on_error, void *context)
{
    struct reader reader = {.settings = settings,
                            .on_error = on_error,
                            .context = context,
                            .read = ration_settings_value_set_default};

    return read_policy(&reader, policy);
}

/* Secrets ------------------------------------------------------------------------------------- */

bool ration_settings_have_secrets(const struct ration_settings *settings)
{
    for (size_t i = 0; i < ration_settings_table_count; i++) {
        const struct ration_setting *setting = &ration_settings_table[i];
        const char *member = (const char *)settings + setting->offset;

        if (setting->kind == RATION_SETTING_SECRET &&
            ((const struct ration_secret *)member)->is_set)
            return true;
        if (setting->kind == RATION_SETTING_URL &&
            ration_settings_value_is_secret(setting, *(char *const *)member))
            return true;
    }
    return false;
}

bool ration_settings_hide_secrets(struct ration_settings *settings)
{
    bool is_done = true;

    for (size_t i = 0; i < ration_settings_table_count; i++) {
        const struct ration_setting *setting = &ration_settings_table[i];
        char **member = (char **)((char *)settings + setting->offset);

        if (setting->kind == RATION_SETTING_URL &&
            ration_settings_value_is_secret(setting, *member))
            is_done &= ration_secret_replace_text(member);
    }
    return is_done;
}

/* Comparing ----------------------------------------------------------------------------------- */

void ration_settings_compare(const struct ration_settings *settings,
                             const struct ration_settings *other,
                             ration_settings_report_func *report, void *context)
{
    for (size_t i = 0; i < ration_settings_table_count; i++) {
        const struct ration_setting *setting = &ration_settings_table[i];

        if (first_of_member(i) == i && !ration_settings_value_is_same(setting, settings, other))
            report(context, setting->name);
    }
}
