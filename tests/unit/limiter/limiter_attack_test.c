/*
 * What an attacker with n keys can do to honest clients: measures the numbers in docs/reference/c-api-limiter.md ("What an
 * attacker with many keys can do") and checks them.
 *
 * A limiter of 10/min with places for 10 000 keys. 1000 established clients ask once in 10 s, at moments
 * of their own, for two minutes. In the second minute the attacker uses each of its n keys once, or
 * ten times, which uses up the key, evenly over the minute. Meanwhile new clients arrive, each once. The
 * clock is the test's.
 *
 *     limiter_attack_test table     prints the table
 */
#include <stdlib.h>

#include "base/random.h"
#include "unit/limiter/limiter_kit.h"

#define SLOTS             10000
#define ESTABLISHED_COUNT 1000
#define PERIOD_NS         (10 * SECOND)
#define MINUTE_NS         (60 * SECOND)
#define NEW_COUNT         1000
#define SAMPLE_COUNT      400

struct attack {
    enum ration_overflow overflow;
    const char *limit_text;
    uint64_t key_count;
    uint64_t repeat_count; /* of each key, at once */
};

struct damage {
    double new_denied_percent;
    double established_denied_percent;
    uint64_t lasting_s; /* after the attack, until fewer than 1 in 20 new clients are denied */
};

enum kind { ESTABLISHED, NEW, ATTACKER, SAMPLE };

static bool is_allowed(struct kit *kit, enum kind kind, uint64_t number)
{
    char name[32];
    int size = snprintf(name, sizeof(name), "%d-%llu", (int)kind, (unsigned long long)number);
    struct ration_key key = {name, (size_t)size};
    struct ration_decision decision;

    if (kind == ATTACKER)
        return ration_limiter_allow_at(kit->limiter, &key, 1, kit->manual.ns);
    if (kind == SAMPLE)
        ration_limiter_peek(kit->limiter, &key, 1, kit->manual.ns, &decision, NULL);
    else
        ration_limiter_take(kit->limiter, &key, 1, kit->manual.ns, &decision, NULL);
    return decision.verdict == RATION_ALLOW;
}

/* One of the senders, who sends count requests evenly from start_ns on, for duration_ns. */
struct sender {
    enum kind kind;
    uint64_t count, modulus, repeat_count; /* request i is of key i / repeat_count % modulus */
    uint64_t start_ns, duration_ns;
    uint64_t sent, denied;
};

static uint64_t next_ns(const struct sender *sender)
{
    return sender->sent == sender->count
               ? UINT64_MAX
               : sender->start_ns + (uint64_t)((double)sender->duration_ns *
                                               ((double)sender->sent / (double)sender->count));
}

/* All requests of all senders, in the order of time. */
static void run(struct kit *kit, struct sender *senders, size_t sender_count)
{
    for (;;) {
        struct sender *next = &senders[0];

        for (size_t i = 1; i < sender_count; i++)
            if (next_ns(&senders[i]) < next_ns(next))
                next = &senders[i];
        if (next_ns(next) == UINT64_MAX)
            return;
        kit->manual.ns = next_ns(next);
        next->denied +=
            !is_allowed(kit, next->kind, next->sent / next->repeat_count % next->modulus);
        next->sent++;
    }
}

static double denied_percent_of(const struct sender *sender)
{
    return 100 * (double)sender->denied / (double)sender->count;
}

static uint64_t lasting_s(struct kit *kit)
{
    uint64_t end_ns = kit->manual.ns;

    for (uint64_t s = 0; s < 3600; s++) {
        unsigned denied = 0;

        kit->manual.ns = end_ns + s * SECOND;
        for (uint64_t i = 0; i < SAMPLE_COUNT; i++)
            denied += !is_allowed(kit, SAMPLE, i);
        if (denied < SAMPLE_COUNT / 20)
            return s;
    }
    return UINT64_MAX;
}

static struct damage measure(struct attack attack)
{
    uint64_t asks = MINUTE_NS / PERIOD_NS * ESTABLISHED_COUNT;
    uint64_t start_ns = KIT_NOW_NS, attack_ns = KIT_NOW_NS + MINUTE_NS;
    struct sender warm_up[] = {
        {ESTABLISHED, asks, ESTABLISHED_COUNT, 1, start_ns, MINUTE_NS, 0, 0}};
    struct sender senders[] = {
        {ESTABLISHED, asks, ESTABLISHED_COUNT, 1, attack_ns, MINUTE_NS, 0, 0},
        {NEW, NEW_COUNT, NEW_COUNT, 1, attack_ns, MINUTE_NS, 0, 0},
        {ATTACKER, attack.key_count * attack.repeat_count, attack.key_count, attack.repeat_count,
         attack_ns, MINUTE_NS, 0, 0},
    };
    struct damage damage;
    struct kit kit;

    KIT_PLAN(&kit, attack.limit_text);
    kit.options.keys_max = SLOTS;
    kit.options.overflow = attack.overflow;
    kit_open(&kit);
    run(&kit, warm_up, 1);
    run(&kit, senders, KIT_COUNT_OF(senders));
    damage = (struct damage){denied_percent_of(&senders[1]), denied_percent_of(&senders[0]),
                             lasting_s(&kit)};
    kit_end(&kit);
    return damage;
}

static const char *const rule_names[] = {"shared", "deny", "allow"};

static void print_table(void)
{
    static const uint64_t counts[] = {SLOTS / 2, SLOTS, 10 * SLOTS, 100 * SLOTS};

    puts("| overflow | attacker's keys | requests of each | new clients denied | established "
         "denied | lasts |");
    puts("|---|--:|--:|--:|--:|--:|");
    for (enum ration_overflow overflow = RATION_OVERFLOW_SHARED; overflow <= RATION_OVERFLOW_ALLOW;
         overflow++)
        for (size_t i = 0; i < KIT_COUNT_OF(counts); i++)
            for (uint64_t repeat_count = 1; repeat_count <= 10; repeat_count += 9) {
                struct damage damage =
                    measure((struct attack){overflow, "10/min", counts[i], repeat_count});

                printf("| %s | %llu | %llu | %.1f %% | %.1f %% | %llu s |\n", rule_names[overflow],
                       (unsigned long long)counts[i], (unsigned long long)repeat_count,
                       damage.new_denied_percent, damage.established_denied_percent,
                       (unsigned long long)damage.lasting_s);
            }
}

static void established_clients_do_not_notice_a_flood(void **state)
{
    static const struct attack attacks[] = {
        {RATION_OVERFLOW_SHARED, "10/min", 10 * SLOTS, 10},
        {RATION_OVERFLOW_SHARED, "10/min", 50 * SLOTS, 1},
        {RATION_OVERFLOW_DENY, "10/min", 50 * SLOTS, 1},
    };

    (void)state;
    for (size_t i = 0; i < KIT_COUNT_OF(attacks); i++) {
        struct damage damage = measure(attacks[i]);

        assert_true(damage.established_denied_percent < 0.1);
        /* shows that there was a flood: many new clients are denied for a while */
        assert_true(damage.new_denied_percent > 40);
        assert_in_range(damage.lasting_s, 0, 90);
    }
}

static void as_many_keys_as_there_are_places_deny_nobody(void **state)
{
    (void)state;
    for (enum ration_overflow overflow = RATION_OVERFLOW_SHARED; overflow <= RATION_OVERFLOW_ALLOW;
         overflow++) {
        struct damage damage = measure((struct attack){overflow, "10/min", SLOTS, 10});

        assert_true(damage.established_denied_percent < 0.1);
        assert_true(damage.new_denied_percent < 1);
        assert_int_equal(damage.lasting_s, 0);
    }
}

/* Full keys do not keep a slot from a new key, however many keys the attacker has established. */
static void r7_established_keys_that_are_full_deny_nobody(void **state)
{
    (void)state;
    for (enum ration_overflow overflow = RATION_OVERFLOW_SHARED; overflow <= RATION_OVERFLOW_ALLOW;
         overflow++) {
        struct damage damage = measure((struct attack){overflow, "10/s", 4 * SLOTS, 2});

        assert_true(damage.established_denied_percent < 0.1);
        assert_true(damage.new_denied_percent < 0.1);
        assert_int_equal(damage.lasting_s, 0);
    }
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(established_clients_do_not_notice_a_flood),
        cmocka_unit_test(as_many_keys_as_there_are_places_deny_nobody),
        cmocka_unit_test(r7_established_keys_that_are_full_deny_nobody),
    };

    if (argc > 1 && strcmp(argv[1], "table") == 0) {
        print_table();
        return 0;
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
