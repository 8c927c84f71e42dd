#include "command.h"

#include "load/escape.h"
#include "server/ops/settings.h"

#define SHOWN_SIZE 320

int ration_command_reject_word(const char *command, const char *what, const char *word,
                               const char *prefix, const char *const *names, size_t name_count)
{
    const char *nearest = ration_settings_nearest_word(word, names, name_count);
    char shown[SHOWN_SIZE];

    fprintf(stderr, "%s: unknown %s '%s'; ", command, what,
            load_escape(word, strlen(word), shown, sizeof(shown)));
    if (nearest != NULL)
        fprintf(stderr, "did you mean %s%s\n", prefix, nearest);
    else
        fprintf(stderr, "see %s --help\n", command);
    return EXIT_USAGE;
}
