/*
 * The script that hands out leases (R1): nodes that draw, keep what they drew as long as they may, give back and
 * take, and somebody who refunds, in the worst order that chance finds. Whatever they spend has to fit a bucket that
 * sees every token at the moment when it is spent. Times are injected.
 *
 *     redis_lease_test SOCKET [SCRIPT]           SCRIPT instead of lease.lua: a wrong one must be caught
 *     redis_lease_test SOCKET edit SCRIPT        the same for edit.lua
 */
#include <inttypes.h>

#include "base/time.h"
#include "core/gcra.h"
#include "redis/edit.h"
#include "redis/lease.h"
#include "script.h"

#define STORY_COUNT 400
#define STEP_COUNT  60 /* of a story, which has a bucket of its own */
#define NODE_COUNT  3
#define EPOCH_NS    (UINT64_C(1790000000) * RATION_NS_PER_SECOND)

/* What a node has in its pocket. */
struct pocket {
    uint64_t tokens;
    uint64_t last_drawn;
    uint64_t until_ns;
    uint32_t mark;
};

static struct {
    redisContext *redis;
    const char *sha;
    const char *edit_sha;
    struct ration_redis_words words;
    struct ration_limit limit;
    uint64_t length_ns;
    char key[24];
    uint64_t now_ns;
    struct ration_time tat; /* of the bucket that sees all */
    struct pocket pockets[NODE_COUNT];
    uint32_t mark;
    bool has_refunds;
    uint64_t spent, drawn, back, refunded;
} story;

static void spend(uint64_t tokens)
{
    struct ration_time room =
        ration_time_add(ration_time_from_ns(story.now_ns), story.limit.rate.capacity);

    story.tat = ration_gcra_force(story.tat, &story.limit.rate, tokens, story.now_ns);
    story.spent += tokens;
    if (ration_time_less(room, story.tat)) {
        fprintf(stderr, "%s: %" PRIu64 " ns more than the limit has, at %" PRIu64 " ns\n",
                story.key, ration_time_ceil_ns(ration_time_sub(story.tat, room)),
                story.now_ns - EPOCH_NS);
        exit(1);
    }
}

static const struct ration_redis_names names = {.prefix = "ration", .tag = NULL};

/* Takes the cost and draws; whether it was taken. *out_drawn: how many tokens. */
static bool ask(uint64_t cost, uint64_t want, uint64_t back, uint32_t back_mark, uint32_t mark,
                uint64_t *out_drawn)
{
    struct ration_redis_lease lease = {
        .limit = &story.limit,
        .key = {story.key, strlen(story.key)},
        .cost_tokens = cost,
        .want_tokens = want,
        .mark = mark,
        .back_tokens = back,
        .back_mark = back_mark,
        .length_ns = story.length_ns,
        .has_now = true,
        .now_ns = story.now_ns,
    };
    redisReply *reply;
    bool is_taken;

    ration_redis_words_reset(&story.words);
    ration_redis_lease_write(&lease, &names, &story.words);
    reply = run_script(story.redis, story.sha, &story.words);
    is_taken = reply->element[2]->integer == 1;
    *out_drawn = (uint64_t)reply->element[4]->integer;
    freeReplyObject(reply);
    return is_taken;
}

static void take(uint64_t cost)
{
    uint64_t drawn;

    if (ask(cost, 0, 0, 0, 0, &drawn))
        spend(cost);
}

/* As near.c does: what is left of an ended lease is given back, and what is not over yet is put together. */
static void draw_lease(struct pocket *pocket, uint64_t cost, uint64_t want)
{
    bool has_ended = pocket->until_ns <= story.now_ns;
    uint64_t least = pocket->tokens < pocket->last_drawn ? pocket->tokens : pocket->last_drawn;
    uint64_t back = has_ended ? least : 0, drawn;
    uint32_t mark = ++story.mark, back_mark = pocket->mark;

    if (has_ended)
        pocket->tokens = 0;
    if (ask(cost, want, back, back_mark, mark, &drawn) && cost > 0)
        spend(cost);
    story.back += back;
    if (drawn == 0)
        return;
    story.drawn += drawn;
    if (pocket->tokens == 0 || pocket->until_ns > story.now_ns + story.length_ns)
        pocket->until_ns = story.now_ns + story.length_ns;
    pocket->tokens += drawn;
    pocket->last_drawn = drawn;
    pocket->mark = mark;
}

static void spend_from(struct pocket *pocket, uint64_t tokens)
{
    if (pocket->until_ns <= story.now_ns || pocket->tokens < tokens)
        return;
    pocket->tokens -= tokens;
    spend(tokens);
}

/* Of what was spent; or all of it. What was out on lease counts as before. */
static void refund(uint64_t tokens)
{
    struct ration_redis_edit edit = {
        .bucket = {&story.limit, {story.key, strlen(story.key)}, false},
        .kind = tokens > 0 ? RATION_REDIS_REFUND : RATION_REDIS_FILL,
        .tokens = tokens,
        .has_now = true,
        .now_ns = story.now_ns,
    };

    ration_redis_words_reset(&story.words);
    ration_redis_edit_write(&edit, &names, &story.words);
    freeReplyObject(run_script(story.redis, story.edit_sha, &story.words));
    story.tat = ration_gcra_refund(story.tat, &story.limit.rate,
                                   tokens > 0 ? tokens : story.limit.rate.span_tokens);
    story.refunded += tokens;
}

/* All that there is, at once. */
static void rush(void)
{
    for (uint64_t cost = story.limit.burst; cost > 0; cost /= 2)
        take(cost);
    for (int i = 0; i < NODE_COUNT; i++)
        spend_from(&story.pockets[i], story.pockets[i].tokens);
}

static void pass_time(void)
{
    const struct pocket *pocket = &story.pockets[draw(NODE_COUNT)];

    switch (draw(4)) {
    case 0: /* to the last moment of a lease */
        if (pocket->tokens > 0 && pocket->until_ns > story.now_ns)
            story.now_ns = pocket->until_ns - 1;
        break;
    case 1: /* to its end */
        if (pocket->tokens > 0 && pocket->until_ns > story.now_ns)
            story.now_ns = pocket->until_ns;
        break;
    case 2:
        story.now_ns += draw(2 * story.length_ns);
        break;
    default:
        break;
    }
}

static void step(void)
{
    struct pocket *pocket = &story.pockets[draw(NODE_COUNT)];
    uint64_t most = story.limit.burst / 4 + 1;

    pass_time();
    switch (draw(story.has_refunds ? 7 : 6)) {
    case 6:
        refund(draw(4) > 0 ? 1 + draw(most) : 0);
        if (draw(2) == 0)
            rush();
        break;
    case 0:
        if (story.has_refunds && draw(2) == 0)
            draw_lease(pocket, 0, most);
        take(1 + draw(most));
        break;
    case 1:
        rush();
        break;
    case 2:
        spend_from(pocket, 1 + draw(pocket->tokens + 1));
        break;
    default:
        draw_lease(pocket, draw(3), 1 + draw(most));
    }
}

/* Nobody else was there: what is given back is there again, to the last token. */
static void test_all_comes_back(void)
{
    uint64_t drawn;

    draw_lease(&story.pockets[0], 0, story.limit.burst / 2);
    story.now_ns += story.length_ns;
    draw_lease(&story.pockets[0], 0, 1); /* gives back, and draws one */
    story.now_ns = story.pockets[0].until_ns;
    if (!ask(story.limit.burst, 0, 1, story.pockets[0].mark, 0, &drawn)) {
        fprintf(stderr, "what was given back is not there\n");
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
    story.now_ns = EPOCH_NS;
    story.has_refunds = number / 4 % 2 == 1;
    story.tat = (struct ration_time){0, 0};
    memset(story.pockets, 0, sizeof(story.pockets));
    snprintf(story.key, sizeof(story.key), "story %u", number);
}

int main(int argument_count, char **arguments)
{
    bool is_edit = argument_count > 3 && strcmp(arguments[2], "edit") == 0;
    redisReply *loaded, *edit;

    seed_chance();
    story.redis = connect_or_exit(argument_count > 1 ? arguments[1] : NULL);
    loaded =
        load_script(story.redis, argument_count == 3 ? arguments[2] : NULL, RATION_REDIS_LEASE);
    edit = load_script(story.redis, is_edit ? arguments[3] : NULL, RATION_REDIS_EDIT);
    story.sha = loaded->str;
    story.edit_sha = edit->str;
    ration_redis_words_init(&story.words);
    for (unsigned number = 0; number < STORY_COUNT; number++) {
        begin_story(number);
        if (number < 4)
            test_all_comes_back();
        else
            for (unsigned i = 0; i < STEP_COUNT; i++)
                step();
    }
    printf("%" PRIu64 " tokens spent, %" PRIu64 " drawn, %" PRIu64 " given back, %" PRIu64
           " refunded: never too many\n",
           story.spent, story.drawn, story.back, story.refunded);
    ration_redis_words_done(&story.words);
    freeReplyObject(edit);
    freeReplyObject(loaded);
    redisFree(story.redis);
    return 0;
}
