#include "codec/http/query.h"

#include <string.h>

#include "base/text.h"
#include "codec/http/http_request.h"

struct reader {
    char *text;
    size_t size;
    size_t offset;
    struct ration_error *error;
};

static ration_status fail_escape(const struct reader *reader)
{
    char quote[RATION_TEXT_QUOTE_SIZE];
    size_t left = reader->size - reader->offset;
    return ration_text_fail(
        reader->error, reader->offset,
        "'%s' at byte %zu is not a valid escape: write %%HH with two hexadecimal digits, %%25 for "
        "%%",
        ration_text_quote(reader->text + reader->offset, left < 3 ? left : 3, quote),
        reader->offset);
}

/* Decodes up to one of stop_bytes, or the end. The decoded text is never longer. */
static ration_status decode_part(struct reader *reader, const char *stop_bytes,
                                 struct ration_key *out_part)
{
    char *begin = reader->text + reader->offset, *out = begin;
    size_t stops_size = strlen(stop_bytes);
    for (; reader->offset < reader->size &&
           !memchr(stop_bytes, reader->text[reader->offset], stops_size);
         reader->offset++) {
        char byte = reader->text[reader->offset];
        if (byte == '+')
            byte = ' ';
        if (byte == '%') {
            size_t left = reader->size - reader->offset;
            int high = left > 1 ? ration_text_hex(reader->text[reader->offset + 1]) : -1;
            int low = left > 2 ? ration_text_hex(reader->text[reader->offset + 2]) : -1;
            if (high < 0 || low < 0)
                return fail_escape(reader);
            byte = (char)(high * 16 + low);
            reader->offset += 2;
        }
        *out++ = byte;
    }
    *out_part = (struct ration_key){begin, (size_t)(out - begin)};
    return RATION_OK;
}

static bool has_name(const struct ration_attribute *attributes, size_t count,
                     const struct ration_key *name)
{
    for (size_t i = 0; i < count; i++) {
        if (attributes[i].name.size == name->size &&
            memcmp(attributes[i].name.bytes, name->bytes, name->size) == 0)
            return true;
    }
    return false;
}

static ration_status read_pair(struct reader *reader, struct ration_attribute *out_pair)
{
    size_t begin = reader->offset;
    ration_status status = decode_part(reader, "&=", &out_pair->name);
    if (status != RATION_OK)
        return status;
    if (out_pair->name.size == 0)
        return ration_text_fail(reader->error, begin, "a name is missing before the = at byte %zu",
                                begin);
    out_pair->value = (struct ration_key){"", 0};
    if (reader->offset == reader->size || reader->text[reader->offset] != '=')
        return RATION_OK;
    reader->offset++;
    return decode_part(reader, "&", &out_pair->value);
}

ration_status ration_query_read(char *query, size_t size, struct ration_attribute *attributes,
                                size_t attributes_max, size_t *out_count,
                                struct ration_error *error)
{
    struct reader reader = {query, size, 0, error};
    struct ration_attribute found[RATION_ATTRIBUTES_MAX];
    size_t count = 0;
    if (attributes_max > RATION_ATTRIBUTES_MAX)
        attributes_max = RATION_ATTRIBUTES_MAX;
    for (; reader.offset < size; reader.offset++) {
        char quote[RATION_TEXT_QUOTE_SIZE];
        size_t begin = reader.offset;
        if (query[begin] == '&')
            continue;
        if (count == attributes_max)
            return ration_text_fail(error, begin, "at most %zu attributes are allowed",
                                    attributes_max);
        ration_status status = read_pair(&reader, &found[count]);
        if (status != RATION_OK)
            return status;
        const struct ration_key *name = &found[count].name;
        if (has_name(found, count, name))
            return ration_text_fail(error, begin, "'%s' is given twice: keep one",
                                    ration_text_quote(name->bytes, name->size, quote));
        count++;
    }
    memcpy(attributes, found, count * sizeof(found[0]));
    *out_count = count;
    return RATION_OK;
}

bool ration_query_take(struct ration_attribute *attributes, size_t *attribute_count,
                       const char *name, struct ration_key *out_value)
{
    for (size_t i = 0; i < *attribute_count; i++) {
        if (!ration_http_is(&attributes[i].name, name))
            continue;
        *out_value = attributes[i].value;
        memmove(&attributes[i], &attributes[i + 1],
                (*attribute_count - i - 1) * sizeof(attributes[0]));
        (*attribute_count)--;
        return true;
    }
    return false;
}
