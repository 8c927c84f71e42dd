/*
 * An engine with Redis against one in memory (R9): both decide and report the same requests at the same times alike,
 * one by one and in batches, and so do admin operations; also when a reload changes limits or replaces them by limits
 * of another kind. Then Redis stops, and the fallback of the policy decides.
 *
 *     redis_engine_test SOCKET SERVER_PID
 */
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>

#include "chance.h"
#include "ration/ration.h"

#define ROUNDS       5
#define STEP_COUNT   1000
#define RELOAD_STEPS 800
#define RELOADS_MAX  10
#define BATCH_MAX    40
#define EPOCH_NS     (UINT64_C(1790000000) * RATION_NS_PER_SECOND)

#define TEXT_COUNT 3

static const char *const policy_texts[TEXT_COUNT] = {
    "limits:\n"
    "  - {name: login, match: {path: /login}, key: ip, rate: 3/s, burst: 5}\n"
    "  - {name: window, match: {path: /window}, key: user, rate: 7/10s sliding_window}\n"
    "  - {name: hour, match: {path: /window}, key: [user, ip], rate: 100/h fixed_window}\n"
    "  - {name: cost, match: {path: /cost}, key: user, rate: 100/s, burst: 1000, cost: tokens}\n"
    "  - {name: quiet, match: {path: /login}, key: user, rate: 1/s, burst: 2, shadow: true}\n"
    "  - {name: slow, match: {path: /slow}, key: user, rate: 1/min, burst: 4, start: empty}\n"
    "  - {name: spare, match: {path: /spare}, key: ip, rate: 10/s, burst: 3, reserve: 1/s burst "
    "9}\n"
    "  - {name: lots, match: {path: /lots}, key: ip, rate: 5/10s, refill: interval, burst: 12}\n"
    "  - {name: strict, match: {path: /strict}, key: user, rate: 1/s, on_redis_error: deny}\n"
    "  - {name: open, match: {path: /open}, key: user, rate: 1/s, on_redis_error: allow}\n"
    "  - {name: log, match: {path: /log}, key: user, rate: 6/5s sliding_log, max_keys: 1000}\n"
    "  - {name: all, match: {path: {prefix: /}}, rate: 50/s, burst: 60}\n"
    "exempt: [{user: root}]\n"
    "banned: [{user: mallory}]\n",

    /* other rates and bursts */
    "limits:\n"
    "  - {name: login, match: {path: /login}, key: ip, rate: 1/s, burst: 9}\n"
    "  - {name: window, match: {path: /window}, key: user, rate: 20/10s sliding_window}\n"
    "  - {name: hour, match: {path: /window}, key: [user, ip], rate: 30/h fixed_window}\n"
    "  - {name: cost, match: {path: /cost}, key: user, rate: 10/s, burst: 400, cost: tokens}\n"
    "  - {name: quiet, match: {path: /login}, key: user, rate: 2/s, burst: 3, shadow: true}\n"
    "  - {name: slow, match: {path: /slow}, key: user, rate: 10/min, burst: 10, start: empty}\n"
    "  - {name: spare, match: {path: /spare}, key: ip, rate: 5/s, burst: 6, reserve: 2/s burst 4}\n"
    "  - {name: lots, match: {path: /lots}, key: ip, rate: 3/7s, refill: interval, burst: 5}\n"
    "  - {name: strict, match: {path: /strict}, key: user, rate: 3/s, on_redis_error: deny}\n"
    "  - {name: open, match: {path: /open}, key: user, rate: 1/min, on_redis_error: allow}\n"
    "  - {name: log, match: {path: /log}, key: user, rate: 6/5s sliding_log, max_keys: 1000}\n"
    "  - {name: all, match: {path: {prefix: /}}, rate: 40/s, burst: 40}\n"
    "exempt: [{user: root}]\n"
    "banned: [{user: mallory}]\n",

    /* other algorithms, except changes at which memory begins with new buckets */
    "limits:\n"
    "  - {name: login, match: {path: /login}, key: ip, rate: 3/s fixed_window}\n"
    "  - {name: window, match: {path: /window}, key: user, rate: 9/7s sliding_window}\n"
    "  - {name: hour, match: {path: /window}, key: [user, ip], rate: 10/h refill interval}\n"
    "  - {name: cost, match: {path: /cost}, key: user, rate: 500/min fixed_window, cost: tokens}\n"
    "  - {name: quiet, match: {path: /login}, key: user, rate: 1/s fixed_window, shadow: true}\n"
    "  - {name: slow, match: {path: /slow}, key: user, rate: 2/min, burst: 4, start: empty}\n"
    "  - {name: spare, match: {path: /spare}, key: ip, rate: 9/s, burst: 4, reserve: 1/s burst "
    "9}\n"
    "  - {name: lots, match: {path: /lots}, key: ip, rate: 5/10s, burst: 3}\n"
    "  - {name: strict, match: {path: /strict}, key: user, rate: 1/s, on_redis_error: deny}\n"
    "  - {name: open, match: {path: /open}, key: user, rate: 1/s, on_redis_error: allow}\n"
    "  - {name: log, match: {path: /log}, key: user, rate: 6/5s sliding_log, max_keys: 1000}\n"
    "  - {name: all, match: {path: {prefix: /}}, rate: 50/s, burst: 60}\n"
    "exempt: [{user: root}]\n"
    "banned: [{user: mallory}]\n",
};

static void fail(const char *what)
{
    fprintf(stderr, "%s\n", what);
    exit(1);
}

static void report_error(void *unused, const struct ration_policy_error *error)
{
    (void)unused;
    fprintf(stderr, "policy:%" PRIu32 ":%" PRIu32 ": %s\n", error->line, error->column,
            error->message);
}

static ration_policy *read_policy(size_t index)
{
    ration_policy *policy;

    if (ration_policy_parse(policy_texts[index], strlen(policy_texts[index]), report_error, NULL,
                            &policy) != RATION_OK)
        fail("the policy is wrong");
    return policy;
}

static ration_engine *make_engine(const struct ration_redis *redis,
                                  const struct ration_clock *clock)
{
    struct ration_engine_options options = {.struct_size = sizeof(options),
                                            .clock = clock,
                                            .redis = redis,
                                            .sends_time = 1,
                                            .inline_keys_max = 1000};
    struct ration_error error;
    ration_engine *engine;

    if (ration_engine_create(&options, read_policy(0), &engine, &error) != RATION_OK)
        fail(error.message);
    return engine;
}

/* A random request. */
struct request {
    struct ration_attribute attributes[4];
    size_t count;
};

static struct ration_key text_key(const char *text)
{
    return (struct ration_key){text, strlen(text)};
}

#define PATH_COUNT 10
#define USER_COUNT 4 /* users that are neither exempt nor banned */
#define IP_COUNT   3 /* values that are addresses */

static const char *const paths[PATH_COUNT] = {"/login", "/window", "/cost", "/slow",  "/spare",
                                              "/lots",  "/strict", "/open", "/other", "/log"};
static const char *const users[USER_COUNT + 2] = {"alice", "bob", "{x}", "", "root", "mallory"};
static const char *const ips[IP_COUNT + 1] = {"192.0.2.1", "2001:db8::1", "192.0.2.2", "nobody"};

static void set_request(struct request *request, const char *path, const char *user, const char *ip,
                        const char *tokens)
{
    request->attributes[0] = (struct ration_attribute){text_key("path"), text_key(path)};
    request->attributes[1] = (struct ration_attribute){text_key("user"), text_key(user)};
    request->attributes[2] = (struct ration_attribute){text_key("ip"), text_key(ip)};
    request->attributes[3] = (struct ration_attribute){text_key("tokens"), text_key(tokens)};
    request->count = 4;
}

static void random_request(struct request *request)
{
    static const char *const costs[] = {"1", "0", "30", "2000", "400", "x"};
    uint64_t user = random_below(30), ip = random_below(40), path = random_below(PATH_COUNT);

    set_request(request, paths[path], users[user < 2 ? USER_COUNT + user : user % USER_COUNT],
                ips[ip == 0 ? IP_COUNT : ip % IP_COUNT],
                costs[random_below(30) == 0 ? 5 : random_below(5)]);
}

static bool is_same_decision(const struct ration_decision *a, const struct ration_decision *b)
{
    return a->verdict == b->verdict && a->limit == b->limit && a->remaining == b->remaining &&
           a->retry_after_ns == b->retry_after_ns && a->reset_after_ns == b->reset_after_ns &&
           a->delay_ns == b->delay_ns && a->limit_index == b->limit_index;
}

static void print_decision(const char *name, const struct ration_decision *d)
{
    fprintf(stderr,
            "    %-8s %s limit %" PRIu64 " remaining %" PRIu64 " retry %" PRIu64 " reset %" PRIu64
            " index %" PRIu32 "\n",
            name, ration_decision_verdict_name(d->verdict), d->limit, d->remaining,
            d->retry_after_ns, d->reset_after_ns, d->limit_index);
}

static void compare(unsigned step, const struct ration_check *redis,
                    const struct ration_check *memory)
{
    bool is_same =
        redis->status == memory->status && redis->policy_verdict == memory->policy_verdict;

    if (redis->status == RATION_OK && is_same) {
        is_same = is_same_decision(&redis->decision, &memory->decision) &&
                  redis->part_count == memory->part_count && !redis->is_degraded &&
                  (redis->limit == NULL) == (memory->limit == NULL);
        for (uint32_t i = 0; i < memory->part_count && is_same; i++)
            is_same = is_same_decision(&redis->parts[i].decision, &memory->parts[i].decision);
    }
    if (is_same)
        return;
    fprintf(stderr, "step %u: the decisions differ\n", step);
    for (int i = 0; i < 2; i++) {
        const struct ration_check *check = i == 0 ? redis : memory;

        fprintf(stderr, "  %s status %d degraded %u\n", i == 0 ? "redis" : "memory", check->status,
                check->is_degraded);
        print_decision("all", &check->decision);
        for (uint32_t k = 0; check->status == RATION_OK && k < check->part_count; k++)
            print_decision(check->parts[k].limit->limit.name, &check->parts[k].decision);
    }
    exit(1);
}

/* Whether a limit of the path is a window in one of the policies. */
static bool has_windows(const char *path)
{
    return strcmp(path, "/window") == 0 || strcmp(path, "/login") == 0 ||
           strcmp(path, "/cost") == 0;
}

/*
 * The same admin operation on both. While limits change no windows are blocked: a block converts a window in Redis, but
 * is stored apart from it in memory.
 */
static void compare_admin(ration_engine *in_redis, ration_engine *in_memory, bool has_reloads)
{
    struct request request;
    struct ration_admin_op op = {.attributes = request.attributes};
    uint64_t now_ns = ration_engine_now(in_redis), tokens = random_below(4),
             until_ns = now_ns + random_below(3000000000);
    ration_engine *engines[] = {in_redis, in_memory};
    ration_status statuses[2];
    size_t counts[2] = {0, 0};
    uint64_t kind = random_below(3);

    random_request(&request);
    op.attribute_count = request.count;
    if (kind == 2 && has_reloads && has_windows(request.attributes[0].value.bytes))
        kind = 0;
    for (int i = 0; i < 2; i++)
        statuses[i] =
            kind == 0   ? ration_engine_refund(engines[i], &op, tokens, now_ns, &counts[i])
            : kind == 1 ? ration_engine_reset(engines[i], &op, now_ns, &counts[i])
                        : ration_engine_block_until(engines[i], &op, until_ns, now_ns, &counts[i]);
    if (statuses[0] != statuses[1] || counts[0] != counts[1]) {
        fprintf(stderr, "operation %" PRIu64 " of %s: redis %d %zu, memory %d %zu\n", kind,
                (const char *)request.attributes[0].value.bytes, statuses[0], counts[0],
                statuses[1], counts[1]);
        exit(1);
    }
}

static void reload(ration_engine *engine, size_t index)
{
    struct ration_error error;

    if (ration_engine_reload(engine, read_policy(index), NULL, NULL, &error) != RATION_OK)
        fail(error.message);
}

/*
 * Writes every bucket under the current limits: refunds all tokens in use, then takes one token. A bucket in Redis
 * names the limit under which it was written: a bucket that is not written between two reloads is converted from the
 * first limit to the last, while in memory the second limit counts, too (docs/redis.md).
 */
static void write_every_bucket(ration_engine *in_redis, ration_engine *in_memory,
                               struct ration_manual_clock *manual)
{
    ration_engine *const engines[] = {in_redis, in_memory};
    struct request request;
    struct ration_admin_op op = {.attributes = request.attributes};

    for (size_t i = 0; i < PATH_COUNT * USER_COUNT * IP_COUNT; i++) {
        struct ration_check checks[2];

        set_request(&request, paths[i % PATH_COUNT], users[i / PATH_COUNT % USER_COUNT],
                    ips[i / PATH_COUNT / USER_COUNT], "1");
        op.attribute_count = request.count;
        ration_clock_manual_advance(manual, 25 * RATION_NS_PER_SECOND / 1000); /* one of `all` */
        for (int g = 0; g < 2; g++) {
            checks[g] = (struct ration_check){.attributes = request.attributes,
                                              .attribute_count = request.count,
                                              .cost_tokens = 1};
            if (ration_engine_refund(engines[g], &op, 1000, ration_engine_now(engines[g]), NULL) !=
                RATION_OK)
                fail("a bucket cannot be refunded");
            ration_engine_check(engines[g], &checks[g], 1, ration_engine_now(engines[g]));
            if (checks[g].status != RATION_OK)
                fail("a bucket cannot be written");
        }
        if (!is_same_decision(&checks[0].decision, &checks[1].decision))
            fail("a full bucket is not decided as in memory");
    }
}

/*
 * In batches, or one by one and with reloads. Not both: a check of a changed limit in a batch needs a second call, so
 * it would be decided after the others.
 */
static void compare_checks(ration_engine *in_redis, ration_engine *in_memory,
                           struct ration_manual_clock *manual, unsigned step_count,
                           unsigned reloads_max)
{
    static struct ration_check_part parts[2][BATCH_MAX][RATION_POLICY_MATCHES_MAX];
    static struct request requests[BATCH_MAX];
    struct ration_check checks[2][BATCH_MAX];
    unsigned counts[3] = {0}, reload_count = 0;

    for (unsigned step = 0; step < step_count;) {
        size_t count = reloads_max == 0 && random_below(3) == 0 ? 1 + random_below(BATCH_MAX) : 1;
        struct ration_engine_guard guards[2];

        ration_clock_manual_advance(
            manual, random_below(3) == 0 ? random_below(RATION_NS_PER_SECOND) : random_below(9));
        if (random_below(10) == 0)
            compare_admin(in_redis, in_memory, reloads_max > 0);
        if (reload_count < reloads_max && random_below(60) == 0) {
            size_t index = random_below(TEXT_COUNT);

            if (reload_count++ > 0)
                write_every_bucket(in_redis, in_memory, manual);
            reload(in_redis, index);
            reload(in_memory, index);
        }
        for (size_t i = 0; i < count; i++) {
            random_request(&requests[i]);
            for (int g = 0; g < 2; g++)
                checks[g][i] = (struct ration_check){.attributes = requests[i].attributes,
                                                     .attribute_count = requests[i].count,
                                                     .cost_tokens = 1 + random_below(1),
                                                     .parts = parts[g][i]};
            checks[0][i].is_peek = checks[1][i].is_peek = random_below(8) == 0;
        }
        ration_engine_lock(in_redis, &guards[0]);
        ration_engine_lock(in_memory, &guards[1]);
        ration_engine_check_guarded(&guards[0], checks[0], count, ration_engine_now(in_redis));
        ration_engine_check_guarded(&guards[1], checks[1], count, ration_engine_now(in_memory));
        for (size_t i = 0; i < count; i++, step++) {
            compare(step, &checks[0][i], &checks[1][i]);
            if (checks[1][i].status == RATION_OK)
                counts[checks[1][i].decision.verdict]++;
        }
        ration_engine_unlock(&guards[0]);
        ration_engine_unlock(&guards[1]);
    }
    printf("%u allowed, %u denied, %u never: as in memory\n", counts[0], counts[1], counts[2]);
}

/* Compares the counters of each limit, shadow limits included. Local decisions would be counted the same way. */
static void compare_counts(ration_engine *in_redis, ration_engine *in_memory)
{
    struct ration_engine_guard guards[2];
    ration_limiter *limiters[2];
    uint64_t allowed = 0;

    ration_engine_lock(in_redis, &guards[0]);
    ration_engine_lock(in_memory, &guards[1]);
    for (size_t i = 0; (limiters[0] = ration_engine_limiter(&guards[0], i)) != NULL; i++) {
        struct ration_limiter_report reports[2];

        limiters[1] = ration_engine_limiter(&guards[1], i);
        for (int g = 0; g < 2; g++)
            ration_limiter_read_report(limiters[g], &reports[g]);
        if (memcmp(&reports[0].rules[0], &reports[1].rules[0], sizeof(reports[0].rules[0])) != 0) {
            fprintf(stderr,
                    "limit %zu: %" PRIu64 " allowed, %" PRIu64 " denied, %" PRIu64
                    " in shadow in Redis; %" PRIu64 ", %" PRIu64 ", %" PRIu64 " in memory\n",
                    i, reports[0].rules[0].allowed, reports[0].rules[0].denied,
                    reports[0].rules[0].shadow_denied, reports[1].rules[0].allowed,
                    reports[1].rules[0].denied, reports[1].rules[0].shadow_denied);
            fail("the counters differ from those in memory");
        }
        allowed += reports[0].rules[0].allowed;
    }
    if (allowed == 0)
        fail("decisions are not counted");
    ration_engine_unlock(&guards[0]);
    ration_engine_unlock(&guards[1]);
}

static struct ration_check ask(ration_engine *engine, const char *path, const char *user)
{
    struct ration_attribute attributes[] = {{text_key("path"), text_key(path)},
                                            {text_key("user"), text_key(user)},
                                            {text_key("ip"), text_key("192.0.2.77")}};
    struct ration_check check = {.attributes = attributes, .attribute_count = 3, .cost_tokens = 1};

    ration_engine_check(engine, &check, 1, ration_engine_now(engine));
    return check;
}

/* A bucket that starts empty stays empty after its block: it starts at its first request, not before. */
static void check_new_key(ration_engine *in_redis, ration_engine *in_memory,
                          struct ration_manual_clock *manual)
{
    struct ration_attribute attributes[] = {{text_key("path"), text_key("/slow")},
                                            {text_key("user"), text_key("zoe")}};
    struct ration_admin_op op = {.attributes = attributes, .attribute_count = 2};
    uint64_t now_ns = ration_engine_now(in_redis);
    ration_engine *engines[] = {in_redis, in_memory};
    struct ration_check_part parts[2][RATION_POLICY_MATCHES_MAX];
    struct ration_check checks[2];
    struct ration_engine_guard guards[2];

    for (int i = 0; i < 2; i++)
        if (ration_engine_block_until(engines[i], &op, now_ns + 1, now_ns, NULL) != RATION_OK ||
            ration_engine_refund(engines[i], &op, 0, now_ns, NULL) != RATION_OK)
            fail("an admin operation on a new key");
    ration_clock_manual_advance(manual, RATION_NS_PER_SECOND);
    for (int i = 0; i < 2; i++) {
        ration_engine_lock(engines[i], &guards[i]);
        checks[i] = (struct ration_check){
            .attributes = attributes, .attribute_count = 2, .cost_tokens = 1, .parts = parts[i]};
        ration_engine_check_guarded(&guards[i], &checks[i], 1, ration_engine_now(engines[i]));
    }
    compare(0, &checks[0], &checks[1]);
    for (int i = 0; i < 2; i++)
        ration_engine_unlock(&guards[i]);
}

/* Peeks in both engines, which must agree on the verdict and, after a denial, on the wait. */
static enum ration_verdict compare_peeks(ration_engine *const engines[2],
                                         const struct ration_admin_op *op, uint64_t *out_retry_ns)
{
    struct ration_check checks[2];

    for (int i = 0; i < 2; i++) {
        checks[i] = (struct ration_check){.attributes = op->attributes,
                                          .attribute_count = op->attribute_count,
                                          .cost_tokens = 1,
                                          .is_peek = 1};
        ration_engine_check(engines[i], &checks[i], 1, ration_engine_now(engines[i]));
    }
    if (checks[0].decision.verdict != checks[1].decision.verdict ||
        checks[0].decision.retry_after_ns != checks[1].decision.retry_after_ns)
        fail("a blocked key is not answered as in memory");
    *out_retry_ns = checks[0].decision.retry_after_ns;
    return checks[0].decision.verdict;
}

/* A block that is too long is an error and has no effect; the longest one lasts to its last nanosecond. */
static void check_long_blocks(ration_engine *in_redis, ration_engine *in_memory,
                              struct ration_manual_clock *manual)
{
    static const char *const blocked[] = {"/login", "/window", "/spare", "/lots", "/log", "/cost"};
    static const uint64_t lengths_ns[] = {RATION_BLOCK_NS_MAX + 1, RATION_FILL_NS_MAX,
                                          UINT64_C(1) << 62, UINT64_MAX - EPOCH_NS};
    ration_engine *const engines[] = {in_redis, in_memory};
    uint64_t retry_ns;

    for (size_t i = 0; i < sizeof(blocked) / sizeof(blocked[0]); i++) {
        struct ration_attribute attributes[] = {{text_key("path"), text_key(blocked[i])},
                                                {text_key("user"), text_key("blocked")},
                                                {text_key("ip"), text_key("192.0.2.99")}};
        struct ration_admin_op op = {.attributes = attributes, .attribute_count = 3};
        uint64_t now_ns = ration_engine_now(in_redis);

        for (size_t k = 0; k < sizeof(lengths_ns) / sizeof(lengths_ns[0]); k++) {
            uint64_t until_ns =
                lengths_ns[k] < UINT64_MAX - now_ns ? now_ns + lengths_ns[k] : UINT64_MAX;

            for (int g = 0; g < 2; g++)
                if (ration_engine_block_until(engines[g], &op, until_ns, now_ns, NULL) !=
                    RATION_ERANGE)
                    fail("a block that is too long must be an error");
            if (compare_peeks(engines, &op, &retry_ns) != RATION_ALLOW)
                fail("a block that is an error has an effect");
        }
        for (int g = 0; g < 2; g++)
            if (ration_engine_block_until(engines[g], &op, now_ns + RATION_BLOCK_NS_MAX, now_ns,
                                          NULL) != RATION_OK)
                fail("the longest block is refused");
        if (compare_peeks(engines, &op, &retry_ns) != RATION_DENY ||
            retry_ns != RATION_BLOCK_NS_MAX)
            fail("the longest block does not deny");
        ration_clock_manual_advance(manual, RATION_BLOCK_NS_MAX - 1);
        if (compare_peeks(engines, &op, &retry_ns) != RATION_DENY || retry_ns != 1)
            fail("the longest block ends too early");
        ration_clock_manual_advance(manual, 1);
        if (compare_peeks(engines, &op, &retry_ns) != RATION_ALLOW)
            fail("the longest block does not end");
    }
    printf("long blocks: as in memory\n");
}

/* R12: without Redis decisions are still made, and are marked degraded. */
static void check_without(ration_engine *in_redis)
{
    struct ration_check check = ask(in_redis, "/strict", "carol");
    struct ration_engine_stats stats;
    unsigned allowed = 0;

    if (check.status != RATION_ESTORE || !check.is_degraded)
        fail("on_redis_error: deny must be an error");
    check = ask(in_redis, "/login", "carol");
    if (check.status != RATION_OK || !check.is_degraded)
        fail("on_redis_error: local must decide, marked degraded");
    for (int i = 0; i < 20; i++)
        allowed += ask(in_redis, "/login", "dave").decision.verdict == RATION_ALLOW;
    /* one of 4 nodes: a burst of 5 / 4, of which one token was taken above; the clock does not advance */
    if (allowed != 0)
        fail("the local share is a quarter of the burst");
    for (int i = 0; i < 5; i++)
        if (ask(in_redis, "/open", "erin").decision.verdict != RATION_ALLOW)
            fail("on_redis_error: allow must allow, as long as `all` does");
    ration_engine_read_stats(in_redis, &stats);
    if (stats.degraded < 20)
        fail("degraded decisions are counted");
}

int main(int argument_count, char **arguments)
{
    struct ration_manual_clock manual = {0};
    struct ration_clock clock;
    char url[300];
    struct ration_redis redis = {.url = url,
                                 .node_count = 4,
                                 .timeout_ns = 30 * RATION_NS_PER_SECOND,
                                 .connect_timeout_ns = 30 * RATION_NS_PER_SECOND};
    ration_engine *in_redis, *in_memory;

    if (argument_count != 3)
        return 2;
    seed_chance();
    snprintf(url, sizeof(url), "unix:%s", arguments[1]);
    clock = ration_clock_manual(&manual);
    ration_clock_manual_set(&manual, EPOCH_NS);
    for (unsigned round = 0; round < ROUNDS; round++) {
        char prefix[20];

        snprintf(prefix, sizeof(prefix), "round%u", round);
        redis.prefix = prefix;
        in_redis = make_engine(&redis, &clock);
        in_memory = make_engine(NULL, &clock);
        check_new_key(in_redis, in_memory, &manual);
        compare_checks(in_redis, in_memory, &manual, STEP_COUNT, 0);
        compare_counts(in_redis, in_memory);
        compare_checks(in_redis, in_memory, &manual, RELOAD_STEPS, RELOADS_MAX);
        ration_engine_free(in_memory);
        ration_engine_free(in_redis);
    }
    redis.prefix = NULL;
    in_redis = make_engine(&redis, &clock);
    in_memory = make_engine(NULL, &clock);
    check_long_blocks(in_redis, in_memory, &manual);
    ration_engine_free(in_memory);
    (void)ask(in_redis, "/open", "first");
    kill((pid_t)atoi(arguments[2]), SIGKILL);
    ration_clock_manual_advance(&manual, RATION_NS_PER_DAY);
    (void)ask(in_redis, "/open", "second"); /* notices that Redis has stopped */
    check_without(in_redis);
    ration_engine_free(in_redis);
    return 0;
}
