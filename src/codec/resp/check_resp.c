#include "codec/resp/check_resp.h"

#define FIELD_COUNT 9

static void write_count(struct ration_output *output, const char *name, uint64_t count)
{
    ration_resp_write_bulk_text(output, name);
    ration_resp_write_count(output, count);
}

static void write_wait(struct ration_output *output, const char *name, uint64_t wait_ns)
{
    ration_resp_write_bulk_text(output, name);
    if (wait_ns == RATION_FOREVER)
        ration_resp_write_integer(output, -1);
    else
        ration_resp_write_count(output, wait_ns);
}

static void write_null(struct ration_output *output, enum ration_resp_version version,
                       const char *name)
{
    ration_resp_write_bulk_text(output, name);
    ration_resp_write_null(output, version);
}

void ration_check_resp_write(struct ration_output *output, enum ration_resp_version version,
                             const struct ration_check_answer *answer)
{
    const struct ration_decision *decision = &answer->decision;
    bool is_allowed = decision->verdict == RATION_ALLOW;

    ration_resp_write_map(output, version, FIELD_COUNT);
    ration_resp_write_bulk_text(output, "verdict");
    ration_resp_write_bulk_text(output, ration_decision_verdict_name(decision->verdict));
    if (answer->limit_name != NULL) {
        ration_resp_write_bulk_text(output, "limit");
        ration_resp_write_bulk_text(output, answer->limit_name);
        write_count(output, "burst", decision->limit);
        write_count(output, "remaining", decision->remaining);
        write_wait(output, "retry_after_ns", decision->retry_after_ns);
        write_wait(output, "reset_after_ns", decision->reset_after_ns);
        write_wait(output, "delay_ns", decision->delay_ns);
    } else {
        write_null(output, version, "limit");
        write_null(output, version, "burst");
        write_null(output, version, "remaining");
        write_wait(output, "retry_after_ns", is_allowed ? 0 : RATION_FOREVER);
        write_null(output, version, "reset_after_ns");
        write_wait(output, "delay_ns", 0);
    }
    write_count(output, "banned", answer->is_banned);
    write_count(output, "degraded", answer->is_degraded);
}
