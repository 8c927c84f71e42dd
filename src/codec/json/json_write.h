/*
 * json_write: writes JSON directly to an output.
 *
 * jansson builds a tree and allocates memory for each member, which costs more than the decision
 * that is reported. An answer is written once, from front to back, so no tree is needed.
 *
 *     ration_json_begin_object(&json);
 *     ration_json_name(&json, "remaining");
 *     ration_json_u64(&json, 4);
 *     ration_json_end(&json);                          {"remaining":4}
 *
 * Commas are inserted automatically. Calls that would not produce valid JSON (a value without a
 * name in an object, an end without a begin) are bugs of the caller and abort. If the output is
 * full, the output records the failure.
 */
#ifndef RATION_CODEC_JSON_JSON_WRITE_H
#define RATION_CODEC_JSON_JSON_WRITE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/output.h"

#define RATION_JSON_DEPTH_MAX 16

struct ration_json {
    struct ration_output *output;
    uint32_t objects; /* bit n: level n is an object, otherwise an array */
    uint32_t begun;   /* bit n: level n has at least one item */
    unsigned depth;
    bool has_name; /* a name has been written, but not its value */
};

void ration_json_init(struct ration_json *json, struct ration_output *output);

void ration_json_begin_object(struct ration_json *json);
void ration_json_begin_array(struct ration_json *json);
void ration_json_end(struct ration_json *json);

/* Writes the name of the next value. It must be a constant that needs no escapes. */
void ration_json_name(struct ration_json *json, const char *name);

/* Writes any bytes as a string. Each byte that is not valid UTF-8 becomes U+FFFD. */
void ration_json_string(struct ration_json *json, const void *bytes, size_t size);
void ration_json_text(struct ration_json *json, const char *text);
void ration_json_u64(struct ration_json *json, uint64_t number);
void ration_json_bool(struct ration_json *json, bool value);
void ration_json_null(struct ration_json *json);

#endif
