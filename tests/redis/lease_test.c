/*
 * The script that grants leases (R1): nodes acquire tokens, hold them as long as they may, return and take tokens, an
 * operator refunds, and Redis loses data, in the worst random orders. All spent tokens must fit a reference bucket that
 * sees every token at the moment when it is spent. Times are injected.
 *
 *     redis_lease_test SOCKET [NAME SCRIPT]      SCRIPT instead of NAME.lua (lease, admin or take): the test must
 *                                                catch a wrong one
 */
#include <inttypes.h>

#include "base/time.h"
#include "core/gcra.h"
#include "redis/lease_acquire.h"
#include "redis/redis_admin.h"
#include "script.h"

#define STORY_COUNT 400
#define STEP_COUNT  60 /* of a story, which has a bucket of its own */
#define NODE_COUNT  3
#define EPOCH_NS    (UINT64_C(1790000000) * RATION_NS_PER_SECOND)

/* The unused part of a node's lease. */
struct local_lease {
    uint64_t tokens;
    uint64_t last_acquired;
    uint64_t until_ns;
    uint32_t number;
    uint64_t acquired_ns; /* last acquisition */
};

static struct {
    redisContext *redis;
    char shas[RATION_REDIS_SCRIPT_COUNT][48];
    struct ration_redis_argv words;
    struct ration_limit limit;
    uint64_t length_ns;
    char key[24];
    uint64_t now_ns;
    struct ration_time tat; /* of the reference bucket */
    struct local_lease local_leases[NODE_COUNT];
    bool has_refunds;
    uint64_t spent, acquired, back, refunded;
} story;

static void spend(uint64_t tokens)
{
    struct ration_time room =
        ration_time_add(ration_time_from_ns(story.now_ns), story.limit.rate.capacity);

    story.tat = ration_gcra_charge(story.tat, &story.limit.rate, tokens, story.now_ns);
    story.spent += tokens;
    if (ration_time_less(room, story.tat)) {
        fprintf(stderr, "%s: %" PRIu64 " ns more than the limit has, at %" PRIu64 " ns\n",
                story.key, ration_time_ceil_ns(ration_time_sub(story.tat, room)),
                story.now_ns - EPOCH_NS);
        exit(1);
    }
}

static const struct ration_redis_names names = {.prefix = "ration", .tag = NULL};

/* The tokens returned with a request. */
struct back {
    uint64_t tokens;
    uint32_t number;
    uint64_t age_ns;
};

/* Takes the cost and acquires tokens; returns whether the cost was taken. */
static bool request_lease(uint64_t cost, uint64_t want, struct back back,
                          struct ration_redis_grant *out)
{
    struct ration_redis_lease lease = {
        .limit = &story.limit,
        .key = {story.key, strlen(story.key)},
        .cost_tokens = cost,
        .want_tokens = want,
        .back_tokens = back.tokens,
        .back_number = back.number,
        .back_age_ns = back.age_ns,
        .length_ns = story.length_ns,
        .has_now = true,
        .now_ns = story.now_ns,
    };
    redisReply *reply;
    bool is_taken;

    ration_redis_argv_reset(&story.words);
    ration_redis_lease_write(&lease, &names, &story.words);
    reply = run_script(story.redis, story.shas[RATION_REDIS_LEASE], &story.words);
    is_taken = reply->element[2]->integer == 1;
    *out = (struct ration_redis_grant){(uint64_t)reply->element[4]->integer,
                                       (uint32_t)reply->element[5]->integer};
    freeReplyObject(reply);
    return is_taken;
}

/* Runs the take script, like a node in mode strict. */
static bool take_strictly(uint64_t cost)
{
    struct ration_redis_take_request strict = {
        .has_now = true,
        .now_ns = story.now_ns,
        .part_count = 1,
        .parts = {{.limit = &story.limit,
                   .key = {story.key, strlen(story.key)},
                   .cost_tokens = cost}},
    };
    redisReply *reply;
    bool is_taken;

    ration_redis_argv_reset(&story.words);
    ration_redis_take_request_write(&strict, &names, &story.words);
    reply = run_script(story.redis, story.shas[RATION_REDIS_TAKE], &story.words);
    is_taken = reply->element[2]->integer == 1;
    freeReplyObject(reply);
    return is_taken;
}

static void take(uint64_t cost)
{
    struct ration_redis_grant none;
    struct back nothing = {0, 0, 0};

    if (random_below(2) == 0 ? take_strictly(cost) : request_lease(cost, 0, nothing, &none))
        spend(cost);
}

/* Like local_lease.c: returns the rest of an ended lease, and adds to a lease that has not ended. */
static void acquire_lease(struct local_lease *local_lease, uint64_t cost, uint64_t want)
{
    bool has_ended = local_lease->until_ns <= story.now_ns;
    bool is_too_late = local_lease->until_ns + 2 * story.length_ns <= story.now_ns;
    uint64_t unused = local_lease->tokens < local_lease->last_acquired ? local_lease->tokens
                                                                       : local_lease->last_acquired;
    struct back back = {has_ended && !is_too_late ? unused : 0, local_lease->number,
                        story.now_ns - local_lease->acquired_ns};
    struct ration_redis_grant grant;

    if (has_ended)
        local_lease->tokens = 0;
    if (request_lease(cost, want, back, &grant) && cost > 0)
        spend(cost);
    story.back += back.tokens;
    if (grant.tokens == 0)
        return;
    story.acquired += grant.tokens;
    if (local_lease->tokens == 0 || local_lease->until_ns > story.now_ns + story.length_ns)
        local_lease->until_ns = story.now_ns + story.length_ns;
    local_lease->tokens += grant.tokens;
    local_lease->last_acquired = grant.tokens;
    local_lease->number = grant.number;
    local_lease->acquired_ns = story.now_ns;
}

static void spend_from(struct local_lease *local_lease, uint64_t tokens)
{
    if (local_lease->until_ns <= story.now_ns || local_lease->tokens < tokens)
        return;
    local_lease->tokens -= tokens;
    spend(tokens);
}

/* Refunds a part of the spent tokens, or all. Leased tokens stay charged. */
static void refund(uint64_t tokens)
{
    struct ration_redis_admin op = {
        .bucket = {&story.limit, {story.key, strlen(story.key)}, false},
        .kind = tokens > 0 ? RATION_REDIS_REFUND : RATION_REDIS_FILL,
        .tokens = tokens,
        .has_now = true,
        .now_ns = story.now_ns,
    };

    ration_redis_argv_reset(&story.words);
    ration_redis_admin_write(&op, &names, &story.words);
    freeReplyObject(run_script(story.redis, story.shas[RATION_REDIS_ADMIN], &story.words));
    story.tat = ration_gcra_refund(story.tat, &story.limit.rate,
                                   tokens > 0 ? tokens : story.limit.rate.span_tokens);
    story.refunded += tokens;
}

/* Takes all tokens at once. */
static void rush(void)
{
    for (uint64_t cost = story.limit.burst; cost > 0; cost /= 2)
        take(cost);
    for (int i = 0; i < NODE_COUNT; i++)
        spend_from(&story.local_leases[i], story.local_leases[i].tokens);
}

static void pass_time(void)
{
    const struct local_lease *local_lease = &story.local_leases[random_below(NODE_COUNT)];

    switch (random_below(4)) {
    case 0: /* to the last nanosecond of a lease */
        if (local_lease->tokens > 0 && local_lease->until_ns > story.now_ns)
            story.now_ns = local_lease->until_ns - 1;
        break;
    case 1: /* to its end */
        if (local_lease->tokens > 0 && local_lease->until_ns > story.now_ns)
            story.now_ns = local_lease->until_ns;
        break;
    case 2:
        story.now_ns += random_below(2 * story.length_ns);
        break;
    default:
        break;
    }
}

static void step(void)
{
    struct local_lease *local_lease = &story.local_leases[random_below(NODE_COUNT)];
    uint64_t most = story.limit.burst / 4 + 1;

    pass_time();
    switch (random_below(story.has_refunds ? 7 : 6)) {
    case 6:
        refund(random_below(4) > 0 ? 1 + random_below(most) : 0);
        if (random_below(2) == 0)
            rush();
        break;
    case 0:
        if (story.has_refunds && random_below(2) == 0)
            acquire_lease(local_lease, 0, most);
        take(1 + random_below(most));
        break;
    case 1:
        rush();
        break;
    case 2:
        spend_from(local_lease, 1 + random_below(local_lease->tokens + 1));
        break;
    default:
        acquire_lease(local_lease, random_below(3), 1 + random_below(most));
    }
}

/* Redis loses the bucket. Nodes do not spend tokens acquired before, but may return them. */
static void lose_bucket(void)
{
    freeReplyObject(redisCommand(story.redis, "DEL ration:{%s}:l", story.key));
    story.tat = (struct ration_time){0, 0};
    for (int i = 0; i < NODE_COUNT; i++)
        if (story.local_leases[i].until_ns > story.now_ns)
            story.local_leases[i].until_ns = story.now_ns;
}

/* Returned tokens are available again: if all are taken, only those in local leases are missing. */
static void test_returned_tokens_are_available(void)
{
    uint64_t admitted = 0, begun_ns = story.now_ns, due;
    struct ration_redis_grant none;
    struct back nothing = {0, 0, 0};

    for (int i = 0; i < 400; i++) {
        struct local_lease *local_lease = &story.local_leases[i % NODE_COUNT];

        if (local_lease->until_ns <= story.now_ns)
            acquire_lease(local_lease, 0, 2); /* of which the node spends little */
        if (i % 4 == 0)
            spend_from(local_lease, 1);
        while (request_lease(1, 0, nothing, &none))
            spend(1);
        story.now_ns += story.length_ns / 6;
    }
    admitted = story.spent;
    due =
        story.limit.burst + (story.now_ns - begun_ns) / story.limit.period_ns * story.limit.tokens;
    if (admitted < due - story.limit.burst) {
        fprintf(stderr, "%" PRIu64 " of %" PRIu64 " admitted: returned tokens are lost\n", admitted,
                due);
        exit(1);
    }
}

/*
 * The first lease of a record cannot be returned, because it cannot be distinguished from a lease before the record.
 * So this acquires one that ends, of a bucket that is full again.
 */
static void begin_record(void)
{
    acquire_lease(&story.local_leases[NODE_COUNT - 1], 0, 1);
    story.now_ns = story.local_leases[NODE_COUNT - 1].until_ns + story.length_ns / 2;
}

/* Refunded takes count as charged: so many that the number of a lease wraps around. */
static void test_numbers_wrap_around(void)
{
    uint64_t part = story.limit.burst / 2 - 1;

    begin_record();
    acquire_lease(&story.local_leases[0], 0, story.limit.burst / 4);
    story.now_ns += story.length_ns * 9 / 10;
    acquire_lease(&story.local_leases[1], 0, story.limit.burst / 4);
    for (int i = 0; i < 33; i++)
        if (take_strictly(part)) {
            spend(part);
            refund(part);
        }
    if (take_strictly(story.limit.burst / 8))
        spend(story.limit.burst / 8);
    story.now_ns = story.local_leases[0].until_ns;
    acquire_lease(&story.local_leases[0], 0, 0);
    story.now_ns = story.local_leases[1].until_ns - 1;
    rush();
}

/* Returning tokens does not make a block end earlier. */
static void test_blocks_outlast_leases(uint64_t length_ns)
{
    struct ration_redis_admin block = {
        .bucket = {&story.limit, {story.key, strlen(story.key)}, false},
        .kind = RATION_REDIS_BLOCK,
        .block_ns = length_ns,
        .has_now = true,
    };
    struct ration_redis_grant none;
    struct back nothing = {0, 0, 0};
    uint64_t end_ns;

    begin_record();
    acquire_lease(&story.local_leases[0], 0, story.limit.burst / 4);
    block.now_ns = story.now_ns;
    end_ns = story.now_ns + length_ns;
    ration_redis_argv_reset(&story.words);
    ration_redis_admin_write(&block, &names, &story.words);
    freeReplyObject(run_script(story.redis, story.shas[RATION_REDIS_ADMIN], &story.words));
    for (story.now_ns = story.local_leases[0].until_ns; story.now_ns < end_ns;
         story.now_ns += length_ns / 10 + 1)
        acquire_lease(&story.local_leases[0], 1, story.limit.burst / 4);
    story.now_ns = end_ns - 1;
    if (request_lease(1, 0, nothing, &none)) {
        fprintf(stderr, "a block of %" PRIu64 " ns ended earlier\n", length_ns);
        exit(1);
    }
}

static void begin_story(unsigned number)
{
    static const char *const texts[] = {"10/s burst 40 name l", "3/s burst 20 name l",
                                        "900000/s burst 1000 name l", "7 per 13s burst 64 name l"};

    if (ration_limit_parse(texts[number % 4], &story.limit, NULL) != RATION_OK)
        exit(2);
    story.length_ns = story.limit.rate.capacity.ns / 4;
    story.spent = 0;
    story.now_ns = EPOCH_NS;
    story.has_refunds = number / 4 % 2 == 1;
    story.tat = (struct ration_time){0, 0};
    memset(story.local_leases, 0, sizeof(story.local_leases));
    snprintf(story.key, sizeof(story.key), "story %u", number);
}

static void load(enum ration_redis_script script, const char *name, int argument_count,
                 char **arguments)
{
    bool is_other = argument_count > 3 && strcmp(arguments[2], name) == 0;
    redisReply *loaded = load_script(story.redis, is_other ? arguments[3] : NULL, script);

    snprintf(story.shas[script], sizeof(story.shas[script]), "%s", loaded->str);
    freeReplyObject(loaded);
}

int main(int argument_count, char **arguments)
{
    uint64_t spent = 0;

    seed_chance();
    story.redis = connect_or_exit(argument_count > 1 ? arguments[1] : NULL);
    load(RATION_REDIS_LEASE, "lease", argument_count, arguments);
    load(RATION_REDIS_ADMIN, "admin", argument_count, arguments);
    load(RATION_REDIS_TAKE, "take", argument_count, arguments);
    ration_redis_argv_init(&story.words);
    for (unsigned number = 0; number < STORY_COUNT; number++) {
        begin_story(number);
        if (number < 4)
            test_returned_tokens_are_available();
        else if (number < 8)
            test_numbers_wrap_around();
        else if (number < 24)
            test_blocks_outlast_leases(story.length_ns * (number - 6) * (number - 6));
        else
            for (unsigned i = 0; i < STEP_COUNT; i++) {
                if (number % 3 == 0 && random_below(STEP_COUNT / 6) == 0)
                    lose_bucket();
                step();
            }
        spent += story.spent;
    }
    printf("%" PRIu64 " tokens spent, %" PRIu64 " acquired, %" PRIu64 " returned, %" PRIu64
           " refunded: never too many\n",
           spent, story.acquired, story.back, story.refunded);
    ration_redis_argv_done(&story.words);
    redisFree(story.redis);
    return 0;
}
