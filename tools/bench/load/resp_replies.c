/*
 * resp_replies: parses RESP 2 and 3 as sent by servers, and finds the end of each answer.
 *
 * An answer is a value. A value is a line, a line and a string, or a line and a number of values.
 * The open arrays form a stack of the number of values that each still needs. Pushes are not
 * answers and are not counted; attributes precede a value and are not values themselves.
 */
#include "load/replies.h"

#include <string.h>

#define NUMBER_LONG UINT64_C(1000000000000000000) /* has 19 digits; no 64-bit integer has more */

#define PLAIN_DIGITS_MAX 18

enum step {
    STEP_TYPE,       /* the first byte of a value */
    STEP_NUMBER,     /* a line that is a number, from its second byte on */
    STEP_NUMBER_END, /* the line feed after the number */
    STEP_TEXT,       /* a line whose text is ignored */
    STEP_ERROR,      /* the line of an error; the first error is saved */
    STEP_STRING      /* bytes to skip, with their line end */
};

static bool is_error(char type)
{
    return type == '-' || type == '!';
}

/* Answers -------------------------------------------------------------------------------- */

static void count_answer(const struct load_resp *resp, struct load_totals *totals)
{
    if (resp->top_type == '>' || resp->top_type == '|')
        return;
    if (is_error(resp->top_type))
        totals->error_count++;
    else if (resp->top_type == '*' && resp->first_type == ':' && resp->first_number == 0)
        totals->allowed_count++;
    else if (resp->top_type == '*' && resp->first_type == ':' && resp->first_number == 1)
        totals->denied_count++;
    else
        totals->other_count++;
}

/* Called when a value is complete. Also closes the arrays whose last value it was. */
static void end_value(struct load_resp *resp, struct load_totals *totals)
{
    resp->step = STEP_TYPE;
    while (resp->depth > 0) {
        if (--resp->left_counts[resp->depth - 1] > 0)
            return;
        resp->depth--;
    }
    count_answer(resp, totals);
}

/* Saves the text of the first error; later errors are only counted. */
static void save_error(struct load_resp *resp, const char *bytes, size_t size,
                       struct load_totals *totals)
{
    size_t room = sizeof(totals->first_error) - 1;

    if (resp->depth > 0 || totals->error_count > 0 || resp->text_size >= room)
        return;
    if (size > room - resp->text_size)
        size = room - resp->text_size;
    memcpy(totals->first_error + resp->text_size, bytes, size);
    resp->text_size += (uint32_t)size;
    totals->first_error[resp->text_size] = '\0';
}

/* Lines ---------------------------------------------------------------------------------- */

/* Records the type of a value and its position in the answer. */
static void record_type(struct load_resp *resp, char type)
{
    resp->type = type;
    resp->is_first = resp->depth == 1 && resp->first_type == 0;
    if (resp->depth == 0) {
        resp->top_type = type;
        resp->first_type = 0;
    } else if (resp->is_first) {
        resp->first_type = type;
    }
}

static bool begin_value(struct load_resp *resp, char type, struct load_error *error)
{
    record_type(resp, type);
    resp->number = 0;
    resp->negative = false;
    resp->has_digits = false;
    resp->text_size = 0;
    switch (type) {
    case ':':
    case '$':
    case '*':
    case '=':
    case '!':
    case '%':
    case '~':
    case '>':
    case '|':
        resp->step = STEP_NUMBER;
        return true;
    case '+':
    case ',':
    case '(':
    case '#':
    case '_':
        resp->step = STEP_TEXT;
        return true;
    case '-':
        resp->step = STEP_ERROR;
        return true;
    default:
        return load_fail(error, "this is not a Redis server: an answer begins with byte 0x%02x",
                         (unsigned char)type);
    }
}

static bool open_array(struct load_resp *resp, struct load_totals *totals, struct load_error *error)
{
    uint64_t value_count = resp->number;

    if (resp->type == '%' || resp->type == '|')
        value_count *= 2;
    if (resp->type == '|' && resp->depth > 0)
        resp->left_counts[resp->depth - 1]++; /* an attribute does not count as a value */
    if (value_count == 0 || resp->negative) {
        end_value(resp, totals);
        return true;
    }
    if (resp->depth == LOAD_RESP_DEPTH_MAX)
        return load_fail(error, "an answer has arrays more than %d deep", LOAD_RESP_DEPTH_MAX);
    resp->left_counts[resp->depth++] = value_count;
    resp->step = STEP_TYPE;
    return true;
}

/* Called when the line of a number is complete. */
static bool end_number(struct load_resp *resp, struct load_totals *totals, struct load_error *error)
{
    if (!resp->has_digits)
        return load_fail(error, "an answer has a number without digits");
    switch (resp->type) {
    case ':':
        if (resp->is_first)
            resp->first_number = resp->negative ? UINT64_MAX : resp->number;
        end_value(resp, totals);
        return true;
    case '$':
    case '=':
    case '!':
        if (resp->negative) { /* null */
            end_value(resp, totals);
            return true;
        }
        if (resp->number > LOAD_RESP_LENGTH_MAX)
            return load_fail(error, "an answer has a string longer than 512 MB");
        resp->skip_bytes = resp->number + 2;
        resp->step = STEP_STRING;
        return true;
    default:
        if (resp->number > LOAD_RESP_LENGTH_MAX)
            return load_fail(error, "an answer announces too many values");
        return open_array(resp, totals, error);
    }
}

/*
 * Reads the most common values in one step: an integer, or the first line of a string or an array,
 * if the line is complete and has only digits. Returns where it ends, or at if it is another value.
 */
static const char *read_plain(struct load_resp *resp, const char *at, const char *end,
                              struct load_totals *totals, bool *out_is_valid,
                              struct load_error *error)
{
    const char *digits = at + 1;
    const char *stop = digits;
    uint64_t number = 0;

    if (*at != ':' && *at != '*' && *at != '$')
        return at;
    for (; stop < end && (unsigned char)(*stop - '0') <= 9; stop++)
        number = number * 10 + (uint64_t)(*stop - '0');
    if (stop == digits || stop - digits > PLAIN_DIGITS_MAX || end - stop < 2 || stop[0] != '\r' ||
        stop[1] != '\n')
        return at;
    record_type(resp, *at);
    resp->number = number;
    resp->negative = false;
    resp->has_digits = true;
    *out_is_valid = end_number(resp, totals, error);
    return stop + 2;
}

/* Steps: each reads what it can of [at, end) and returns where it stopped, or NULL. ------- */

static const char *read_type(struct load_resp *resp, const char *at, const char *end,
                             struct load_totals *totals, struct load_error *error)
{
    bool is_valid = true;
    const char *after = read_plain(resp, at, end, totals, &is_valid, error);

    if (after == at)
        return begin_value(resp, *at, error) ? at + 1 : NULL;
    return is_valid ? after : NULL;
}

static const char *read_number(struct load_resp *resp, const char *at, const char *end,
                               struct load_error *error)
{
    for (; at < end; at++) {
        unsigned digit = (unsigned char)*at - (unsigned)'0';

        if (digit <= 9) {
            if (resp->number >= NUMBER_LONG)
                return load_fail(error, "an answer has a number of 20 digits"), NULL;
            resp->number = resp->number * 10 + digit;
            resp->has_digits = true;
        } else if (*at == '\r') {
            resp->step = STEP_NUMBER_END;
            return at + 1;
        } else if ((*at == '-' || *at == '+') && !resp->has_digits) {
            resp->negative = *at == '-';
        } else {
            load_fail(error, "an answer has byte 0x%02x in a number", (unsigned char)*at);
            return NULL;
        }
    }
    return at;
}

static const char *read_number_end(struct load_resp *resp, const char *at,
                                   struct load_totals *totals, struct load_error *error)
{
    if (*at != '\n') {
        load_fail(error, "an answer has a line that ends without a line feed");
        return NULL;
    }
    return end_number(resp, totals, error) ? at + 1 : NULL;
}

static const char *read_line(struct load_resp *resp, const char *at, const char *end,
                             struct load_totals *totals)
{
    const char *line_feed = memchr(at, '\n', (size_t)(end - at));
    const char *stop = line_feed != NULL ? line_feed : end;

    if (resp->step == STEP_ERROR) {
        size_t size = (size_t)(stop - at);

        save_error(resp, at, size > 0 && at[size - 1] == '\r' ? size - 1 : size, totals);
    }
    if (line_feed == NULL)
        return end;
    end_value(resp, totals);
    return line_feed + 1;
}

static const char *read_string(struct load_resp *resp, const char *at, const char *end,
                               struct load_totals *totals)
{
    size_t size = (size_t)(end - at);

    if (size > resp->skip_bytes)
        size = (size_t)resp->skip_bytes;
    if (resp->type == '!' && resp->skip_bytes > 2)
        save_error(resp, at, size < resp->skip_bytes - 2 ? size : (size_t)resp->skip_bytes - 2,
                   totals);
    resp->skip_bytes -= size;
    if (resp->skip_bytes == 0)
        end_value(resp, totals);
    return at + size;
}

bool load_resp_read(struct load_resp *resp, const char *bytes, size_t size,
                    struct load_totals *totals, struct load_error *error)
{
    const char *end = bytes + size;

    for (const char *at = bytes; at != NULL && at < end;) {
        switch ((enum step)resp->step) {
        case STEP_TYPE:
            at = read_type(resp, at, end, totals, error);
            break;
        case STEP_NUMBER:
            at = read_number(resp, at, end, error);
            break;
        case STEP_NUMBER_END:
            at = read_number_end(resp, at, totals, error);
            break;
        case STEP_TEXT:
        case STEP_ERROR:
            at = read_line(resp, at, end, totals);
            break;
        case STEP_STRING:
            at = read_string(resp, at, end, totals);
            break;
        }
        if (at == NULL)
            return false;
    }
    return true;
}
