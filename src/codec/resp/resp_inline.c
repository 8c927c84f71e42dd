#include "codec/resp/resp_inline.h"

#include <stdbool.h>

#include "base/text.h"

struct reader {
    char *at;
    const char *end;
    char *put; /* where the next byte of the word is written; never after at */
};

/* The bytes between words: those of isspace() in the C locale. */
static bool is_blank(char byte)
{
    return byte == ' ' || (byte >= '\t' && byte <= '\r');
}

/* The bytes that end a word without quotes. */
static bool is_word_end(char byte)
{
    return byte == ' ' || byte == '\t' || byte == '\n' || byte == '\r';
}

/* Returns the byte that an escape stands for; other escaped bytes stand for themselves. */
static char unescape(char byte)
{
    switch (byte) {
    case 'n':
        return '\n';
    case 'r':
        return '\r';
    case 't':
        return '\t';
    case 'b':
        return '\b';
    case 'a':
        return '\a';
    default:
        return byte;
    }
}

/*
 * Reads an escape. The reader is at a backslash inside double quotes that is not the last byte of
 * the line.
 */
static void read_escape(struct reader *reader)
{
    char *at = reader->at;
    if (reader->end - at >= 4 && at[1] == 'x') {
        int high = ration_text_hex(at[2]);
        int low = ration_text_hex(at[3]);

        if (high >= 0 && low >= 0) {
            *reader->put++ = (char)(high << 4 | low);
            reader->at += 4;
            return;
        }
    }
    *reader->put++ = unescape(at[1]);
    reader->at += 2;
}

/*
 * Reads a quoted part. The reader is at a quote. Returns false unless it is closed and the word
 * ends there.
 */
static bool read_quoted(struct reader *reader)
{
    char quote = *reader->at++;
    while (reader->at < reader->end && *reader->at != quote) {
        bool is_last = reader->end - reader->at == 1;
        if (quote == '"' && *reader->at == '\\' && !is_last) {
            read_escape(reader);
        } else if (quote == '\'' && *reader->at == '\\' && !is_last && reader->at[1] == '\'') {
            *reader->put++ = '\'';
            reader->at += 2;
        } else {
            *reader->put++ = *reader->at++;
        }
    }
    if (reader->at == reader->end)
        return false;
    reader->at++;
    return reader->at == reader->end || is_blank(*reader->at);
}

/* Reads a word. The reader is at its first byte. Returns false if the quotes are unbalanced. */
static bool read_word(struct reader *reader, struct ration_key *out_word)
{
    char *begin = reader->at;
    reader->put = begin;
    while (reader->at < reader->end && !is_word_end(*reader->at)) {
        if (*reader->at != '"' && *reader->at != '\'')
            *reader->put++ = *reader->at++;
        else if (!read_quoted(reader))
            return false;
    }
    *out_word = (struct ration_key){begin, (size_t)(reader->put - begin)};
    while (reader->put <
           reader->at) /* overwrite what the quotes left: "EXEC" may be parsed again */
        *reader->put++ = ' ';
    return true;
}

enum ration_resp_inline ration_resp_inline_split(char *line, size_t size, size_t words_max,
                                                 size_t word_bytes_max,
                                                 struct ration_key *out_words, size_t *out_count)
{
    struct reader reader = {.at = line, .end = line + size};
    size_t count = 0;
    for (;;) {
        while (reader.at < reader.end && is_blank(*reader.at))
            reader.at++;
        if (reader.at == reader.end)
            break;
        struct ration_key word;
        if (!read_word(&reader, &word))
            return RATION_RESP_INLINE_UNBALANCED;
        if (word.size > word_bytes_max)
            return RATION_RESP_INLINE_TOO_LONG;
        if (count == words_max)
            return RATION_RESP_INLINE_TOO_MANY;
        out_words[count++] = word;
    }
    *out_count = count;
    return RATION_RESP_INLINE_OK;
}
