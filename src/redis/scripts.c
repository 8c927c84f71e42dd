#include "redis/scripts.h"

extern const unsigned char ration_redis_take_lua[], ration_redis_take_lua_end[];
extern const unsigned char ration_redis_lease_lua[], ration_redis_lease_lua_end[];
extern const unsigned char ration_redis_edit_lua[], ration_redis_edit_lua_end[];
extern const unsigned char ration_redis_swap_lua[], ration_redis_swap_lua_end[];

/* By its SHA-1, which the build computes, a script is called. */
static const struct {
    const unsigned char *begin;
    const unsigned char *end;
    const char *name;
} scripts[RATION_REDIS_SCRIPT_COUNT] = {
    [RATION_REDIS_TAKE] = {ration_redis_take_lua, ration_redis_take_lua_end, RATION_SHA1_TAKE},
    [RATION_REDIS_LEASE] = {ration_redis_lease_lua, ration_redis_lease_lua_end, RATION_SHA1_LEASE},
    [RATION_REDIS_EDIT] = {ration_redis_edit_lua, ration_redis_edit_lua_end, RATION_SHA1_EDIT},
    [RATION_REDIS_SWAP] = {ration_redis_swap_lua, ration_redis_swap_lua_end, RATION_SHA1_SWAP},
};

struct ration_redis_script_text ration_redis_script_text(enum ration_redis_script script)
{
    return (struct ration_redis_script_text){scripts[script].begin,
                                             (size_t)(scripts[script].end - scripts[script].begin)};
}

void ration_redis_word_script(struct ration_redis_words *words, enum ration_redis_script script)
{
    ration_redis_word_text(words, "EVALSHA");
    ration_redis_word_text(words, scripts[script].name);
}

void ration_redis_words_repeat(struct ration_redis_words *words, enum ration_redis_script script)
{
    struct ration_redis_script_text text = ration_redis_script_text(script);
    struct ration_redis_words again;

    ration_redis_words_init(&again);
    ration_redis_word_text(&again, "EVAL");
    ration_redis_word(&again, text.bytes, text.size);
    for (size_t i = 2; i < words->count; i++)
        ration_redis_word(&again, ration_redis_word_at(words, i), ration_redis_word_size(words, i));
    again.text.is_failed |= words->text.is_failed;
    ration_redis_words_done(words);
    *words = again;
}
