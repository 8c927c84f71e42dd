/*
 * resp_check: whether bytes are well-formed values of the Redis protocol. Written from the protocol's specification,
 * independently of the writers that it checks.
 */
#ifndef RATION_TESTS_RESP_CHECK_H
#define RATION_TESTS_RESP_CHECK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#define RESP_CHECK_DEPTH_MAX 16

/* The size of the line at bytes, without its CRLF; size if there is no CRLF. */
static size_t resp_check_line(const char *bytes, size_t size)
{
    for (size_t i = 0; i + 1 < size; i++) {
        if (bytes[i] == '\r' || bytes[i] == '\n')
            return bytes[i] == '\r' && bytes[i + 1] == '\n' ? i : size;
    }
    return size;
}

/* Whether a line is a number: a sign, digits, and if has_point one point among them. */
static bool resp_check_number(const char *line, size_t size, bool has_point)
{
    size_t at = size > 0 && line[0] == '-', digits = 0, points = 0;
    for (; at < size; at++) {
        if (line[at] >= '0' && line[at] <= '9')
            digits++;
        else if (line[at] == '.' && has_point && digits > 0 && at + 1 < size)
            points++;
        else
            return false;
    }
    return digits > 0 && points <= 1;
}

/* The size of the value at the start of bytes; 0 if there is none, or if it has a RESP3 type in RESP2. */
static size_t resp_check_value(const char *bytes, size_t size, int version, int depth)
{
    size_t line = resp_check_line(bytes, size);
    if (line == size || line == 0 || depth > RESP_CHECK_DEPTH_MAX)
        return 0;
    size_t used = line + 2;
    if (strchr("_#,=%~", bytes[0]) && version != 3)
        return 0;
    if (strchr(":$*=%~", bytes[0]) && !resp_check_number(bytes + 1, line - 1, false))
        return 0;
    long long count = strtoll(bytes + 1, NULL, 10);
    size_t values = 0;
    switch (bytes[0]) {
    case '+':
    case ':':
        return used;
    case '-':
        return line > 1 ? used : 0;
    case '_':
        return line == 1 ? used : 0;
    case '#':
        return line == 2 && (bytes[1] == 't' || bytes[1] == 'f') ? used : 0;
    case ',':
        return resp_check_number(bytes + 1, line - 1, true) ? used : 0;
    case '$':
    case '=':
        if (count == -1 && bytes[0] == '$')
            return version == 2 ? used : 0;
        if (count < 0 || (size_t)count + 2 > size - used ||
            (bytes[0] == '=' && (count < 4 || bytes[used + 3] != ':')))
            return 0;
        used += (size_t)count;
        return bytes[used] == '\r' && bytes[used + 1] == '\n' ? used + 2 : 0;
    case '*':
        if (count == -1)
            return version == 2 ? used : 0;
        values = (size_t)count;
        break;
    case '%':
        values = 2 * (size_t)count;
        break;
    case '~':
        values = (size_t)count;
        break;
    default:
        return 0;
    }
    for (size_t i = 0; i < values; i++) {
        size_t value = resp_check_value(bytes + used, size - used, version, depth + 1);
        if (value == 0)
            return 0;
        used += value;
    }
    return used;
}

/* Whether bytes are exactly one value. */
static inline bool resp_check(const char *bytes, size_t size, int version)
{
    return size > 0 && resp_check_value(bytes, size, version, 0) == size;
}

#endif
