/*
 * resp_inline: splits a line, as a person types it, into arguments.
 *
 *     SET "a key" 'it\'s'     words end at blanks; "..." supports \n \r \t \b \a \xHH \" \\ and
 *                             '...' supports \' only; a closing quote ends its word
 *
 * Words are unquoted in place, which never makes them longer.
 */
#ifndef RATION_CODEC_RESP_RESP_INLINE_H
#define RATION_CODEC_RESP_RESP_INLINE_H

#include <stddef.h>

#include "ration/limiter.h"

enum ration_resp_inline {
    RATION_RESP_INLINE_OK,
    RATION_RESP_INLINE_UNBALANCED, /* a quote is not closed, or text follows a closing quote */
    RATION_RESP_INLINE_TOO_MANY,
    RATION_RESP_INLINE_TOO_LONG
};

/*
 * Splits a line, without its line end, into at most words_max words of at most word_bytes_max
 * bytes. On success, out_words[0 .. *out_count) point into the line. Otherwise the contents of
 * out_words and of the line are undefined, and *out_count is untouched.
 */
enum ration_resp_inline ration_resp_inline_split(char *line, size_t size, size_t words_max,
                                                 size_t word_bytes_max,
                                                 struct ration_key *out_words, size_t *out_count);

#endif
