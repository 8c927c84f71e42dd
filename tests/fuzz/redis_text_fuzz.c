/*
 * Any bytes as the value of a bucket in Redis, under limits of every algorithm: parsed, decided, converted. A value that
 * parses is written, and parses back to the same state. The first byte chooses the limit.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "limiter/log_ring.h"
#include "redis/convert.h"

/* Aborts in every build, so that a release build finds what a debug build does. */
#define CHECK(condition)  \
    do {                  \
        if (!(condition)) \
            abort();      \
    } while (0)

#define NOW_NS (UINT64_C(1794846534) * RATION_NS_PER_SECOND)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const char *const texts[] = {
    "10/min name a",
    "4 per 10s refill interval burst 9 name a",
    "3/s burst 2 reserve 100/h burst 5 name a",
    "5/s fixed_window name a",
    "5/s sliding_window name a",
    "6/10s sliding_log name a",
    "2/s leaky_queue burst 3 name a",
};
#define TEXT_COUNT (sizeof(texts) / sizeof(texts[0]))

static void check_same(const struct ration_bucket_state *a, const struct ration_bucket_state *b)
{
    if (a->limit->algorithm != RATION_SLIDING_LOG) {
        CHECK(ration_bucket_state_full_after_ns(a, NOW_NS) ==
              ration_bucket_state_full_after_ns(b, NOW_NS));
        return;
    }
    for (uint64_t i = 0; i < a->limit->tokens; i++)
        CHECK(ration_log_ring_moment(a, i) == ration_log_ring_moment(b, i));
}

/* Written and read again. */
static void check_round(const struct ration_bucket_state *any, uint64_t blocked_ns)
{
    struct ration_bucket_state back = {.limit = any->limit};
    struct ration_redis_log_codec runs;
    struct ration_redis_argv words;
    struct ration_redis_text text;
    uint64_t hold_back_ns;

    ration_redis_argv_init(&words);
    ration_redis_state_write(any, &(struct ration_redis_annotations){.blocked_ns = blocked_ns},
                             &words);
    text = (struct ration_redis_text){ration_redis_argv_at(&words, 0),
                                      ration_redis_argv_size(&words, 0)};
    CHECK(ration_redis_state_read(&text, NOW_NS, &runs, &back, &hold_back_ns));
    CHECK(hold_back_ns == blocked_ns);
    check_same(any, &back);
    ration_redis_argv_done(&words);
}

static void check_answer(const struct ration_limit *limit, struct ration_redis_text text,
                         bool is_taken)
{
    struct ration_redis_take_request ask = {.part_count = 1,
                                            .parts = {{.limit = limit, .cost_tokens = 1}}};
    struct ration_redis_answer answer = {.now_s = NOW_NS / RATION_NS_PER_SECOND,
                                         .is_taken = is_taken,
                                         .text_count = 1,
                                         .texts = {text}};
    struct ration_redis_take_result reported;
    struct ration_redis_argv words;

    if (ration_redis_take_result_read(&ask, &answer, &reported) == RATION_OK)
        CHECK((reported.decision.verdict == RATION_ALLOW) == is_taken);
    ration_redis_argv_init(&words);
    ration_redis_take_request_write(&ask, &(struct ration_redis_names){.prefix = "ration"}, &words);
    (void)ration_redis_convert_all(&ask, &answer, &words);
    ration_redis_argv_done(&words);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *copy =
        malloc(size > 0 ? size : 1); /* of its own size, so that reading beyond it is noticed */
    struct ration_redis_log_codec runs;
    struct ration_redis_text text;
    struct ration_limit limit;
    struct ration_bucket_state any = {.limit = &limit};
    uint64_t blocked_ns;

    if (size > 0 && copy != NULL &&
        ration_limit_parse(texts[data[0] % TEXT_COUNT], &limit, NULL) == RATION_OK) {
        memcpy(copy, data + 1, size - 1);
        text = (struct ration_redis_text){copy, size - 1};
        if (ration_redis_state_read(&text, NOW_NS, &runs, &any, &blocked_ns))
            check_round(&any, blocked_ns);
        check_answer(&limit, text, true);
        check_answer(&limit, text, false);
    }
    free(copy);
    return 0;
}
