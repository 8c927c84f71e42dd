/*
 * json_complete: whether a JSON writer has written one value, and has closed every array and object.
 */
#ifndef RATION_TESTS_JSON_COMPLETE_H
#define RATION_TESTS_JSON_COMPLETE_H

#include "codec/json/json_write.h"

static inline bool json_is_complete(const struct ration_json *json)
{
    return json->depth == 0 && (json->begun & 1) != 0;
}

#endif
