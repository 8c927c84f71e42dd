/*
 * state_file: saves an engine's tokens in use to a file, from one run of the server to the next.
 *
 * Save: the server writes FILE.tmp with mode 0600, syncs it, renames it to FILE and syncs the directory. So FILE is
 * always a complete state: the new one or the previous one.
 *
 * Load: FILE stays unchanged until the next save. After a crash, the server starts from the state that the crashed
 * server had loaded, not from empty buckets. That is safe: tokens in use only become fewer while no server
 * runs, so a loaded state is never less strict than a fresh start, and tokens taken since the last save are
 * forgotten, as without a state file. (Keys that were reset or unblocked since the last save have again the
 * tokens in use that they had then.)
 */
#ifndef RATION_SERVER_OPS_STATE_FILE_H
#define RATION_SERVER_OPS_STATE_FILE_H

#include <stdbool.h>

#include "ration/engine.h"

/*
 * Locks the file for this server, before it is read or written: a server replaces FILE when it shuts down, and
 * two servers would overwrite each other's state and write the same FILE.tmp. The lock is on FILE.lock, which is
 * never removed: FILE itself is replaced by each save. The kernel releases the lock when the process exits or
 * crashes. *out_lock is released with ration_state_file_unlock().
 * Returns RATION_ESTORE with the reason in error: another server has the lock, FILE.lock cannot be created, or it
 * is not a regular file (a symbolic link, a fifo). Never waits.
 */
ration_status ration_state_file_lock(const char *path, int *out_lock, struct ration_error *error);
void ration_state_file_unlock(int lock);

/* Checks at start that a state can be written, not only at the save. Else RATION_ESTORE, with the reason in error. */
ration_status ration_state_file_probe(const char *path, struct ration_error *error);

/*
 * Calls ration_engine_load(), or ration_engine_create() if there is no such file; *out_is_loaded is set accordingly.
 * Refuses with RATION_EINVAL a file that is not a state, is damaged, or may have been written by a user other than
 * root and the server's.
 */
ration_status ration_state_file_open(const char *path, const struct ration_engine_options *options,
                                     ration_policy *policy, ration_engine **out_engine,
                                     bool *out_is_loaded, struct ration_error *error);

/* Returns the status of ration_engine_save(), or RATION_ESTORE, with the reason in error. */
ration_status ration_state_file_save(const char *path, ration_engine *engine, uint64_t now_ns,
                                     struct ration_error *error);

#endif
