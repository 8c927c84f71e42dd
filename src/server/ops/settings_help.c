#include <string.h>

#include "server/ops/settings.h"
#include "server/ops/settings_table.h"

#define NAME_WIDTH 29 /* of the longest option with its metavariable */

static void print_setting(FILE *stream, const struct ration_setting *setting)
{
    char default_value[RATION_SETTING_DEFAULT_SIZE], name[NAME_WIDTH + 32];

    snprintf(name, sizeof(name), "--%s%s%s", setting->name,
             setting->metavariable != NULL ? " " : "",
             setting->metavariable != NULL ? setting->metavariable : "");
    ration_settings_default_text(setting, default_value);
    fprintf(stream, "  %-*s %s%s%s%s\n", NAME_WIDTH, name, setting->help,
            default_value[0] != '\0' ? " [" : "", default_value,
            default_value[0] != '\0' ? "]" : "");
    if (setting->words != NULL)
        fprintf(stream, "  %-*s one of: %s\n", NAME_WIDTH, "", setting->words);
}

void ration_settings_print_help(FILE *stream)
{
    for (int group = 0; group < RATION_SETTINGS_GROUPS; group++) {
        fprintf(stream, "\n%s:\n", ration_settings_group_text((enum ration_setting_group)group));
        for (size_t i = 0; i < ration_settings_table_count; i++) {
            if ((int)ration_settings_table[i].group == group)
                print_setting(stream, &ration_settings_table[i]);
        }
    }
}

void ration_settings_print_list(FILE *stream)
{
    for (size_t i = 0; i < ration_settings_table_count; i++) {
        const struct ration_setting *setting = &ration_settings_table[i];
        char default_value[RATION_SETTING_DEFAULT_SIZE];

        fprintf(stream, "%s\t%s\t%s\t%s\t%s\n", setting->name,
                setting->metavariable != NULL ? setting->metavariable : "",
                ration_settings_default_text(setting, default_value),
                setting->words != NULL ? setting->words : "", setting->help);
    }
}
