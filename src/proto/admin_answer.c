#include "proto/admin_answer.h"

#include <inttypes.h>
#include <stdio.h>

static void write_number(struct ration_json *json, const char *name, uint64_t number)
{
    ration_json_name(json, name);
    ration_json_u64(json, number);
}

static void write_text(struct ration_json *json, const char *name, const char *text)
{
    ration_json_name(json, name);
    ration_json_text(json, text);
}

static void write_limit(struct ration_json *json, const struct ration_policy_limit *limit)
{
    char text[RATION_LIMIT_TEXT_SIZE];
    ration_json_begin_object(json);
    write_text(json, "name", limit->limit.name);
    if (ration_limit_print(&limit->limit, text, sizeof(text)) == RATION_OK)
        write_text(json, "limit", text);
    write_number(json, "tokens", limit->limit.tokens);
    write_number(json, "period_ns", limit->limit.period_ns);
    write_number(json, "burst", limit->limit.burst);
    ration_json_name(json, "key");
    ration_json_begin_array(json);
    for (size_t i = 0; i < limit->key_count; i++)
        ration_json_text(json, limit->key_names[i]);
    ration_json_end(json);
    ration_json_name(json, "shadow");
    ration_json_bool(json, limit->is_shadow != 0);
    write_number(json, "keys_max", limit->keys_max);
    ration_json_end(json);
}

void ration_admin_write_limits(struct ration_json *json,
                               const struct ration_policy_limit *const *limits, size_t limit_count)
{
    ration_json_begin_object(json);
    ration_json_name(json, "limits");
    ration_json_begin_array(json);
    for (size_t i = 0; i < limit_count; i++)
        write_limit(json, limits[i]);
    ration_json_end(json);
    ration_json_end(json);
}

/* Keys whose names are cut share their first bytes with others: the hash tells them apart. */
void ration_admin_write_changed(struct ration_json *json, uint64_t limit_count)
{
    ration_json_begin_object(json);
    write_number(json, "changed", limit_count);
    ration_json_end(json);
}
