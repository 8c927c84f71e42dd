/*
 * query: reads the query string of a request as attributes.
 *
 *     method=GET&path=%2Fx+y&ip=192.0.2.7&cost=3
 */
#ifndef RATION_CODEC_HTTP_QUERY_H
#define RATION_CODEC_HTTP_QUERY_H

#include "ration/policy.h"

/*
 * Reads names and values, and decodes %HH and + in place: query is modified, and the attributes
 * point into it. A name without = has an empty value. Empty text between two & is skipped. Returns
 * RATION_EINVAL for an invalid escape, a missing name, a repeated name or more than attributes_max
 * attributes. error (may be NULL) then has the byte offset, the outputs are untouched, and query
 * may be partly decoded.
 */
ration_status ration_query_read(char *query, size_t size, struct ration_attribute *attributes,
                                size_t attributes_max, size_t *out_count,
                                struct ration_error *error);

/* Removes the attribute of that name from the list. Returns false if there is none. */
bool ration_query_take(struct ration_attribute *attributes, size_t *attribute_count,
                       const char *name, struct ration_key *out_value);

#endif
