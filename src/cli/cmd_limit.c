#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "command.h"
#include "ration/ration.h"

#define TEXT_MAX 1024

/* Joins the words with spaces, so that a limit needs no quotes in a shell. */
static int join_words(int word_count, char **words, char text[TEXT_MAX + 1])
{
    size_t used = 0;

    for (int index = 0; index < word_count; index++) {
        size_t size = strlen(words[index]);

        if (used + size + (index > 0) > TEXT_MAX)
            return -1;
        if (index > 0)
            text[used++] = ' ';
        memcpy(text + used, words[index], size);
        used += size;
    }
    text[used] = 0;
    return 0;
}

static void print_error(const char *text, const struct ration_error *error)
{
    fprintf(stderr, "ration limit: %s\n\n    %s\n    %*s^\n", error->message, text,
            (int)error->offset, "");
}

static const char *algorithm_words(const struct ration_limit *limit)
{
    switch (limit->algorithm) {
    case RATION_BURST_RESERVE:
        return "token bucket with a burst reserve behind it";
    case RATION_LEAKY_QUEUE:
        return "leaky queue: each caller gets a time to wait";
    case RATION_FIXED_WINDOW:
        return "fixed window, aligned to the clock's zero";
    case RATION_SLIDING_WINDOW:
        return "sliding window, estimated from two counts";
    case RATION_SLIDING_LOG:
        return "sliding log: exact in any window";
    default:
        return limit->refill == RATION_REFILL_INTERVAL ? "token bucket, refilled once per period"
                                                       : "token bucket, refilled continuously";
    }
}

static void print_rate(const char *whose, const struct ration_rate *rate)
{
    uint64_t millionths = rate->token.frac * 1000000 >> 20;

    printf("one token  %" PRIu64 ".%06" PRIu64 " ns%s\n", rate->token.ns, millionths, whose);
    printf("full in    %" PRIu64 " ns when empty%s\n",
           rate->capacity.ns + (rate->capacity.frac > 0), whose);
}

static void print_limit(const struct ration_limit *limit)
{
    char text[RATION_LIMIT_TEXT_SIZE];

    ration_limit_print(limit, text, sizeof(text));
    printf("limit      %s\n", text);
    printf("algorithm  %s\n", algorithm_words(limit));
    printf("at once    %" PRIu64 " at most\n", limit->burst + limit->reserve_burst);
    if (limit->refill == RATION_REFILL_INTERVAL)
        printf("refill     %" PRIu64 " tokens every %" PRIu64 " ns\n", limit->tokens,
               limit->period_ns);
    if (limit->rate.burst > 0)
        print_rate("", &limit->rate);
    if (limit->reserve_rate.burst > 0)
        print_rate(" (reserve)", &limit->reserve_rate);
    printf("embeds in  %s\n", ration_bucket_fits(limit)
                                  ? "one 16-byte ration_bucket"
                                  : "more than a ration_bucket: its state is larger");
}

int ration_command_limit(int argument_count, char **arguments)
{
    char text[TEXT_MAX + 1];
    struct ration_limit limit;
    struct ration_error error;

    if (argument_count == 0 || ration_command_asks_help(argument_count, arguments)) {
        fprintf(argument_count == 0 ? stderr : stdout,
                "usage: ration limit TEXT...\n\n"
                "Prints what a limit means, or what is wrong with it and exits with 1.\n\n"
                "Example: ration limit 20 per 100ms burst 100\n");
        return argument_count == 0 ? EXIT_USAGE : EXIT_DONE;
    }
    if (strncmp(arguments[0], "--", 2) == 0)
        return ration_command_reject_word("ration limit", "option", arguments[0], "",
                                          (const char *const[]){"--help"}, 1);
    if (join_words(argument_count, arguments, text) != 0) {
        fprintf(stderr, "ration limit: the text is longer than %d bytes\n", TEXT_MAX);
        return EXIT_USAGE;
    }
    if (ration_limit_parse(text, &limit, &error) != RATION_OK) {
        print_error(text, &error);
        return EXIT_NO;
    }
    print_limit(&limit);
    return EXIT_DONE;
}
