#include "codec/json/json_write.h"

#include <stdlib.h>
#include <string.h>

/*
 * Active in release builds too: the output would not be valid JSON, and tests of the caller find
 * it.
 */
static void require_valid_call(bool holds)
{
    if (!holds)
        abort();
}

static uint32_t level_bit(const struct ration_json *json)
{
    return UINT32_C(1) << json->depth;
}

void ration_json_init(struct ration_json *json, struct ration_output *output)
{
    *json = (struct ration_json){.output = output};
}

static void write_comma(struct ration_json *json)
{
    if (json->begun & level_bit(json))
        ration_output_append_byte(json->output, ',');
    json->begun |= level_bit(json);
}

/* Writes the separator that a value needs before it. */
static void begin_value(struct ration_json *json)
{
    if (json->depth > 0 && (json->objects & level_bit(json))) {
        require_valid_call(json->has_name);
        json->has_name = false;
        return;
    }
    require_valid_call(json->depth > 0 ||
                       !(json->begun & level_bit(json))); /* only one value at the top level */
    write_comma(json);
}

static void begin_container(struct ration_json *json, bool is_object)
{
    begin_value(json);
    require_valid_call(json->depth < RATION_JSON_DEPTH_MAX);
    json->depth++;
    json->begun &= ~level_bit(json);
    json->objects &= ~level_bit(json);
    if (is_object)
        json->objects |= level_bit(json);
    ration_output_append_byte(json->output, is_object ? '{' : '[');
}

void ration_json_begin_object(struct ration_json *json)
{
    begin_container(json, true);
}

void ration_json_begin_array(struct ration_json *json)
{
    begin_container(json, false);
}

void ration_json_end(struct ration_json *json)
{
    require_valid_call(json->depth > 0 && !json->has_name);
    ration_output_append_byte(json->output, json->objects & level_bit(json) ? '}' : ']');
    json->depth--;
}

static void begin_name(struct ration_json *json)
{
    require_valid_call(json->depth > 0 && (json->objects & level_bit(json)) && !json->has_name);
    write_comma(json);
    json->has_name = true;
}

void ration_json_name(struct ration_json *json, const char *name)
{
    size_t size = strlen(name);
    begin_name(json);
    if (!ration_output_reserve(json->output, size + 3))
        return;
    char *at = json->output->bytes + json->output->size;
    at[0] = '"';
    memcpy(at + 1, name, size);
    memcpy(at + 1 + size, "\":", 2);
    json->output->size += size + 3;
}

static bool is_plain(unsigned char byte)
{
    return byte >= 0x20 && byte < 0x80 && byte != '"' && byte != '\\';
}

static void write_escape(struct ration_output *output, unsigned char byte)
{
    static const char hex[] = "0123456789abcdef";
    static const char shorts[] = {['\b'] = 'b', ['\t'] = 't', ['\n'] = 'n', ['\f'] = 'f',
                                  ['\r'] = 'r', ['"'] = '"',  ['\\'] = '\\'};
    char letter = byte < sizeof(shorts) ? shorts[byte] : '\0';
    if (letter) {
        ration_output_append(output, (const char[]){'\\', letter}, 2);
        return;
    }
    ration_output_append(output,
                         (const char[]){'\\', 'u', '0', '0', hex[byte >> 4], hex[byte & 15]}, 6);
}

/* The size of the multi-byte character at the start of text; 0 if it is not valid UTF-8. */
static size_t character_size(const unsigned char *text, size_t size)
{
    static const struct {
        unsigned char from, to; /* range of the first byte */
        unsigned char second_from,
            second_to; /* excludes overlong forms, surrogates and code points above U+10FFFF */
        unsigned char size;
    } rows[] = {
        {0xC2, 0xDF, 0x80, 0xBF, 2}, {0xE0, 0xE0, 0xA0, 0xBF, 3}, {0xE1, 0xEC, 0x80, 0xBF, 3},
        {0xED, 0xED, 0x80, 0x9F, 3}, {0xEE, 0xEF, 0x80, 0xBF, 3}, {0xF0, 0xF0, 0x90, 0xBF, 4},
        {0xF1, 0xF3, 0x80, 0xBF, 4}, {0xF4, 0xF4, 0x80, 0x8F, 4},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        if (text[0] < rows[i].from || text[0] > rows[i].to)
            continue;
        if (size < rows[i].size || text[1] < rows[i].second_from || text[1] > rows[i].second_to)
            return 0;
        for (size_t at = 2; at < rows[i].size; at++) {
            if ((text[at] & 0xC0) != 0x80)
                return 0;
        }
        return rows[i].size;
    }
    return 0;
}

static void write_string(struct ration_output *output, const unsigned char *text, size_t size)
{
    static const char replacement[] = "\xEF\xBF\xBD";
    ration_output_append_byte(output, '"');
    for (size_t at = 0; at < size;) {
        size_t plain = 0;
        while (at + plain < size && is_plain(text[at + plain]))
            plain++;
        ration_output_append(output, text + at, plain);
        at += plain;
        if (at == size)
            break;
        if (text[at] < 0x80) {
            write_escape(output, text[at++]);
            continue;
        }
        size_t character = character_size(text + at, size - at);
        if (character)
            ration_output_append(output, text + at, character);
        else
            ration_output_append(output, replacement, sizeof(replacement) - 1);
        at += character ? character : 1;
    }
    ration_output_append_byte(output, '"');
}

void ration_json_string(struct ration_json *json, const void *bytes, size_t size)
{
    begin_value(json);
    write_string(json->output, bytes, size);
}

void ration_json_text(struct ration_json *json, const char *text)
{
    ration_json_string(json, text, strlen(text));
}

void ration_json_u64(struct ration_json *json, uint64_t number)
{
    begin_value(json);
    ration_output_append_u64(json->output, number);
}

void ration_json_bool(struct ration_json *json, bool value)
{
    begin_value(json);
    ration_output_append_text(json->output, value ? "true" : "false");
}

void ration_json_null(struct ration_json *json)
{
    begin_value(json);
    ration_output_append_text(json->output, "null");
}
