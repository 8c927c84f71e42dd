/*
 * limiter_kit: a limiter made from the texts of its limits, on a clock that a test sets, and keys
 * that are strings.
 *
 *     struct kit kit;
 *     KIT_BEGIN(&kit, "10/s burst 20", "1000/d");
 *     assert_answer(kit_take(&kit, "alice", 3), RATION_ALLOW, 17, 0);
 *     kit_end(&kit);
 *
 * For other options: KIT_PLAN(), then change kit.options, then kit_open().
 */
#ifndef RATION_TESTS_LIMITER_KIT_H
#define RATION_TESTS_LIMITER_KIT_H

#include <stdio.h>
#include <string.h>

#include "ration/ration.h"
#include "support/unit.h"

#define SECOND RATION_NS_PER_SECOND
#define MS     RATION_NS_PER_MS

/* When a kit begins. A multiple of all windows that tests have. */
#define KIT_NOW_NS (7200 * SECOND)

/* The factor by which long tests are shortened in slow builds. */
#ifdef RATION_TESTS_SHORT
#define KIT_SHARE 100
#else
#define KIT_SHARE 1
#endif

struct kit {
    struct ration_manual_clock manual;
    struct ration_clock clock;
    struct ration_rule rules[RATION_RULES_MAX];
    struct ration_limiter_options options;
    ration_limiter *limiter;
};

#define KIT_TEXTS(...)      ((const char *const[]){__VA_ARGS__, NULL})
#define KIT_PLAN(kit, ...)  kit_plan(kit, KIT_TEXTS(__VA_ARGS__))
#define KIT_BEGIN(kit, ...) (KIT_PLAN(kit, __VA_ARGS__), kit_open(kit))
#define KIT_COUNT_OF(array) (sizeof(array) / sizeof((array)[0]))

static inline struct ration_limit kit_limit(const char *text)
{
    struct ration_limit limit;
    struct ration_error error = {.message = ""};

    if (ration_limit_parse(text, &limit, &error) != RATION_OK)
        fail_msg("%s: %s", text, error.message);
    return limit;
}

/* Fills rules from texts, which end with NULL. Returns how many. */
static inline size_t kit_rules(struct ration_rule *rules, const char *const *texts)
{
    size_t count = 0;

    for (; texts[count] != NULL; count++)
        rules[count] = (struct ration_rule){.limit = kit_limit(texts[count])};
    return count;
}

static inline void kit_plan(struct kit *kit, const char *const *texts)
{
    memset(kit, 0, sizeof(*kit));
    kit->manual.ns = KIT_NOW_NS;
    kit->clock = ration_clock_manual(&kit->manual);
    kit->options = (struct ration_limiter_options){
        .struct_size = sizeof(kit->options),
        .rules = kit->rules,
        .rule_count = kit_rules(kit->rules, texts),
        .keys_max = 1000,
        .clock = &kit->clock,
    };
}

static inline void kit_open(struct kit *kit)
{
    struct ration_error error = {.message = ""};

    if (ration_limiter_create(&kit->options, &kit->limiter, &error) != RATION_OK)
        fail_msg("%s", error.message);
}

static inline void kit_end(struct kit *kit)
{
    ration_limiter_free(kit->limiter);
    kit->limiter = NULL;
}

static inline struct ration_key kit_key(const char *text)
{
    return (struct ration_key){text, strlen(text)};
}

/* A numbered key; its text lives in room. */
struct kit_room {
    char text[32];
};

static inline struct ration_key kit_numbered(struct kit_room *room, uint64_t number)
{
    int size = snprintf(room->text, sizeof(room->text), "key-%llu", (unsigned long long)number);

    return (struct ration_key){room->text, (size_t)size};
}

static inline void kit_pass(struct kit *kit, uint64_t ns)
{
    ration_clock_manual_advance(&kit->manual, ns);
}

static inline struct ration_decision kit_take_key(struct kit *kit, struct ration_key key,
                                                  uint64_t cost)
{
    struct ration_decision decision;

    assert_int_equal(ration_limiter_take(kit->limiter, &key, cost, kit->manual.ns, &decision, NULL),
                     RATION_OK);
    return decision;
}

static inline struct ration_decision kit_take(struct kit *kit, const char *text, uint64_t cost)
{
    return kit_take_key(kit, kit_key(text), cost);
}

static inline struct ration_decision kit_peek_key(struct kit *kit, struct ration_key key,
                                                  uint64_t cost)
{
    struct ration_decision decision;

    assert_int_equal(ration_limiter_peek(kit->limiter, &key, cost, kit->manual.ns, &decision, NULL),
                     RATION_OK);
    return decision;
}

static inline struct ration_decision kit_peek(struct kit *kit, const char *text, uint64_t cost)
{
    return kit_peek_key(kit, kit_key(text), cost);
}

static inline uint64_t kit_left(struct kit *kit, const char *text)
{
    return kit_peek(kit, text, 0).remaining;
}

static inline struct ration_limiter_report kit_report(const struct kit *kit)
{
    struct ration_limiter_report report;

    ration_limiter_read_report(kit->limiter, &report);
    return report;
}

/* Keys that have found no place until now. */
static inline uint64_t kit_overflow_count(const struct kit *kit)
{
    struct ration_limiter_stats stats = kit_report(kit).limiter;

    return stats.overflow_shared + stats.overflow_deny + stats.overflow_allow;
}

#define KIT_CROWD_MAX 256

/*
 * Fills a limiter of keys_max 1 with keys that have tokens in use for a very long time, and advances the clock until the
 * overflow bucket is full again. Its first limit has a burst of 256 or more, and is full again within an hour. From then
 * on no new key finds a place. Returns how many keys have one: numbers[] of kit_numbered().
 */
static inline size_t kit_crowd(struct kit *kit, uint64_t numbers[KIT_CROWD_MAX])
{
    struct kit_room room;
    size_t placed_count = 0;

    for (uint64_t i = 0; i < KIT_CROWD_MAX; i++) {
        uint64_t overflow_count = kit_overflow_count(kit);

        kit_take_key(kit, kit_numbered(&room, i), 1);
        if (kit_overflow_count(kit) == overflow_count)
            numbers[placed_count++] = i;
    }
    for (size_t i = 0; i < placed_count; i++) {
        struct ration_key key = kit_numbered(&room, numbers[i]);

        assert_int_equal(ration_limiter_charge(kit->limiter, &key, UINT32_MAX, kit->manual.ns),
                         RATION_OK);
    }
    kit_pass(kit, RATION_NS_PER_HOUR);
    return placed_count;
}

/* A place in the line of the key "k". */
static inline struct ration_decision kit_reserve(struct kit *kit, uint64_t cost,
                                                 uint64_t max_wait_ns,
                                                 struct ration_reservation *reservation)
{
    struct ration_decision decision;

    assert_int_equal(ration_limiter_reserve(kit->limiter, &RATION_KEY("k"), cost, max_wait_ns,
                                            kit->manual.ns, &decision, reservation),
                     RATION_OK);
    return decision;
}

#define assert_answer(decision, verdict, remaining, retry_after_ns) \
    kit_assert_answer(decision, verdict, remaining, retry_after_ns, __FILE__, __LINE__)

static inline void kit_assert_answer(struct ration_decision got, enum ration_verdict verdict,
                                     uint64_t remaining, uint64_t retry_after_ns, const char *file,
                                     int line)
{
    if (got.verdict == verdict && got.remaining == remaining &&
        got.retry_after_ns == retry_after_ns)
        return;
    print_error("%s, %llu left, retry after %llu ns; wanted %s, %llu, %llu\n",
                ration_decision_verdict_name(got.verdict), (unsigned long long)got.remaining,
                (unsigned long long)got.retry_after_ns, ration_decision_verdict_name(verdict),
                (unsigned long long)remaining, (unsigned long long)retry_after_ns);
    _fail(file, line);
}

/* Equal in every field, which limit decided included. */
#define assert_same_decision(a, b) kit_assert_same(a, b, __FILE__, __LINE__)

static inline void kit_assert_same(struct ration_decision a, struct ration_decision b,
                                   const char *file, int line)
{
    if (memcmp(&a, &b, sizeof(a)) == 0)
        return;
    for (int i = 0; i < 2; i++) {
        const struct ration_decision *d = i == 0 ? &a : &b;

        print_error("%s, limit %u of %u: %llu, %llu left, retry %llu, reset %llu, delay %llu\n",
                    ration_decision_verdict_name(d->verdict), d->limit_index, d->limiter_index,
                    (unsigned long long)d->limit, (unsigned long long)d->remaining,
                    (unsigned long long)d->retry_after_ns, (unsigned long long)d->reset_after_ns,
                    (unsigned long long)d->delay_ns);
    }
    _fail(file, line);
}

/*
 * R4, for a denial of key at the kit's now: a nanosecond before the end of the reported wait a peek says DENY, and at the
 * end it says ALLOW.
 */
#define assert_wait_is_exact(kit, key, cost, denied) \
    kit_assert_wait(kit, key, cost, denied, __FILE__, __LINE__)

static inline void kit_assert_wait(struct kit *kit, struct ration_key key, uint64_t cost,
                                   struct ration_decision denied, const char *file, int line)
{
    uint64_t reported_ns = kit->manual.ns + denied.retry_after_ns;
    struct ration_decision early, on_time;

    if (denied.verdict != RATION_DENY || denied.retry_after_ns == 0) {
        print_error("not a denial with a wait\n");
        _fail(file, line);
    }
    ration_limiter_peek(kit->limiter, &key, cost, reported_ns - 1, &early, NULL);
    ration_limiter_peek(kit->limiter, &key, cost, reported_ns, &on_time, NULL);
    if (early.verdict == RATION_DENY && early.retry_after_ns == 1 &&
        on_time.verdict == RATION_ALLOW)
        return;
    print_error(
        "reported a wait of %llu ns: 1 ns earlier it is %s (retry %llu), then %s (retry %llu)\n",
        (unsigned long long)denied.retry_after_ns, ration_decision_verdict_name(early.verdict),
        (unsigned long long)early.retry_after_ns, ration_decision_verdict_name(on_time.verdict),
        (unsigned long long)on_time.retry_after_ns);
    _fail(file, line);
}

#endif
