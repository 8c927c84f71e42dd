/*
 * settings_value: one value of a setting, from text.
 */
#ifndef RATION_SERVER_SETTINGS_VALUE_H
#define RATION_SERVER_SETTINGS_VALUE_H

#include "server/settings.h"
#include "server/settings_table.h"

/*
 * Puts a value in its place in settings; one more value, if it is a list. The text is size bytes and a
 * terminator. Returns RATION_EINVAL with what is wrong and what would be right in error, RATION_ENOMEM.
 * A secret never stands in error.
 */
ration_status ration_setting_read(const struct ration_setting *setting, const char *text,
                                  size_t size, struct ration_settings *settings,
                                  struct ration_error *error);

/*
 * The same, but opens no file: one that would be read for a secret is taken to be there, and some secret
 * stands for what is in it.
 */
ration_status ration_setting_suppose(const struct ration_setting *setting, const char *text,
                                     size_t size, struct ration_settings *settings,
                                     struct ration_error *error);

/* Whether its place holds a text that it owns. */
bool ration_setting_is_text(const struct ration_setting *setting);

/* Whether another setting reads the same value from a file: NAME-file. */
bool ration_setting_may_be_file(const struct ration_setting *setting);

/* Whether text, as its value, is a secret or holds one. text may be NULL for none. */
bool ration_setting_is_secret(const struct ration_setting *setting, const char *text);

/* Releases what a setting's place holds, and makes it 0: a list empty, a path NULL. */
void ration_setting_clear(const struct ration_setting *setting, struct ration_settings *settings);

/* Whether both have the same value there. */
bool ration_setting_is_same(const struct ration_setting *setting,
                            const struct ration_settings *settings,
                            const struct ration_settings *other);

static inline bool ration_setting_is_list(const struct ration_setting *setting)
{
    return setting->kind == RATION_SETTING_ADDRESSES || setting->kind == RATION_SETTING_NETWORKS ||
           setting->kind == RATION_SETTING_HOSTS;
}

/* Reads 1500, 1500ms or 1.5s as milliseconds; digits alone are unit_ns each. Same returns. */
ration_status ration_setting_read_time(const char *text, size_t size, uint64_t unit_ns,
                                       uint64_t *out_units, struct ration_error *error);

#endif
