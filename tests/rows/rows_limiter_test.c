/*
 * Runs files of rows through limiters (R9): what a bucket answers, a limiter with one rule answers
 * to the nanosecond, however it keeps its keys.
 *
 *     rows_limiter_test SHAPE FILE...
 *
 *     plain         the natural shape: one slot per key where the algorithm allows it
 *     entry         is_stackable: a head and cells
 *     stack         one limiter of a stack, behind it one that never denies; not queues, which no
 *                   stack has, and who waits for a turn does so in the limiter alone
 *     allow, batch  plain, by the calls that return only a verdict; peeks report the rest
 *
 * Each file runs three times: on a clock that starts at 0, on one whose limiter was created at the
 * rows' 0, and on one created 3.7 s earlier, so that windows do not begin at the table's epoch.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "limiter/bucket_state.h"
#include "rows/rows.h"

#define RESERVATIONS_MAX 16
#define LOG_TOKENS_MAX   64

/* A multiple of every window's period in the rows. */
#define LATER_NS (7000 * RATION_NS_PER_SECOND)

enum shape { PLAIN, ENTRY, STACK, ALLOW, BATCH, SHAPE_COUNT };

static const char *const shape_names[SHAPE_COUNT] = {"plain", "entry", "stack", "allow", "batch"};

struct subject {
    enum shape shape;
    uint64_t zero_ns;  /* the limiter's clock at the rows' 0 */
    uint64_t epoch_ns; /* and when it was created */
    uint64_t clock_ns; /* what it reads: when it was created, or when a limit was changed */
    struct ration_limit limit;
    ration_limiter *limiter;
    ration_stack *stack;
    struct ration_reservation reservations[RESERVATIONS_MAX];
    size_t reservation_count;
};

static const struct ration_key key = {"a key", 5};

static void expect_ok(ration_status status, const char *what)
{
    if (status == RATION_OK)
        return;
    fprintf(stderr, "%s: %s\n", what, ration_status_name(status));
    exit(EXIT_FAILURE);
}

/* As if it were CLOCK_MONOTONIC: a limiter counts from what such a clock says at its creation. */
static uint64_t read_clock(void *context)
{
    return ((const struct subject *)context)->clock_ns;
}

static void close_subject(struct subject *s)
{
    ration_stack_free(s->stack);
    if (s->stack == NULL)
        ration_limiter_free(s->limiter);
    s->stack = NULL;
    s->limiter = NULL;
    s->reservation_count = 0;
}

static void open_stack(struct subject *s, struct ration_limiter_options *options,
                       const struct ration_clock *clock)
{
    struct ration_rule huge = {0};
    struct ration_limiter_options both[2] = {*options, *options};
    struct ration_stack_options stack = {
        .struct_size = sizeof(stack), .limiters = both, .limiter_count = 2, .clock = clock};

    /* a window that a stale now is charged to as well, so it never denies */
    expect_ok(ration_limit_make(&(struct ration_limit_spec){.tokens = RATION_FILL_NS_MAX,
                                                            .period_ns = RATION_FILL_NS_MAX,
                                                            .algorithm = RATION_FIXED_WINDOW},
                                &huge.limit, NULL),
              "the huge limit");
    both[1].rules = &huge;
    expect_ok(ration_stack_create(&stack, &s->stack, NULL), "create a stack");
    s->limiter = ration_stack_limiter(s->stack, 0);
}

static bool open_subject(void *context, const struct ration_limit *limit)
{
    struct subject *s = context;
    struct ration_clock clock = {RATION_CLOCK_MONOTONIC, read_clock, s};
    struct ration_rule rule = {.limit = *limit};
    struct ration_limiter_options options = {.struct_size = sizeof(options),
                                             .rules = &rule,
                                             .rule_count = 1,
                                             .keys_max = 8,
                                             .is_stackable = s->shape == ENTRY,
                                             .clock = &clock};
    bool is_log = limit->algorithm == RATION_SLIDING_LOG;

    close_subject(s);
    if (s->shape == STACK && limit->algorithm == RATION_LEAKY_QUEUE)
        return false;
    s->limit = *limit;
    s->clock_ns = s->epoch_ns;
    if (is_log) /* room for logs to come */
        expect_ok(
            ration_limit_make(&(struct ration_limit_spec){.tokens = LOG_TOKENS_MAX,
                                                          .period_ns = 10 * RATION_NS_PER_SECOND,
                                                          .algorithm = RATION_SLIDING_LOG},
                              &rule.limit, NULL),
            "the log");
    if (s->shape == STACK)
        open_stack(s, &options, &clock);
    else
        expect_ok(ration_limiter_create(&options, &s->limiter, NULL), "create");
    rule.limit = *limit;
    if (is_log)
        expect_ok(ration_limiter_change(s->limiter, &rule, 1, RATION_CHANGE_RESET, NULL), "change");
    return true;
}

static uint64_t moved(const struct subject *s, uint64_t ns)
{
    return ns < UINT64_MAX - s->zero_ns ? ns + s->zero_ns : UINT64_MAX;
}

static struct ration_decision take(struct subject *s, uint64_t cost, uint64_t now_ns)
{
    struct ration_decision d;

    if (s->shape == STACK)
        expect_ok(ration_stack_take(s->stack, &key, cost, now_ns, &d, NULL), "take");
    else
        expect_ok(ration_limiter_take(s->limiter, &key, cost, now_ns, &d, NULL), "take");
    return d;
}

static struct ration_decision peek(struct subject *s, uint64_t cost, uint64_t now_ns)
{
    struct ration_decision d;

    if (s->shape == STACK)
        expect_ok(ration_stack_peek(s->stack, &key, cost, now_ns, &d, NULL), "peek");
    else
        expect_ok(ration_limiter_peek(s->limiter, &key, cost, now_ns, &d, NULL), "peek");
    return d;
}

/* By a call that reports only the verdict, between two peeks. */
static struct ration_decision take_by_verdict(struct subject *s, uint64_t cost, uint64_t now_ns)
{
    struct ration_batch_item item = {.request = &key, .cost_tokens = cost};
    struct ration_decision before = peek(s, cost, now_ns);
    bool is_allowed = s->shape == ALLOW
                          ? ration_limiter_allow_at(s->limiter, &key, cost, now_ns)
                          : ration_limiter_take_batch(s->limiter, &item, 1, now_ns) == 1;
    struct ration_decision after = peek(s, 0, now_ns);

    if (s->shape == BATCH)
        expect_ok(item.status, "an item of a batch");
    if (is_allowed != (before.verdict == RATION_ALLOW) ||
        (s->shape == BATCH && item.verdict != before.verdict))
        fprintf(stderr, "a peek said %s\n", ration_decision_verdict_name(before.verdict));
    after.verdict = is_allowed ? RATION_ALLOW : s->shape == BATCH ? item.verdict : before.verdict;
    after.retry_after_ns = before.retry_after_ns;
    after.delay_ns = before.delay_ns;
    return after;
}

static struct ration_decision reserve(struct subject *s, const struct rows_request *request,
                                      uint64_t now_ns)
{
    struct ration_reservation *reservation = &s->reservations[s->reservation_count];
    struct ration_decision d;

    if (s->shape == STACK && request->time_ns == 0)
        expect_ok(ration_stack_reserve(s->stack, &key, request->tokens, request->time_ns, now_ns,
                                       &d, reservation),
                  "reserve");
    else
        expect_ok(ration_limiter_reserve(s->limiter, &key, request->tokens, request->time_ns,
                                         now_ns, &d, reservation),
                  "reserve");
    s->reservation_count += d.verdict == RATION_ALLOW;
    return d;
}

/*
 * A limiter cannot be set to hold so many tokens, but reset and charged with what is to be out.
 * The second part of a reserve pays what the first one cannot.
 */
static void set(struct subject *s, uint64_t tokens, uint64_t now_ns)
{
    uint64_t burst = s->limit.burst;
    uint64_t out = tokens < burst ? burst - tokens : 0;
    uint64_t rest = tokens > burst ? tokens - burst : 0;
    uint64_t reserve_out = rest < s->limit.reserve_burst ? s->limit.reserve_burst - rest : 0;

    expect_ok(ration_limiter_reset(s->limiter, &key, now_ns), "reset");
    if (s->limit.algorithm == RATION_BURST_RESERVE && reserve_out > 0) {
        expect_ok(ration_limiter_charge(s->limiter, &key, burst, now_ns), "charge");
        (void)take(s, reserve_out, now_ns);
        expect_ok(ration_limiter_refund(s->limiter, &key, burst, now_ns), "refund");
    }
    if (out > 0)
        expect_ok(ration_limiter_charge(s->limiter, &key, out, now_ns), "charge");
}

static void settle(struct subject *s, const struct rows_request *request, uint64_t now_ns)
{
    struct ration_reservation *reservation = &s->reservations[request->reservation - 1];
    uint64_t used = request->call == ROWS_CANCEL ? 0 : request->tokens;

    if (s->shape == STACK && used == 0)
        expect_ok(ration_stack_cancel(s->stack, reservation, now_ns), "cancel");
    else if (s->shape == STACK)
        expect_ok(ration_stack_settle(s->stack, reservation, used, now_ns), "settle");
    else if (used == 0)
        expect_ok(ration_limiter_cancel(s->limiter, reservation, now_ns), "cancel");
    else
        expect_ok(ration_limiter_settle(s->limiter, reservation, used, now_ns), "settle");
}

static struct ration_decision call_subject(void *context, const struct rows_request *request,
                                           uint64_t *out_granted)
{
    struct subject *s = context;
    uint64_t now_ns = moved(s, request->now_ns);
    struct ration_decision d = {.verdict = RATION_ALLOW};

    switch (request->call) {
    case ROWS_TAKE:
        return s->shape == ALLOW || s->shape == BATCH ? take_by_verdict(s, request->tokens, now_ns)
                                                      : take(s, request->tokens, now_ns);
    case ROWS_PEEK:
        return peek(s, request->tokens, now_ns);
    case ROWS_UPTO:
        expect_ok(
            ration_limiter_take_up_to(s->limiter, &key, request->tokens, now_ns, out_granted, &d),
            "take_up_to");
        break;
    case ROWS_RESERVE:
        return reserve(s, request, now_ns);
    case ROWS_REFUND:
        expect_ok(ration_limiter_refund(s->limiter, &key, request->tokens, now_ns), "refund");
        break;
    case ROWS_CHARGE:
        expect_ok(ration_limiter_charge(s->limiter, &key, request->tokens, now_ns), "charge");
        break;
    case ROWS_SET:
        set(s, request->tokens, now_ns);
        break;
    case ROWS_BLOCK:
        expect_ok(ration_limiter_block_until(s->limiter, &key, moved(s, request->time_ns), now_ns),
                  "block");
        break;
    default:
        settle(s, request, now_ns);
    }
    return d;
}

static void change_subject(void *context, const struct ration_limit *limit, uint64_t now_ns)
{
    struct subject *s = context;
    struct ration_rule rule = {.limit = *limit};

    s->clock_ns = moved(s, now_ns);
    expect_ok(ration_limiter_change(s->limiter, &rule, 1, RATION_CHANGE_KEEP, NULL), "change");
    s->limit = *limit;
}

static bool can_change(enum shape shape, const struct ration_limit *a, const struct ration_limit *b)
{
    return ration_bucket_state_layout(a).cell_count == ration_bucket_state_layout(b).cell_count &&
           !(shape == STACK && b->algorithm == RATION_LEAKY_QUEUE);
}

/*
 * Copies a file of rows without those that a limiter cannot be asked for: what follows a change to
 * a limit whose state needs another number of cells, or that no stack has, up to the next `limit`.
 * Lines keep their numbers. Returns how many rows were left out.
 */
static int copy_rows(enum shape shape, FILE *from, FILE *to)
{
    char line[512];
    struct ration_limit limit;
    struct ration_limit next;
    bool is_left_out = false;
    int left_out = 0;

    while (fgets(line, sizeof(line), from) != NULL) {
        size_t text_size = strcspn(line, "#\n");
        char *change = memmem(line, text_size, "change", 6);

        if (strncmp(line, "limit ", 6) == 0) {
            is_left_out = false;
            expect_ok(ration_limit_parse_bytes(line + 6, text_size - 6, &limit, NULL), line);
        } else if (change != NULL && !is_left_out) {
            expect_ok(ration_limit_parse_bytes(change + 6, text_size - (size_t)(change + 6 - line),
                                               &next, NULL),
                      line);
            is_left_out = !can_change(shape, &limit, &next);
            limit = next;
        }
        left_out += is_left_out && text_size > 0;
        fputs(is_left_out ? "\n" : line, to);
    }
    return left_out;
}

static int run_file(const char *path, const struct rows_target *target, int *rows, int *left_out)
{
    const struct subject *s = target->context;
    char copy_path[] = "/tmp/rows_limiter_XXXXXX";
    int descriptor = mkstemp(copy_path);
    FILE *from = fopen(path, "r");
    FILE *to = descriptor >= 0 ? fdopen(descriptor, "w") : NULL;
    int wrong = -1;
    int run = 0;

    if (from == NULL || to == NULL) {
        perror(path);
        exit(EXIT_FAILURE);
    }
    *left_out += copy_rows(s->shape, from, to);
    fclose(from);
    fclose(to);
    wrong = rows_run(copy_path, target, &run);
    remove(copy_path);
    *rows += run;
    return wrong;
}

int main(int argument_count, char **arguments)
{
    static const struct {
        uint64_t zero_ns;
        uint64_t epoch_ns;
    } starts[] = {{0, 0}, {LATER_NS, LATER_NS}, {LATER_NS, LATER_NS - 3700 * RATION_NS_PER_MS}};
    static struct subject s;
    const struct rows_target target = {.name = argument_count > 1 ? arguments[1] : "?",
                                       .open = open_subject,
                                       .change = change_subject,
                                       .call = call_subject,
                                       .context = &s};
    int rows = 0;
    int wrong = 0;
    int left_out = 0;

    while (s.shape < SHAPE_COUNT && strcmp(target.name, shape_names[s.shape]) != 0)
        s.shape++;
    for (int index = 2; index < argument_count && s.shape < SHAPE_COUNT; index++) {
        for (size_t i = 0; i < sizeof(starts) / sizeof(starts[0]); i++) {
            s.zero_ns = starts[i].zero_ns;
            s.epoch_ns = starts[i].epoch_ns;

            int result = run_file(arguments[index], &target, &rows, &left_out);

            if (result != 0)
                fprintf(stderr, "%s: %d wrong with 0 at %llu s, created at %llu ns\n",
                        arguments[index], result,
                        (unsigned long long)(s.zero_ns / RATION_NS_PER_SECOND),
                        (unsigned long long)s.epoch_ns);
            wrong += result < 0 ? 1 : result;
        }
    }
    close_subject(&s);
    printf("%s: %d rows, %d wrong, %d that no limiter can be asked for\n", target.name, rows, wrong,
           left_out);
    return rows > 0 && wrong == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
