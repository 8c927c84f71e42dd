/*
 * subjects: limiters of every algorithm, called at random and compared.
 */
#ifndef RATION_TESTS_SUBJECTS_H
#define RATION_TESTS_SUBJECTS_H

#include <stdio.h>
#include <string.h>

#include "base/random.h"
#include "ration/ration.h"
#include "support/unit.h"

#define SUBJECT_RULES_MAX 4

struct subject {
    const char *name;
    const char *rules[SUBJECT_RULES_MAX]; /* texts; the rest is NULL */
    bool is_stackable;
    bool has_windows; /* whose ends are aligned to the clock's zero */
};

static const struct subject subjects[] = {
    {.name = "token bucket", .rules = {"10/s burst 20"}},
    {.name = "token of a third", .rules = {"3/s burst 7"}},
    {.name = "fast", .rules = {"900000/s burst 5000"}},
    {.name = "slow", .rules = {"1/d burst 3"}},
    {.name = "stackable", .rules = {"7/s burst 9"}, .is_stackable = true},
    {.name = "queue", .rules = {"7/s burst 5 leaky_queue"}},
    {.name = "interval", .rules = {"5/s burst 12 refill interval"}},
    {.name = "wide interval", .rules = {"2M/s burst 3M refill interval"}},
    {.name = "reserve", .rules = {"3/s burst 4 reserve 7/min burst 9"}},
    {.name = "fixed window", .rules = {"9/s fixed_window"}, .has_windows = true},
    {.name = "sliding window", .rules = {"9/s sliding_window"}, .has_windows = true},
    {.name = "log", .rules = {"9/s sliding_log"}},
    {.name = "starts empty", .rules = {"3/s burst 7 start empty"}},
    {.name = "log, starts empty", .rules = {"9/s sliding_log start 2"}},
    {.name = "two buckets", .rules = {"3/s burst 7", "11/min"}},
    {.name = "all kinds",
     .rules = {"3/s burst 7 start 2", "9/min sliding_log", "20/min sliding_window",
               "50/h refill interval"},
     .has_windows = true},
    {.name = "the rest",
     .rules = {"7/s burst 5 leaky_queue", "30/min fixed_window", "3/s burst 9 reserve 7/min"},
     .has_windows = true},
};

#define SUBJECT_COUNT (sizeof(subjects) / sizeof(subjects[0]))

/* rules has room for SUBJECT_RULES_MAX, and stays in use by the options. */
static inline struct ration_limiter_options subject_options(const struct subject *subject,
                                                            struct ration_rule *rules,
                                                            const struct ration_clock *clock)
{
    struct ration_limiter_options options = {
        .struct_size = sizeof(options),
        .rules = rules,
        .keys_max = 500,
        .clock = clock,
        .is_stackable = subject->is_stackable,
    };

    memset(rules, 0, SUBJECT_RULES_MAX * sizeof(*rules));
    while (options.rule_count < SUBJECT_RULES_MAX && subject->rules[options.rule_count] != NULL) {
        struct ration_rule *rule = &rules[options.rule_count];

        assert_int_equal(
            ration_limit_parse(subject->rules[options.rule_count++], &rule->limit, NULL),
            RATION_OK);
        rule->stale_after_ns = RATION_NS_PER_HOUR;
    }
    return options;
}

static inline ration_limiter *subject_create(const struct ration_limiter_options *options)
{
    ration_limiter *limiter = NULL;

    assert_int_equal(ration_limiter_create(options, &limiter, NULL), RATION_OK);
    return limiter;
}

struct subject_key {
    char text[24];
    struct ration_key key;
};

static inline const void *subject_request(struct subject_key *key, uint64_t index)
{
    key->key.bytes = key->text;
    key->key.size =
        (size_t)snprintf(key->text, sizeof(key->text), "key-%llu", (unsigned long long)index);
    return &key->key;
}

/* Any call on a random key. */
static inline void subject_act(ration_limiter *limiter, uint64_t key_count, uint64_t *random,
                               uint64_t now_ns)
{
    struct subject_key key;
    const void *request = subject_request(&key, ration_random_up_to(random, key_count - 1));
    uint64_t tokens = ration_random_up_to(random, 4);
    uint64_t wait_ns = ration_random_up_to(random, 3 * RATION_NS_PER_SECOND);
    struct ration_decision decision;
    struct ration_reservation reservation;

    switch (ration_random_up_to(random, 15)) {
    case 0:
        ration_limiter_charge(limiter, request, 1 + tokens, now_ns);
        break;
    case 1:
        ration_limiter_refund(limiter, request, tokens, now_ns);
        break;
    case 2:
        ration_limiter_reserve(limiter, request, tokens, wait_ns, now_ns, &decision, &reservation);
        break;
    case 3:
        ration_limiter_block_until(limiter, request, now_ns + wait_ns, now_ns);
        break;
    default:
        ration_limiter_take(limiter, request, tokens, now_ns, &decision, NULL);
    }
}

static inline bool decisions_equal(const struct ration_decision *a, const struct ration_decision *b)
{
    return a->verdict == b->verdict && a->limit == b->limit && a->remaining == b->remaining &&
           a->retry_after_ns == b->retry_after_ns && a->reset_after_ns == b->reset_after_ns &&
           a->delay_ns == b->delay_ns;
}

/* The number of keys for which the two answer differently, each at its own now. */
static inline uint64_t subjects_differ(ration_limiter *one, uint64_t one_now_ns,
                                       ration_limiter *other, uint64_t other_now_ns,
                                       uint64_t key_count)
{
    uint64_t count = 0;

    for (uint64_t i = 0; i < key_count; i++) {
        struct ration_decision a[RATION_RULES_MAX + 1] = {0}, b[RATION_RULES_MAX + 1] = {0};
        struct subject_key key;
        const void *request = subject_request(&key, i);
        bool is_equal = true;

        for (uint64_t cost = 0; cost <= 3 && is_equal; cost++) {
            ration_limiter_peek(one, request, cost, one_now_ns, &a[0], &a[1]);
            ration_limiter_peek(other, request, cost, other_now_ns, &b[0], &b[1]);
            for (size_t k = 0; k <= ration_limiter_rule_count(one); k++)
                is_equal &= decisions_equal(&a[k], &b[k]);
        }
        count += !is_equal;
    }
    return count;
}

#endif
