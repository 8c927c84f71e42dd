/*
 * settings_value: parses, clears and compares the value of one setting.
 */
#ifndef RATION_SERVER_OPS_SETTINGS_VALUE_H
#define RATION_SERVER_OPS_SETTINGS_VALUE_H

#include "server/ops/settings.h"
#include "server/ops/settings_table.h"

/*
 * Parses a value into its member of settings; appends it, if the setting is a list. The text is size bytes and a
 * terminator. Returns RATION_EINVAL, with an error that says what is wrong and what is valid, or RATION_ENOMEM.
 * error never contains a secret.
 */
ration_status ration_settings_value_read(const struct ration_setting *setting, const char *text,
                                         size_t size, struct ration_settings *settings,
                                         struct ration_error *error);

/*
 * The same, but opens no file: assumes that a file with a secret exists, and sets a placeholder for the secret in
 * it.
 */
ration_status ration_settings_value_set_default(const struct ration_setting *setting,
                                                const char *text, size_t size,
                                                struct ration_settings *settings,
                                                struct ration_error *error);

/* Whether its member is one owned text (char *). */
bool ration_settings_value_is_text(const struct ration_setting *setting);

/* Whether another setting, NAME-file, reads the same value from a file. */
bool ration_settings_value_may_be_file(const struct ration_setting *setting);

/* Whether text, as the setting's value, is or contains a secret. text may be NULL: no value. */
bool ration_settings_value_is_secret(const struct ration_setting *setting, const char *text);

/* Releases the setting's value, and sets its member to 0: a list is empty, a path is NULL. */
void ration_settings_value_clear(const struct ration_setting *setting,
                                 struct ration_settings *settings);

/* Whether the setting has the same value in both. */
bool ration_settings_value_is_same(const struct ration_setting *setting,
                                   const struct ration_settings *settings,
                                   const struct ration_settings *other);

static inline bool ration_settings_value_is_list(const struct ration_setting *setting)
{
    return setting->kind == RATION_SETTING_ADDRESSES || setting->kind == RATION_SETTING_NETWORKS ||
           setting->kind == RATION_SETTING_HOSTS;
}

/* Parses 1500, 1500ms or 1.5s in units of unit_ns; digits alone are units. Returns RATION_EINVAL with error. */
ration_status ration_settings_value_read_time(const char *text, size_t size, uint64_t unit_ns,
                                              uint64_t *out_units, struct ration_error *error);

/*
 * Parses a flag: true, yes or on; false, no or off; in any case. Returns RATION_EINVAL with error, which begins with
 * name.
 */
ration_status ration_settings_value_read_flag(const char *name, const char *text, size_t size,
                                              bool *out_flag, struct ration_error *error);

#endif
