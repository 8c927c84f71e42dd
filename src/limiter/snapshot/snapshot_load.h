/*
 * snapshot_load: reads a dump into limiters that no thread uses yet.
 */
#ifndef RATION_LIMITER_SNAPSHOT_SNAPSHOT_LOAD_H
#define RATION_LIMITER_SNAPSHOT_SNAPSHOT_LOAD_H

#include "limiter/limiter_internal.h"
#include "limiter/snapshot/saved.h"

/* A dump while it is read. Large: on the heap. */
struct ration_snapshot_load {
    struct ration_chunk_reader reader;
    struct ration_saved_header header;
};

/*
 * Reads the header of a dump, which must be of limiter_count limiters. Returns RATION_EINVAL,
 * RATION_EUNSUPPORTED or the status of read(), with the reason in error (may be NULL).
 */
ration_status ration_snapshot_load_open(struct ration_snapshot_load *load, ration_reader *read,
                                        void *context, size_t limiter_count,
                                        struct ration_error *error);

/*
 * Whether a saved limiter can be restored under these options, whose rules have been checked. Returns
 * RATION_EUNSUPPORTED, with the reason in error (may be NULL).
 */
ration_status ration_snapshot_load_check(const struct ration_saved_limiter *saved,
                                         const struct ration_limiter_options *options,
                                         const struct ration_config_table *configs,
                                         struct ration_error *error);

/*
 * Reads all keys into limiters: as many as the header has, created from that header. Returns RATION_ENOMEM, or
 * as ration_snapshot_load_open().
 */
ration_status ration_snapshot_load_keys(struct ration_snapshot_load *load,
                                        struct ration_limiter *const *limiters,
                                        struct ration_error *error);

/* Frees the header's limiters. */
void ration_snapshot_load_done(struct ration_snapshot_load *load);

#endif
