#include "redis/scripts.h"

extern const unsigned char ration_redis_take_lua[], ration_redis_take_lua_end[];
extern const unsigned char ration_redis_lease_lua[], ration_redis_lease_lua_end[];
extern const unsigned char ration_redis_admin_lua[], ration_redis_admin_lua_end[];
extern const unsigned char ration_redis_swap_lua[], ration_redis_swap_lua_end[];

/* A script is called by its SHA-1, which the build computes. */
static const struct {
    const unsigned char *begin;
    const unsigned char *end;
    const char *sha1;
} scripts[RATION_REDIS_SCRIPT_COUNT] = {
    [RATION_REDIS_TAKE] = {ration_redis_take_lua, ration_redis_take_lua_end, RATION_SHA1_TAKE},
    [RATION_REDIS_LEASE] = {ration_redis_lease_lua, ration_redis_lease_lua_end, RATION_SHA1_LEASE},
    [RATION_REDIS_ADMIN] = {ration_redis_admin_lua, ration_redis_admin_lua_end, RATION_SHA1_ADMIN},
    [RATION_REDIS_SWAP] = {ration_redis_swap_lua, ration_redis_swap_lua_end, RATION_SHA1_SWAP},
};

struct ration_redis_script_text ration_redis_script_text(enum ration_redis_script script)
{
    return (struct ration_redis_script_text){scripts[script].begin,
                                             (size_t)(scripts[script].end - scripts[script].begin)};
}

void ration_redis_argv_add_script(struct ration_redis_argv *argv, enum ration_redis_script script)
{
    ration_redis_argv_add_text(argv, "EVALSHA");
    ration_redis_argv_add_text(argv, scripts[script].sha1);
}

void ration_redis_argv_repeat(struct ration_redis_argv *argv, enum ration_redis_script script)
{
    struct ration_redis_script_text text = ration_redis_script_text(script);
    struct ration_redis_argv eval;

    ration_redis_argv_init(&eval);
    ration_redis_argv_add_text(&eval, "EVAL");
    ration_redis_argv_add(&eval, text.bytes, text.size);
    for (size_t i = 2; i < argv->count; i++)
        ration_redis_argv_add(&eval, ration_redis_argv_at(argv, i),
                              ration_redis_argv_size(argv, i));
    eval.text.is_failed |= argv->text.is_failed;
    ration_redis_argv_done(argv);
    *argv = eval;
}
