/*
 * convert: rewrites buckets that were stored under another limit for the limit of the current request.
 *
 * If the script finds such a bucket it does nothing, and replies with the bucket's text, which names its limit. The
 * text is converted here, by the same code that converts buckets in memory (core/change.h). In the second call the
 * script uses the converted text instead of the stored one, provided that is unchanged. So a changed limit costs
 * one more call per bucket, once.
 */
#ifndef RATION_REDIS_CONVERT_H
#define RATION_REDIS_CONVERT_H

#include "redis/take_request.h"

/*
 * Converts the text of a bucket to the part's limit, and adds it as an argument. False: the text names no
 * known limit, or cannot be read.
 */
bool ration_redis_convert(const struct ration_redis_text *text,
                          const struct ration_redis_part *part, uint64_t now_ns,
                          struct ration_redis_argv *argv);

/*
 * Replaces the last argument of a request: adds the converted texts, and how many there are. False: nothing to
 * convert, or a text names no known limit.
 */
bool ration_redis_convert_all(const struct ration_redis_take_request *request,
                              const struct ration_redis_answer *answer,
                              struct ration_redis_argv *argv);

/* Puts the stored texts back into the result in place of the converted ones. They are borrowed from argv. */
void ration_redis_convert_undo(const struct ration_redis_argv *argv,
                               struct ration_redis_take_result *result);

#endif
