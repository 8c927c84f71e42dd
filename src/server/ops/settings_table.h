/*
 * settings_table: every setting of a server, once.
 *
 * The command line, the environment, the server: section of a policy, --help, the manual, the documentation and the shell
 * completions are all generated from this table or compared with it.
 */
#ifndef RATION_SERVER_OPS_SETTINGS_TABLE_H
#define RATION_SERVER_OPS_SETTINGS_TABLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The type of a setting's value, and of the member of struct ration_settings that holds it. */
enum ration_setting_kind {
    RATION_SETTING_FLAG,         /* bool */
    RATION_SETTING_COUNT,        /* an unsigned integer of size bytes */
    RATION_SETTING_BYTES,        /* the same: 65536, 64KiB or 64KB */
    RATION_SETTING_MILLISECONDS, /* the same: 1500ms or 1.5s */
    RATION_SETTING_SECONDS,      /* the same: 90s or 1.5min */
    RATION_SETTING_MODE,         /* the same, in octal */
    RATION_SETTING_CHOICE,       /* the same: the index of a word in words */
    RATION_SETTING_PATH,         /* char *, owned */
    RATION_SETTING_ADDRESSES,    /* char *[RATION_SETTINGS_ADDRESSES_MAX], and a size_t */
    RATION_SETTING_NETWORKS,     /* struct ration_settings' proxies */
    RATION_SETTING_HOSTS,        /* char *[RATION_SETTINGS_HOSTS_MAX], and a size_t: host names */
    RATION_SETTING_SECRET,       /* struct ration_secret */
    RATION_SETTING_SECRET_FILE,  /* the same, from a file */
    RATION_SETTING_URL,          /* char *, owned; may contain a password, or be one */
    RATION_SETTING_URL_FILE      /* the same, from a file */
};

enum ration_setting_group {
    RATION_SETTINGS_LISTENING,
    RATION_SETTINGS_LIMITING,
    RATION_SETTINGS_ACCESS,
    RATION_SETTINGS_ANSWERS,
    RATION_SETTINGS_BOUNDS,
    RATION_SETTINGS_OTHER,
    RATION_SETTINGS_GROUPS
};

struct ration_setting {
    const char *name;         /* with dashes; the policy and the environment write _ for - */
    const char *metavariable; /* NULL: a flag */
    const char *help;         /* one line, without the default */
    enum ration_setting_kind kind;
    enum ration_setting_group group;
    size_t offset; /* of the member in struct ration_settings; NAME-file shares it with NAME */
    size_t size;   /* of the member */
    size_t count_offset; /* lists: offset of the count */
    uint64_t min;
    uint64_t max;
    uint64_t default_value; /* choices: the index of the word */
    const char
        *default_text;     /* the default of a setting that is not a number, or its description */
    const char *words;     /* choices: the words, separated by blanks */
    bool may_be_none;      /* the word none is accepted, as RATION_LIMIT_NONE */
    bool is_argument_only; /* not accepted in the policy */
    bool is_always_secret; /* a URL kind whose whole text is a secret */
};

extern const struct ration_setting ration_settings_table[];
extern const size_t ration_settings_table_count;

/* Fits any text of ration_settings_default_text(). */
#define RATION_SETTING_DEFAULT_SIZE 64

/* Writes the default as a person would write it; "" if there is none. Returns buffer. */
const char *ration_settings_default_text(const struct ration_setting *setting,
                                         char buffer[RATION_SETTING_DEFAULT_SIZE]);

#endif
