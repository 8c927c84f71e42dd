/*
 * Login protection: five attempts per account, then one every 10 s. A correct password resets the account.
 *
 * Addresses known for abuse have an additional limit, which starts empty: the first attempt from such an address has to
 * wait. The two limiters are a stack, so an attempt that the address limit denies takes nothing from the account, and
 * does not lock out its owner.
 *
 * The clock is manual, so the output is the same each time.
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
    bool is_correct; /* the password */
};

#define S RATION_NS_PER_SECOND

static const struct attempt attempts[] = {
    {0, "alice", "198.51.100.7", false},
    {0, "alice", "198.51.100.7", false},
    {0, "Alice", "198.51.100.7", false}, /* the same account */
    {0, "alice", "198.51.100.7", false},
    {0, "alice", "198.51.100.7", false},
    {0, "alice", "198.51.100.7", true}, /* denied: the password is not checked */
    {10 * S - 1, "alice", "198.51.100.7", true},
    {10 * S, "alice", "198.51.100.7", false}, /* allowed, but wrong */
    {12 * S, "alice", "192.0.2.44", false},   /* the account is limited, whatever the address */
    {20 * S, "alice", "198.51.100.7", true},
    {20 * S, "alice", "198.51.100.7", false}, /* the account was reset */

    {60 * S, "bob", "203.0.113.66", false}, /* a known abuser starts without tokens */
    {60 * S, "carol", "203.0.113.66", false},
    {60 * S, "bob", "198.51.100.9", true}, /* bob's account still has all of its tokens */
    {90 * S, "carol", "203.0.113.66", false},
    {90 * S, "bob", "203.0.113.66", false},
};

static const char *const abusers[] = {"203.0.113.66", "203.0.113.67"};

/* The key is the account in lower case, composed in room. */
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

/* Returns the limit of known abusers. It does not apply to other addresses. */
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

/* Prints "10 s", "8.5 s", or nanoseconds below a millisecond. */
static void print_wait(uint64_t ns)
{
    if (ns < RATION_NS_PER_MS)
        printf("%" PRIu64 " ns", ns);
    else if (ns % S == 0)
        printf("%" PRIu64 " s", ns / S);
    else
        printf("%" PRIu64 ".%" PRIu64 " s", ns / S, ns % S / (S / 10));
}

/* Handles one attempt, as a login page would. Returns false if there is no decision. */
static bool log_in(ration_stack *stack, const struct attempt *attempt)
{
    static const char *const limiter_names[LIMITERS_COUNT] = {"account", "address"};
    uint64_t now_ns = ration_stack_now(stack);
    struct ration_decision decision;
    struct ration_decision details[LIMITERS_COUNT]; /* one per rule of the stack */

    if (ration_stack_take(stack, attempt, 1, now_ns, &decision, details) != RATION_OK)
        return false; /* an error, not a denial: refuse the login rather than not limit it */
    printf("%-8s %-13s ", attempt->account, attempt->address);
    if (decision.verdict == RATION_DENY) {
        printf("denied   %4" PRIu64 "  %s: wait ", details[ACCOUNT].remaining,
               limiter_names[decision.limiter_index]);
        print_wait(decision.retry_after_ns);
        printf("\n");
    } else if (attempt->is_correct) {
        ration_limiter_reset(ration_stack_limiter(stack, ACCOUNT), attempt, now_ns);
        printf("success  %4" PRIu64 "  account reset\n", details[ACCOUNT].remaining);
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

    printf("account  address       result   left\n");
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
