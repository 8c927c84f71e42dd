#include "codec/http/check_json.h"

#include <inttypes.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "base/output.h"
#include "base/text.h"
#include "base/units.h"

#define COUNT_OF(array) (sizeof(array) / sizeof((array)[0]))

struct ration_checks {
    json_t *root;
    json_t *list; /* the array of a batch, or NULL */
    enum ration_check_kind kind;
};

/* The position in the body, and the destination of an error. */
struct location {
    struct ration_check_error *error;
    char pointer[sizeof(((struct ration_check_error *)0)->pointer)];
    size_t size;
};

static void append_to_pointer(struct location *location, const char *bytes, size_t size)
{
    size_t left = sizeof(location->pointer) - 1 - location->size;

    if (size > left)
        size = left;
    memcpy(location->pointer + location->size, bytes, size);
    location->size += size;
    location->pointer[location->size] = '\0';
}

/*
 * Appends a name to the pointer, with / and ~ escaped as RFC 6901 requires. Text that does not fit
 * or is not printable is truncated or replaced.
 */
static void push_name(struct location *location, const char *name, size_t name_size)
{
    char quote[RATION_TEXT_QUOTE_SIZE];

    append_to_pointer(location, "/", 1);
    for (const char *byte = ration_text_quote(name, name_size, quote); *byte != '\0'; byte++) {
        if (*byte == '/' || *byte == '~')
            append_to_pointer(location, *byte == '/' ? "~1" : "~0", 2);
        else
            append_to_pointer(location, byte, 1);
    }
}

static void push_index(struct location *location, size_t index)
{
    char digits[RATION_OUTPUT_NUMBER_SIZE];
    char *end = ration_output_put_u64(index, digits);
    push_name(location, digits, (size_t)(end - digits));
}

static void truncate_pointer(struct location *location, size_t size)
{
    location->size = size;
    location->pointer[size] = '\0';
}

/* Reports an error at the member of that name. */
#define FAIL_AT(location, name, ...)          \
    (push_name(location, name, strlen(name)), \
     ration_check_fail((location)->error, (location)->pointer, __VA_ARGS__))

#define FAIL(location, ...) ration_check_fail((location)->error, (location)->pointer, __VA_ARGS__)

static const char *type_name(const json_t *value)
{
    switch (json_typeof(value)) {
    case JSON_OBJECT:
        return "an object";
    case JSON_ARRAY:
        return "an array";
    case JSON_STRING:
        return "a string";
    case JSON_INTEGER:
        return "a number";
    case JSON_REAL:
        return "a number with a fraction or an exponent";
    case JSON_NULL:
        return "null";
    default:
        return "true or false";
    }
}

/* Reads an integer of at least min. If it is absent, *out_number is unchanged. */
static bool read_number(struct location *location, const json_t *object, const char *name,
                        uint64_t min, uint64_t *out_number)
{
    const json_t *value = json_object_get(object, name);
    if (!value)
        return true;
    if (!json_is_integer(value))
        return FAIL_AT(location, name, "%s must be a whole number, such as %" PRIu64 " (got %s)",
                       name, min ? min : 1, type_name(value));
    json_int_t number = json_integer_value(value);
    if (number < 0 || (uint64_t)number < min)
        return FAIL_AT(location, name,
                       "%s must be at least %" PRIu64 " (got %" JSON_INTEGER_FORMAT ")", name, min,
                       number);
    *out_number = (uint64_t)number;
    return true;
}

static bool read_bool(struct location *location, const json_t *object, const char *name,
                      bool *out_value)
{
    const json_t *value = json_object_get(object, name);
    if (!value)
        return true;
    if (!json_is_boolean(value))
        return FAIL_AT(location, name, "%s must be true or false (got %s)", name, type_name(value));
    *out_value = json_is_true(value);
    return true;
}

/* Refuses members that are not in the list of known names. */
static bool check_names(struct location *location, json_t *object, const char *const *known,
                        size_t known_count, const char *fix)
{
    for (void *member = json_object_iter(object); member;
         member = json_object_iter_next(object, member)) {
        const char *name = json_object_iter_key(member);
        size_t size = json_object_iter_key_len(member), i = 0;
        char quote[RATION_TEXT_QUOTE_SIZE];
        while (i < known_count && strcmp(known[i], name) != 0)
            i++;
        if (i < known_count)
            continue;
        const char *suggestion = ration_text_nearest(name, size, known, known_count);
        ration_text_quote(name, size, quote);
        push_name(location, name, size);
        return suggestion
                   ? FAIL(location, "unknown member '%s': did you mean %s?", quote, suggestion)
                   : FAIL(location, "unknown member '%s': %s", quote, fix);
    }
    return true;
}

static bool read_period(struct location *location, const json_t *object, uint64_t *out_ns)
{
    const json_t *value = json_object_get(object, "period");
    struct ration_error reason;
    size_t used;
    if (!value)
        return FAIL_AT(location, "period", "a limit needs a period: write \"period\": \"1s\"");
    if (!json_is_string(value))
        return read_number(location, object, "period", 1, out_ns); /* nanoseconds */
    if (ration_units_parse_duration(json_string_value(value), json_string_length(value), out_ns,
                                    &used, &reason) != RATION_OK)
        return FAIL_AT(location, "period", "%s", reason.message);
    if (used != json_string_length(value))
        return FAIL_AT(location, "period", "a period is one duration, such as 250ms or 1h");
    return true;
}

static bool read_limit_object(struct location *location, json_t *object,
                              struct ration_limit *out_limit)
{
    static const char *const known[] = {"tokens", "period", "burst"};
    struct ration_limit_spec spec = {0};
    struct ration_error reason;
    if (!check_names(location, object, known, COUNT_OF(known),
                     "a limit has tokens, period and burst"))
        return false;
    if (!json_object_get(object, "tokens"))
        return FAIL_AT(location, "tokens", "a limit needs tokens: write \"tokens\": 10");
    if (!read_number(location, object, "tokens", 1, &spec.tokens) ||
        !read_number(location, object, "burst", 1, &spec.burst) ||
        !read_period(location, object, &spec.period_ns))
        return false;
    if (ration_limit_make(&spec, out_limit, &reason) != RATION_OK)
        return FAIL(location, "%s", reason.message);
    return true;
}

static bool read_limit(struct location *location, json_t *value, struct ration_limit *out_limit)
{
    struct ration_error reason;
    push_name(location, "limit", 5);
    if (json_is_object(value))
        return read_limit_object(location, value, out_limit);
    if (!json_is_string(value))
        return FAIL(location, "limit must be a text such as \"10/s burst 20\" (got %s)",
                    type_name(value));
    if (ration_limit_parse_bytes(json_string_value(value), json_string_length(value), out_limit,
                                 &reason) != RATION_OK)
        return FAIL(location, "%s", reason.message);
    return true;
}

/*
 * Returns the value of one attribute as text: that of a string itself, that of a number printed
 * into room. False for other types.
 */
static bool attribute_value(const json_t *value, char *room, struct ration_key *out_value)
{
    switch (json_typeof(value)) {
    case JSON_STRING:
        *out_value = (struct ration_key){json_string_value(value), json_string_length(value)};
        return true;
    case JSON_INTEGER: {
        char *end = ration_output_put_i64(json_integer_value(value), room);
        *out_value = (struct ration_key){room, (size_t)(end - room)};
        return true;
    }
    case JSON_TRUE:
        *out_value = RATION_KEY("true");
        return true;
    case JSON_FALSE:
        *out_value = RATION_KEY("false");
        return true;
    default:
        return false;
    }
}

static bool read_attributes(struct location *location, json_t *object,
                            struct ration_check_room *room, struct ration_check_request *check)
{
    size_t count = 0;
    push_name(location, "attributes", 10);
    if (!json_is_object(object))
        return FAIL(location,
                    "attributes must be an object, such as {\"ip\": \"192.0.2.7\"} (got %s)",
                    type_name(object));
    if (json_object_size(object) > RATION_ATTRIBUTES_MAX)
        return FAIL(location, "at most %d attributes are allowed (got %zu)", RATION_ATTRIBUTES_MAX,
                    json_object_size(object));
    for (void *member = json_object_iter(object); member;
         member = json_object_iter_next(object, member), count++) {
        struct ration_attribute *attribute = &room->attributes[count];
        const json_t *value = json_object_iter_value(member);
        attribute->name =
            (struct ration_key){json_object_iter_key(member), json_object_iter_key_len(member)};
        if (attribute->name.size == 0)
            return FAIL(location, "an attribute has no name");
        if (attribute->name.size == 4 && memcmp(attribute->name.bytes, "cost", 4) == 0)
            return FAIL(location, "cost belongs next to attributes, not inside it");
        if (!attribute_value(value, room->numbers[count], &attribute->value)) {
            push_name(location, attribute->name.bytes, attribute->name.size);
            return FAIL(location,
                        "an attribute must be a string, a whole number, true or false (got %s)",
                        type_name(value));
        }
    }
    check->attributes = room->attributes;
    check->attribute_count = count;
    return true;
}

static bool read_key(struct location *location, const json_t *value,
                     struct ration_check_request *check)
{
    if (!json_is_string(value))
        return FAIL_AT(location, "key", "key must be a string (got %s)", type_name(value));
    check->has_key = true;
    check->key = (struct ration_key){json_string_value(value), json_string_length(value)};
    if (check->key.size > RATION_KEY_SIZE_MAX)
        return FAIL_AT(location, "key", "a key has at most %d bytes (got %zu)", RATION_KEY_SIZE_MAX,
                       check->key.size);
    return true;
}

/* An admin request by attributes may name one limit of the policy. */
static bool read_limit_name(struct location *location, const json_t *value,
                            struct ration_check_request *check)
{
    if (!json_is_string(value))
        return FAIL_AT(location, "limit",
                       "with attributes, limit must be the name of a limit of the policy (got %s)",
                       type_name(value));
    check->has_limit_name = true;
    check->limit_name = (struct ration_key){json_string_value(value), json_string_length(value)};
    return true;
}

/* Reads the caller: attributes, or a key with its limit. */
static bool read_caller(struct location *location, const json_t *object,
                        struct ration_check_room *room, struct ration_check_request *check)
{
    json_t *attributes = json_object_get(object, "attributes");
    json_t *key = json_object_get(object, "key");
    json_t *limit = json_object_get(object, "limit");
    bool is_admin_op = check->kind != RATION_CHECK_TAKE && check->kind != RATION_CHECK_PEEK;
    size_t size = location->size;
    if (!attributes && !key)
        return FAIL(location,
                    "the caller is missing: write \"attributes\": {\"ip\": \"192.0.2.7\"}, or "
                    "\"key\": \"user:7\" and \"limit\": \"10/s\"");
    if (attributes && (key || (limit && !is_admin_op)))
        return FAIL_AT(
            location, key ? "key" : "limit",
            "attributes select limits of the policy, key and limit do not use it: keep one");
    if (attributes) {
        if (!read_attributes(location, attributes, room, check))
            return false;
        truncate_pointer(location, size);
        return !limit || read_limit_name(location, limit, check);
    }
    if (!read_key(location, key, check))
        return false;
    if (!limit)
        return check->kind == RATION_CHECK_RESET
                   ? true
                   : FAIL_AT(location, "limit",
                             "key needs a limit: write \"limit\": \"10/s burst 20\"");
    check->has_limit = true;
    if (!read_limit(location, limit, &check->limit))
        return false;
    truncate_pointer(location, size);
    return true;
}

static bool read_block_time(struct location *location, const json_t *object,
                            struct ration_check_request *check)
{
    uint64_t seconds = 0;
    bool has_seconds = json_object_get(object, "seconds") != NULL;
    bool has_ns = json_object_get(object, "ns") != NULL;
    if (has_seconds == has_ns)
        return FAIL_AT(location, "seconds",
                       "set the duration, in seconds or in ns: \"seconds\": 60");
    if (!read_number(location, object, "seconds", 1, &seconds) ||
        !read_number(location, object, "ns", 1, &check->block_ns))
        return false;
    if (seconds > RATION_BLOCK_NS_MAX / RATION_NS_PER_SECOND)
        return FAIL_AT(location, "seconds", RATION_BLOCK_TOO_LONG);
    if (has_seconds)
        check->block_ns = seconds * RATION_NS_PER_SECOND;
    if (check->block_ns > RATION_BLOCK_NS_MAX)
        return FAIL_AT(location, "ns", RATION_BLOCK_TOO_LONG);
    return true;
}

/* The members that each kind of request accepts. */
static const struct kind {
    const char *names[6];
    size_t name_count;
    const char *fix;
} kinds[] = {
    [RATION_CHECK_TAKE] = {{"attributes", "key", "limit", "cost", "peek"},
                           5,
                           "known are attributes, key, limit, cost and peek"},
    [RATION_CHECK_PEEK] = {{"attributes", "key", "limit", "cost"},
                           4,
                           "known are attributes, key, limit and cost"},
    [RATION_CHECK_REFUND] = {{"attributes", "key", "limit", "tokens"},
                             4,
                             "known are attributes, key, limit and tokens"},
    [RATION_CHECK_RESET] = {{"attributes", "key", "limit", "inline"},
                            4,
                            "known are attributes, key, limit and inline"},
    [RATION_CHECK_BLOCK] = {{"attributes", "key", "limit", "seconds", "ns"},
                            5,
                            "known are attributes, key, limit, seconds and ns"},
};

/* A reset of all inline limits has no other member. */
static bool read_inline(struct location *location, const json_t *object,
                        struct ration_check_request *check)
{
    if (!read_bool(location, object, "inline", &check->is_inline))
        return false;
    if (check->is_inline ? json_object_size(object) > 1 : json_object_get(object, "inline") != NULL)
        return FAIL_AT(location, "inline",
                       "inline resets all inline limits: write only "
                       "\"inline\": true");
    return true;
}

static bool read_kind_members(struct location *location, const json_t *object,
                              struct ration_check_request *check)
{
    bool is_peek = check->kind == RATION_CHECK_PEEK;
    switch (check->kind) {
    case RATION_CHECK_REFUND:
        if (!json_object_get(object, "tokens"))
            return FAIL_AT(location, "tokens", "set the number of tokens: \"tokens\": 1");
        return read_number(location, object, "tokens", 1, &check->tokens);
    case RATION_CHECK_RESET:
        return true;
    case RATION_CHECK_BLOCK:
        return read_block_time(location, object, check);
    default:
        if (!read_number(location, object, "cost", 0, &check->tokens) ||
            !read_bool(location, object, "peek", &is_peek))
            return false;
        check->kind = is_peek ? RATION_CHECK_PEEK : RATION_CHECK_TAKE;
        return true;
    }
}

static bool read_check(struct location *location, enum ration_check_kind kind, json_t *object,
                       struct ration_check_room *room, struct ration_check_request *out_check)
{
    struct ration_check_request check = {.kind = kind, .tokens = 1};
    if (!json_is_object(object))
        return FAIL(location, "a check must be an object (got %s)", type_name(object));
    if (!check_names(location, object, kinds[kind].names, kinds[kind].name_count,
                     kinds[kind].fix) ||
        !read_inline(location, object, &check))
        return false;
    if (!check.is_inline && (!read_caller(location, object, room, &check) ||
                             !read_kind_members(location, object, &check)))
        return false;
    *out_check = check;
    return true;
}

/*
 * Whether objects and arrays are nested no deeper than RATION_CHECK_JSON_DEPTH_MAX. jansson would
 * recurse up to 2048 levels, on the stack of an event loop.
 */
static bool is_shallow(const char *body, size_t size)
{
    int depth = 0;
    bool in_string = false;
    for (size_t i = 0; i < size; i++) {
        if (in_string) {
            if (body[i] == '\\')
                i++; /* skip the escaped byte */
            else if (body[i] == '"')
                in_string = false;
            continue;
        }
        in_string = body[i] == '"';
        depth += (body[i] == '{' || body[i] == '[') - (body[i] == '}' || body[i] == ']');
        if (depth > RATION_CHECK_JSON_DEPTH_MAX)
            return false;
    }
    return true;
}

static json_t *parse_body(struct location *location, const char *body, size_t size)
{
    json_error_t reason;
    if (size == 0)
        return FAIL(location, "the body is empty: send a JSON object"), NULL;
    if (!is_shallow(body, size))
        return FAIL(location, "objects and arrays are nested more than %d deep",
                    RATION_CHECK_JSON_DEPTH_MAX),
               NULL;
    json_t *root = json_loadb(body, size, JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL, &reason);
    if (!root)
        FAIL(location, "line %d, column %d: %s", reason.line, reason.column, reason.text);
    return root;
}

static bool find_batch(struct location *location, struct ration_checks *checks)
{
    static const char *const known[] = {"checks"};
    checks->list = json_object_get(checks->root, "checks");
    if (!checks->list)
        return true;
    if (checks->kind != RATION_CHECK_TAKE && checks->kind != RATION_CHECK_PEEK)
        return FAIL_AT(location, "checks", "only checks and peeks may be sent together");
    if (!check_names(location, checks->root, known, 1, "checks must be the only member"))
        return false;
    if (!json_is_array(checks->list))
        return FAIL_AT(location, "checks", "checks must be an array (got %s)",
                       type_name(checks->list));
    size_t count = json_array_size(checks->list);
    if (count == 0 || count > RATION_CHECKS_MAX)
        return FAIL_AT(location, "checks", "checks must be 1 to %d (got %zu)", RATION_CHECKS_MAX,
                       count);
    return true;
}

static bool validate_all(struct location *location, const struct ration_checks *checks)
{
    struct ration_check_room room;
    struct ration_check_request check;
    if (!checks->list)
        return read_check(location, checks->kind, checks->root, &room, &check);
    push_name(location, "checks", 6);
    size_t size = location->size;
    for (size_t i = 0; i < json_array_size(checks->list); i++) {
        push_index(location, i);
        if (!read_check(location, checks->kind, json_array_get(checks->list, i), &room, &check))
            return false;
        truncate_pointer(location, size);
    }
    return true;
}

bool ration_check_json_read(enum ration_check_kind kind, const char *body, size_t size,
                            ration_checks **out_checks, struct ration_check_error *error)
{
    struct location location = {.error = error};
    json_t *root = parse_body(&location, body, size);
    if (!root)
        return false;
    struct ration_checks *checks = malloc(sizeof(*checks));
    if (!checks) {
        json_decref(root);
        return FAIL(&location, "out of memory");
    }
    *checks = (struct ration_checks){.root = root, .kind = kind};
    if (!json_is_object(root))
        FAIL(&location, "the body must be an object (got %s)", type_name(root));
    else if (find_batch(&location, checks) && validate_all(&location, checks)) {
        *out_checks = checks;
        return true;
    }
    ration_check_json_free(checks);
    return false;
}

void ration_check_json_free(ration_checks *checks)
{
    if (!checks)
        return;
    json_decref(checks->root);
    free(checks);
}

size_t ration_check_json_count(const ration_checks *checks)
{
    return checks->list ? json_array_size(checks->list) : 1;
}

bool ration_check_json_is_batch(const ration_checks *checks)
{
    return checks->list != NULL;
}

void ration_check_json_get(const ration_checks *checks, size_t index,
                           struct ration_check_room *room, struct ration_check_request *out_check)
{
    struct location no_location = {0};
    json_t *object = checks->list ? json_array_get(checks->list, index) : checks->root;
    bool is_read = read_check(&no_location, checks->kind, object, room, out_check);
    if (!is_read) /* ration_check_json_read() has validated it */
        abort();
}
