/*
 * commit: a change of several entries at once, or of none.
 *
 * The parts are written into a seat, in the order of their addresses, and the seat is opened.
 * Then, by its owner and by anyone who meets it:
 *
 *     hold      each entry in order: its head's word is swapped from (LIVE, v) to (HELD, v + 1,
 *               seat, turn). An entry that is not at v any more aborts the commit. So with a key
 *               that is created here: its claim is held, from (CLAIM, v).
 *     decide    all are held: the seat's state is swapped from OPEN to COMMITTED, else to
 *               ABORTED. That is the moment of the change.
 *     finish    COMMITTED: cells are copied from the seat, then the head becomes (LIVE, v + 1).
 *               ABORTED: the head becomes (LIVE, v) or (CLAIM, v) again; its cells never changed.
 *
 *     an entry HELD by a seat whose turn has passed, or that does not list it, was held too late,
 *     by a helper that slept: it becomes what it was at v again
 *
 * Who meets an entry that is held by another sees that one through first. Entries are held in
 * the order of their addresses, so the ones met on the way lie ever higher, and that ends. A
 * commit aborts only if another change of one of its entries took place: somebody got on.
 *
 * Nothing is written for an attempt that is denied: who denies has only read.
 */
#ifndef RATION_TABLE_COMMIT_H
#define RATION_TABLE_COMMIT_H

#include "table/entry.h"

struct ration_commit_part {
    const struct ration_section *section;
    const struct ration_entry_view *view;
    const struct ration_entry_next *next;
};

/*
 * Changes all parts, entries of one block, none of them twice, at most RATION_SEAT_ENTRIES_MAX of
 * them with RATION_SEAT_CELLS_MAX cells together. False, with nothing changed, if one has changed
 * since it was read. Sorts parts.
 */
bool ration_commit(struct ration_commit_part *parts, uint32_t part_count);

/* Finishes what holds the entry at head, whose word was read as HELD. */
void ration_commit_resolve(const struct ration_section *section, struct ration_pair *head,
                           uint64_t word);

/* Finishes whatever the seat's owner, who is gone, had begun. */
void ration_commit_finish(const struct ration_section *section, struct ration_seat *seat);

/* Writes one entry's part into a seat, its cells from cells_first on. */
void ration_commit_write_part(const struct ration_section *section, struct ration_seat *seat,
                              uint32_t part_index, uint32_t cells_first, struct ration_pair *head,
                              uint64_t expected_word, const struct ration_entry_next *next);

#endif
