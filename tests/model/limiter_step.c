#include "limiter_step.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* What a slot can hold, and what a debt may add to now: see docs/ARCHITECTURE.md. */
#define TABLE_NOW_MAX_NS ((UINT64_C(1) << 60) - 1 - (UINT64_C(1) << 59) - 365 * RATION_NS_PER_DAY)

static const char *const call_names[LIMITER_CALL_COUNT] = {"take",  "peek",    "allow",  "up_to",
                                                           "batch", "reserve", "settle", "refund",
                                                           "force", "reset",   "block"};
static const char *const scope_names[] = {"one", "all", "list"};

uint64_t limiter_plan_stale_after_ns(const struct limiter_plan *plan)
{
    uint64_t longest = 0;

    for (unsigned i = 0; i < plan->rule_count; i++) {
        const struct ration_rule *rule = &plan->rules[i];
        uint64_t stale = rule->stale_after_ns ? rule->stale_after_ns : RATION_NS_PER_DAY;

        if (rule->limit.start != RATION_START_FULL && stale > longest)
            longest = stale;
    }
    return longest;
}

/* A clock of one's own that reads little starts at zero. */
uint64_t limiter_setup_epoch_ns(const struct limiter_setup *setup)
{
    return setup->clock_ns < TABLE_NOW_MAX_NS / 2 ? 0 : setup->clock_ns;
}

uint64_t limiter_setup_clamp(const struct limiter_setup *setup, uint64_t now_ns)
{
    uint64_t first = limiter_setup_epoch_ns(setup);
    uint64_t last = first + TABLE_NOW_MAX_NS;

    return now_ns < first ? first : now_ns > last ? last : now_ns;
}

static bool decisions_equal(const struct ration_decision *a, const struct ration_decision *b)
{
    return a->verdict == b->verdict && a->limit_index == b->limit_index &&
           a->limiter_index == b->limiter_index && a->limit == b->limit &&
           a->remaining == b->remaining && a->retry_after_ns == b->retry_after_ns &&
           a->reset_after_ns == b->reset_after_ns && a->delay_ns == b->delay_ns;
}

bool limiter_answers_equal(const struct limiter_answer *a, const struct limiter_answer *b)
{
    bool equal = a->status == b->status && decisions_equal(&a->decision, &b->decision) &&
                 a->granted == b->granted && a->ready_at_ns == b->ready_at_ns &&
                 a->detail_count == b->detail_count &&
                 memcmp(a->verdicts, b->verdicts, sizeof a->verdicts) == 0;

    for (unsigned i = 0; i < a->detail_count && equal; i++)
        equal = decisions_equal(&a->details[i], &b->details[i]);
    return equal;
}

void limiter_print_setup(const struct limiter_setup *setup)
{
    printf("  %s of %u, %u keys, made at %" PRIu64 "%s%s\n", setup->is_stack ? "stack" : "limiter",
           setup->limiter_count, setup->key_count, setup->clock_ns,
           setup->has_key_func ? ", key_func" : "", setup->trusts_keys ? "" : ", secret hash");
    for (unsigned i = 0; i < setup->limiter_count; i++) {
        const struct limiter_plan *plan = &setup->plans[i];

        printf("  limiter %u: keys_max %" PRIu64 ", overflow %d\n", i, plan->keys_max,
               (int)plan->overflow);
        for (unsigned k = 0; k < plan->rule_count; k++) {
            char text[RATION_LIMIT_TEXT_SIZE];

            ration_limit_print(&plan->rules[k].limit, text, sizeof text);
            printf("    rule %u: %s%s, stale_after %" PRIu64 "\n", k, text,
                   plan->rules[k].is_shadow ? " (shadow)" : "", plan->rules[k].stale_after_ns);
        }
    }
}

void limiter_print_step(const struct limiter_step *step)
{
    printf("%s %s at %" PRIu64, call_names[step->call], scope_names[step->scope], step->now_ns);
    if (step->call == LIMITER_RESERVE)
        printf(" max_wait %" PRIu64 " reservation %u", step->max_wait_ns, step->reservation);
    if (step->call == LIMITER_SETTLE)
        printf(" used %" PRIu64 " reservation %u", step->used_tokens, step->reservation);
    if (step->call == LIMITER_BLOCK)
        printf(" until %" PRIu64, step->until_ns);
    for (unsigned i = 0; i < step->ask_count; i++)
        printf(" [%u k%u %" PRIu64 "]", step->asks[i].limiter, step->asks[i].key,
               step->asks[i].tokens);
    printf("\n");
}

static void print_decision(const char *title, const struct ration_decision *d)
{
    printf("  %-8s %s [%u.%u] limit %" PRIu64 " remaining %" PRIu64 " retry %" PRIu64
           " reset %" PRIu64 " delay %" PRIu64 "\n",
           title, ration_decision_verdict_name(d->verdict), d->limiter_index, d->limit_index,
           d->limit, d->remaining, d->retry_after_ns, d->reset_after_ns, d->delay_ns);
}

void limiter_print_answer(const char *title, const struct limiter_answer *answer)
{
    print_decision(title, &answer->decision);
    printf("           status %d granted %" PRIu64 " ready at %" PRIu64 "\n", (int)answer->status,
           answer->granted, answer->ready_at_ns);
    for (unsigned i = 0; i < answer->detail_count; i++)
        print_decision("", &answer->details[i]);
    printf("           batch ");
    for (unsigned i = 0; i < LIMITER_ASKS_MAX; i++)
        printf("%d", (int)answer->verdicts[i]);
    printf("\n");
}
