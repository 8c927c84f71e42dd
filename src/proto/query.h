/*
 * query: the query string of a request, to attributes.
 *
 *     method=GET&path=%2Fx+y&ip=192.0.2.7&cost=3
 */
#ifndef RATION_PROTO_QUERY_H
#define RATION_PROTO_QUERY_H

#include "ration/policy.h"

/*
 * Reads names and values, with %HH and + decoded where they stand: query is changed, and attributes
 * point into it. A name without = has an empty value; nothing between two & is nothing.
 * Returns RATION_EINVAL: a wrong escape, no name, a name given twice, more than attributes_max. error
 * (may be NULL) then says at which byte, and outputs are untouched. (query may be half decoded.)
 */
ration_status ration_query_read(char *query, size_t size, struct ration_attribute *attributes,
                                size_t attributes_max, size_t *out_count,
                                struct ration_error *error);

/* Takes the attribute of that name out of the list. false: there is none. */
bool ration_query_take(struct ration_attribute *attributes, size_t *attribute_count,
                       const char *name, struct ration_key *out_value);

#endif
