#include "codec/http/check.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/text.h"
#include "codec/http/http_request.h"
#include "codec/http/query.h"

bool ration_check_fail(struct ration_check_error *error, const char *pointer, const char *format,
                       ...)
{
    va_list arguments;
    if (!error)
        return false;
    snprintf(error->pointer, sizeof(error->pointer), "%s", pointer);
    va_start(arguments, format);
    vsnprintf(error->message, sizeof(error->message), format, arguments);
    va_end(arguments);
    return false;
}

static bool read_number(const struct ration_key *value, uint64_t *out_number)
{
    const char *digits = value->bytes;
    uint64_t number = 0;
    for (size_t i = 0; i < value->size; i++) {
        if (digits[i] < '0' || digits[i] > '9' || __builtin_mul_overflow(number, 10, &number) ||
            __builtin_add_overflow(number, (uint64_t)(digits[i] - '0'), &number))
            return false;
    }
    *out_number = number;
    return value->size > 0;
}

static bool read_peek(const struct ration_key *value, enum ration_check_kind *out_kind)
{
    bool is_true = ration_http_is(value, "true");
    if (!is_true && !ration_http_is(value, "false"))
        return false;
    *out_kind = is_true ? RATION_CHECK_PEEK : RATION_CHECK_TAKE;
    return true;
}

static bool read_limit(const struct ration_key *value, struct ration_check_request *check,
                       struct ration_check_error *error)
{
    struct ration_error reason;
    check->has_limit = true;
    if (ration_limit_parse_bytes(value->bytes, value->size, &check->limit, &reason) == RATION_OK)
        return true;
    return ration_check_fail(error, "/limit", "%s", reason.message);
}

/* Removes the members of the query that are not attributes, and reads them into the check. */
static bool take_members(struct ration_check_room *room, struct ration_check_request *check,
                         struct ration_check_error *error)
{
    struct ration_key value;
    size_t *count = &check->attribute_count;
    if (ration_query_take(room->attributes, count, "cost", &value) &&
        !read_number(&value, &check->tokens))
        return ration_check_fail(error, "/cost", "cost must be a whole number, such as 1");
    if (ration_query_take(room->attributes, count, "peek", &value) &&
        !read_peek(&value, &check->kind))
        return ration_check_fail(error, "/peek", "peek must be true or false");
    check->has_key = ration_query_take(room->attributes, count, "key", &check->key);
    if (ration_query_take(room->attributes, count, "limit", &value) &&
        !read_limit(&value, check, error))
        return false;
    if (check->has_key && check->key.size > RATION_KEY_SIZE_MAX)
        return ration_check_fail(error, "/key", "a key has at most %d bytes", RATION_KEY_SIZE_MAX);
    if (check->has_key != check->has_limit)
        return ration_check_fail(error, check->has_key ? "/limit" : "/key",
                                 "key and limit go together: key=user:7&limit=10/s");
    if (check->has_key && *count > 0)
        return ration_check_fail(error, "", "key and limit cannot be combined with attributes");
    return true;
}

bool ration_check_read_query(char *query, size_t size, struct ration_check_room *room,
                             struct ration_check_request *out_check,
                             struct ration_check_error *error)
{
    struct ration_check_request check = {.kind = RATION_CHECK_TAKE, .tokens = 1};
    struct ration_error reason;
    if (ration_query_read(query, size, room->attributes, RATION_ATTRIBUTES_MAX,
                          &check.attribute_count, &reason) != RATION_OK)
        return ration_check_fail(error, "", "query: %s", reason.message);
    check.attributes = room->attributes;
    if (!take_members(room, &check, error))
        return false;
    *out_check = check;
    return true;
}
