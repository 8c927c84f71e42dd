#include "codec/http/problem.h"

#include <inttypes.h>
#include <stdio.h>

#include "codec/http/fields.h"
#include "codec/http/http_answer.h"

#define TYPES "https://iana.org/assignments/http-problem-types#"

#define DETAIL_SIZE 256

static void begin_problem(struct ration_json *json, const char *type, const char *title,
                          unsigned status, const char *detail)
{
    ration_json_begin_object(json);
    ration_json_name(json, "type");
    ration_json_text(json, type);
    ration_json_name(json, "title");
    ration_json_text(json, title);
    ration_json_name(json, "status");
    ration_json_u64(json, status);
    if (detail) {
        ration_json_name(json, "detail");
        ration_json_text(json, detail);
    }
}

void ration_problem_write(struct ration_json *json, const struct ration_problem *problem)
{
    const char *title = ration_http_status_text(problem->status);
    begin_problem(json, "about:blank", title ? title : "Error", problem->status, problem->detail);
    if (problem->pointer) {
        ration_json_name(json, "pointer");
        ration_json_text(json, problem->pointer);
    }
    ration_json_end(json);
}

static void describe_quota(const struct ration_problem_quota *quota, char detail[DETAIL_SIZE])
{
    const char *name = quota->name && quota->name[0] ? quota->name : "The limit";
    int size = snprintf(detail, DETAIL_SIZE,
                        "%s allows %" PRIu64 " at once, and fills in %" PRIu64 " second%s; ", name,
                        quota->burst, quota->window_seconds, quota->window_seconds == 1 ? "" : "s");
    if (quota->retry_seconds == 0)
        snprintf(detail + size, DETAIL_SIZE - (size_t)size,
                 "this request costs more, and no wait helps.");
    else
        snprintf(detail + size, DETAIL_SIZE - (size_t)size, "retry in %" PRIu64 " second%s.",
                 quota->retry_seconds, quota->retry_seconds == 1 ? "" : "s");
}

void ration_problem_write_quota(struct ration_json *json, unsigned status, bool is_degraded,
                                const struct ration_problem_quota *quotas, size_t quota_count)
{
    char detail[DETAIL_SIZE];
    describe_quota(&quotas[0], detail);
    begin_problem(json, TYPES "quota-exceeded", "Quota Exceeded", status, detail);
    ration_json_name(json, "violated-policies");
    ration_json_begin_array(json);
    for (size_t i = 0; i < quota_count; i++)
        ration_json_text(json, quotas[i].name && quotas[i].name[0] ? quotas[i].name
                                                                   : RATION_FIELDS_NAME_DEFAULT);
    ration_json_end(json);
    if (is_degraded) {
        ration_json_name(json, "degraded");
        ration_json_bool(json, true);
    }
    ration_json_end(json);
}

void ration_problem_write_reduced(struct ration_json *json, const char *detail)
{
    begin_problem(json, TYPES "temporary-reduced-capacity", "Temporary Reduced Capacity", 503,
                  detail);
    ration_json_name(json, "violated-policies");
    ration_json_begin_array(json);
    ration_json_end(json);
    ration_json_end(json);
}
