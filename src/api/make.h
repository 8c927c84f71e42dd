/*
 * make: creates limiters and stacks, new ones or from a dump.
 */
#ifndef RATION_API_MAKE_H
#define RATION_API_MAKE_H

#include "limiter/snapshot/snapshot_load.h"

/*
 * Same as ration_limiter_create(). saved: NULL, or the header of the dump whose keys the limiter's table will
 * hold.
 */
ration_status ration_make_limiter(const struct ration_limiter_options *options,
                                  const struct ration_saved_header *saved,
                                  ration_limiter **out_limiter, struct ration_error *error);

/* Same as ration_stack_create(). */
ration_status ration_make_stack(const struct ration_stack_options *options,
                                const struct ration_saved_header *saved, ration_stack **out_stack,
                                struct ration_error *error);

#endif
