/*
 * make: limiters and stacks, new or as a dump tells.
 */
#ifndef RATION_API_MAKE_H
#define RATION_API_MAKE_H

#include "limiter/load.h"

/* As ration_limiter_create(). saved: NULL, or the dump whose keys the limiter's table is to hold. */
ration_status ration_make_limiter(const struct ration_limiter_options *options,
                                  const struct ration_saved_header *saved,
                                  ration_limiter **out_limiter, struct ration_error *error);

/* As ration_stack_create(). */
ration_status ration_make_stack(const struct ration_stack_options *options,
                                const struct ration_saved_header *saved, ration_stack **out_stack,
                                struct ration_error *error);

#endif
