#include "server/ops/secret.h"

#include "base/os.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"
#include "base/hash_siphash.h"
#include "base/mapping.h"

#define FILE_BYTES_MAX 4096

static const char replaced_start[] = "hidden:";
#define REPLACED_SIZE (sizeof(replaced_start) + 4 * sizeof(uint64_t))

/* One key for all secrets of the process, so that the secrets of two settings can be compared. */
static pthread_mutex_t key_lock = PTHREAD_MUTEX_INITIALIZER;
static struct ration_hash key;
static bool has_key;

static bool make_key(void)
{
    bool is_made;

    pthread_mutex_lock(&key_lock);
    if (!has_key)
        has_key = ration_os_random(&key, sizeof(key));
    is_made = has_key;
    pthread_mutex_unlock(&key_lock);
    return is_made;
}

bool ration_secret_set(struct ration_secret *secret, const void *bytes, size_t size)
{
    if (!make_key())
        return false;
    *secret = (struct ration_secret){ration_hash_siphash(&key, bytes, size), 1};
    return true;
}

/* A secret that is set was hashed, so the key exists and no longer changes: no lock is needed. */
bool ration_secret_is(const struct ration_secret *secret, const void *bytes, size_t size)
{
    struct ration_hash hash;

    if (!secret->is_set)
        return false;
    hash = ration_hash_siphash(&key, bytes, size);
    return ((hash.words[0] ^ secret->hash.words[0]) | (hash.words[1] ^ secret->hash.words[1])) == 0;
}

/* Reading ------------------------------------------------------------------------------------- */

ration_status ration_secret_check(const char *name, const char *bytes, size_t size, size_t size_max,
                                  struct ration_error *error)
{
    if (size == 0)
        return ration_error_set(error, RATION_EINVAL,
                                "%s is empty; leave the setting out to have none", name);
    if (size > size_max)
        return ration_error_set(error, RATION_EINVAL,
                                "%s has more than %zu bytes; use a shorter one", name, size_max);
    for (size_t i = 0; i < size; i++) {
        if ((unsigned char)bytes[i] < 0x20 || bytes[i] == 0x7f)
            return ration_error_set(error, RATION_EINVAL,
                                    "%s has a control byte; a secret is one line of text", name);
    }
    return RATION_OK;
}

static ration_status check_mode(const char *name, const char *path, int file,
                                struct ration_error *error)
{
    struct stat status;

    if (fstat(file, &status) != 0)
        return ration_error_set(error, RATION_EINVAL, "%s: %.300s: %s", name, path,
                                strerror(errno));
    if ((status.st_mode & S_IRWXO) != 0)
        return ration_error_set(error, RATION_EINVAL,
                                "%s: others may use %.300s (mode %04o); run chmod o= %.300s", name,
                                path, (unsigned)(status.st_mode & 07777), path);
    return RATION_OK;
}

/* Reads to the end of the file or of the buffer; returns the size, or -1 with errno. */
static ssize_t read_all(int file, char *buffer, size_t buffer_size)
{
    size_t used = 0;

    while (used < buffer_size) {
        ssize_t got = read(file, buffer + used, buffer_size - used);

        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return -1;
        if (got == 0)
            break;
        used += (size_t)got;
    }
    return (ssize_t)used;
}

/* The size of a text without its line end. */
static size_t line_size(const char *text, size_t size)
{
    size -= size > 0 && text[size - 1] == '\n';
    size -= size > 0 && text[size - 1] == '\r';
    return size;
}

ration_status ration_secret_read_file(const char *name, const char *path, char *buffer,
                                      size_t buffer_size, size_t *out_size,
                                      struct ration_error *error)
{
    char text[FILE_BYTES_MAX +
              3]; /* room for a line end, and for one byte more to detect a file that is too long */
    ration_status status;
    ssize_t got = 0;
    size_t size;
    int file = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY);

    assert(buffer_size <= FILE_BYTES_MAX + 1);
    if (file < 0)
        return ration_error_set(error, RATION_EINVAL, "%s: cannot open %.300s: %s", name, path,
                                strerror(errno));
    status = check_mode(name, path, file, error);
    if (status == RATION_OK)
        got = read_all(file, text, buffer_size + 2);
    if (got < 0)
        status = ration_error_set(error, RATION_EINVAL, "%s: cannot read %.300s: %s", name, path,
                                  strerror(errno));
    close(file);
    if (status == RATION_OK) {
        size = line_size(text, (size_t)got);
        status = ration_secret_check(name, text, size, buffer_size - 1, error);
    }
    if (status == RATION_OK) {
        memcpy(buffer, text, size);
        buffer[size] = '\0';
        *out_size = size;
    }
    explicit_bzero(text, sizeof(text));
    return status;
}

/* Hiding -------------------------------------------------------------------------------------- */

void ration_secret_free_text(char *text)
{
    if (text != NULL)
        explicit_bzero(text, strlen(text));
    free(text);
}

bool ration_secret_replace_text(char **text)
{
    struct ration_secret secret;
    char *replaced;

    if (strncmp(*text, replaced_start, sizeof(replaced_start) - 1) == 0)
        return true;
    replaced = malloc(REPLACED_SIZE);
    if (replaced == NULL || !ration_secret_set(&secret, *text, strlen(*text))) {
        free(replaced);
        return false;
    }
    snprintf(replaced, REPLACED_SIZE, "%s%016" PRIx64 "%016" PRIx64, replaced_start,
             secret.hash.words[0], secret.hash.words[1]);
    ration_secret_free_text(*text);
    *text = replaced;
    return true;
}

void ration_secret_protect_process(bool is_protected)
{
    (void)prctl(PR_SET_DUMPABLE, is_protected ? 0 : 1, 0, 0, 0);
}
