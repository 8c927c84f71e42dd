/*
 * commit: a change of several entries, all or none (a multi-word compare-and-swap).
 *
 * The committing thread writes the parts of the change into a descriptor, in the order of the entries' addresses,
 * and opens the descriptor. The committing thread and every helper (a thread that meets one of the entries) then do
 * the same steps:
 *
 *     prepare   For each entry in order, the thread swaps the head's word from (LIVE, v) to (PREPARED, v + 1,
 *               descriptor, sequence). If an entry is no longer at v, the commit aborts. The claim of a key
 *               that this commit creates is prepared likewise, from (CLAIM, v).
 *     decide    If all entries are prepared the thread swaps the descriptor's state from OPEN to COMMITTED, else
 *               to ABORTED. The change takes effect with the swap to COMMITTED.
 *     finish    COMMITTED: the thread copies the cells from the descriptor, then swaps the head to (LIVE, v + 1).
 *               ABORTED: the thread swaps the head back to (LIVE, v) or (CLAIM, v); the cells never changed.
 *
 *     An entry may be PREPARED for a descriptor whose sequence has passed, or that does not list the entry: a helper
 *     that was suspended prepared it too late. The thread that meets it swaps the head back to its value at v.
 *
 * A thread that meets an entry prepared by another commit completes that commit first. All commits prepare entries
 * in the order of their addresses, so each commit met on the way is met at a higher address, and the chain ends. A
 * commit aborts only if another thread changed one of its entries, so some thread has made progress.
 *
 * A denied attempt writes nothing: the thread that denies has only read.
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
 * Changes all parts: entries of one block, no entry twice, at most RATION_DESCRIPTOR_ENTRIES_MAX entries with
 * RATION_DESCRIPTOR_CELLS_MAX cells together. False, with nothing changed, if one of them has changed since it was
 * read. Sorts parts.
 */
bool ration_commit(struct ration_commit_part *parts, uint32_t part_count);

/* Completes the commit that prepared the entry at head, whose word was read as PREPARED. */
void ration_commit_resolve(const struct ration_section *section, struct ration_pair *head,
                           uint64_t word);

/* Finishes the change that the descriptor's previous owner, a dead process, had begun. */
void ration_commit_finish(const struct ration_section *section,
                          struct ration_descriptor *descriptor);

/* Writes one entry's part into a descriptor; its cells begin at cells_first of the descriptor's cells. */
void ration_commit_write_part(const struct ration_section *section,
                              struct ration_descriptor *descriptor, uint32_t part_index,
                              uint32_t cells_first, struct ration_pair *head,
                              uint64_t expected_word, const struct ration_entry_next *next);

#endif
