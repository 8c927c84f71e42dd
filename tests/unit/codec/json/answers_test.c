/*
 * The JSON of answers, byte for byte: decisions, problems, lists.
 */
#include <string.h>

#include "codec/http/problem.h"
#include "codec/json/admin_answer.h"
#include "codec/json/check_answer.h"
#include "support/unit.h"
#include "support/written.h"

static const struct ration_decision denied = {
    .verdict = RATION_DENY, .limit = 5, .retry_after_ns = 12, .reset_after_ns = 60};
static const struct ration_decision allowed = {
    .verdict = RATION_ALLOW, .limit = 9, .remaining = 8, .reset_after_ns = 7, .delay_ns = 6};
static const struct ration_decision never = {
    .verdict = RATION_NEVER, .limit = 9, .remaining = 9, .retry_after_ns = RATION_FOREVER};

static void decisions(void **state)
{
    (void)state;
    const struct ration_check_limit limits[] = {{"login", denied, false}, {"all", allowed, true}};
    ration_check_answer_write(
        &written_json, &(struct ration_check_answer){denied, "login", false, false, limits, 2});
    assert_written(
        "{\"allowed\":false,\"verdict\":\"deny\",\"limit\":\"login\",\"burst\":5,\"remaining\":0,"
        "\"retry_after_ns\":12,\"reset_after_ns\":60,\"delay_ns\":0,\"limits\":["
        "{\"limit\":\"login\",\"verdict\":\"deny\",\"burst\":5,\"remaining\":0,"
        "\"retry_after_ns\":12,\"reset_after_ns\":60,\"delay_ns\":0},"
        "{\"limit\":\"all\",\"verdict\":\"allow\",\"burst\":9,\"remaining\":8,"
        "\"retry_after_ns\":0,\"reset_after_ns\":7,\"delay_ns\":6,\"shadow\":true}]}");

    ration_check_answer_write(&written_json,
                              &(struct ration_check_answer){never, "x", .limits = NULL});
    assert_written("{\"allowed\":false,\"verdict\":\"never\",\"limit\":\"x\",\"burst\":9,"
                   "\"remaining\":9,\"retry_after_ns\":null,\"reset_after_ns\":0,\"delay_ns\":0}");
}

/* The shorter way writes the same. */
static void decisions_alone(void **state)
{
    const struct ration_check_answer answers[] = {
        {allowed, "login", .limits = NULL},
        {denied, "login", .limits = NULL},
        {allowed, NULL, .limits = NULL},
        {allowed, "a:b/c", .is_degraded = true},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(answers) / sizeof(answers[0]); i++) {
        struct ration_output alone;

        ration_output_init(&alone, 4096);
        ration_check_answer_write_alone(&alone, &answers[i]);
        ration_output_append_byte(&alone, '\0');
        ration_check_answer_write(&written_json, &answers[i]);
        assert_written(alone.bytes);
        ration_output_done(&alone);
    }
}

static void decisions_without_a_limit(void **state)
{
    (void)state;
    struct ration_check_answer exempt = {.decision = {.verdict = RATION_ALLOW}};
    struct ration_check_answer banned = {.decision = {.verdict = RATION_DENY}, .is_banned = true};
    ration_check_answer_begin_batch(&written_json);
    ration_check_answer_write(&written_json, &exempt);
    ration_check_answer_write(&written_json, &banned);
    ration_check_answer_end_batch(&written_json);
    assert_written("{\"results\":[{\"allowed\":true,\"verdict\":\"allow\",\"limit\":null,"
                   "\"burst\":null,\"remaining\":null,\"retry_after_ns\":0,\"reset_after_ns\":null,"
                   "\"delay_ns\":0},"
                   "{\"allowed\":false,\"verdict\":\"deny\",\"limit\":null,\"burst\":null,"
                   "\"remaining\":null,\"retry_after_ns\":null,\"reset_after_ns\":null,"
                   "\"delay_ns\":0,\"banned\":true}]}");
}

static void problems(void **state)
{
    (void)state;
    ration_problem_write(&written_json, &(struct ration_problem){404, "no such page", NULL});
    assert_written("{\"type\":\"about:blank\",\"title\":\"Not Found\",\"status\":404,"
                   "\"detail\":\"no such page\"}");
    ration_problem_write(&written_json,
                         &(struct ration_problem){400, "cost \"x\"", "/checks/3/cost"});
    assert_written("{\"type\":\"about:blank\",\"title\":\"Bad Request\",\"status\":400,"
                   "\"detail\":\"cost \\\"x\\\"\",\"pointer\":\"/checks/3/cost\"}");
    ration_problem_write_reduced(&written_json, NULL);
    assert_written("{\"type\":\"https://iana.org/assignments/"
                   "http-problem-types#temporary-reduced-capacity\","
                   "\"title\":\"Temporary Reduced Capacity\",\"status\":503,"
                   "\"violated-policies\":[]}");
}

#define QUOTA                                                                       \
    "{\"type\":\"https://iana.org/assignments/http-problem-types#quota-exceeded\"," \
    "\"title\":\"Quota Exceeded\",\"status\":429,\"detail\":"

static void quotas(void **state)
{
    (void)state;
    const struct ration_problem_quota two[] = {{"burst", 16, 32, 2}, {"day", 5000, 86400, 1}};
    ration_problem_write_quota(&written_json, 429, false, two, 2);
    assert_written(QUOTA
                   "\"burst allows 16 at once, and fills in 32 seconds; retry in 2 seconds.\","
                   "\"violated-policies\":[\"burst\",\"day\"]}");
    ration_problem_write_quota(&written_json, 429, false,
                               &(struct ration_problem_quota){"", 9, 1, 0}, 1);
    assert_written(QUOTA "\"The limit allows 9 at once, and fills in 1 second; this request costs "
                         "more, and no wait helps.\",\"violated-policies\":[\"default\"]}");
}

static void lists(void **state)
{
    (void)state;
    static const char *const names[] = {"user", "ip"};
    struct ration_policy_limit limit = {.key_names = names, .key_count = 2, .is_shadow = 1};
    struct ration_admin_limit listed = {
        .limit = &limit,
        .text = "5/s burst 10",
        .match = "path is \"\"",
        .tokens = 5,
        .period_ns = 1000000000,
        .burst = 10,
        .keys_max = 1000,
        .keys = 7,
        .allowed = 6,
        .denied = 5,
        .never = 4,
        .near_limit = 3,
        .shadow_denied = 2,
        .overflow = 1,
    };
    assert_int_equal(ration_limit_parse("5/s burst 10 name api", &limit.limit, NULL), RATION_OK);
    ration_admin_begin_limits(&written_json);
    ration_admin_write_limit(&written_json, &listed);
    ration_admin_end_limits(&written_json);
    assert_written(
        "{\"limits\":[{\"name\":\"api\",\"limit\":\"5/s burst 10\",\"match\":\"path is \\\"\\\"\","
        "\"key\":[\"user\",\"ip\"],\"shadow\":true,\"tokens\":5,\"period_ns\":1000000000,"
        "\"burst\":10,\"keys_max\":1000,\"keys\":7,\"allowed\":6,\"denied\":5,\"never\":4,"
        "\"near_limit\":3,\"shadow_denied\":2,\"overflow\":1}]}");

    ration_admin_write_changed(&written_json, 2);
    assert_written("{\"changed\":2}");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(decisions_alone),
        cmocka_unit_test(decisions),
        cmocka_unit_test(decisions_without_a_limit),
        cmocka_unit_test(problems),
        cmocka_unit_test(quotas),
        cmocka_unit_test(lists),
    };
    return cmocka_run_group_tests_name("answers", tests, written_init, written_done);
}
