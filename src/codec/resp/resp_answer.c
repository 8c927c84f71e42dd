#include "codec/resp/resp_answer.h"

#include <string.h>

#define VERBATIM_KIND "txt:"

static void end_line(struct ration_output *output)
{
    ration_output_append(output, "\r\n", 2);
}

void ration_resp_write_simple(struct ration_output *output, const char *text)
{
    ration_output_append_byte(output, '+');
    ration_output_append_text(output, text);
    end_line(output);
}

void ration_resp_write_error_bytes(struct ration_output *output, const char *text, size_t size)
{
    if (size > RATION_RESP_ERROR_BYTES_MAX)
        size = RATION_RESP_ERROR_BYTES_MAX;
    if (!ration_output_reserve(output, size + 3))
        return;
    char *out = output->bytes + output->size;
    *out++ = '-';
    for (size_t i = 0; i < size; i++) {
        unsigned char byte = (unsigned char)text[i];
        *out++ = byte < 0x20 || byte == 0x7f ? ' ' : (char)byte;
    }
    output->size += size + 1;
    end_line(output);
}

void ration_resp_write_error(struct ration_output *output, const char *text)
{
    ration_resp_write_error_bytes(output, text, strlen(text));
}

void ration_resp_write_bulk(struct ration_output *output, const void *bytes, size_t size)
{
    ration_resp_write_number(output, '$', (int64_t)size);
    ration_output_append(output, bytes, size);
    end_line(output);
}

void ration_resp_write_bulk_text(struct ration_output *output, const char *text)
{
    ration_resp_write_bulk(output, text, strlen(text));
}

void ration_resp_write_null(struct ration_output *output, enum ration_resp_version version)
{
    ration_output_append_text(output, version == RATION_RESP3 ? "_\r\n" : "$-1\r\n");
}

void ration_resp_write_verbatim(struct ration_output *output, enum ration_resp_version version,
                                const char *text, size_t size)
{
    if (version != RATION_RESP3) {
        ration_resp_write_bulk(output, text, size);
        return;
    }
    ration_resp_write_number(output, '=', (int64_t)(size + strlen(VERBATIM_KIND)));
    ration_output_append_text(output, VERBATIM_KIND);
    ration_output_append(output, text, size);
    end_line(output);
}
