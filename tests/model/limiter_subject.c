#include "limiter_subject.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "limiter/limiter_internal.h"
#include "store/memory.h"

/* The keys of a request, one per limiter. */
struct request {
    unsigned keys[LIMITER_COUNT_MAX];
    struct ration_key plain; /* without a key_func: this */
    char room[16];
};

static ration_status find_key(void *context, const void *request, char *room,
                              struct ration_key *out_key)
{
    const unsigned *index = context;
    const struct request *r = request;
    int size = snprintf(room, RATION_KEY_ROOM_SIZE, "k%u", r->keys[*index]);

    *out_key = (struct ration_key){room, (size_t)size};
    return RATION_OK;
}

/* Key 0 is the empty one. */
static const void *make_request(const struct limiter_subject *s, const struct limiter_ask *asks,
                                unsigned ask_count, struct request *out)
{
    int size = 0;

    for (unsigned i = 0; i < ask_count; i++)
        out->keys[asks[i].limiter] = asks[i].key;
    if (s->setup->has_key_func)
        return out;
    if (asks[0].key > 0)
        size = snprintf(out->room, sizeof out->room, "k%u", asks[0].key);
    out->plain = (struct ration_key){out->room, (size_t)size};
    return &out->plain;
}

ration_limiter *limiter_subject_at(const struct limiter_subject *s, unsigned index)
{
    return s->stack ? ration_stack_limiter(s->stack, index) : s->limiter;
}

/* --- calls of one limiter --- */

static void keep_reservation(struct limiter_subject *s, const struct limiter_step *step,
                             const struct ration_reservation *reservation,
                             struct limiter_answer *out)
{
    if (out->decision.verdict != RATION_ALLOW)
        return;
    s->reservations[step->reservation] = *reservation;
    out->ready_at_ns = reservation->ready_at_ns;
}

static void answer_batch(struct limiter_subject *s, const struct limiter_step *step,
                         struct limiter_answer *out)
{
    struct request requests[LIMITER_ASKS_MAX];
    struct ration_batch_item items[LIMITER_ASKS_MAX];

    for (unsigned i = 0; i < step->ask_count; i++)
        items[i] =
            (struct ration_batch_item){.request = make_request(s, &step->asks[i], 1, &requests[i]),
                                       .cost_tokens = step->asks[i].tokens,
                                       .verdict = RATION_NEVER,
                                       .status = RATION_EINVAL};
    out->granted = ration_limiter_take_batch(limiter_subject_at(s, step->asks[0].limiter), items,
                                             step->ask_count, step->now_ns);
    for (unsigned i = 0; i < step->ask_count; i++) {
        out->verdicts[i] = items[i].verdict;
        if (items[i].status != RATION_OK)
            out->status = items[i].status;
    }
}

/* What others have returned to each bucket of a reservation since it was written. */
static void count_returned(struct limiter_subject *s, const struct ration_reservation *reservation,
                           struct limiter_answer *out)
{
    const struct ration_memory *memory =
        (const struct ration_memory *)limiter_subject_at(s, 0)->store;

    for (uint32_t i = 0; i < reservation->part_count; i++) {
        const struct ration_reservation_part *part = &reservation->parts[i];
        struct ration_target target = {.is_located = 1};
        struct ration_section_returns returns;
        struct ration_location place;

        memcpy(target.location.words, part->location, sizeof part->location);
        place = ration_memory_place(memory, &target);
        returns = ration_section_returned(&memory->sections[part->limiter_index], &place);
        out->returned[i] = returns.returned_tokens - part->returned_tokens;
        out->refunded[i] = returns.refunded_tokens - part->refunded_tokens;
    }
}

static void answer_one(struct limiter_subject *s, const struct limiter_step *step,
                       struct limiter_answer *out)
{
    const struct limiter_ask *ask = &step->asks[0];
    ration_limiter *l = limiter_subject_at(s, ask->limiter);
    struct request room;
    const void *request = make_request(s, ask, 1, &room);
    struct ration_reservation reservation;

    switch (step->call) {
    case LIMITER_TAKE:
        out->detail_count = s->setup->plans[ask->limiter].rule_count;
        out->status = ration_limiter_take(l, request, ask->tokens, step->now_ns, &out->decision,
                                          out->details);
        break;
    case LIMITER_PEEK:
        out->detail_count = s->setup->plans[ask->limiter].rule_count;
        out->status = ration_limiter_peek(l, request, ask->tokens, step->now_ns, &out->decision,
                                          out->details);
        break;
    case LIMITER_ALLOW:
        out->decision.verdict = ration_limiter_allow_at(l, request, ask->tokens, step->now_ns)
                                    ? RATION_ALLOW
                                    : RATION_DENY;
        break;
    case LIMITER_UP_TO:
        out->status = ration_limiter_take_up_to(l, request, ask->tokens, step->now_ns,
                                                &out->granted, &out->decision);
        break;
    case LIMITER_RESERVE:
        out->status = ration_limiter_reserve(l, request, ask->tokens, step->max_wait_ns,
                                             step->now_ns, &out->decision, &reservation);
        keep_reservation(s, step, &reservation, out);
        break;
    case LIMITER_SETTLE:
        count_returned(s, &s->reservations[step->reservation], out);
        out->status =
            step->used_tokens == 0
                ? ration_limiter_cancel(l, &s->reservations[step->reservation], step->now_ns)
                : ration_limiter_settle(l, &s->reservations[step->reservation], step->used_tokens,
                                        step->now_ns);
        if (ration_limiter_cancel(l, &s->reservations[step->reservation], step->now_ns) !=
            RATION_ECLOSED)
            out->status = RATION_EINVAL;
        break;
    case LIMITER_REFUND:
        out->status = ration_limiter_refund(l, request, ask->tokens, step->now_ns);
        break;
    case LIMITER_CHARGE:
        out->status = ration_limiter_charge(l, request, ask->tokens, step->now_ns);
        break;
    case LIMITER_RESET:
        out->status = ration_limiter_reset(l, request, step->now_ns);
        break;
    case LIMITER_BLOCK:
        out->status = ration_limiter_block_until(l, request, step->until_ns, step->now_ns);
        break;
    default:
        answer_batch(s, step, out);
    }
}

/* --- calls of a stack --- */

static unsigned rules_of_all(const struct limiter_setup *setup)
{
    unsigned count = 0;

    for (unsigned i = 0; i < setup->limiter_count; i++)
        count += setup->plans[i].rule_count;
    return count;
}

static void answer_all(struct limiter_subject *s, const struct limiter_step *step,
                       struct limiter_answer *out)
{
    struct request room;
    const void *request = make_request(s, step->asks, step->ask_count, &room);
    uint64_t tokens = step->asks[0].tokens;
    struct ration_reservation reservation;

    switch (step->call) {
    case LIMITER_TAKE:
        out->detail_count = rules_of_all(s->setup);
        out->status = ration_stack_take(s->stack, request, tokens, step->now_ns, &out->decision,
                                        out->details);
        break;
    case LIMITER_PEEK:
        out->detail_count = rules_of_all(s->setup);
        out->status = ration_stack_peek(s->stack, request, tokens, step->now_ns, &out->decision,
                                        out->details);
        break;
    case LIMITER_ALLOW:
        out->decision.verdict = ration_stack_allow_at(s->stack, request, tokens, step->now_ns)
                                    ? RATION_ALLOW
                                    : RATION_DENY;
        break;
    case LIMITER_RESERVE:
        out->status = ration_stack_reserve(s->stack, request, tokens, step->max_wait_ns,
                                           step->now_ns, &out->decision, &reservation);
        keep_reservation(s, step, &reservation, out);
        break;
    default: /* SETTLE */
        count_returned(s, &s->reservations[step->reservation], out);
        out->status = ration_stack_settle(s->stack, &s->reservations[step->reservation],
                                          step->used_tokens, step->now_ns);
    }
}

static void answer_list(struct limiter_subject *s, const struct limiter_step *step,
                        struct limiter_answer *out)
{
    struct request rooms[LIMITER_ASKS_MAX];
    struct ration_stack_request asks[LIMITER_ASKS_MAX];

    for (unsigned i = 0; i < step->ask_count; i++)
        asks[i] = (struct ration_stack_request){step->asks[i].limiter,
                                                make_request(s, &step->asks[i], 1, &rooms[i]),
                                                step->asks[i].tokens};
    out->status =
        ration_stack_take_all(s->stack, asks, step->ask_count, step->now_ns, &out->decision);
}

static void answer(struct limiter_answerer *self, const struct limiter_step *step,
                   struct limiter_answer *out)
{
    struct limiter_subject *s = (struct limiter_subject *)self;

    memset(out, 0, sizeof *out);
    ration_clock_manual_set(&s->clock, step->now_ns);
    if (step->scope == LIMITER_ONE)
        answer_one(s, step, out);
    else if (step->scope == LIMITER_ALL)
        answer_all(s, step, out);
    else
        answer_list(s, step, out);
}

/* --- made, dumped, loaded --- */

struct bytes {
    unsigned char *data;
    size_t size;
    size_t capacity;
    size_t read;
};

static ration_status write_bytes(void *context, const void *bytes, size_t size)
{
    struct bytes *b = context;

    if (b->size + size > b->capacity) {
        b->capacity = 2 * (b->size + size);
        b->data = realloc(b->data, b->capacity);
        if (b->data == NULL)
            return RATION_ENOMEM;
    }
    memcpy(b->data + b->size, bytes, size);
    b->size += size;
    return RATION_OK;
}

static ration_status read_bytes(void *context, void *bytes, size_t size, size_t *out_size)
{
    struct bytes *b = context;
    size_t rest = b->size - b->read;

    *out_size = size < rest ? size : rest;
    memcpy(bytes, b->data + b->read, *out_size);
    b->read += *out_size;
    return RATION_OK;
}

/* Makes it; from a dump if there is one. */
static void make(struct limiter_subject *s, struct bytes *dump)
{
    static const unsigned indexes[LIMITER_COUNT_MAX] = {0, 1, 2};
    const struct limiter_setup *setup = s->setup;
    struct ration_clock clock = ration_clock_manual(&s->clock);
    struct ration_limiter_options options[LIMITER_COUNT_MAX];
    struct ration_error error = {0};
    ration_status status;

    for (unsigned i = 0; i < setup->limiter_count; i++)
        options[i] = (struct ration_limiter_options){
            .struct_size = sizeof options[i],
            .rules = setup->plans[i].rules,
            .rule_count = setup->plans[i].rule_count,
            .keys_max = setup->plans[i].keys_max,
            .overflow = setup->plans[i].overflow,
            .key_func = setup->has_key_func ? find_key : NULL,
            .key_context = (void *)(uintptr_t)&indexes[i],
            .clock = &clock,
            .is_stackable = setup->is_stackable,
            .threads_max = 1,
            .trusts_keys = setup->trusts_keys,
        };

    struct ration_stack_options all = {.struct_size = sizeof all,
                                       .limiters = options,
                                       .limiter_count = setup->limiter_count,
                                       .clock = &clock,
                                       .threads_max = 1,
                                       .trusts_keys = setup->trusts_keys};

    if (setup->is_stack)
        status = dump ? ration_stack_load(&all, read_bytes, dump, &s->stack, &error)
                      : ration_stack_create(&all, &s->stack, &error);
    else
        status = dump ? ration_limiter_load(options, read_bytes, dump, &s->limiter, &error)
                      : ration_limiter_create(options, &s->limiter, &error);
    if (status != RATION_OK) {
        printf("cannot be made: %s\n", error.message);
        abort();
    }
}

void limiter_subject_init(struct limiter_subject *s, const struct limiter_setup *setup)
{
    memset(s, 0, sizeof *s);
    s->base.answer = answer;
    s->setup = setup;
    ration_clock_manual_set(&s->clock, setup->clock_ns);
    make(s, NULL);
}

void limiter_subject_done(struct limiter_subject *s)
{
    ration_limiter_free(s->limiter);
    ration_stack_free(s->stack);
    s->limiter = NULL;
    s->stack = NULL;
}

void limiter_subject_reload(struct limiter_subject *s, uint64_t now_ns, uint64_t later_ns)
{
    struct bytes dump = {0};
    ration_status status;

    ration_clock_manual_set(&s->clock, now_ns);
    status = s->stack ? ration_stack_dump(s->stack, now_ns, write_bytes, &dump)
                      : ration_limiter_dump(s->limiter, now_ns, write_bytes, &dump);
    if (status != RATION_OK)
        abort();
    limiter_subject_done(s);
    ration_clock_manual_set(&s->clock, later_ns);
    make(s, &dump);
    free(dump.data);
}

struct ration_limiter_stats limiter_subject_stats(const struct limiter_subject *s)
{
    struct ration_limiter_stats sum = {0};

    for (unsigned i = 0; i < s->setup->limiter_count; i++) {
        struct ration_limiter_report report;

        ration_limiter_read_report(limiter_subject_at(s, i), &report);
        sum.overflow_shared += report.limiter.overflow_shared;
        sum.overflow_deny += report.limiter.overflow_deny;
        sum.overflow_allow += report.limiter.overflow_allow;
        sum.created += report.limiter.created;
        sum.reclaimed += report.limiter.reclaimed;
    }
    return sum;
}
