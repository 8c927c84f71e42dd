/*
 * resp_inline: the words of a line, as a person types them.
 *
 *     SET "a key" 'it\'s'     words end at blanks; "..." knows \n \r \t \b \a \xHH \" \\ and
 *                             '...' knows \' only; a closing quote ends its word
 *
 * Words are unquoted in place, which never makes them longer.
 */
#ifndef RATION_PROTO_RESP_INLINE_H
#define RATION_PROTO_RESP_INLINE_H

#include <stddef.h>

#include "ration/limiter.h"

enum ration_resp_inline {
    RATION_RESP_INLINE_OK,
    RATION_RESP_INLINE_UNBALANCED, /* a quote is left open, or something follows a closing one */
    RATION_RESP_INLINE_TOO_MANY,
    RATION_RESP_INLINE_TOO_LONG
};

/*
 * Splits a line, which is without its end, into at most words_max words of at most
 * word_bytes_max bytes. On success out_words[0 .. *out_count) point into the line. Otherwise
 * out_words and the line are of no use, and *out_count is untouched.
 */
enum ration_resp_inline ration_resp_inline_split(char *line, size_t size, size_t words_max,
                                                 size_t word_bytes_max,
                                                 struct ration_key *out_words, size_t *out_count);

#endif
