#include "rows/rows.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/units.h"

#define LINE_MAX_SIZE 512
#define WORDS_MAX     16

struct rows_run {
    const char *path;
    int line_number;
    const struct rows_target *target;
    bool open;
    bool is_unlike; /* a call was skipped that would have changed the bucket */
    int run_count;
    int wrong_count;
};

static bool complain(const struct rows_run *run, const char *what, const char *word)
{
    fprintf(stderr, "%s:%d: %s '%s'\n", run->path, run->line_number, what, word);
    return false;
}

static bool read_time(const struct rows_run *run, const char *word, uint64_t *out_ns)
{
    size_t used = 0;

    if (strcmp(word, "max") == 0) {
        *out_ns = UINT64_MAX;
        return true;
    }
    if (ration_units_parse_duration(word, strlen(word), out_ns, &used, NULL) == RATION_OK &&
        used == strlen(word))
        return true;
    return complain(run, "not a time", word);
}

static bool read_count(const struct rows_run *run, const char *word, uint64_t *out_count)
{
    size_t used = 0;

    if (strcmp(word, "max") == 0) {
        *out_count = UINT64_MAX;
        return true;
    }
    if (ration_units_parse_count(word, strlen(word), out_count, &used, NULL) == RATION_OK &&
        used == strlen(word))
        return true;
    return complain(run, "not a count", word);
}

static const struct call_form {
    const char *word;
    const char *arguments; /* n count, t time, r reservation */
    bool answered;
} forms[ROWS_CALL_COUNT] = {
    [ROWS_TAKE] = {"take", "n", true},       [ROWS_PEEK] = {"peek", "n", true},
    [ROWS_UPTO] = {"upto", "n", true},       [ROWS_RESERVE] = {"reserve", "nt", true},
    [ROWS_REFUND] = {"refund", "n", false},  [ROWS_CHARGE] = {"charge", "n", false},
    [ROWS_SET] = {"set", "n", false},        [ROWS_BLOCK] = {"block", "t", false},
    [ROWS_SETTLE] = {"settle", "rn", false}, [ROWS_CANCEL] = {"cancel", "r", false},
};

const char *rows_call_name(enum rows_call call)
{
    return forms[call].word;
}

/* Reads a call's words into a request. Returns how many there were, 0 if they are wrong. */
static int read_call(const struct rows_run *run, char **words, int word_count,
                     struct rows_request *request)
{
    for (int call = 0; call < ROWS_CALL_COUNT; call++) {
        const char *arguments = forms[call].arguments;

        if (strcmp(words[0], forms[call].word) != 0)
            continue;
        request->call = (enum rows_call)call;
        for (int index = 0; arguments[index] != 0; index++) {
            bool good = index + 1 < word_count;

            if (good && arguments[index] == 'n')
                good = read_count(run, words[index + 1], &request->tokens);
            else if (good && arguments[index] == 't')
                good = read_time(run, words[index + 1], &request->time_ns);
            else if (good)
                good = read_count(run, words[index + 1], &request->reservation);
            if (!good)
                return 0;
        }
        return 1 + (int)strlen(arguments);
    }
    complain(run, "not a call", words[0]);
    return 0;
}

static bool same_word(const char *expected, const char *got)
{
    return strcmp(expected, "-") == 0 || strcmp(expected, got) == 0;
}

static bool same_time(const struct rows_run *run, const char *expected, uint64_t got_ns)
{
    uint64_t ns = 0;

    return strcmp(expected, "-") == 0 || (read_time(run, expected, &ns) && ns == got_ns);
}

static bool same_count(const struct rows_run *run, const char *expected, uint64_t got)
{
    uint64_t count = 0;

    return strcmp(expected, "-") == 0 || (read_count(run, expected, &count) && count == got);
}

static void compare(struct rows_run *run, char **expected, const struct rows_request *request,
                    const struct ration_decision *got, uint64_t granted)
{
    bool same = request->call == ROWS_UPTO
                    ? same_count(run, expected[0], granted)
                    : same_word(expected[0], ration_decision_verdict_name(got->verdict));

    same = same && same_count(run, expected[1], got->remaining);
    same = same && same_time(run, expected[2], got->retry_after_ns);
    same = same && same_time(run, expected[3], got->reset_after_ns);
    same = same && same_time(run, expected[4], got->delay_ns);
    if (same)
        return;
    run->wrong_count++;
    fprintf(stderr,
            "%s:%d: %s: expected %s remaining %s retry %s reset %s delay %s\n"
            "    got %s (granted %" PRIu64 ") remaining %" PRIu64 " retry %" PRIu64
            "ns reset %" PRIu64 "ns delay %" PRIu64 "ns\n",
            run->path, run->line_number, run->target->name, expected[0], expected[1], expected[2],
            expected[3], expected[4], ration_decision_verdict_name(got->verdict), granted,
            got->remaining, got->retry_after_ns, got->reset_after_ns, got->delay_ns);
}

/* Whether a row cannot be run, and is counted instead. */
static bool skips(struct rows_run *run, const struct rows_request *request)
{
    const struct rows_target *target = run->target;

    if (target->knows == NULL)
        return false;
    if (!target->knows(target->context, request)) {
        target->skips->calls[request->call]++;
        run->is_unlike |= request->call != ROWS_PEEK;
        return true;
    }
    if (request->call == ROWS_SET)
        run->is_unlike = false;
    target->skips->after_count += run->is_unlike;
    return run->is_unlike;
}

static bool run_row(struct rows_run *run, char **words, int word_count)
{
    struct rows_request request = {.line_number = run->line_number};
    uint64_t granted = 0;

    if (word_count < 2 || !read_time(run, words[0], &request.now_ns))
        return complain(run, "not a row", words[0]);

    int call_words = read_call(run, words + 1, word_count - 1, &request);
    int answer_words = forms[request.call].answered ? 5 : 0;

    if (call_words == 0)
        return false;
    if (word_count != 1 + call_words + answer_words)
        return complain(run, "wrong number of columns for", words[1]);
    if (!run->open || skips(run, &request))
        return true;

    struct ration_decision got = run->target->call(run->target->context, &request, &granted);

    run->run_count++;
    if (answer_words > 0)
        compare(run, words + 1 + call_words, &request, &got, granted);
    return true;
}

/* `limit TEXT`, or `TIME change TEXT`. */
static bool set_limit(struct rows_run *run, const char *text, const char *change_at)
{
    struct ration_limit limit;
    struct ration_error error;
    uint64_t now_ns = 0;

    if (ration_limit_parse(text, &limit, &error) != RATION_OK)
        return complain(run, error.message, text);
    if (change_at == NULL) {
        run->open = run->target->open(run->target->context, &limit);
        run->is_unlike = false;
    } else if (run->open) {
        if (!read_time(run, change_at, &now_ns))
            return false;
        run->target->change(run->target->context, &limit, now_ns);
    }
    return true;
}

static bool run_line(struct rows_run *run, char *line)
{
    char *words[WORDS_MAX];
    char *rest = NULL;
    char copy[LINE_MAX_SIZE];
    int count = 0;

    line[strcspn(line, "#\n")] = 0;
    memcpy(copy, line, strlen(line) + 1);
    for (char *word = strtok_r(copy, " \t", &rest); word != NULL && count < WORDS_MAX;
         word = strtok_r(NULL, " \t", &rest))
        words[count++] = word;
    if (count == 0)
        return true;
    if (strcmp(words[0], "limit") == 0)
        return set_limit(run, line + strlen("limit"), NULL);
    if (count > 1 && strcmp(words[1], "change") == 0)
        return set_limit(run, strstr(line, "change") + strlen("change"), words[0]);
    return run_row(run, words, count);
}

int rows_run(const char *path, const struct rows_target *target, int *out_run)
{
    struct rows_run run = {.path = path, .target = target};
    char line[LINE_MAX_SIZE];
    FILE *file = fopen(path, "r");
    bool good = file != NULL;

    if (!good)
        perror(path);
    while (good && fgets(line, sizeof(line), file) != NULL) {
        run.line_number++;
        good = run_line(&run, line);
    }
    if (file != NULL)
        fclose(file);
    *out_run = run.run_count;
    return good ? run.wrong_count : -1;
}
