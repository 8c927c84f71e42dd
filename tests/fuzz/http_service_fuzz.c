/*
 * Any bytes as a stream to the server's HTTP port: nothing crashes, every response is complete and as long as it says, and
 * the responses are the same however the bytes are split. The first bytes say where, and whether there are secrets.
 */
#include "service_fake.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const char *find(const char *bytes, size_t size, const char *text)
{
    return size == 0 ? NULL : memmem(bytes, size, text, strlen(text));
}

/* The value of Content-Length in the headers; it must occur once, and be a plain number. */
static size_t content_length(const char *head, size_t size)
{
    static const char name[] = "\r\nContent-Length: ";
    const char *at = find(head, size, name);
    size_t length = 0, digits = 0;

    CHECK(at != NULL);
    at += sizeof(name) - 1;
    CHECK(find(at, (size_t)(head + size - at), name) == NULL);
    for (; *at >= '0' && *at <= '9'; at++, digits++)
        length = 10 * length + (size_t)(*at - '0');
    CHECK(digits > 0 && digits < 10 && at[0] == '\r' && at[1] == '\n');
    return length;
}

/* Lines of printable bytes, each ended by CRLF, each but the first with a name and a colon. */
static void check_head(const char *head, size_t size)
{
    size_t line = 0;
    bool has_colon = true; /* the status line needs no colon */

    CHECK(size > 14 && memcmp(head, "HTTP/1.", 7) == 0 && (head[7] == '0' || head[7] == '1'));
    CHECK(head[8] == ' ' && head[9] >= '1' && head[9] <= '5' && head[12] == ' ');
    for (size_t i = 0; i < size; i++) {
        if (head[i] == '\r') {
            CHECK(i + 1 < size && head[i + 1] == '\n' && has_colon);
            line = i + 2;
            has_colon = line + 2 == size; /* the empty line is the last */
            i++;
            continue;
        }
        CHECK(head[i] >= ' ' && head[i] <= '~');
        has_colon |= head[i] == ':' && i > line;
    }
}

/*
 * Checks all responses, and removes "100 Continue", which a client gets only if it waits. has_head: a response may lack
 * the announced body, if another response follows at once or the stream ends.
 */
static void check_answers(struct fake *fake, bool has_head)
{
    size_t at = 0, put = 0;

    while (at < fake->answer_size) {
        char *head = fake->answers + at;
        size_t left = fake->answer_size - at;
        const char *end = find(head, left, "\r\n\r\n");
        size_t head_size, size;

        CHECK(end != NULL);
        head_size = (size_t)(end - head) + 4;
        check_head(head, head_size);
        if (memcmp(head + 9, "100", 3) == 0) {
            at += head_size;
            continue;
        }
        size = content_length(head, head_size);
        if (has_head && (left == head_size ||
                         (left > head_size + 7 && memcmp(head + head_size, "HTTP/1.", 7) == 0)))
            size = 0;
        CHECK(size <= left - head_size);
        memmove(fake->answers + put, head, head_size + size);
        put += head_size + size;
        at += head_size + size;
    }
    fake->answer_size = put;
}

static void check_same(const struct fake *one, const struct fake *other)
{
    CHECK(one->is_closed == other->is_closed);
    CHECK(one->answer_size == other->answer_size);
    CHECK(one->answer_size == 0 || memcmp(one->answers, other->answers, one->answer_size) == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const uint8_t bytewise[FAKE_CUTS_SIZE] = {0};
    const uint8_t *cuts[] = {NULL, data, bytewise};
    const char *stream = (const char *)data + FAKE_CUTS_SIZE + 1;
    struct fake fakes[3];

    if (size < FAKE_CUTS_SIZE + 1)
        return 0;
    size -= FAKE_CUTS_SIZE + 1;
    for (size_t i = 0; i < 3; i++) {
        fake_open(&fakes[i], &ration_http_protocol, data[FAKE_CUTS_SIZE] & 1 ? "secret" : "");
        fake_feed_all(&fakes[i], (const uint8_t *)stream, size, cuts[i]);
        CHECK(!fakes[i].connection.is_aborted);
        check_answers(&fakes[i], find(stream, size, "HEAD") != NULL);
    }
    if (find(stream, size, "/metrics") == NULL) { /* which reports on the process, too */
        check_same(&fakes[0], &fakes[1]);
        check_same(&fakes[0], &fakes[2]);
    }
    for (size_t i = 0; i < 3; i++)
        fake_close(&fakes[i]);
    return 0;
}
