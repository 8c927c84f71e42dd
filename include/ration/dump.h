/*
 * dump: list the keys of a limiter, save them, and load them again.
 *
 *     uint64_t cursor = 0;
 *     do {
 *         count = ration_limiter_scan(limiter, &cursor, items, 100, ration_limiter_now(limiter));
 *         ... items[0] to items[count - 1] ...
 *     } while (cursor != 0);
 *
 * All calls may run while other threads decide. A dump contains the keys in use, with their state
 * as time remaining until full, and omits full buckets: an idle limiter is a few hundred bytes.
 * Buckets keep refilling while they are saved: one that needed ten more seconds is full when it is
 * loaded eleven seconds later.
 *
 * A dump contains the secret of the limiter's hash. A reader of the file can choose keys that
 * collide in one bucket: keep the file private (mode 0600). The format is in docs/reference/dump-format.md.
 */
#ifndef RATION_DUMP_H
#define RATION_DUMP_H

#include "ration/limiter.h"

RATION_C_BEGIN

/* One key in use: at least one of its buckets is not full. */
struct ration_scan_item {
    /*
     * Identifies the key as long as the limiter lives. A part of its hash: do not show it to
     * untrusted clients.
     */
    uint64_t tag;
    uint64_t full_after_ns; /* until all of its buckets are full */
    size_t rule_count;
    uint64_t remaining[RATION_RULES_MAX]; /* tokens of each rule */
};

/*
 * Writes up to items_max (at least 1) keys in use and returns how many. It may return 0 before the
 * end, because one call reads at most 64 sets of slots. *cursor is 0 for the first call and 0 again
 * after the last. A key in use during the whole scan is listed once; a key that is evicted and
 * created again meanwhile may be listed twice.
 */
RATION_API size_t ration_limiter_scan(ration_limiter *limiter, uint64_t *cursor,
                                      struct ration_scan_item *items, size_t items_max,
                                      uint64_t now_ns);

/* Writes all size bytes. Any result but RATION_OK ends the dump. */
typedef ration_status ration_writer(void *context, const void *bytes, size_t size);

/*
 * Reads up to size bytes and stores their number in *out_size: at least 1, or 0 at the end. Any
 * result but RATION_OK ends the load.
 */
typedef ration_status ration_reader(void *context, void *bytes, size_t size, size_t *out_size);

/*
 * Writes the limiter's state at now_ns, in pieces of at most 33 KiB. Other threads may decide
 * meanwhile: tokens that a key takes after it was written are not in the dump.
 * ration_limiter_change() waits until the dump is complete, so write() must not call it. Returns
 * the result of write(), RATION_ENOMEM, or RATION_EUNSUPPORTED (the store cannot be dumped).
 */
RATION_API ration_status ration_limiter_dump(ration_limiter *limiter, uint64_t now_ns,
                                             ration_writer *write, void *context);

/*
 * Creates a limiter, as ration_limiter_create() does, with the state of a dump. Nothing after the
 * end of the dump is read.
 *
 * The table has the size of the dumped one, because a key's slots depend on it: keys_max must be 0
 * or the same; bytes_max must be 0 or large enough. (An untrusted dump may request much memory:
 * then set one of them.) There must be as many rules, of the same algorithms. If a limit differs,
 * keys keep their tokens, as in ration_limiter_change().
 *
 * Buckets refill for the time passed since the dump by the wall clock, or by the limiter's own
 * clock if both agree within a second. Windows are aligned to the clock's zero. If that has moved,
 * counts last up to one window longer, never shorter.
 *
 * Returns RATION_EINVAL (not a dump, or a damaged one) or RATION_EUNSUPPORTED (a dump of a
 * different kind of limiter), with error (may be NULL) explaining why; the result of read(); and as
 * ration_limiter_create(). On failure *out_limiter is untouched.
 */
RATION_API ration_status ration_limiter_load(const struct ration_limiter_options *options,
                                             ration_reader *read, void *context,
                                             ration_limiter **out_limiter,
                                             struct ration_error *error);

RATION_C_END

#endif
