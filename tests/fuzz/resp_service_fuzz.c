/*
 * Any bytes as a stream to the server's RESP port: nothing crashes, every reply is a well-formed value, and the replies are
 * the same however the bytes are split. The first bytes say where, and whether there are secrets.
 */
#include "service_fake.h"

#include "support/resp_check.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* A client may change from RESP2 to RESP3 and back. */
static void check_answers(const struct fake *fake)
{
    size_t at = 0;

    while (at < fake->answer_size) {
        const char *bytes = fake->answers + at;
        size_t left = fake->answer_size - at;
        size_t used = resp_check_value(bytes, left, 2, 0);

        if (used == 0)
            used = resp_check_value(bytes, left, 3, 0);
        CHECK(used > 0);
        at += used;
    }
}

/* HTTP closes a connection at once, with unsent replies: then one output is the beginning of the other. */
static void check_same(const struct fake *one, const struct fake *other)
{
    size_t size = one->answer_size < other->answer_size ? one->answer_size : other->answer_size;

    CHECK(one->is_closed == other->is_closed);
    CHECK(one->connection.is_aborted == other->connection.is_aborted);
    CHECK(size == 0 || memcmp(one->answers, other->answers, size) == 0);
    CHECK(one->connection.is_aborted || one->answer_size == other->answer_size);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const uint8_t bytewise[FAKE_CUTS_SIZE] = {0};
    const uint8_t *cuts[] = {NULL, data, bytewise};
    struct fake fakes[3];

    if (size < FAKE_CUTS_SIZE + 1)
        return 0;
    for (size_t i = 0; i < 3; i++) {
        fake_open(&fakes[i], &ration_resp_protocol, data[FAKE_CUTS_SIZE] & 1 ? "secret" : "");
        fake_feed_all(&fakes[i], data + FAKE_CUTS_SIZE + 1, size - FAKE_CUTS_SIZE - 1, cuts[i]);
        check_answers(&fakes[i]);
    }
    check_same(&fakes[0], &fakes[1]);
    check_same(&fakes[0], &fakes[2]);
    for (size_t i = 0; i < 3; i++)
        fake_close(&fakes[i]);
    return 0;
}
