#include "server/ops/state_file.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"

static const char temporary_suffix[] = ".tmp";
static const char lock_suffix[] = ".lock";

static ration_status set_errno_error(struct ration_error *error, const char *what, const char *path)
{
    return ration_error_set(error, RATION_ESTORE, "cannot %s %.300s: %s", what, path,
                            strerror(errno));
}

static ration_status refuse_irregular(struct ration_error *error, const char *path)
{
    return ration_error_set(error, RATION_ESTORE,
                            "%.300s is not a regular file. Move it away, or choose another --state",
                            path);
}

/*
 * A fifo, a socket or a device cannot store a state, and opening or reading it may block. So callers open
 * a path with O_NONBLOCK, which has no effect on regular files, and check it here.
 */
static ration_status check_regular(const char *path, int file, struct ration_error *error)
{
    struct stat status;

    if (fstat(file, &status) != 0)
        return set_errno_error(error, "open", path);
    return S_ISREG(status.st_mode) ? RATION_OK : refuse_irregular(error, path);
}

/* One server at a time -------------------------------------------------------------------------- */

/* The process id that the lock's owner wrote into the file; 0: none. */
static long read_owner(int file)
{
    char text[32];
    ssize_t size = pread(file, text, sizeof(text) - 1, 0);

    text[size > 0 ? size : 0] = '\0';
    return strtol(text, NULL, 10);
}

/* For the error message of another server. The lock does not depend on it, so errors are ignored. */
static void write_owner(int file)
{
    char text[32];
    int size = snprintf(text, sizeof(text), "%ld\n", (long)getpid());

    if (ftruncate(file, 0) == 0)
        (void)!pwrite(file, text, (size_t)size, 0);
}

ration_status ration_state_file_lock(const char *path, int *out_lock, struct ration_error *error)
{
    char lock_path[PATH_MAX];
    ration_status status = RATION_OK;
    int file;

    if ((size_t)snprintf(lock_path, sizeof(lock_path), "%s%s", path, lock_suffix) >=
        sizeof(lock_path))
        return ration_error_set(error, RATION_ESTORE, "the path of the state file is too long");
    file = open(lock_path, O_RDWR | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC, 0600);
    if (file < 0 && (errno == ELOOP || errno == EISDIR || errno == ENXIO))
        return refuse_irregular(error, lock_path);
    if (file < 0)
        return ration_error_set(
            error, RATION_ESTORE,
            "cannot create %.300s: %s. The directory must be writable for the server, "
            "which creates %s and %s files next to the state",
            lock_path, strerror(errno), temporary_suffix, lock_suffix);
    status = check_regular(lock_path, file, error);
    if (status == RATION_OK && flock(file, LOCK_EX | LOCK_NB) != 0) {
        if (errno == EWOULDBLOCK)
            status = ration_error_set(error, RATION_ESTORE,
                                      "%.300s is in use by another server (process %ld). Give each "
                                      "server a --state file of its own, or stop that one first",
                                      path, read_owner(file));
        else
            status = set_errno_error(error, "lock", lock_path);
    }
    if (status != RATION_OK) {
        close(file);
        return status;
    }
    write_owner(file);
    *out_lock = file;
    return RATION_OK;
}

void ration_state_file_unlock(int lock)
{
    close(lock);
}

/* Writing ------------------------------------------------------------------------------------- */

static ration_status write_all(void *context, const void *bytes, size_t size)
{
    const int *file = context;
    const char *next = bytes;

    while (size > 0) {
        ssize_t written = write(*file, next, size);

        if (written < 0 && errno == EINTR)
            continue;
        if (written <= 0)
            return RATION_ESTORE;
        next += written;
        size -= (size_t)written;
    }
    return RATION_OK;
}

/* Creates an empty file of mode 0600. An earlier file is removed, so that its owner and mode do not matter. */
static ration_status open_temporary(const char *path, char temporary[PATH_MAX], int *out_file,
                                    struct ration_error *error)
{
    int file;

    if ((size_t)snprintf(temporary, PATH_MAX, "%s%s", path, temporary_suffix) >= PATH_MAX)
        return ration_error_set(error, RATION_ESTORE, "the path of the state file is too long");
    if (unlink(temporary) != 0 && errno != ENOENT)
        return set_errno_error(error, "replace", temporary);
    file = open(temporary, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (file < 0)
        return set_errno_error(error, "create", temporary);
    *out_file = file;
    return RATION_OK;
}

static ration_status sync_folder(const char *path, struct ration_error *error)
{
    char folder[PATH_MAX];
    const char *slash = strrchr(path, '/');
    int file, result;

    if (slash == NULL)
        strcpy(folder, ".");
    else
        snprintf(folder, sizeof(folder), "%.*s", slash == path ? 1 : (int)(slash - path), path);
    file = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (file < 0)
        return set_errno_error(error, "open", folder);
    result = fsync(file);
    close(file);
    return result == 0 ? RATION_OK : set_errno_error(error, "write", folder);
}

ration_status ration_state_file_probe(const char *path, struct ration_error *error)
{
    char temporary[PATH_MAX];
    struct stat status;
    ration_status opened;
    int file;

    if (stat(path, &status) == 0 && !S_ISREG(status.st_mode))
        return refuse_irregular(error, path);
    opened = open_temporary(path, temporary, &file, error);
    if (opened != RATION_OK)
        return opened;
    close(file);
    unlink(temporary);
    return RATION_OK;
}

static ration_status write_temporary(int file, ration_engine *engine, uint64_t now_ns,
                                     const char *temporary, struct ration_error *error)
{
    ration_status status = ration_engine_save(engine, now_ns, write_all, &file);

    if (status == RATION_ESTORE)
        return set_errno_error(error, "write", temporary);
    if (status != RATION_OK)
        return ration_error_set(error, status, "%s", ration_status_text(status));
    return fsync(file) == 0 ? RATION_OK : set_errno_error(error, "write", temporary);
}

ration_status ration_state_file_save(const char *path, ration_engine *engine, uint64_t now_ns,
                                     struct ration_error *error)
{
    char temporary[PATH_MAX];
    int file;
    ration_status status = open_temporary(path, temporary, &file, error);

    if (status != RATION_OK)
        return status;
    status = write_temporary(file, engine, now_ns, temporary, error);
    if (close(file) != 0 && status == RATION_OK)
        status = set_errno_error(error, "write", temporary);
    if (status == RATION_OK && rename(temporary, path) != 0)
        status = set_errno_error(error, "rename", temporary);
    if (status != RATION_OK) {
        unlink(temporary);
        return status;
    }
    return sync_folder(path, error);
}

/* Reading ------------------------------------------------------------------------------------- */

static ration_status read_some(void *context, void *bytes, size_t size, size_t *out_size)
{
    const int *file = context;
    ssize_t got;

    do {
        got = read(*file, bytes, size);
    } while (got < 0 && errno == EINTR);
    if (got < 0)
        return RATION_ESTORE;
    *out_size = (size_t)got;
    return RATION_OK;
}

/*
 * A user who can write the file can change the state of any key, and the checksum needs no secret: so a state that
 * another user may have written is refused.
 */
static ration_status check_owner(const char *path, int file, struct ration_error *error)
{
    struct stat status;

    if (fstat(file, &status) != 0)
        return set_errno_error(error, "open", path);
    if (status.st_uid != geteuid() && status.st_uid != 0)
        return ration_error_set(error, RATION_EINVAL,
                                "state %.300s: it belongs to user %u, but the server runs as user "
                                "%u; run chown on it if you "
                                "trust its content",
                                path, (unsigned)status.st_uid, (unsigned)geteuid());
    if ((status.st_mode & (S_IWGRP | S_IWOTH)) != 0)
        return ration_error_set(error, RATION_EINVAL,
                                "state %.300s: others may write it (mode %04o); run chmod go-w on "
                                "it if you trust its content",
                                path, (unsigned)(status.st_mode & 07777));
    return RATION_OK;
}

static ration_status load_engine(const char *path, int file,
                                 const struct ration_engine_options *options, ration_policy *policy,
                                 ration_engine **out_engine, struct ration_error *error)
{
    struct ration_error reason = {.message = "it cannot be read"};
    ration_status status = check_regular(path, file, error);

    if (status == RATION_OK)
        status = check_owner(path, file, error);
    if (status != RATION_OK)
        return status;
    status = ration_engine_load(options, policy, read_some, &file, out_engine, &reason);
    if (status != RATION_OK)
        return ration_error_set(error, status,
                                "cannot restore state from %.160s: %.200s. The file is left "
                                "untouched; move it away to start with empty buckets",
                                path, reason.message);
    return RATION_OK;
}

ration_status ration_state_file_open(const char *path, const struct ration_engine_options *options,
                                     ration_policy *policy, ration_engine **out_engine,
                                     bool *out_is_loaded, struct ration_error *error)
{
    int file = open(path, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
    bool is_there = file >= 0;
    ration_status status;

    if (!is_there && errno != ENOENT)
        return set_errno_error(error, "open", path);
    if (is_there) {
        status = load_engine(path, file, options, policy, out_engine, error);
        close(file);
    } else {
        status = ration_engine_create(options, policy, out_engine, error);
    }
    if (status == RATION_OK)
        *out_is_loaded = is_there;
    return status;
}
