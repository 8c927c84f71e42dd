/*
 * shape: the limit that a bucket was written under, as the bucket's text ends with it.
 *
 *     t10/60e9                     a token bucket: 10 tokens per 60 * 10^9 ns
 *     t10/60e9/20                  with a burst of 20
 *     i, q, f, s                   refilled by intervals, a queue, a fixed window, a sliding one
 *     r3/1e9/2+100/3600e9/5        a burst reserve: the sustained part, and the reserve
 *     -                            whatever limit is asked about: one that came with a request
 *
 * Behind a bucket that is held, until a moment that stands before it ("h1794846534 875380604 f10/60e9!"), is a !.
 *
 * A bucket that was written under another limit is converted before it is decided about (see convert.h).
 */
#ifndef RATION_REDIS_SHAPE_H
#define RATION_REDIS_SHAPE_H

#include "base/output.h"
#include "ration/limit.h"

/* Begins with a blank. is_given: the limit came with a request. */
void ration_redis_shape_write(const struct ration_limit *limit, bool is_given,
                              struct ration_output *text);

/* Without the blank. False: it is none, or that of limits that come with requests. */
bool ration_redis_shape_read(const char *text, size_t size, struct ration_limit *out_limit);

#endif
