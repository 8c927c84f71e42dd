/*
 * json_write: JSON straight into an output.
 *
 * jansson builds a tree and allocates for every member of it, which costs more than the decision
 * that an answer reports. An answer is written once, from front to back, so no tree is needed.
 *
 *     ration_json_begin_object(&json);
 *     ration_json_name(&json, "remaining");
 *     ration_json_u64(&json, 4);
 *     ration_json_end(&json);                          {"remaining":4}
 *
 * Commas are put where they belong. Calls that would not make JSON (a value without a name in an
 * object, an end of nothing) are bugs of the caller, and asserted. What does not fit is the
 * output's to tell.
 */
#ifndef RATION_PROTO_JSON_WRITE_H
#define RATION_PROTO_JSON_WRITE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/output.h"

#define RATION_JSON_DEPTH_MAX 16

struct ration_json {
    struct ration_output *output;
    uint32_t objects; /* bit n: the n-th level is an object; otherwise an array */
    uint32_t begun;   /* bit n: it has an item */
    unsigned depth;
    bool has_name; /* a name was written, and its value was not yet */
};

void ration_json_init(struct ration_json *json, struct ration_output *output);

void ration_json_begin_object(struct ration_json *json);
void ration_json_begin_array(struct ration_json *json);
void ration_json_end(struct ration_json *json);

/* The name of the next value. It is the program's own: nothing in it needs an escape. */
void ration_json_name(struct ration_json *json, const char *name);

/* The same for any bytes, escaped as below. */
void ration_json_name_bytes(struct ration_json *json, const void *bytes, size_t size);

/* Any bytes as a string. What is not UTF-8 becomes U+FFFD, one for each byte. */
void ration_json_string(struct ration_json *json, const void *bytes, size_t size);
void ration_json_text(struct ration_json *json, const char *text);
void ration_json_u64(struct ration_json *json, uint64_t number);
void ration_json_bool(struct ration_json *json, bool value);
void ration_json_null(struct ration_json *json);

/* Whether all that was begun has ended. */
bool ration_json_is_complete(const struct ration_json *json);

#endif
