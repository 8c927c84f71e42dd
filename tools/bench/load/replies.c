#include "load/replies.h"

#include <string.h>

uint64_t load_totals_total(const struct load_totals *totals)
{
    return totals->allowed_count + totals->denied_count + totals->other_count + totals->error_count;
}

void load_totals_add(struct load_totals *totals, const struct load_totals *other)
{
    totals->allowed_count += other->allowed_count;
    totals->denied_count += other->denied_count;
    totals->other_count += other->other_count;
    totals->error_count += other->error_count;
    if (totals->first_error[0] == '\0')
        memcpy(totals->first_error, other->first_error, sizeof(totals->first_error));
}

void load_replies_init(enum load_protocol protocol, struct load_replies *out_replies)
{
    memset(out_replies, 0, sizeof(*out_replies));
    out_replies->protocol = protocol;
    if (protocol == LOAD_HTTP)
        load_http_init(out_replies->http_room);
}

bool load_replies_read(struct load_replies *replies, const char *bytes, size_t size,
                       struct load_totals *totals, struct load_error *error)
{
    if (replies->protocol == LOAD_RESP)
        return load_resp_read(&replies->resp, bytes, size, totals, error);
    return load_http_read(replies->http_room, bytes, size, totals, error);
}
