#include "server/ops/settings_value.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/text.h"
#include "base/units.h"
#include "server/net/endpoint.h"

#define NS_PER_MS UINT64_C(1000000)
#define NS_PER_S  UINT64_C(1000000000)
#define WORDS_MAX 8

#define HOST_NAME_BYTES_MAX 253 /* RFC 1035 */

/* A value to parse: the setting, its text, and the settings to write it to. */
struct value {
    const struct ration_setting *setting;
    const char *text;
    size_t size;
    struct ration_settings *settings;
    struct ration_error *error;
};

static void *member_of(const struct ration_setting *setting, const struct ration_settings *settings)
{
    return (char *)(uintptr_t)settings + setting->offset;
}

static size_t *count_of(const struct ration_setting *setting,
                        const struct ration_settings *settings)
{
    return (size_t *)((char *)(uintptr_t)settings + setting->count_offset);
}

static bool value_is(const struct value *value, const char *text)
{
    return value->size == strlen(text) && memcmp(value->text, text, value->size) == 0;
}

/* Numbers ------------------------------------------------------------------------------------- */

static void store_number(const struct value *value, uint64_t number)
{
    void *member = member_of(value->setting, value->settings);

    if (value->setting->size == sizeof(uint64_t))
        memcpy(member, &number, sizeof(number));
    else if (value->setting->size == sizeof(uint32_t))
        memcpy(member, &(uint32_t){(uint32_t)number}, sizeof(uint32_t));
    else
        *(bool *)member = number != 0;
}

static const char *or_none(const struct ration_setting *setting)
{
    return setting->may_be_none ? ", or none" : "";
}

static ration_status fail_number(const struct value *value)
{
    char quote[RATION_TEXT_QUOTE_SIZE];
    char min[RATION_UNITS_TEXT_SIZE], max[RATION_UNITS_TEXT_SIZE];
    const struct ration_setting *setting = value->setting;
    const char *what = "a number";

    snprintf(min, sizeof(min), setting->kind == RATION_SETTING_MODE ? "%" PRIo64 : "%" PRIu64,
             setting->min);
    snprintf(max, sizeof(max), setting->kind == RATION_SETTING_MODE ? "0%" PRIo64 : "%" PRIu64,
             setting->max);
    if (setting->kind == RATION_SETTING_MODE) {
        what = "octal digits";
    } else if (setting->kind == RATION_SETTING_MILLISECONDS) {
        what = "a time (1500ms or 1.5s)";
        ration_units_print_duration(setting->min * NS_PER_MS, min, sizeof(min));
        ration_units_print_duration(setting->max * NS_PER_MS, max, sizeof(max));
    } else if (setting->kind == RATION_SETTING_SECONDS) {
        what = "a time (90s or 2min)";
        ration_units_print_duration(setting->min * NS_PER_S, min, sizeof(min));
        ration_units_print_duration(setting->max * NS_PER_S, max, sizeof(max));
    }
    if (setting->kind == RATION_SETTING_BYTES) {
        what = "a size (65536, 64KB or 64KiB)";
        ration_units_print_bytes(setting->min, min, sizeof(min));
        ration_units_print_bytes(setting->max, max, sizeof(max));
    }
    return ration_error_set(
        value->error, RATION_EINVAL, "%s cannot be '%s'; write %s from %s to %s%s", setting->name,
        ration_text_quote(value->text, value->size, quote), what, min, max, or_none(setting));
}

static bool parse_octal(const struct value *value, uint64_t *out_number)
{
    uint64_t number = 0;

    if (value->size == 0 || value->size > 6)
        return false;
    for (size_t i = 0; i < value->size; i++) {
        if (value->text[i] < '0' || value->text[i] > '7')
            return false;
        number = number * 8 + (uint64_t)(value->text[i] - '0');
    }
    *out_number = number;
    return true;
}

ration_status ration_settings_value_read_time(const char *text, size_t size, uint64_t unit_ns,
                                              uint64_t *out_units, struct ration_error *error)
{
    uint64_t ns;
    size_t used;

    if (size == 1 && text[0] == '0') {
        *out_units = 0;
        return RATION_OK;
    }
    if (ration_units_parse_duration(text, size, &ns, &used, error) != RATION_OK)
        return RATION_EINVAL;
    if (used != size || ns % unit_ns != 0)
        return ration_error_set(error, RATION_EINVAL, "a time is a whole number of %s",
                                unit_ns == NS_PER_S ? "seconds" : "milliseconds");
    *out_units = ns / unit_ns;
    return RATION_OK;
}

static bool parse_number(const struct value *value, uint64_t *out_number)
{
    size_t used;

    switch (value->setting->kind) {
    case RATION_SETTING_MODE:
        return parse_octal(value, out_number);
    case RATION_SETTING_BYTES:
        return ration_units_parse_bytes(value->text, value->size, out_number);
    case RATION_SETTING_MILLISECONDS:
        return ration_settings_value_read_time(value->text, value->size, NS_PER_MS, out_number,
                                               NULL) == RATION_OK;
    case RATION_SETTING_SECONDS:
        return ration_settings_value_read_time(value->text, value->size, NS_PER_S, out_number,
                                               NULL) == RATION_OK;
    default:
        return ration_units_parse_count(value->text, value->size, out_number, &used, NULL) ==
                   RATION_OK &&
               used == value->size;
    }
}

static ration_status read_number(const struct value *value)
{
    uint64_t number = 0;

    if (value->setting->may_be_none && value_is(value, "none")) {
        store_number(value, RATION_LIMIT_NONE);
        return RATION_OK;
    }
    if (!parse_number(value, &number) || number < value->setting->min ||
        number > value->setting->max)
        return fail_number(value);
    store_number(value, number);
    return RATION_OK;
}

/* Words --------------------------------------------------------------------------------------- */

ration_status ration_settings_value_read_flag(const char *name, const char *text, size_t size,
                                              bool *out_flag, struct ration_error *error)
{
    char quote[RATION_TEXT_QUOTE_SIZE];
    bool is_true = ration_text_is_listed(text, size, "true yes on", true);

    if (!is_true && !ration_text_is_listed(text, size, "false no off", true))
        return ration_error_set(error, RATION_EINVAL, "%s cannot be '%s'; write true or false",
                                name, ration_text_quote(text, size, quote));
    *out_flag = is_true;
    return RATION_OK;
}

static ration_status read_flag(const struct value *value)
{
    bool flag;
    ration_status status = ration_settings_value_read_flag(value->setting->name, value->text,
                                                           value->size, &flag, value->error);

    if (status == RATION_OK)
        store_number(value, flag);
    return status;
}

/* "off, seconds or unix". */
static void join_words(const char *words, char *buffer, size_t buffer_size)
{
    size_t used = 0;

    for (const char *word = words; *word != '\0' && used < buffer_size;) {
        size_t size = strcspn(word, " ");
        const char *next = word + size + (word[size] == ' ');
        const char *between = word == words ? "" : *next == '\0' ? " or " : ", ";

        used +=
            (size_t)snprintf(buffer + used, buffer_size - used, "%s%.*s", between, (int)size, word);
        word = next;
    }
}

static ration_status read_choice(const struct value *value)
{
    char quote[RATION_TEXT_QUOTE_SIZE], words[128] = "";
    uint64_t index = 0;

    for (const char *word = value->setting->words; *word != '\0'; index++) {
        size_t size = strcspn(word, " ");

        if (size == value->size && memcmp(word, value->text, size) == 0) {
            store_number(value, index);
            return RATION_OK;
        }
        word += size + (word[size] == ' ');
    }
    join_words(value->setting->words, words, sizeof(words));
    return ration_error_set(value->error, RATION_EINVAL, "%s cannot be '%s'; write %s",
                            value->setting->name,
                            ration_text_quote(value->text, value->size, quote), words);
}

static ration_status check_path(const struct value *value)
{
    bool is_file = strcmp(value->setting->metavariable, "FILE") == 0;

    if (value->size > 0)
        return RATION_OK;
    return ration_error_set(value->error, RATION_EINVAL, "%s is empty; write %s",
                            value->setting->name,
                            is_file ? "the path of a file" : value->setting->metavariable);
}

static ration_status set_text(const struct value *value, const char *text)
{
    char **member = member_of(value->setting, value->settings);
    char *copy = strdup(text);

    if (copy == NULL)
        return ration_error_set(value->error, RATION_ENOMEM, "no memory for the settings");
    ration_secret_free_text(*member);
    *member = copy;
    return RATION_OK;
}

static ration_status read_path(const struct value *value)
{
    return check_path(value) == RATION_OK ? set_text(value, value->text) : RATION_EINVAL;
}

/* Lists --------------------------------------------------------------------------------------- */

static ration_status read_address(const struct value *value)
{
    char **member = member_of(value->setting, value->settings);
    size_t *count = count_of(value->setting, value->settings);
    struct ration_endpoint endpoint;
    struct ration_error reason;

    if (*count == RATION_SETTINGS_ADDRESSES_MAX)
        return ration_error_set(
            value->error, RATION_EINVAL, "%s has more than %d addresses; list at most %d",
            value->setting->name, RATION_SETTINGS_ADDRESSES_MAX, RATION_SETTINGS_ADDRESSES_MAX);
    if (ration_endpoint_parse(value->text, &endpoint, &reason) != RATION_OK)
        return ration_error_set(value->error, RATION_EINVAL, "%s: %.400s", value->setting->name,
                                reason.message);
    member[*count] = strdup(value->text);
    if (member[*count] == NULL)
        return ration_error_set(value->error, RATION_ENOMEM, "no memory for the settings");
    (*count)++;
    return RATION_OK;
}

static ration_status read_network(const struct value *value)
{
    struct ration_forwarded_trust *trust = &value->settings->trust;
    const char *reason;

    if (value_is(value, "unix")) {
        trust->trusts_unix = true;
        return RATION_OK;
    }
    if (trust->proxy_count == RATION_SETTINGS_PROXIES_MAX)
        return ration_error_set(value->error, RATION_EINVAL,
                                "%s has more than %d networks; join some", value->setting->name,
                                RATION_SETTINGS_PROXIES_MAX);
    if (!ration_address_network_parse(value->text, value->size,
                                      &value->settings->proxies[trust->proxy_count], &reason))
        return ration_error_set(value->error, RATION_EINVAL, "%s: %s", value->setting->name,
                                reason);
    trust->proxy_count++;
    return RATION_OK;
}

/* A host name as in the Host header: without a scheme, a port or a path. */
static ration_status read_host(const struct value *value)
{
    static const char allowed[] =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-._";
    char **member = member_of(value->setting, value->settings);
    size_t *count = count_of(value->setting, value->settings);
    char quote[RATION_TEXT_QUOTE_SIZE];

    if (*count == RATION_SETTINGS_HOSTS_MAX)
        return ration_error_set(value->error, RATION_EINVAL,
                                "%s has more than %d names; list at most %d", value->setting->name,
                                RATION_SETTINGS_HOSTS_MAX, RATION_SETTINGS_HOSTS_MAX);
    if (value->size == 0 || value->size > HOST_NAME_BYTES_MAX ||
        strspn(value->text, allowed) != value->size)
        return ration_error_set(
            value->error, RATION_EINVAL,
            "%s cannot be '%s'; write the name of a host without a port, such as "
            "ration.example.com",
            value->setting->name, ration_text_quote(value->text, value->size, quote));
    member[*count] = strdup(value->text);
    if (member[*count] == NULL)
        return ration_error_set(value->error, RATION_ENOMEM, "no memory for the settings");
    (*count)++;
    return RATION_OK;
}

/* Secrets ------------------------------------------------------------------------------------- */

/* The text is size bytes and a terminator. */
static ration_status set_secret(const struct value *value, const char *secret, size_t size)
{
    ration_status status = ration_secret_check(value->setting->name, secret, size,
                                               RATION_SECRET_BYTES_MAX, value->error);

    if (status != RATION_OK)
        return status;
    if (!ration_secret_set(member_of(value->setting, value->settings), secret, size))
        return ration_error_set(value->error, RATION_EINVAL, "%s: the system has no random bytes",
                                value->setting->name);
    return RATION_OK;
}

static ration_status read_secret_file(const struct value *value)
{
    bool is_url = value->setting->kind == RATION_SETTING_URL_FILE;
    char text[RATION_SETTINGS_URL_MAX + 1];
    ration_status status = check_path(value);
    size_t size;

    if (status == RATION_OK)
        status = ration_secret_read_file(value->setting->name, value->text, text,
                                         is_url ? sizeof(text) : RATION_SECRET_BYTES_MAX + 1, &size,
                                         value->error);
    if (status == RATION_OK)
        status = is_url ? set_text(value, text) : set_secret(value, text, size);
    explicit_bzero(text, sizeof(text));
    return status;
}

/* All kinds ----------------------------------------------------------------------------------- */

static ration_status check_bytes(const struct value *value)
{
    return strlen(value->text) == value->size
               ? RATION_OK
               : ration_error_set(value->error, RATION_EINVAL,
                                  "%s has a zero byte; write it without", value->setting->name);
}

ration_status ration_settings_value_set_default(const struct ration_setting *setting,
                                                const char *text, size_t size,
                                                struct ration_settings *settings,
                                                struct ration_error *error)
{
    struct value value = {setting, text, size, settings, error};

    if (setting->kind != RATION_SETTING_SECRET_FILE && setting->kind != RATION_SETTING_URL_FILE)
        return ration_settings_value_read(setting, text, size, settings, error);
    if (check_bytes(&value) != RATION_OK || check_path(&value) != RATION_OK)
        return RATION_EINVAL;
    return setting->kind == RATION_SETTING_URL_FILE
               ? set_text(&value, "?")
               : set_secret(&value, setting->name,
                            strlen(setting->name)); /* unique: equal secrets would be an error */
}

ration_status ration_settings_value_read(const struct ration_setting *setting, const char *text,
                                         size_t size, struct ration_settings *settings,
                                         struct ration_error *error)
{
    struct value value = {setting, text, size, settings, error};

    if (check_bytes(&value) != RATION_OK)
        return RATION_EINVAL;
    switch (setting->kind) {
    case RATION_SETTING_FLAG:
        return read_flag(&value);
    case RATION_SETTING_CHOICE:
        return read_choice(&value);
    case RATION_SETTING_PATH:
    case RATION_SETTING_URL:
        return read_path(&value);
    case RATION_SETTING_ADDRESSES:
        return read_address(&value);
    case RATION_SETTING_NETWORKS:
        return read_network(&value);
    case RATION_SETTING_HOSTS:
        return read_host(&value);
    case RATION_SETTING_SECRET:
        return set_secret(&value, text, size);
    case RATION_SETTING_SECRET_FILE:
    case RATION_SETTING_URL_FILE:
        return read_secret_file(&value);
    default:
        return read_number(&value);
    }
}

bool ration_settings_value_is_text(const struct ration_setting *setting)
{
    return setting->kind == RATION_SETTING_PATH || setting->kind == RATION_SETTING_URL ||
           setting->kind == RATION_SETTING_URL_FILE;
}

bool ration_settings_value_may_be_file(const struct ration_setting *setting)
{
    return setting->kind == RATION_SETTING_SECRET || setting->kind == RATION_SETTING_URL;
}

/* Only the URL's parser knows for certain whether it has credentials; a URL that may have some counts as secret. */
bool ration_settings_value_is_secret(const struct ration_setting *setting, const char *text)
{
    if (setting->kind == RATION_SETTING_URL)
        return text != NULL && (setting->is_always_secret || strchr(text, '@') != NULL ||
                                strstr(text, "?sentinel=") != NULL);
    return setting->kind == RATION_SETTING_SECRET;
}

static bool is_text_list(const struct ration_setting *setting)
{
    return setting->kind == RATION_SETTING_ADDRESSES || setting->kind == RATION_SETTING_HOSTS;
}

void ration_settings_value_clear(const struct ration_setting *setting,
                                 struct ration_settings *settings)
{
    char **texts = member_of(setting, settings);

    if (ration_settings_value_is_text(setting))
        ration_secret_free_text(texts[0]);
    if (is_text_list(setting)) {
        for (size_t i = 0; i < *count_of(setting, settings); i++)
            free(texts[i]);
    }
    if (setting->kind == RATION_SETTING_NETWORKS)
        settings->trust.trusts_unix = false;
    if (ration_settings_value_is_list(setting))
        *count_of(setting, settings) = 0;
    memset(member_of(setting, settings), 0, setting->size);
}

static bool texts_are_equal(const char *text, const char *other)
{
    return text == NULL || other == NULL ? text == other : strcmp(text, other) == 0;
}

bool ration_settings_value_is_same(const struct ration_setting *setting,
                                   const struct ration_settings *settings,
                                   const struct ration_settings *other)
{
    char **texts = member_of(setting, settings), **other_texts = member_of(setting, other);
    size_t count = 1;

    if (ration_settings_value_is_list(setting)) {
        count = *count_of(setting, settings);
        if (count != *count_of(setting, other))
            return false;
    }
    if (setting->kind == RATION_SETTING_NETWORKS &&
        settings->trust.trusts_unix != other->trust.trusts_unix)
        return false;
    if (!ration_settings_value_is_text(setting) && !is_text_list(setting))
        return memcmp(texts, other_texts, setting->size) == 0;
    for (size_t i = 0; i < count; i++) {
        if (!texts_are_equal(texts[i], other_texts[i]))
            return false;
    }
    return true;
}
