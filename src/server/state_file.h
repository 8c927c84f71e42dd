/*
 * state_file: a gate's debts in a file, while no server runs.
 *
 * Written: to FILE.tmp of mode 0600, made durable, then renamed to FILE, and the folder made durable. So
 * FILE is always a whole state: the new one, or the one before.
 *
 * Read: FILE stays as it is until the next save. A server that crashes then starts from the state that the
 * one before it had loaded, not from nothing. That is safe: debts only shrink while they are away, so
 * what is loaded is never less strict than a fresh start, and what was taken since the last save is
 * forgotten, as without a state. (Keys that were reset or unblocked since are held once more to what
 * they had left to pay then.)
 */
#ifndef RATION_SERVER_STATE_FILE_H
#define RATION_SERVER_STATE_FILE_H

#include <stdbool.h>

#include "ration/gate.h"

/*
 * Takes the file for this server alone, before it is read or written: a server that ends replaces FILE, and
 * two of them would each forget what the other was told, and write the same FILE.tmp. The lock is on
 * FILE.lock, which stays there: FILE itself is replaced by each save. The system releases it when the
 * process ends, however that happens. *out_lock is released with ration_state_file_unlock().
 * Returns RATION_ESTORE with the reason in error: another server has it, the file cannot be made, or
 * something else than a regular file is there (a link, a fifo). Never waits.
 */
ration_status ration_state_file_lock(const char *path, int *out_lock, struct ration_error *error);
void ration_state_file_unlock(int lock);

/* Whether a state can be written there, found out now and not when it is lost: error says why not. */
ration_status ration_state_file_probe(const char *path, struct ration_error *error);

/*
 * As ration_gate_load(), or ration_gate_create() if there is no such file: *out_is_loaded says which. A
 * file that is not a state, or is damaged, or that others than the server's user and root may have
 * written, is refused: RATION_EINVAL.
 */
ration_status ration_state_file_open(const char *path, const struct ration_gate_options *options,
                                     ration_policy *policy, ration_gate **out_gate,
                                     bool *out_is_loaded, struct ration_error *error);

/* Returns what ration_gate_save() does, or RATION_ESTORE, with the reason in error. */
ration_status ration_state_file_save(const char *path, ration_gate *gate, uint64_t now_ns,
                                     struct ration_error *error);

#endif
