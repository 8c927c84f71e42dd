#include "codec/http/http_answer.h"

#include <string.h>

/* Digits reserved for the length of any body. Unused space is removed by moving the body. */
#define LENGTH_DIGITS RATION_OUTPUT_NUMBER_SIZE

static const struct status {
    unsigned status;
    const char *text;
    const char *line;
    size_t line_size;
} statuses[] = {
#define STATUS_ROW(number, text)                        \
    {number, text, "HTTP/1.1 " #number " " text "\r\n", \
     sizeof("HTTP/1.1 " #number " " text "\r\n") - 1},
    RATION_HTTP_STATUS_MAP(STATUS_ROW)
#undef STATUS_ROW
};

#define STATUS_COUNT (sizeof(statuses) / sizeof(statuses[0]))

static const struct status *find_status(unsigned number)
{
    for (size_t i = 0; i < STATUS_COUNT; i++) {
        if (statuses[i].status == number)
            return &statuses[i];
    }
    return NULL;
}

const char *ration_http_status_text(unsigned status)
{
    const struct status *found = find_status(status);
    return found ? found->text : NULL;
}

void ration_http_answer_begin(struct ration_http_answer *answer, struct ration_output *output,
                              const struct ration_http_answer_options *options)
{
    const struct status *status = find_status(options->status);
    *answer = (struct ration_http_answer){.output = output, .is_head = options->is_head};
    if (!status)
        status = find_status(500);
    answer->has_body = status->status != 204 && status->status != 304;
    ration_output_append(output, status->line, status->line_size);
    if (options->date.size > 0) {
        ration_output_append_text(output, "Date: ");
        ration_output_append(output, options->date.bytes, options->date.size);
        ration_output_append_text(output, "\r\n");
    }
    if (!options->keep_alive)
        ration_output_append_text(output, "Connection: close\r\n");
    else if (options->minor_version == 0)
        ration_output_append_text(output, "Connection: keep-alive\r\n");
}

void ration_http_answer_header(struct ration_http_answer *answer, const char *name,
                               const void *value, size_t value_size)
{
    struct ration_output *output = answer->output;
    const unsigned char *bytes = value;
    ration_output_append_text(output, name);
    ration_output_append_text(output, ": ");
    if (!ration_output_reserve(output, value_size))
        return;
    for (size_t i = 0; i < value_size; i++)
        output->bytes[output->size++] = bytes[i] < ' ' || bytes[i] == 0x7F ? ' ' : (char)bytes[i];
    ration_output_append_text(output, "\r\n");
}

void ration_http_answer_body(struct ration_http_answer *answer, const char *content_type)
{
    static const char length_line[] = "Content-Length: ####################\r\n\r\n";
    struct ration_output *output = answer->output;
    _Static_assert(sizeof(length_line) == sizeof("Content-Length: \r\n\r\n") + LENGTH_DIGITS, "");
    ration_output_append_text(output, "Content-Type: ");
    ration_output_append_text(output, content_type);
    ration_output_append_text(output, "\r\n");
    answer->length_offset = output->size + sizeof("Content-Length: ") - 1;
    ration_output_append(output, length_line, sizeof(length_line) - 1);
}

void ration_http_answer_sized(struct ration_http_answer *answer, const char *content_type,
                              size_t body_size)
{
    struct ration_output *output = answer->output;
    ration_output_append_text(output, "Content-Type: ");
    ration_output_append_text(output, content_type);
    ration_output_append_text(output, "\r\nContent-Length: ");
    ration_output_append_u64(output, body_size);
    ration_output_append_text(output, "\r\n\r\n");
}

/* Writes the length in its reserved space, and moves the rest to its end. */
static void set_length(struct ration_http_answer *answer)
{
    struct ration_output *output = answer->output;
    char *digits = output->bytes + answer->length_offset;
    const char *rest = digits + LENGTH_DIGITS; /* CRLF, CRLF and the body */
    size_t rest_size = output->size - (answer->length_offset + LENGTH_DIGITS);
    size_t body_size = rest_size - 4;
    char *end = ration_output_put_u64(body_size, digits);
    if (answer->is_head)
        rest_size = 4;
    memmove(end, rest, rest_size);
    output->size = (size_t)(end - output->bytes) + rest_size;
}

void ration_http_answer_end(struct ration_http_answer *answer)
{
    if (answer->length_offset == 0)
        ration_output_append_text(answer->output,
                                  answer->has_body ? "Content-Length: 0\r\n\r\n" : "\r\n");
    else if (!answer->output->is_failed)
        set_length(answer);
}
