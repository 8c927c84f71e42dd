/* script: sends SCRIPT LOAD, so that EVALSHA can be measured. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "load/exchange.h"
#include "load/load.h"

#define SHA_DIGITS (LOAD_SHA_SIZE - 1)

/* Reads a file of 1 to LOAD_SCRIPT_SIZE_MAX bytes. */
static bool read_script(const char *path, char script[LOAD_SCRIPT_SIZE_MAX], size_t *out_size,
                        struct load_error *error)
{
    FILE *file = fopen(path, "rb");
    size_t size;
    bool is_whole;

    if (file == NULL)
        return load_fail(error, "cannot read %s: %s", path, strerror(errno));
    size = fread(script, 1, LOAD_SCRIPT_SIZE_MAX, file);
    is_whole = ferror(file) == 0 && fgetc(file) == EOF;
    fclose(file);
    if (size == 0 || !is_whole)
        return load_fail(error, "%s: a script has 1 to %d bytes", path, LOAD_SCRIPT_SIZE_MAX);
    *out_size = size;
    return true;
}

static bool send_script(struct load_connection *connection, const char *script, size_t script_size,
                        char out_sha[LOAD_SHA_SIZE], struct load_error *error)
{
    char head[64];
    char answer[128];
    struct load_totals totals = {0};

    snprintf(head, sizeof(head), "*3\r\n$6\r\nSCRIPT\r\n$4\r\nLOAD\r\n$%zu\r\n", script_size);
    if (!load_exchange_send(connection, head, strlen(head), error) ||
        !load_exchange_send(connection, script, script_size, error) ||
        !load_exchange_send(connection, "\r\n", 2, error) ||
        !load_exchange_receive(connection, &totals, answer, sizeof(answer), error))
        return false;
    if (totals.error_count > 0)
        return load_fail(error, "SCRIPT LOAD: %s", totals.first_error);
    if (strncmp(answer, "$40\r\n", 5) != 0 || strlen(answer) < 5 + SHA_DIGITS)
        return load_fail(error, "the answer to SCRIPT LOAD does not have 40 digits");
    memcpy(out_sha, answer + 5, SHA_DIGITS);
    out_sha[SHA_DIGITS] = '\0';
    return true;
}

bool load_script(const struct load_target *target, const char *path, char out_sha[LOAD_SHA_SIZE],
                 struct load_error *error)
{
    char script[LOAD_SCRIPT_SIZE_MAX];
    size_t script_size = 0;
    struct load_connection connection;
    bool is_loaded;

    if (!read_script(path, script, &script_size, error) ||
        !load_connection_init(target, LOAD_RESP, 1, sizeof(script), &connection, error))
        return false;
    is_loaded = send_script(&connection, script, script_size, out_sha, error);
    load_connection_done(&connection);
    return is_loaded;
}
