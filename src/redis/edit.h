/*
 * edit: a token bucket in Redis that is refunded, filled or blocked by hand, in one call of a script, however often
 * others take from it meanwhile. Buckets of other kinds are swapped (swap.h).
 */
#ifndef RATION_REDIS_EDIT_H
#define RATION_REDIS_EDIT_H

#include "redis/swap.h"

enum ration_redis_edit_kind { RATION_REDIS_REFUND, RATION_REDIS_FILL, RATION_REDIS_BLOCK };

struct ration_redis_edit {
    struct ration_redis_bucket bucket;
    enum ration_redis_edit_kind kind;
    uint64_t tokens;   /* refunded */
    uint64_t block_ns; /* from now on */
    bool has_now;
    uint64_t now_ns;
};

enum ration_redis_edited {
    RATION_REDIS_EDITED,
    RATION_REDIS_EDITED_NONE,   /* there was no such bucket: it is full, or blocked now */
    RATION_REDIS_EDITED_NOT_SO, /* nothing was done: it is of another limit, and has to be swapped */
    RATION_REDIS_EDITED_WRONG,  /* nothing was done: it holds something else */
    RATION_REDIS_EDITED_PERHAPS, /* there is no answer */
};

typedef void ration_redis_edit_done(void *context, enum ration_redis_edited edited);

/* Whether buckets of a limit are edited so. */
bool ration_redis_edit_fits(const struct ration_limit *limit);

/* The keys and arguments: all words behind the script. */
void ration_redis_edit_write(const struct ration_redis_edit *edit,
                             const struct ration_redis_names *names,
                             struct ration_redis_words *words);

/* edit is borrowed for the call. deadline_ns as in ration_redis_client_call(). */
void ration_redis_edit(struct ration_redis_client *client, const struct ration_redis_edit *edit,
                       uint64_t deadline_ns, ration_redis_edit_done *done, void *context);

#endif
