/*
 * secret: a secret that clients must present, stored so that it cannot be read from memory.
 *
 * The server hashes a secret as soon as it has read it (SipHash-2-4, 128 bits, with a random key of this process) and
 * wipes the buffers that held it. It hashes the bytes that a client presents in the same way and compares the hashes:
 * the time depends on the length of those bytes only. An attacker who reads the server's memory finds the hash and its
 * key, and can test guesses against them, but does not find the secret.
 */
#ifndef RATION_SERVER_OPS_SECRET_H
#define RATION_SERVER_OPS_SECRET_H

#include <stdbool.h>
#include <stddef.h>

#include "base/hash.h"
#include "ration/status.h"

#define RATION_SECRET_BYTES_MAX 512

/* All zero bytes: no secret. Values may be copied, and compared with memcmp() within one process. */
struct ration_secret {
    struct ration_hash hash;
    uint64_t is_set;
};

/*
 * Sets *secret to the hash of bytes, which the caller then wipes. False, with *secret untouched: the system has no
 * random bytes for the key. Any thread.
 */
bool ration_secret_set(struct ration_secret *secret, const void *bytes, size_t size);

/* Whether a secret is set and equals these bytes. Any thread. */
bool ration_secret_is(const struct ration_secret *secret, const void *bytes, size_t size);

/*
 * Reads one line of text into buffer, terminated and without its line end; the caller wipes it. The file must have no
 * permissions for others. name is the setting, for messages. Returns RATION_EINVAL, with the reason in error, if the
 * file cannot be read, has other permissions, has more than buffer_size - 1 bytes, or fails ration_secret_check().
 */
ration_status ration_secret_read_file(const char *name, const char *path, char *buffer,
                                      size_t buffer_size, size_t *out_size,
                                      struct ration_error *error);

/* Checks that a secret has 1 to size_max bytes and no control bytes. Else RATION_EINVAL, with the reason in error. */
ration_status ration_secret_check(const char *name, const char *bytes, size_t size, size_t size_max,
                                  struct ration_error *error);

/* Wipes a text and frees it. NULL is accepted. */
void ration_secret_free_text(char *text);

/*
 * Replaces a text that contains a secret by "hidden:" and its hash, so equal texts stay equal. A text that is replaced
 * already does not change. False: no memory or random bytes; *text is unchanged.
 */
bool ration_secret_replace_text(char **text);

/*
 * true: the kernel writes no core dumps of this process and does not let other processes of the same user read its
 * memory. false: allows both again.
 */
void ration_secret_protect_process(bool is_protected);

#endif
