/*
 * dump: the keys of a limiter, listed, written down, and read back.
 *
 *     uint64_t cursor = 0;
 *     do {
 *         count = ration_limiter_scan(limiter, &cursor, items, 100, ration_limiter_now(limiter));
 *         ... items[0] to items[count - 1] ...
 *     } while (cursor != 0);
 *
 * All of it while other threads decide. A dump keeps debts, as times that are still to come, and
 * leaves out what is full: a limiter at rest is a few hundred bytes. Debts age while they are
 * away: what was to come for ten more seconds is gone eleven seconds later.
 *
 * A dump holds the secret of the limiter's hash. Who reads it can choose keys that meet in one
 * bucket: keep the file to yourself (mode 0600). The format is in docs/dump-format.md.
 */
#ifndef RATION_DUMP_H
#define RATION_DUMP_H

#include "ration/limiter.h"

RATION_C_BEGIN

/* One key that is in debt. */
struct ration_scan_item {
    uint64_t tag;           /* the key's, as long as the limiter lives. A part of its hash: do not
                               show it to strangers */
    uint64_t full_after_ns; /* until all of its buckets are full */
    size_t rule_count;
    uint64_t remaining[RATION_RULES_MAX]; /* tokens, of each rule */
};

/*
 * Writes up to items_max (at least 1) keys in debt, and returns how many: also none, as one call
 * looks at 64 sets at most. *cursor is 0 to begin, and is 0 again at the end. A key that is in
 * debt during the whole walk is met once; one that is forgotten and created again meanwhile may be
 * met twice.
 */
RATION_API size_t ration_limiter_scan(ration_limiter *limiter, uint64_t *cursor,
                                      struct ration_scan_item *items, size_t items_max,
                                      uint64_t now_ns);

/* Writes all of these bytes somewhere. Anything but RATION_OK ends the dump. */
typedef ration_status ration_writer(void *context, const void *bytes, size_t size);

/*
 * Reads up to size bytes, at least one: *out_size of them, or 0 at the end. Anything but RATION_OK
 * ends the load.
 */
typedef ration_status ration_reader(void *context, void *bytes, size_t size, size_t *out_size);

/*
 * Writes the limiter as it is at now, in pieces of at most 33 KiB. Others may decide meanwhile:
 * what a key takes after its turn was written is not in the dump. ration_limiter_change() waits,
 * so write() must not call it.
 * Returns what write() does, RATION_ENOMEM, RATION_EUNFIT (the store cannot be dumped).
 */
RATION_API ration_status ration_limiter_dump(ration_limiter *limiter, uint64_t now_ns,
                                             ration_writer *write, void *context);

/*
 * Creates a limiter, as ration_limiter_create() does, that goes on where the dump ended. Nothing
 * after the dump's end is read.
 *
 * The table is as large as the one that was dumped, since a key's place follows from its size:
 * keys_max is 0 or was the same; bytes_max is 0 or suffices. (A dump that you do not trust may ask
 * for much memory: then set one of them.) The rules are as many and of the same kinds. Where a
 * limit is not the same keys keep their tokens, as in ration_limiter_change().
 *
 * Debts age by the time that has passed by the wall clock; by the limiter's own, if both agree
 * within a second. Windows are aligned to the clock's zero. Where that has moved, counts stay for
 * up to a window longer, never shorter.
 *
 * Returns RATION_EINVAL (no dump, or a damaged one), RATION_EUNFIT (not of such a limiter), with
 * error (may be NULL) telling why; what read() does; and as ration_limiter_create(). On failure
 * *out_limiter is untouched.
 */
RATION_API ration_status ration_limiter_load(const struct ration_limiter_options *options,
                                             ration_reader *read, void *context,
                                             ration_limiter **out_limiter,
                                             struct ration_error *error);

/* The same for all limiters of a stack. */
RATION_API ration_status ration_stack_dump(ration_stack *stack, uint64_t now_ns,
                                           ration_writer *write, void *context);
RATION_API ration_status ration_stack_load(const struct ration_stack_options *options,
                                           ration_reader *read, void *context,
                                           ration_stack **out_stack, struct ration_error *error);

RATION_C_END

#endif
