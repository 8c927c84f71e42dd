#include <string.h>

#include "server/ops/settings.h"
#include "server/ops/settings_table.h"

#define LINE_WIDTH 80
#define NAME_WIDTH 29 /* of the longest option with its metavariable */

static void print_setting(FILE *stream, const struct ration_setting *setting)
{
    char default_value[RATION_SETTING_DEFAULT_SIZE], name[NAME_WIDTH + 32];

    snprintf(name, sizeof(name), "--%s%s%s", setting->name,
             setting->metavariable != NULL ? " " : "",
             setting->metavariable != NULL ? setting->metavariable : "");
    ration_settings_default_text(setting, default_value);
    fprintf(stream, "  %-*s %s", NAME_WIDTH, name, setting->help);
    if (default_value[0] != '\0') {
        size_t width = NAME_WIDTH + strlen("  ") + strlen(" ") + strlen(setting->help) +
                       strlen(" []") + strlen(default_value);

        if (width > LINE_WIDTH)
            fprintf(stream, "\n  %-*s", NAME_WIDTH, "");
        fprintf(stream, " [%s]", default_value);
    }
    fputc('\n', stream);
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
        char default_value[RATION_SETTING_DEFAULT_SIZE], range[RATION_SETTING_RANGE_SIZE];

        fprintf(stream, "%s\t%s\t%s\t%s\t%s\t%s\t%s\n", setting->name,
                setting->metavariable != NULL ? setting->metavariable : "",
                ration_settings_default_text(setting, default_value),
                setting->words != NULL ? setting->words : "", setting->help,
                ration_settings_group_text(setting->group),
                ration_settings_range_text(setting, range));
    }
}
