/*
 * convert: buckets that were written under another limit, as they are under the one that is asked about.
 *
 * The script does nothing where it finds one. Its text, which names the limit, is converted here, by what
 * does so in memory (core/change.h); asked again, the script takes the converted text for the one it was made
 * from, if that is still there. So a changed limit costs one call more for each bucket, once.
 */
#ifndef RATION_REDIS_CONVERT_H
#define RATION_REDIS_CONVERT_H

#include "redis/ask.h"

/* A bucket's text under the part's limit, as a word more. False: it is of no limit that is known. */
bool ration_redis_convert(const struct ration_redis_text *text,
                          const struct ration_redis_part *part, uint64_t now_ns,
                          struct ration_redis_words *words);

/*
 * Replaces the last word of an ask: the texts that stand for others are written, and how many they are. False:
 * one of them is of no limit that is known.
 */
bool ration_redis_convert_all(const struct ration_redis_ask *ask,
                              const struct ration_redis_answer *answer,
                              struct ration_redis_words *words);

/* Tells the texts that are stored, where others stood for them. They are borrowed from words. */
void ration_redis_convert_undo(const struct ration_redis_words *words,
                               struct ration_redis_told *told);

#endif
