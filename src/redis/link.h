/*
 * link: a connection to one Redis, on the loop of whoever owns it.
 *
 * It connects by itself, introduces itself (AUTH, SELECT, the scripts), and comes back after it was
 * lost. What is sent has a deadline: whoever asked is told in time, by an answer or by the news that
 * there is none.
 *
 *     down ---(wait, longer each time)---> looking ---> connecting ---> greeting ---> up
 *      ^                                      |             |              |           |
 *      +--------------------------------------+-------------+--------------+-----------+  lost, or silent
 *
 * - Nothing waits for a link that is not up: it is refused at once, and decided otherwise.
 * - Nothing is sent twice. What was sent and not answered may have been done.
 * - Of a link that let a deadline pass nobody asks more before it has answered what it owes: whoever has many to ask,
 *   one after the other, waits for one deadline and not for each.
 * - A link that is silent or slow while asks run out of time is given up, as one that was closed.
 * - One that is closed while nobody waits for it connects again at once: Redis ends connections that rest.
 * - One that came back is tried with one ask at first, twice as many whenever all were answered; one
 *   that is late meanwhile is given up at once. When it will be tried again, see pace.h.
 *
 * All calls belong to the thread of the loop. Times are of a clock that does not jump.
 */
#ifndef RATION_REDIS_LINK_H
#define RATION_REDIS_LINK_H

#include "ration/redis.h"
#include "redis/words.h"

struct redisReply;
struct ration_redis_link;

/* Where, and as whom. Texts are borrowed for as long as the link lives; NULL: none. */
struct ration_redis_place {
    const char *host; /* or: */
    const char *unix_path;
    unsigned port;
    const char *user;
    const char *password;
    unsigned database;
    bool has_scripts; /* each connection loads them */
    bool is_master;   /* a replica is left at once, and tried again later */
};

struct ration_redis_times {
    uint64_t deadline_ns;         /* of an answer */
    uint64_t connect_deadline_ns; /* from the first packet until it is up */
    uint64_t retry_min_ns;        /* how long a lost link rests, at first */
    uint64_t retry_max_ns;
};

enum ration_redis_outcome {
    RATION_REDIS_ANSWERED, /* reply is there, and may be an error */
    RATION_REDIS_LATE,     /* sent, and not answered in time */
    RATION_REDIS_LOST,     /* sent, and then the connection was lost */
    RATION_REDIS_REFUSED   /* not sent */
};

/* reply is borrowed for the call, and NULL unless ANSWERED. Called once. */
typedef void ration_redis_done(void *context, enum ration_redis_outcome outcome,
                               const struct redisReply *reply);

/*
 * *out_link begins to connect at once; release it with ration_redis_link_free(). place, times and loop
 * are copied. Returns RATION_ENOMEM.
 */
ration_status ration_redis_link_create(const struct ration_redis_place *place,
                                       const struct ration_redis_times *times,
                                       const struct ration_redis_loop *loop,
                                       struct ration_redis_link **out_link);

/* Whoever waits is told that it was lost. NULL is fine. */
void ration_redis_link_free(struct ration_redis_link *link);

/*
 * Has changed() called whenever the link came up or went down. It may ask and send, but not free the
 * link. The link may have failed before this is called: see ration_redis_link_is_tried().
 */
void ration_redis_link_watch(struct ration_redis_link *link, void (*changed)(void *context),
                             void *context);

/* How a command is sent. */
struct ration_redis_manner {
    uint64_t deadline_ns; /* a moment of the loop's; 0: the link's deadline, from now on */
    bool is_asking;       /* ASKING goes before it: to a node that is about to have its slot */
};

/*
 * Sends a command; done() is told in time, perhaps before this returns. Commands of one turn of the
 * loop go out together. The words are copied. manner may be NULL.
 */
void ration_redis_link_send(struct ration_redis_link *link, const struct ration_redis_words *words,
                            const struct ration_redis_manner *manner, ration_redis_done *done,
                            void *context);

bool ration_redis_link_is_up(const struct ration_redis_link *link);

/* Whether it was ever up or has failed since it was made: else its first connection is under way. */
bool ration_redis_link_is_tried(const struct ration_redis_link *link);

/* Whether a connection is being made. */
bool ration_redis_link_is_trying(const struct ration_redis_link *link);

/* Why it is not up, for people; "" if it is. */
const char *ration_redis_link_trouble(const struct ration_redis_link *link);

/* Gives the connection up and connects anew: what is there is not what should be (a replica). */
void ration_redis_link_renew(struct ration_redis_link *link, const char *trouble);

/* Adds what the link has done. */
void ration_redis_link_count(const struct ration_redis_link *link,
                             struct ration_redis_stats *stats);

#endif
