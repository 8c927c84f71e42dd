/*
 * load: a dump read back into limiters that nobody uses yet.
 */
#ifndef RATION_LIMITER_LOAD_H
#define RATION_LIMITER_LOAD_H

#include "limiter/limiter.h"
#include "limiter/saved.h"

/* A dump that is being read. Large: on the heap. */
struct ration_load {
    struct ration_chunk_reader reader;
    struct ration_saved_header header;
};

/*
 * Reads the header of a dump of so many limiters. Returns RATION_EINVAL, RATION_EUNFIT, what read()
 * does, with error (may be NULL) telling why.
 */
ration_status ration_load_open(struct ration_load *load, ration_reader *read, void *context,
                               size_t limiter_count, struct ration_error *error);

/*
 * Whether what was saved of a limiter can go on under these options, whose rules have been checked.
 * Returns RATION_EUNFIT, with error (may be NULL) telling why.
 */
ration_status ration_load_check(const struct ration_saved_limiter *saved,
                                const struct ration_limiter_options *options,
                                const struct ration_configs *configs, struct ration_error *error);

/*
 * Reads all keys into limiters, as many as the header has and made as it says. Returns as
 * ration_load_open(), RATION_ENOMEM.
 */
ration_status ration_load_keys(struct ration_load *load, struct ration_limiter *const *limiters,
                               struct ration_error *error);

/* Releases what the load holds. */
void ration_load_done(struct ration_load *load);

#endif
