#include "proto/resp_answer.h"

#include <assert.h>
#include <string.h>

#define VERBATIM_KIND "txt:"

/* "-9223372036854775808" with a point and a zero before it */
#define DECIMAL_SIZE (RATION_OUTPUT_NUMBER_SIZE + 2)

#define DECIMALS_MAX 18

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

void ration_resp_write_null_array(struct ration_output *output, enum ration_resp_version version)
{
    ration_output_append_text(output, version == RATION_RESP3 ? "_\r\n" : "*-1\r\n");
}

void ration_resp_write_boolean(struct ration_output *output, enum ration_resp_version version,
                               bool is_true)
{
    if (version == RATION_RESP3)
        ration_output_append_text(output, is_true ? "#t\r\n" : "#f\r\n");
    else
        ration_resp_write_integer(output, is_true);
}

void ration_resp_write_double(struct ration_output *output, enum ration_resp_version version,
                              const char *text, size_t size)
{
    if (version != RATION_RESP3) {
        ration_resp_write_bulk(output, text, size);
        return;
    }
    ration_output_append_byte(output, ',');
    ration_output_append(output, text, size);
    end_line(output);
}

/* The digits of number / 10^decimals. Returns their end. */
static char *put_decimal(int64_t number, unsigned decimals, char *out)
{
    uint64_t magnitude = number < 0 ? -(uint64_t)number : (uint64_t)number;
    uint64_t scale = 1;
    while (decimals > 0 && magnitude % 10 == 0) {
        magnitude /= 10;
        decimals--;
    }
    for (unsigned i = 0; i < decimals; i++)
        scale *= 10;
    if (number < 0)
        *out++ = '-';
    out = ration_output_put_u64(magnitude / scale, out);
    if (decimals == 0)
        return out;
    *out++ = '.';
    uint64_t fraction = magnitude % scale;
    for (char *at = out + decimals; at > out; fraction /= 10)
        *--at = (char)('0' + fraction % 10);
    return out + decimals;
}

void ration_resp_write_decimal(struct ration_output *output, enum ration_resp_version version,
                               int64_t number, unsigned decimals)
{
    char text[DECIMAL_SIZE];
    assert(decimals <= DECIMALS_MAX);
    ration_resp_write_double(output, version, text,
                             (size_t)(put_decimal(number, decimals, text) - text));
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
