/*
 * Fuzzes the step functions: the bytes make a limit and a sequence of calls on one bucket. After each call the rules are
 * checked: a denial changes nothing (R2), its wait is exact (R4), nothing exceeds the burst, and a full bucket decides like
 * a new one (R7).
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "base/time.h"
#include "core/algorithm.h"
#include "ration/ration.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct input {
    const uint8_t *data;
    size_t size;
};

static uint8_t take_byte(struct input *input)
{
    if (input->size == 0)
        return 0;
    input->size--;
    return *input->data++;
}

/* A number of any size in few bytes: their count, then the bytes; or a special number. */
static uint64_t take_number(struct input *input, const struct ration_limit *limit)
{
    const uint64_t special[] = {0,
                                1,
                                UINT64_MAX,
                                UINT64_MAX / 2,
                                limit->burst,
                                limit->burst + 1,
                                limit->period_ns,
                                limit->rate.token.ns};
    uint8_t form = take_byte(input);
    uint64_t number = 0;

    if (form & 0x80)
        return special[form & 7];
    for (int index = form & 7; index >= 0; index--)
        number = number << 8 | take_byte(input);
    return number;
}

static bool take_limit(struct input *input, struct ration_limit *limit)
{
    static const enum ration_algorithm algorithms[] = {RATION_TOKEN_BUCKET, RATION_LEAKY_QUEUE,
                                                       RATION_FIXED_WINDOW, RATION_SLIDING_WINDOW};
    const struct ration_limit none = {.tokens = 0};
    uint8_t form = take_byte(input);
    struct ration_limit_spec spec = {
        .algorithm = algorithms[form & 3],
        .refill = form & 4 ? RATION_REFILL_INTERVAL : RATION_REFILL_CONTINUOUS,
        .start = form & 8 ? RATION_START_EMPTY : RATION_START_FULL,
        .tokens = take_number(input, &none),
        .period_ns = take_number(input, &none),
        .burst = form & 16 ? take_number(input, &none) : 0,
    };
    struct ration_error error;

    if (ration_limit_make(&spec, limit, &error) == RATION_OK)
        return true;
    if (memchr(error.message, 0, sizeof(error.message)) == NULL || error.message[0] == 0)
        __builtin_trap();
    return false;
}

static bool equal(const struct ration_bucket *a, const struct ration_bucket *b)
{
    return memcmp(a, b, sizeof(*a)) == 0;
}

static void check_denial(const struct ration_bucket *before, const struct ration_bucket *after,
                         const struct ration_limit *limit, uint64_t cost,
                         const struct ration_decision *decision, uint64_t now_ns)
{
    uint64_t now = ration_time_clamp(now_ns);
    struct ration_bucket copy = *before;

    if (!equal(before, after))
        __builtin_trap();
    if (decision->verdict != RATION_DENY || decision->retry_after_ns > RATION_NOW_MAX_NS - now)
        return;
    if (decision->retry_after_ns == 0)
        __builtin_trap();
    if (ration_bucket_allow_at(&copy, limit, cost, now + decision->retry_after_ns - 1))
        __builtin_trap();
    if (!ration_bucket_allow_at(&copy, limit, cost, now + decision->retry_after_ns))
        __builtin_trap();
}

/* latest_ns is the latest now so far: R7 applies to clocks that do not run backwards. */
static void take(struct input *input, struct ration_bucket *bucket,
                 const struct ration_limit *limit, uint64_t latest_ns, uint64_t now_ns)
{
    uint64_t cost = take_number(input, limit);
    struct ration_bucket before = *bucket;
    struct ration_bucket forgotten = {{0, 0}};
    bool idle =
        now_ns >= latest_ns && ration_bucket_peek(bucket, limit, 0, now_ns).reset_after_ns == 0;
    struct ration_decision decision = ration_bucket_take(bucket, limit, cost, now_ns);

    if (decision.remaining > limit->burst || decision.limit != limit->burst)
        __builtin_trap();
    if (decision.verdict != RATION_ALLOW)
        check_denial(&before, bucket, limit, cost, &decision, now_ns);
    if (idle) {
        struct ration_decision again = ration_bucket_take(&forgotten, limit, cost, now_ns);

        if (again.verdict != decision.verdict || again.remaining != decision.remaining ||
            again.reset_after_ns != decision.reset_after_ns)
            __builtin_trap();
    }
}

static void reserve_and_settle(struct input *input, struct ration_bucket *bucket,
                               const struct ration_limit *limit, uint64_t now_ns)
{
    struct ration_bucket_reservation reservation;
    uint64_t cost = take_number(input, limit);
    uint64_t used = take_number(input, limit);
    struct ration_bucket before = *bucket;

    if (ration_bucket_reserve(bucket, limit, cost, take_number(input, limit), now_ns, &reservation)
            .verdict != RATION_ALLOW) {
        if (!equal(&before, bucket))
            __builtin_trap();
        return;
    }
    if (ration_bucket_settle(bucket, limit, &reservation, used, now_ns) != RATION_OK ||
        ration_bucket_cancel(bucket, limit, &reservation, now_ns) != RATION_ECLOSED)
        __builtin_trap();
}

static void call(struct input *input, struct ration_bucket *bucket, struct ration_limit *limit,
                 uint64_t latest_ns, uint64_t now_ns)
{
    struct ration_limit other;

    switch (take_byte(input) % 8) {
    case 0:
        ration_bucket_refund(bucket, limit, take_number(input, limit), now_ns);
        break;
    case 1:
        ration_bucket_charge(bucket, limit, take_number(input, limit), now_ns);
        break;
    case 2:
        ration_bucket_set(bucket, limit, take_number(input, limit), now_ns);
        break;
    case 3:
        ration_bucket_block_until(bucket, limit, take_number(input, limit));
        break;
    case 4:
        reserve_and_settle(input, bucket, limit, now_ns);
        break;
    case 5:
        if (take_limit(input, &other)) {
            ration_bucket_change(bucket, limit, &other, RATION_CHANGE_KEEP, now_ns);
            *limit = other;
        }
        break;
    default:
        take(input, bucket, limit, latest_ns, now_ns);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct input input = {data, size};
    struct ration_limit limit;
    struct ration_bucket bucket = {{0, 0}};
    uint64_t now_ns = 0;
    uint64_t latest_ns = 0;

    if (!take_limit(&input, &limit))
        return 0;
    ration_bucket_init(&bucket, &limit, now_ns);
    while (input.size > 0) {
        /* Usually later, sometimes any time. */
        if (take_byte(&input) & 1)
            now_ns += take_number(&input, &limit);
        else
            now_ns = take_number(&input, &limit);
        call(&input, &bucket, &limit, latest_ns, now_ns);
        latest_ns = now_ns > latest_ns ? now_ns : latest_ns;
    }
    return 0;
}
