#include "load/replies.h"

#include <string.h>

uint64_t load_tally_total(const struct load_tally *tally)
{
    return tally->allowed_count + tally->denied_count + tally->other_count + tally->error_count;
}

void load_tally_add(struct load_tally *tally, const struct load_tally *other)
{
    tally->allowed_count += other->allowed_count;
    tally->denied_count += other->denied_count;
    tally->other_count += other->other_count;
    tally->error_count += other->error_count;
    if (tally->first_error[0] == '\0')
        memcpy(tally->first_error, other->first_error, sizeof(tally->first_error));
}

void load_replies_init(enum load_protocol protocol, struct load_replies *out_replies)
{
    memset(out_replies, 0, sizeof(*out_replies));
    out_replies->protocol = protocol;
    if (protocol == LOAD_HTTP)
        load_http_init(out_replies->http_room);
}

bool load_replies_read(struct load_replies *replies, const char *bytes, size_t size,
                       struct load_tally *tally, struct load_error *error)
{
    if (replies->protocol == LOAD_RESP)
        return load_resp_read(&replies->resp, bytes, size, tally, error);
    return load_http_read(replies->http_room, bytes, size, tally, error);
}
