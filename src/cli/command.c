#include "command.h"

#include "load/escape.h"
#include "server/ops/settings.h"
#include "server/ops/settings_table.h"

#define SHOWN_SIZE      320
#define VARIABLE_PREFIX "RATION_"
#define VARIABLE_SIZE   64
#define VARIABLES_MAX   (RATION_SETTINGS_COUNT_MAX + 64)

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

/* The names of variables, without RATION_: it is in all, so it says nothing about how similar two are. */
struct variables {
    char texts[VARIABLES_MAX][VARIABLE_SIZE];
    const char *names[VARIABLES_MAX];
    size_t count;
};

static void add_variable(struct variables *variables, const char *prefix, const char *option)
{
    char *text = variables->texts[variables->count];

    if (variables->count < VARIABLES_MAX)
        variables->names[variables->count++] = ration_command_variable(prefix, option, text);
}

static void warn_of_variable(const char *command, const char *name, const struct variables *known)
{
    const char *nearest = ration_settings_nearest_word(name, known->names, known->count);
    char shown[SHOWN_SIZE];

    if (nearest != NULL && strcmp(nearest, name) != 0)
        fprintf(stderr,
                "%s: warning: the variable " VARIABLE_PREFIX
                "%s is ignored; did you mean " VARIABLE_PREFIX "%s\n",
                command, load_escape(name, strlen(name), shown, sizeof(shown)), nearest);
}

void ration_command_warn_of_variables(const char *command, char *const *environment)
{
    const size_t prefix_size = strlen(VARIABLE_PREFIX);
    struct variables known = {.count = 0};
    const char *option;

    for (size_t i = 0; i < ration_settings_table_count; i++)
        add_variable(&known, "", ration_settings_table[i].name);
    for (size_t i = 0; (option = ration_command_check_option(i)) != NULL; i++)
        add_variable(&known, "", option);
    for (size_t i = 0; (option = ration_command_bench_option(i)) != NULL; i++)
        add_variable(&known, "BENCH_", option);
    for (; *environment != NULL; environment++) {
        const char *name = *environment + prefix_size;
        char word[VARIABLE_SIZE];

        if (strncmp(*environment, VARIABLE_PREFIX, prefix_size) != 0 || strchr(name, '=') == NULL)
            continue;
        snprintf(word, sizeof(word), "%.*s", (int)strcspn(name, "="), name);
        warn_of_variable(command, word, &known);
    }
}
