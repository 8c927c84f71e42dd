/*
 * secret: what clients must present to be let in, kept so that nobody can read it from memory.
 *
 * A secret is hashed as soon as it is read (SipHash-2-4, 128 bits, under a random key of this process), and the buffers
 * that it came through are wiped. What a client presents is hashed likewise, and the hashes are compared: the time that
 * this takes depends on the length of what was presented and on nothing else. An attacker who reads the server's memory finds the
 * hash and its key, against which guesses can be tried, but not the secret.
 */
#ifndef RATION_SERVER_SECRET_H
#define RATION_SERVER_SECRET_H

#include <stdbool.h>
#include <stddef.h>

#include "base/hash.h"
#include "ration/status.h"

#define RATION_SECRET_BYTES_MAX 512

/* All zero bytes: there is no secret. Values may be copied, and compared with memcmp() in one process. */
struct ration_secret {
    struct ration_hash hash;
    uint64_t is_set;
};

/*
 * Makes the secret that of these bytes, which the caller then wipes. False, with *secret untouched: the system has no
 * random bytes for the key. Any thread.
 */
bool ration_secret_set(struct ration_secret *secret, const void *bytes, size_t size);

/* Whether there is a secret, and these bytes are it. Any thread. */
bool ration_secret_is(const struct ration_secret *secret, const void *bytes, size_t size);

/*
 * Reads one line of text from a file that others may not use into buffer, terminated and without its line end; the caller
 * wipes it. name is what messages call the file's setting. Returns RATION_EINVAL, with error telling why, if the file
 * cannot be read, has more than buffer_size - 1 bytes, or is no secret (ration_secret_check).
 */
ration_status ration_secret_read_file(const char *name, const char *path, char *buffer,
                                      size_t buffer_size, size_t *out_size,
                                      struct ration_error *error);

/* Whether bytes can be a secret: from 1 to size_max, without control bytes. Returns RATION_EINVAL with error telling why. */
ration_status ration_secret_check(const char *name, const char *bytes, size_t size, size_t size_max,
                                  struct ration_error *error);

/* Wipes a text and releases it; NULL is fine. */
void ration_secret_free_text(char *text);

/*
 * Replaces a text that holds a secret by one that does not and that is the same for the same text. What is replaced
 * already stays as it is. False: no memory or random bytes; *text is as before.
 */
bool ration_secret_replace_text(char **text);

/*
 * Has the system write no core dumps of this process, nor let other processes of the same user read its memory; false
 * lets it again.
 */
void ration_secret_protect_process(bool is_protected);

#endif
