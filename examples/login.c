/*
 * Login protection: five attempts per account, then one every 10 s. A right password gives the
 * account its five back.
 *
 * Addresses that are known for abuse have a limit of their own besides, which starts empty: the
 * first attempt from there has to wait. The two are stacked, so an attempt that the address is
 * denied takes nothing from the account, and its owner is not locked out by it.
 *
 * On a manual clock, so that it prints the same each time.
 */
#include <ctype.h>
#include <inttypes.h>
#include <ration/ration.h>
#include <stdio.h>
#include <string.h>

enum { ACCOUNT, ADDRESS, LIMITERS_COUNT }; /* the stack's limiters */

struct attempt {
    uint64_t at_ns;
    const char *account;
    const char *address;
    bool is_right; /* the password */
};

#define S RATION_NS_PER_SECOND

static const struct attempt attempts[] = {
    {0, "alice", "198.51.100.7", false},
    {0, "alice", "198.51.100.7", false},
    {0, "Alice", "198.51.100.7", false}, /* the same account */
    {0, "alice", "198.51.100.7", false},
    {0, "alice", "198.51.100.7", false},
    {0, "alice", "198.51.100.7", true}, /* too late: nobody looks at the password */
    {10 * S - 1, "alice", "198.51.100.7", true},
    {10 * S, "alice", "198.51.100.7", false}, /* on time, but wrong */
    {12 * S, "alice", "192.0.2.44", false},   /* another address does not help */
    {20 * S, "alice", "198.51.100.7", true},
    {20 * S, "alice", "198.51.100.7", false}, /* five again */

    {60 * S, "bob", "203.0.113.66", false}, /* a known abuser starts with nothing */
    {60 * S, "carol", "203.0.113.66", false},
    {60 * S, "bob", "198.51.100.9", true}, /* bob himself still has all of his */
    {90 * S, "carol", "203.0.113.66", false},
    {90 * S, "bob", "203.0.113.66", false},
};

static const char *const abusers[] = {"203.0.113.66", "203.0.113.67"};

/* Accounts are the same whatever the case: the key is composed in the room given. */
static ration_status account_key(void *context, const void *request, char *room,
                                 struct ration_key *out_key)
{
    const struct attempt *attempt = request;
    size_t size = strlen(attempt->account);

    (void)context;
    if (size == 0 || size > RATION_KEY_ROOM_SIZE)
        return RATION_EINVAL;
    for (size_t i = 0; i < size; i++)
        room[i] = (char)tolower((unsigned char)attempt->account[i]);
    *out_key = (struct ration_key){room, size};
    return RATION_OK;
}

static ration_status address_key(void *context, const void *request, char *room,
                                 struct ration_key *out_key)
{
    const struct attempt *attempt = request;

    (void)context;
    (void)room;
    *out_key = (struct ration_key){attempt->address, strlen(attempt->address)};
    return RATION_OK;
}

/* The limit of known abusers; it does not apply to others. */
static const struct ration_limit *abuser_limit(void *context, const void *request,
                                               uint64_t *cost_tokens)
{
    const struct attempt *attempt = request;

    (void)cost_tokens;
    for (size_t i = 0; i < sizeof(abusers) / sizeof(abusers[0]); i++)
        if (strcmp(attempt->address, abusers[i]) == 0)
            return context;
    return NULL;
}

static ration_stack *create_stack(const struct ration_clock *clock)
{
    static struct ration_rule account, address;
    struct ration_limiter_options limiters[LIMITERS_COUNT] = {
        {.struct_size = sizeof(limiters[0]),
         .rules = &account,
         .rule_count = 1,
         .keys_max = 100000,
         .key_func = account_key},
        {.struct_size = sizeof(limiters[0]),
         .rules = &address,
         .rule_count = 1,
         .keys_max = 1000,
         .key_func = address_key},
    };
    struct ration_stack_options options = {.struct_size = sizeof(options),
                                           .limiters = limiters,
                                           .limiter_count = LIMITERS_COUNT,
                                           .clock = clock};
    struct ration_error error;
    ration_stack *stack;

    if (ration_limit_parse("1 per 10s burst 5 name account", &account.limit, &error) != RATION_OK ||
        ration_limit_parse("1 per 30s burst 2 start empty name address", &address.limit, &error) !=
            RATION_OK) {
        fprintf(stderr, "login: %s\n", error.message);
        return NULL;
    }
    address.choose = abuser_limit;
    address.choose_context = &address.limit;
    if (ration_stack_create(&options, &stack, &error) != RATION_OK) {
        fprintf(stderr, "login: %s\n", error.message);
        return NULL;
    }
    return stack;
}

/* "10 s", "8.5 s", or nanoseconds where that is all there is. */
static void print_wait(uint64_t ns)
{
    if (ns < RATION_NS_PER_MS)
        printf("%" PRIu64 " ns", ns);
    else if (ns % S == 0)
        printf("%" PRIu64 " s", ns / S);
    else
        printf("%" PRIu64 ".%" PRIu64 " s", ns / S, ns % S / (S / 10));
}

/* One attempt, as the login page would handle it. False if there is no decision. */
static bool log_in(ration_stack *stack, const struct attempt *attempt)
{
    static const char *const whose[LIMITERS_COUNT] = {"account", "address"};
    uint64_t now_ns = ration_stack_now(stack);
    struct ration_decision decision;
    struct ration_decision details[LIMITERS_COUNT]; /* one per rule of the stack */

    if (ration_stack_take(stack, attempt, 1, now_ns, &decision, details) != RATION_OK)
        return false; /* not a denial: better no login than an unlimited one */
    printf("%-8s %-13s ", attempt->account, attempt->address);
    if (decision.verdict == RATION_DENY) {
        printf("denied   %4" PRIu64 "  %s: wait ", details[ACCOUNT].remaining,
               whose[decision.limiter_index]);
        print_wait(decision.retry_after_ns);
        printf("\n");
    } else if (attempt->is_right) {
        ration_limiter_reset(ration_stack_limiter(stack, ACCOUNT), attempt, now_ns);
        printf("welcome  %4" PRIu64 "  then all are given back\n", details[ACCOUNT].remaining);
    } else {
        printf("wrong    %4" PRIu64 "\n", details[ACCOUNT].remaining);
    }
    return true;
}

int main(void)
{
    struct ration_manual_clock manual = {0};
    struct ration_clock clock = ration_clock_manual(&manual);
    ration_stack *stack = create_stack(&clock);
    bool ok = stack != NULL;

    printf("account  from          answer   left\n");
    for (size_t i = 0; i < sizeof(attempts) / sizeof(attempts[0]) && ok; i++) {
        if (i == 0 || attempts[i].at_ns != attempts[i - 1].at_ns)
            printf("at %" PRIu64 ".%09" PRIu64 " s\n", attempts[i].at_ns / S,
                   attempts[i].at_ns % S);
        ration_clock_manual_set(&manual, attempts[i].at_ns);
        ok = log_in(stack, &attempts[i]);
    }
    ration_stack_free(stack);
    return ok ? 0 : 1;
}
