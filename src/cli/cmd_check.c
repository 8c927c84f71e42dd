/*
 * ration check: sends a check to a running server, for use in scripts.
 *
 *     ration check --quiet user=backup || exit
 *     ration check --wait --max-wait 1min user=backup && upload
 *
 * The check is sent as RATION.CHECK. With --wait, the command sleeps after a denial for the time
 * that the server reported. This time is exact if no other client uses the limit; otherwise the
 * retry may be denied, and the command sleeps again.
 */
#include <errno.h>
#include <hiredis/hiredis.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "command.h"
#include "load/escape.h"
#include "ration/ration.h"
#include "server/ops/secret.h"
#include "server/ops/settings_value.h"

#define NS_PER_MS          INT64_C(1000000)
#define NS_PER_S           INT64_C(1000000000)
#define ADDRESS_DEFAULT    "127.0.0.1:6429"
#define TIMEOUT_DEFAULT_NS (5 * NS_PER_S)
#define HOST_SIZE          256
#define WORDS_MAX          (2 * RATION_ATTRIBUTES_MAX + 3)
#define NUMBER_SIZE        32
#define NEVER_NS           INT64_MAX
#define SHOWN_SIZE         2048                             /* size of text in an error */
#define LIMIT_SIZE         (4 * RATION_LIMIT_NAME_MAX + 16) /* a name with every byte escaped */

static const char help[] =
    "usage: ration check [options] NAME=VALUE...\n"
    "\n"
    "Asks a server whether a request with these attributes is allowed now, and takes\n"
    "its cost if so. Exits with 0 if allowed, 1 if denied, 2 if there is no answer.\n"
    "\n"
    "Server:\n"
    "  --connect ADDRESS         Its Redis protocol address: HOST:PORT or unix:/PATH\n"
    "                            [" ADDRESS_DEFAULT "]\n"
    "  --check-secret-file FILE  File with the check secret, closed to others\n"
    "  --timeout TIME            Timeout for a reply [5s]\n"
    "\n"
    "Request:\n"
    "  --cost N                  Cost of the request; 0 takes no tokens [1]\n"
    "  --wait                    If denied, wait as long as it must and retry\n"
    "  --max-wait TIME           With --wait: longest time to wait in all [none]\n"
    "\n"
    "Other:\n"
    "  --quiet                   Print nothing but errors\n"
    "  --help                    Print this\n"
    "\n"
    "Each option is also an environment variable: RATION_CONNECT is --connect, and\n"
    "RATION_WAIT=true is --wait.\n"
    "\n"
    "Example: ration check --wait user=backup path=/upload\n";

/* The options of the command line. */
struct plan {
    const char *address;
    const char *cost;
    int64_t timeout_ns;
    int64_t total_ns; /* NEVER_NS: no limit */
    bool waits;
    bool is_quiet;
    char secret[RATION_SECRET_BYTES_MAX + 1]; /* "": none */

    const char *words[WORDS_MAX]; /* the arguments of RATION.CHECK */
    size_t sizes[WORDS_MAX];
    int word_count;
};

/* The server's reply. */
struct answer {
    char verdict[16];
    char limit[LIMIT_SIZE]; /* escaped; "": none */
    int64_t retry_after_ns; /* below 0: never */
    int64_t remaining;      /* below 0: not reported */
    int64_t delay_ns;
    bool is_banned;
};

/* Both parts may contain text of a server or a file, so they are escaped. */
static int print_failure(const char *what, const char *why)
{
    char shown_what[SHOWN_SIZE], shown_why[SHOWN_SIZE];

    fprintf(stderr, "ration check: %s%s%s\n",
            load_escape(what, strlen(what), shown_what, sizeof(shown_what)),
            why[0] != '\0' ? ": " : "",
            load_escape(why, strlen(why), shown_why, sizeof(shown_why)));
    return EXIT_USAGE;
}

/* The command line ---------------------------------------------------------------------------- */

static void add_word(struct plan *plan, const char *word, size_t size)
{
    plan->words[plan->word_count] = word;
    plan->sizes[plan->word_count++] = size;
}

static bool read_time(const char *text, int64_t *out_ns)
{
    size_t size = strlen(text);
    uint64_t ms;

    if (size == 0 || (text[size - 1] >= '0' && text[size - 1] <= '9') ||
        ration_settings_value_read_time(text, size, (uint64_t)NS_PER_MS, &ms, NULL) != RATION_OK ||
        ms == 0 || ms > (uint64_t)(NEVER_NS / NS_PER_MS))
        return false;
    *out_ns = (int64_t)ms * NS_PER_MS;
    return true;
}

static bool is_number(const char *text)
{
    size_t size = strlen(text);

    return size > 0 && size < NUMBER_SIZE && strspn(text, "0123456789") == size;
}

static int read_secret(struct plan *plan, const char *path)
{
    struct ration_error error;
    size_t size;

    if (ration_secret_read_file("--check-secret-file", path, plan->secret, sizeof(plan->secret),
                                &size, &error) == RATION_OK)
        return EXIT_DONE;
    return print_failure(error.message, "");
}

/* Reads an option with a value. Returns EXIT_NO if there is no such option. */
static int read_option(struct plan *plan, const char *name, char *value)
{
    if (strcmp(name, "--connect") == 0)
        plan->address = value;
    else if (strcmp(name, "--check-secret-file") == 0)
        return read_secret(plan, value);
    else if (strcmp(name, "--cost") == 0 && is_number(value))
        plan->cost = value;
    else if (strcmp(name, "--cost") == 0)
        return print_failure("a cost must be decimal digits", value);
    else if (strcmp(name, "--timeout") == 0)
        return read_time(value, &plan->timeout_ns)
                   ? EXIT_DONE
                   : print_failure("--timeout must be a time, for example 5s", value);
    else if (strcmp(name, "--max-wait") == 0)
        return read_time(value, &plan->total_ns)
                   ? EXIT_DONE
                   : print_failure("--max-wait must be a time, for example 1min", value);
    else
        return EXIT_NO;
    return EXIT_DONE;
}

/* The member that an option without a value sets; NULL if there is no such option. */
static bool *flag_of(struct plan *plan, const char *name)
{
    return strcmp(name, "--wait") == 0    ? &plan->waits
           : strcmp(name, "--quiet") == 0 ? &plan->is_quiet
                                          : NULL;
}

/* name is that of the option or the variable. */
static int read_flag(const char *name, const char *text, bool *out_flag)
{
    struct ration_error error;

    if (ration_settings_value_read_flag(name, text, strlen(text), out_flag, &error) == RATION_OK)
        return EXIT_DONE;
    return print_failure(error.message, "");
}

static int read_attribute(struct plan *plan, const char *word)
{
    const char *equals = strchr(word, '=');

    if (equals == NULL || equals == word)
        return print_failure("not an attribute: write NAME=VALUE, for example path=/login", word);
    if (strncmp(word, "cost=", 5) == 0)
        return print_failure("cost is not an attribute: write --cost N", word);
    if (plan->word_count + 2 > WORDS_MAX)
        return print_failure("a request has too many attributes", "");
    add_word(plan, word, (size_t)(equals - word));
    add_word(plan, equals + 1, strlen(equals + 1));
    return EXIT_DONE;
}

static const char *const option_names[] = {
    "--connect", "--check-secret-file", "--cost", "--timeout", "--max-wait", "--wait", "--quiet",
    "--help"};

#define OPTION_COUNT        (sizeof(option_names) / sizeof(option_names[0]))
#define OPTION_VALUES_COUNT 5 /* the first ones take a value; then flags; --help is the last */

const char *ration_command_check_option(size_t index)
{
    return index + 1 < OPTION_COUNT ? option_names[index] + strlen("--") : NULL;
}

/* Reports a word that begins with -- and is no option with its value. */
static int reject_option(const char *name)
{
    for (size_t i = 0; i < OPTION_VALUES_COUNT; i++)
        if (strcmp(name, option_names[i]) == 0)
            return print_failure("the option needs a value", name);
    return ration_command_reject_word("ration check", "option", name, "", option_names,
                                      OPTION_COUNT);
}

/* Reads one word, or an option with its value. *used is the number of words. */
static int read_words(struct plan *plan, int count, char **words, int *used)
{
    char name[64];
    char *equals = strchr(words[0], '=');
    char *value = equals != NULL ? equals + 1 : count > 1 ? words[1] : NULL;
    bool *flag;
    int result;

    *used = 1;
    if (words[0][0] != '-' || words[0][1] == '\0')
        return read_attribute(plan, words[0]);
    snprintf(name, sizeof(name), "%.*s", (int)strcspn(words[0], "="), words[0]);
    flag = flag_of(plan, name);
    if (flag != NULL)
        return read_flag(name, equals != NULL ? equals + 1 : "true", flag);
    result = value != NULL ? read_option(plan, name, value) : EXIT_NO;
    *used = equals != NULL ? 1 : 2;
    return result == EXIT_NO ? reject_option(name) : result;
}

/* Reads the variables of the options, which the command line overrides. */
static int read_environment(struct plan *plan)
{
    const char *option;
    char variable[64];
    int result = EXIT_DONE;

    for (size_t i = 0; (option = ration_command_check_option(i)) != NULL && result == EXIT_DONE;
         i++) {
        char *value = getenv(ration_command_variable("RATION_", option, variable));
        bool *flag = flag_of(plan, option_names[i]);

        if (value != NULL)
            result = flag != NULL ? read_flag(variable, value, flag)
                                  : read_option(plan, option_names[i], value);
    }
    return result;
}

static int read_plan(struct plan *plan, int count, char **words)
{
    int attributes_from;

    add_word(plan, "RATION.CHECK", strlen("RATION.CHECK"));
    add_word(plan, "COST", strlen("COST"));
    add_word(plan, plan->cost, strlen(plan->cost));
    attributes_from = plan->word_count;
    if (read_environment(plan) != EXIT_DONE)
        return EXIT_USAGE;
    for (int i = 0, used; i < count; i += used) {
        int result = read_words(plan, count - i, words + i, &used);

        if (result != EXIT_DONE)
            return result;
    }
    plan->words[2] = plan->cost;
    plan->sizes[2] = strlen(plan->cost);
    if (plan->word_count == attributes_from)
        return print_failure("no attribute given: write NAME=VALUE, for example user=backup", "");
    return EXIT_DONE;
}

/* The server ---------------------------------------------------------------------------------- */

static struct timeval make_timeval(int64_t ns)
{
    return (struct timeval){.tv_sec = (time_t)(ns / NS_PER_S),
                            .tv_usec = (suseconds_t)(ns % NS_PER_S / 1000)};
}

/* Accepts HOST:PORT, [v6]:PORT, unix:/path or /path. */
static redisContext *open_context(const struct plan *plan)
{
    const char *address = plan->address;
    const char *colon = strrchr(address, ':');
    struct timeval timeout = make_timeval(plan->timeout_ns);
    char host[HOST_SIZE];
    size_t size;

    if (strncmp(address, "unix:", strlen("unix:")) == 0)
        return redisConnectUnixWithTimeout(address + strlen("unix:"), timeout);
    if (address[0] == '/')
        return redisConnectUnixWithTimeout(address, timeout);
    size = colon != NULL ? (size_t)(colon - address) : 0;
    if (size > 1 && address[0] == '[' && address[size - 1] == ']') {
        address++;
        size -= 2;
    }
    if (size == 0 || size >= sizeof(host) || !is_number(colon + 1) || strlen(colon + 1) > 5)
        return NULL;
    memcpy(host, address, size);
    host[size] = '\0';
    return redisConnectWithTimeout(host, atoi(colon + 1), timeout);
}

static int send_auth(redisContext *context, const char *secret)
{
    redisReply *reply = redisCommand(context, "AUTH %b", secret, strlen(secret));
    int result = EXIT_DONE;

    if (reply == NULL)
        result = print_failure("no answer to AUTH", context->errstr);
    else if (reply->type == REDIS_REPLY_ERROR)
        result = print_failure("the server refused the check secret", reply->str);
    freeReplyObject(reply);
    return result;
}

static int connect_to(const struct plan *plan, redisContext **out_context)
{
    redisContext *context = open_context(plan);

    if (context == NULL)
        return print_failure("--connect must be HOST:PORT or unix:/path", plan->address);
    if (context->err != 0) {
        char why[256];

        snprintf(why, sizeof(why), "%s: %s", plan->address, context->errstr);
        redisFree(context);
        return print_failure("cannot connect", why);
    }
    redisSetTimeout(context, make_timeval(plan->timeout_ns));
    if (plan->secret[0] != '\0' && send_auth(context, plan->secret) != EXIT_DONE) {
        redisFree(context);
        return EXIT_USAGE;
    }
    *out_context = context;
    return EXIT_DONE;
}

/* Checking ------------------------------------------------------------------------------------ */

static bool is_name(const redisReply *name, const char *expected)
{
    return name->type == REDIS_REPLY_STRING && strcmp(name->str, expected) == 0;
}

static void copy_text(const redisReply *value, char *buffer, size_t buffer_size)
{
    bool is_text = value->type == REDIS_REPLY_STRING;

    load_escape(is_text ? value->str : "", is_text ? value->len : 0, buffer, buffer_size);
}

/* Reads a RESP2 map: names and values alternate. Unknown names are ignored. */
static bool read_answer(const redisReply *reply, struct answer *out_answer)
{
    struct answer answer = {.retry_after_ns = -1, .remaining = -1};

    if (reply->type != REDIS_REPLY_ARRAY || reply->elements % 2 != 0)
        return false;
    for (size_t i = 0; i + 1 < reply->elements; i += 2) {
        const redisReply *name = reply->element[i], *value = reply->element[i + 1];

        if (is_name(name, "verdict"))
            copy_text(value, answer.verdict, sizeof(answer.verdict));
        else if (is_name(name, "limit"))
            copy_text(value, answer.limit, sizeof(answer.limit));
        else if (is_name(name, "retry_after_ns") && value->type == REDIS_REPLY_INTEGER)
            answer.retry_after_ns = value->integer;
        else if (is_name(name, "remaining") && value->type == REDIS_REPLY_INTEGER)
            answer.remaining = value->integer;
        else if (is_name(name, "banned") && value->type == REDIS_REPLY_INTEGER)
            answer.is_banned = value->integer == 1;
        else if (is_name(name, "delay_ns") && value->type == REDIS_REPLY_INTEGER)
            answer.delay_ns = value->integer;
    }
    *out_answer = answer;
    return answer.verdict[0] != '\0';
}

static int send_check(redisContext *context, const struct plan *plan, struct answer *out_answer)
{
    redisReply *reply =
        redisCommandArgv(context, plan->word_count, (const char **)plan->words, plan->sizes);
    int result = EXIT_DONE;

    if (reply == NULL)
        result = print_failure("no answer", context->errstr);
    else if (reply->type == REDIS_REPLY_ERROR)
        result = print_failure("the server cannot decide", reply->str);
    else if (!read_answer(reply, out_answer))
        result = print_failure("the answer is not a reply to RATION.CHECK", plan->address);
    freeReplyObject(reply);
    return result;
}

/* Writes 11.4s or 35ms, rounded up. */
static const char *wait_text(int64_t ns, char buffer[NUMBER_SIZE])
{
    int64_t tenths = ns / (NS_PER_S / 10) + (ns % (NS_PER_S / 10) > 0);

    if (ns < NS_PER_S)
        snprintf(buffer, NUMBER_SIZE, "%" PRId64 "ms", ns / NS_PER_MS + (ns % NS_PER_MS > 0));
    else
        snprintf(buffer, NUMBER_SIZE, "%" PRId64 ".%" PRId64 "s", tenths / 10, tenths % 10);
    return buffer;
}

static void print_answer(const struct plan *plan, const struct answer *answer)
{
    bool is_allowed = strcmp(answer->verdict, "allow") == 0;
    bool has_limit = answer->limit[0] != '\0';
    char wait[NUMBER_SIZE];

    if (plan->is_quiet)
        return;
    if (is_allowed)
        printf("allowed");
    else
        printf("denied%s%s",
               has_limit           ? " by "
               : answer->is_banned ? " by the policy: banned"
                                   : "",
               answer->limit);
    if (is_allowed && answer->delay_ns > 0)
        printf(": proceed after %s", wait_text(answer->delay_ns, wait));
    else if (is_allowed && has_limit && answer->remaining >= 0)
        printf(": %s has %" PRId64 " left", answer->limit, answer->remaining);
    else if (!is_allowed && answer->retry_after_ns < 0 && !answer->is_banned)
        printf(": no wait helps");
    else if (!is_allowed && !answer->is_banned)
        printf(": retry after %s", wait_text(answer->retry_after_ns, wait));
    printf("\n");
}

static int64_t now_ns(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * NS_PER_S + now.tv_nsec;
}

static void sleep_until(int64_t until_ns)
{
    struct timespec until = {.tv_sec = (time_t)(until_ns / NS_PER_S),
                             .tv_nsec = (long)(until_ns % NS_PER_S)};

    while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, NULL) == EINTR)
        ;
}

/* Sleeps for wait_ns, unless that would exceed end_ns. */
static bool wait_for(int64_t wait_ns, int64_t end_ns)
{
    int64_t from_ns = now_ns();

    if (wait_ns > end_ns - from_ns)
        return false;
    sleep_until(from_ns + wait_ns);
    return true;
}

/* Connects for each check, because a server closes idle connections and --wait may sleep long. */
static int check_once(const struct plan *plan, struct answer *out_answer)
{
    redisContext *context = NULL;
    int result = connect_to(plan, &context);

    if (result != EXIT_DONE)
        return result;
    result = send_check(context, plan, out_answer);
    redisFree(context);
    return result;
}

static int check_until_allowed(const struct plan *plan)
{
    int64_t begun_ns = now_ns();
    int64_t end_ns = plan->total_ns > NEVER_NS - begun_ns ? NEVER_NS : begun_ns + plan->total_ns;

    for (;;) {
        struct answer answer;
        int result = check_once(plan, &answer);
        bool is_allowed;

        if (result != EXIT_DONE)
            return result;
        is_allowed = strcmp(answer.verdict, "allow") == 0;
        if (!is_allowed && plan->waits && answer.retry_after_ns >= 0 &&
            wait_for(answer.retry_after_ns, end_ns))
            continue;
        if (is_allowed && plan->waits && answer.delay_ns > 0) {
            sleep_until(now_ns() + answer.delay_ns);
            answer.delay_ns = 0;
        }
        print_answer(plan, &answer);
        return is_allowed ? EXIT_DONE : EXIT_NO;
    }
}

int ration_command_check(int argument_count, char **arguments)
{
    struct plan plan = {.address = ADDRESS_DEFAULT,
                        .cost = "1",
                        .timeout_ns = TIMEOUT_DEFAULT_NS,
                        .total_ns = NEVER_NS};
    int result;

    for (int i = 0; i < argument_count; i++) {
        if (strcmp(arguments[i], "--help") == 0 || strcmp(arguments[i], "-h") == 0) {
            fputs(help, stdout);
            return EXIT_DONE;
        }
    }
    ration_command_warn_of_variables("ration check", environ);
    result = read_plan(&plan, argument_count, arguments);
    if (result == EXIT_DONE)
        result = check_until_allowed(&plan);
    explicit_bzero(plan.secret, sizeof(plan.secret));
    return result;
}
