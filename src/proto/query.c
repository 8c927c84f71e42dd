#include "proto/query.h"

#include <string.h>

#include "base/words.h"
#include "proto/http_request.h"

struct reader {
    char *text;
    size_t size;
    size_t at;
    struct ration_error *error;
};

static ration_status fail_escape(const struct reader *reader)
{
    char quote[RATION_WORDS_QUOTE_SIZE];
    size_t left = reader->size - reader->at;
    return ration_words_fail(
        reader->error, reader->at,
        "'%s' at byte %zu is no escape: write %%HH with two hexadecimal digits, %%25 for %%",
        ration_words_quote(reader->text + reader->at, left < 3 ? left : 3, quote), reader->at);
}

/* Decodes up to a byte of stops, or the end. What was decoded is never longer than it was. */
static ration_status decode(struct reader *reader, const char *stops, struct ration_key *out_part)
{
    char *begin = reader->text + reader->at, *out = begin;
    size_t stops_size = strlen(stops);
    for (; reader->at < reader->size && !memchr(stops, reader->text[reader->at], stops_size);
         reader->at++) {
        char byte = reader->text[reader->at];
        if (byte == '+')
            byte = ' ';
        if (byte == '%') {
            size_t left = reader->size - reader->at;
            int high = left > 1 ? ration_words_hex(reader->text[reader->at + 1]) : -1;
            int low = left > 2 ? ration_words_hex(reader->text[reader->at + 2]) : -1;
            if (high < 0 || low < 0)
                return fail_escape(reader);
            byte = (char)(high * 16 + low);
            reader->at += 2;
        }
        *out++ = byte;
    }
    *out_part = (struct ration_key){begin, (size_t)(out - begin)};
    return RATION_OK;
}

static bool has(const struct ration_attribute *attributes, size_t count,
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
    size_t begin = reader->at;
    ration_status status = decode(reader, "&=", &out_pair->name);
    if (status != RATION_OK)
        return status;
    if (out_pair->name.size == 0)
        return ration_words_fail(reader->error, begin, "a name is missing before the = at byte %zu",
                                 begin);
    out_pair->value = (struct ration_key){"", 0};
    if (reader->at == reader->size || reader->text[reader->at] != '=')
        return RATION_OK;
    reader->at++;
    return decode(reader, "&", &out_pair->value);
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
    for (; reader.at < size; reader.at++) {
        char quote[RATION_WORDS_QUOTE_SIZE];
        size_t begin = reader.at;
        if (query[begin] == '&')
            continue;
        if (count == attributes_max)
            return ration_words_fail(error, begin, "at most %zu attributes are taken",
                                     attributes_max);
        ration_status status = read_pair(&reader, &found[count]);
        if (status != RATION_OK)
            return status;
        const struct ration_key *name = &found[count].name;
        if (has(found, count, name))
            return ration_words_fail(error, begin, "'%s' is given twice: keep one",
                                     ration_words_quote(name->bytes, name->size, quote));
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
