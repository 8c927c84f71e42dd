#include "codec/json/admin_answer.h"

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

void ration_admin_begin_limits(struct ration_json *json)
{
    ration_json_begin_object(json);
    ration_json_name(json, "limits");
    ration_json_begin_array(json);
}

void ration_admin_write_limit(struct ration_json *json, const struct ration_admin_limit *limit)
{
    const struct ration_policy_limit *of_policy = limit->limit;

    ration_json_begin_object(json);
    write_text(json, "name", of_policy->limit.name);
    write_text(json, "limit", limit->text);
    write_text(json, "match", limit->match);
    ration_json_name(json, "key");
    ration_json_begin_array(json);
    for (size_t i = 0; i < of_policy->key_count; i++)
        ration_json_text(json, of_policy->key_names[i]);
    ration_json_end(json);
    ration_json_name(json, "shadow");
    ration_json_bool(json, of_policy->is_shadow != 0);
#define WRITE_NUMBER(name) write_number(json, #name, limit->name);
    RATION_ADMIN_NUMBERS_MAP(WRITE_NUMBER)
#undef WRITE_NUMBER
    ration_json_end(json);
}

void ration_admin_end_limits(struct ration_json *json)
{
    ration_json_end(json);
    ration_json_end(json);
}

void ration_admin_write_changed(struct ration_json *json, uint64_t limit_count)
{
    ration_json_begin_object(json);
    write_number(json, "changed", limit_count);
    ration_json_end(json);
}
