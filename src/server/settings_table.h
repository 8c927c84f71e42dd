/*
 * settings_table: every setting of a server, once.
 *
 * The command line, the section server: of a policy, --help, the manual, the documentation and the shells'
 * completions all come from this table or are compared with it.
 */
#ifndef RATION_SERVER_SETTINGS_TABLE_H
#define RATION_SERVER_SETTINGS_TABLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* What a setting's value is, and so what it is written to. */
enum ration_setting_kind {
    RATION_SETTING_FLAG,         /* bool */
    RATION_SETTING_COUNT,        /* a number of size bytes */
    RATION_SETTING_MILLISECONDS, /* the same: 1500, 1500ms or 1.5s */
    RATION_SETTING_SECONDS,      /* the same: 90, 90s or 1.5min */
    RATION_SETTING_MODE,         /* the same, in octal */
    RATION_SETTING_CHOICE,       /* the same: which of its words */
    RATION_SETTING_PATH,         /* char *, owned */
    RATION_SETTING_ADDRESSES,    /* char *[RATION_SETTINGS_ADDRESSES_MAX], and a size_t */
    RATION_SETTING_NETWORKS,     /* struct ration_settings' proxies */
    RATION_SETTING_HOSTS,  /* char *[RATION_SETTINGS_HOSTS_MAX], and a size_t: names of hosts */
    RATION_SETTING_SECRET, /* struct ration_secret */
    RATION_SETTING_SECRET_FILE, /* the same, from a file */
    RATION_SETTING_URL,         /* char *, owned; may hold a password, or is one */
    RATION_SETTING_URL_FILE     /* the same, from a file */
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
    const char *name;         /* with dashes */
    const char *metavariable; /* NULL: a flag */
    const char *help;         /* one line, without the default */
    enum ration_setting_kind kind;
    enum ration_setting_group group;
    size_t offset;       /* in struct ration_settings. Two settings of one offset are one */
    size_t size;         /* of what is there */
    size_t count_offset; /* of a list: where its count is */
    uint64_t least;
    uint64_t most;
    uint64_t preset;         /* the default; of a choice: its index */
    const char *preset_text; /* the default of what is no number, or how it is told */
    const char *words;       /* of a choice, apart by blanks */
    bool may_be_none;        /* the word none is RATION_LIMIT_NONE */
    bool is_argument_only;   /* not for the policy */
    bool is_always_secret;   /* a text that is kept until the server has read it */
};

extern const struct ration_setting ration_settings_table[];
extern const size_t ration_settings_table_count;

/* The heading of a group. */
const char *ration_settings_group_text(enum ration_setting_group group);

/* Room for any default, as it is told. */
#define RATION_SETTING_PRESET_SIZE 64

/* The default as a person would write it; "" if there is none. Returns buffer. */
const char *ration_setting_preset_text(const struct ration_setting *setting,
                                       char buffer[RATION_SETTING_PRESET_SIZE]);

#endif
