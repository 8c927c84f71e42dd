/*
 * The script that decides in Redis, against the algorithms in memory (R9): the same takes and peeks of the same buckets at
 * the same times must give the same decisions, reports and states. Times are injected, to the nanosecond, and also run
 * backwards. Sometimes a limit is changed.
 *
 *     redis_take_test SOCKET [take SCRIPT]       SCRIPT instead of take.lua: the test must catch a wrong one
 */
#include <inttypes.h>

#include "base/time.h"
#include "limiter/log_ring.h"
#include "redis/convert.h"
#include "script.h"

#define KEY_COUNT  3
#define STEP_COUNT 40000
#define LOG_MAX    100
#define EPOCH_NS   (UINT64_C(1790000000) * RATION_NS_PER_SECOND)

static const char *const texts[] = {
    "5/s name a",
    "3/s burst 7 name b",
    "900000/s burst 2000000 name c",
    "1000000000/s burst 3 name d",
    "1/year burst 2 name e",
    "7 per 13s start empty name f",
    "10/s burst 20 start 3 name g",
    "10/s burst 4 reserve 1/s burst 9 name h",
    "3/s burst 2 reserve 100/h burst 5 start 4 name i",
    "4 per 10s refill interval burst 9 name j",
    "1 per 1us refill interval burst 3 name k",
    "999983 per 7919us refill interval burst 1999983 start empty name l",
    "5/s fixed_window name m",
    "3 per 1us fixed_window name n",
    "100 per 7919us fixed_window start 30 name o",
    "1000000 per 400d fixed_window name p",
    "5/s sliding_window name q",
    "4000000000 per 5000d sliding_window name r",
    "7 per 13us sliding_window start 2 name s",
    "2/s leaky_queue burst 3 name t",
    "3/s sliding_log name u",
    "100 per 7919us sliding_log start 30 name v",
    "7 per 13s sliding_log start empty name w",
};
#define LIMIT_COUNT (sizeof(texts) / sizeof(texts[0]))

static struct ration_limit limits[LIMIT_COUNT];
static struct ration_limit writers[LIMIT_COUNT]
                                  [KEY_COUNT]; /* the limit under which a bucket was written */
static struct ration_bucket_state buckets[LIMIT_COUNT][KEY_COUNT];
static bool is_there[LIMIT_COUNT][KEY_COUNT];
static uint64_t rings[LIMIT_COUNT][KEY_COUNT][LOG_MAX]; /* the moments of logs */
static const char *const keys[KEY_COUNT] = {"", "alice", "{x}%\xff\n"};
static const struct ration_redis_names names = {.prefix = "ration", .tag = NULL};

static struct ration_redis_answer answer_of(const redisReply *reply)
{
    struct ration_redis_answer answer = {
        .now_s = (uint64_t)reply->element[0]->integer,
        .now_ns = (uint64_t)reply->element[1]->integer,
        .is_taken = reply->element[2]->integer == 1,
        .is_of_others = reply->element[2]->integer == 2,
        .text_count = (uint32_t)reply->elements - 3,
    };

    for (size_t i = 3; i < reply->elements; i++)
        if (reply->element[i]->type == REDIS_REPLY_STRING)
            answer.texts[i - 3] =
                (struct ration_redis_text){reply->element[i]->str, (size_t)reply->element[i]->len};
    return answer;
}

/* The buckets of a request. */
struct picked {
    size_t limit;
    size_t key;
};

/* Whether the limit cannot be combined with others: a queue. */
static bool must_be_alone(size_t limit)
{
    return limits[limit].algorithm == RATION_LEAKY_QUEUE;
}

/* Changes a limit, which keeps its name. */
static void change_limit(void)
{
    size_t which = random_below(LIMIT_COUNT);
    char name[sizeof(limits[which].name)];

    strcpy(name, limits[which].name);
    if (ration_limit_parse(texts[random_below(LIMIT_COUNT)], &limits[which], NULL) != RATION_OK)
        abort();
    strcpy(limits[which].name, name);
}

static bool is_of_other(const struct ration_limit *writer, const struct ration_limit *limit)
{
    char texts_of[2][RATION_LIMIT_TEXT_SIZE];
    struct ration_limit both[2] = {*writer, *limit};

    for (int i = 0; i < 2; i++) {
        both[i].start = RATION_START_FULL;
        both[i].start_tokens = 0;
        if (ration_limit_print(&both[i], texts_of[i], RATION_LIMIT_TEXT_SIZE) != RATION_OK)
            abort();
    }
    return strcmp(texts_of[0], texts_of[1]) != 0;
}

static uint64_t random_cost(const struct ration_limit *limit)
{
    switch (random_below(8)) {
    case 0:
        return 0;
    case 1:
        return limit->burst;
    case 2:
        return limit->burst + 1 + random_below(3);
    case 3:
        return random_below(limit->burst) + 1;
    case 4:
        return random_below(40) == 0 ? UINT64_MAX : 1;
    default:
        return 1 + random_below(limit->burst > 100 ? limit->burst / 10 : 2);
    }
}

/* Whether unreported use can be added: a token bucket that is not empty for years already, where memory stops. */
static bool may_add_use(const struct picked *one, uint64_t now_ns)
{
    const struct ration_limit *limit = &limits[one->limit];
    const struct ration_limit *writer = &writers[one->limit][one->key];
    const struct ration_bucket_state *bucket = &buckets[one->limit][one->key];

    return limit->algorithm == RATION_TOKEN_BUCKET && limit->refill == RATION_REFILL_CONTINUOUS &&
           limit->period_ns < RATION_NS_PER_DAY &&
           (!is_there[one->limit][one->key] ||
            (writer->algorithm == RATION_TOKEN_BUCKET &&
             writer->refill == RATION_REFILL_CONTINUOUS &&
             bucket->state.one.tat.ns < now_ns + RATION_NS_PER_YEAR));
}

static void random_request(uint64_t now_ns, struct ration_redis_take_request *ask,
                           struct picked *picked)
{
    size_t count = 1 + random_below(3);
    size_t used = 0;

    *ask = (struct ration_redis_take_request){
        .is_peek = random_below(5) == 0, .has_now = true, .now_ns = now_ns};
    for (size_t i = 0; i < count; i++) {
        struct picked one = {random_below(LIMIT_COUNT), random_below(KEY_COUNT)};
        bool is_new = !(used > 0 && must_be_alone(one.limit));

        for (size_t j = 0; j < used; j++)
            is_new &= one.limit != picked[j].limit || one.key != picked[j].key;
        if (!is_new)
            continue;
        picked[used] = one;
        ask->parts[used++] = (struct ration_redis_part){
            .limit = &limits[one.limit],
            .key = {keys[one.key], strlen(keys[one.key])},
            .cost_tokens = random_cost(&limits[one.limit]),
            .debt_tokens = may_add_use(&one, now_ns) && !ask->is_peek && random_below(10) == 0
                               ? random_below(3)
                               : 0,
            .stale_after_ns = RATION_NS_PER_DAY,
            .is_shadow = random_below(6) == 0,
        };
        if (ask->parts[used - 1].cost_tokens == 0)
            ask->parts[used - 1].debt_tokens = 0;
        if (must_be_alone(one.limit))
            break;
    }
    ask->part_count = (uint32_t)used;
}

static uint64_t read_ring(const struct ration_log_ring_reader *reader, uint64_t index)
{
    return ((const uint64_t *)reader->context)[index];
}

/* Stores a log in a ring that begins with the oldest moment. */
static void publish(struct ration_bucket_state *state, uint64_t *ring)
{
    uint64_t moments[LOG_MAX];

    if (state->limit->algorithm != RATION_SLIDING_LOG)
        return;
    for (uint64_t i = 0; i < state->limit->tokens; i++)
        moments[i] = ration_log_ring_moment(state, i);
    memcpy(ring, moments, sizeof(moments));
    state->state.log.head_index = 0;
    state->write = (struct ration_log_ring_write){0};
    state->reader = (struct ration_log_ring_reader){.read = read_ring, .context = ring};
}

/* Decides in memory. */
static void decide(const struct ration_redis_take_request *ask, const struct picked *picked,
                   struct ration_redis_take_result *reported)
{
    struct ration_op op = {.kind = ask->is_peek ? RATION_OP_PEEK : RATION_OP_TAKE,
                           .now_ns = ask->now_ns};
    static struct ration_evaluation c;
    static uint64_t befores[RATION_REDIS_PARTS_MAX][LOG_MAX];
    bool is_changed[RATION_REDIS_PARTS_MAX];

    memset(&c, 0, sizeof(c));
    c.op = &op;
    c.now_ns = ask->now_ns;
    c.item_count = ask->part_count;
    for (uint32_t i = 0; i < ask->part_count; i++) {
        struct ration_bucket_state *bucket = &buckets[picked[i].limit][picked[i].key];
        struct ration_limit *writer = &writers[picked[i].limit][picked[i].key];
        struct ration_bucket_state before = *bucket;

        before.limit = writer;
        is_changed[i] = false;
        if (!is_there[picked[i].limit][picked[i].key]) {
            before.limit = ask->parts[i].limit;
            before = ration_bucket_state_start(&before, ask->now_ns);
        } else if (is_of_other(writer, ask->parts[i].limit)) {
            before = ration_bucket_state_change(&before, ask->parts[i].limit, ask->now_ns);
            is_changed[i] = true;
        }
        before.limit = ask->parts[i].limit;
        publish(&before, befores[i]);
        if (ask->parts[i].debt_tokens > 0)
            before = ration_bucket_state_charge(&before, ask->parts[i].debt_tokens, ask->now_ns);
        c.items[i] = (struct ration_limit_eval){.cost_tokens = ask->parts[i].cost_tokens,
                                                .is_shadow = ask->parts[i].is_shadow,
                                                .shares_with = -1,
                                                .part_index = i,
                                                .limiter_index = i,
                                                .before = before};
    }
    ration_evaluation_run(&c);
    reported->now_ns = ask->now_ns;
    reported->decision = ration_evaluation_describe_all(&c);
    for (uint32_t i = 0; i < ask->part_count; i++) {
        const struct ration_limit_eval *item = &c.items[i];
        bool *there = &is_there[picked[i].limit][picked[i].key];

        reported->parts[i] = ration_evaluation_describe(&c, item);
        if (ask->is_peek || (item->cost_tokens == 0 && !is_changed[i]))
            continue;
        if (item->limiter_index != i)
            abort();
        if (memcmp(&item->before.state, &item->after.state, sizeof(item->after.state)) != 0 ||
            memcmp(&item->before.write, &item->after.write, sizeof(item->after.write)) != 0 ||
            ask->parts[i].debt_tokens > 0 || item->before.limit->start != RATION_START_FULL ||
            is_changed[i]) {
            buckets[picked[i].limit][picked[i].key] = item->after;
            publish(&buckets[picked[i].limit][picked[i].key],
                    rings[picked[i].limit][picked[i].key]);
            writers[picked[i].limit][picked[i].key] = *ask->parts[i].limit;
            *there = true;
        }
    }
}

static bool is_same(const struct ration_decision *a, const struct ration_decision *b)
{
    return a->verdict == b->verdict && a->limit == b->limit && a->remaining == b->remaining &&
           a->retry_after_ns == b->retry_after_ns && a->reset_after_ns == b->reset_after_ns &&
           a->delay_ns == b->delay_ns && a->limiter_index == b->limiter_index;
}

static void print_decision(const char *where, const struct ration_decision *d)
{
    fprintf(stderr,
            "  %s: %s limit %" PRIu64 " remaining %" PRIu64 " retry %" PRIu64 " reset %" PRIu64
            " delay %" PRIu64 " by %" PRIu32 "\n",
            where, ration_decision_verdict_name(d->verdict), d->limit, d->remaining,
            d->retry_after_ns, d->reset_after_ns, d->delay_ns, d->limiter_index);
}

static int fail(unsigned step, const char *what, const struct ration_redis_take_request *ask,
                const struct ration_redis_answer *answer)
{
    fprintf(stderr, "step %u at %" PRIu64 " (%s): %s\n", step, ask->now_ns,
            ask->is_peek ? "peek" : "take", what);
    for (uint32_t i = 0; i < ask->part_count; i++)
        fprintf(stderr, "  %s cost %" PRIu64 " owed %" PRIu64 " shadow %d was '%.*s'\n",
                ask->parts[i].limit->name, ask->parts[i].cost_tokens, ask->parts[i].debt_tokens,
                ask->parts[i].is_shadow, (int)answer->texts[i].size,
                answer->texts[i].bytes != NULL ? answer->texts[i].bytes : "");
    fprintf(stderr, "  taken %d\n", answer->is_taken);
    return 1;
}

static uint64_t random_step_ns(void)
{
    static const uint64_t scales[] = {
        1, 100, 1000, 1000000, 100000000, 1000000000, UINT64_C(86400000000000)};

    return random_below(scales[random_below(sizeof(scales) / sizeof(scales[0]))] * 3 + 1);
}

int main(int argument_count, char **arguments)
{
    redisContext *redis = connect_or_exit(argument_count > 1 ? arguments[1] : NULL);
    redisReply *loaded =
        load_script(redis, argument_count > 3 ? arguments[3] : NULL, RATION_REDIS_TAKE);
    uint64_t now_ns = EPOCH_NS;
    struct ration_redis_argv words;
    unsigned counts[3] = {0}, converted_count = 0;

    seed_chance();
    for (size_t i = 0; i < LIMIT_COUNT; i++) {
        struct ration_error error;

        if (ration_limit_parse(texts[i], &limits[i], &error) != RATION_OK ||
            ration_redis_is_supported(&limits[i], &error) != RATION_OK) {
            fprintf(stderr, "%s: %s\n", texts[i], error.message);
            return 2;
        }
        for (size_t k = 0; k < KEY_COUNT; k++)
            buckets[i][k].limit = &limits[i];
    }
    ration_redis_argv_init(&words);
    for (unsigned step = 0; step < STEP_COUNT; step++) {
        struct ration_redis_take_result reported, wanted;
        struct ration_redis_answer answer;
        struct ration_redis_take_request ask;
        struct picked picked[4];
        redisReply *reply;

        now_ns += random_step_ns();
        if (random_below(20) == 0)
            change_limit();
        random_request(random_below(20) == 0 ? now_ns - random_below(2 * RATION_NS_PER_SECOND)
                                             : now_ns,
                       &ask, picked);
        ration_redis_argv_reset(&words);
        ration_redis_take_request_write(&ask, &names, &words);
        reply = run_script(redis, loaded->str, &words);
        answer = answer_of(reply);
        if (answer.is_of_others) {
            if (!ration_redis_convert_all(&ask, &answer, &words))
                return fail(step, "a bucket cannot be converted", &ask, &answer);
            freeReplyObject(reply);
            reply = run_script(redis, loaded->str, &words);
            answer = answer_of(reply);
            converted_count++;
        }
        decide(&ask, picked, &wanted);
        if (ration_redis_take_result_read(&ask, &answer, &reported) != RATION_OK)
            return fail(step, "the reply contradicts the buckets", &ask, &answer);
        if (reported.now_ns != wanted.now_ns || !is_same(&reported.decision, &wanted.decision)) {
            fail(step, "the decisions differ", &ask, &answer);
            print_decision("redis ", &reported.decision);
            print_decision("memory", &wanted.decision);
            return 1;
        }
        for (uint32_t i = 0; i < ask.part_count; i++)
            if (!is_same(&reported.parts[i], &wanted.parts[i])) {
                fail(step, "the results of a limit differ", &ask, &answer);
                print_decision("redis ", &reported.parts[i]);
                print_decision("memory", &wanted.parts[i]);
                return 1;
            }
        counts[reported.decision.verdict]++;
        freeReplyObject(reply);
    }
    printf("%u allowed, %u denied, %u never, %u of changed limits: all as in memory\n",
           counts[RATION_ALLOW], counts[RATION_DENY], counts[RATION_NEVER], converted_count);
    ration_redis_argv_done(&words);
    freeReplyObject(loaded);
    redisFree(redis);
    return 0;
}
