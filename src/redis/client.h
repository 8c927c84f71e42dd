/*
 * client: decisions that Redis makes, for one loop.
 *
 * Each ask is one call of the script. It is answered within the deadline: decided, or not, with the
 * reason. What was not decided may still have been charged, if it was sent.
 */
#ifndef RATION_REDIS_CLIENT_H
#define RATION_REDIS_CLIENT_H

#include "base/hash_blake2b.h"
#include "redis/ask.h"
#include "redis/link.h"
#include "redis/scripts.h"
#include "redis/url.h"

struct ration_redis_client;

#define RATION_REDIS_PREFIX_MAX 63

/* What struct ration_redis says, checked and with the defaults filled in. */
struct ration_redis_options {
    struct ration_redis_url url;
    struct ration_redis_times times;
    char prefix[RATION_REDIS_PREFIX_MAX + 1];
    uint32_t node_count;
    bool is_one_slot; /* all buckets are, in a cluster; else those of one key */
    bool has_key_secret;
    uint8_t key_secret[RATION_BLAKE2B_SIZE]; /* of the names of long keys */
};

/* Returns RATION_EINVAL, with error (may be NULL) telling why. */
ration_status ration_redis_options_read(const struct ration_redis *redis,
                                        struct ration_redis_options *out_options,
                                        struct ration_error *error);

/* The times that are used where 0 is given. */
#define RATION_REDIS_DEADLINE_NS         (20 * RATION_NS_PER_MS)
#define RATION_REDIS_CONNECT_DEADLINE_NS RATION_NS_PER_SECOND
#define RATION_REDIS_RETRY_MIN_NS        (100 * RATION_NS_PER_MS)
#define RATION_REDIS_RETRY_MAX_NS        (2 * RATION_NS_PER_SECOND)

/* Of what was not decided. */
enum ration_redis_undecided {
    RATION_REDIS_NOT_DONE, /* nothing was charged */
    RATION_REDIS_UNKNOWN   /* it was sent, and may have been */
};

/* told is borrowed for the call; NULL: not decided. */
typedef void ration_redis_decided(void *context, const struct ration_redis_told *told,
                                  enum ration_redis_undecided why);

/* options are borrowed for as long as the client lives: of a password there is one copy. Release: ration_redis_client_free(). Returns RATION_ENOMEM. */
ration_status ration_redis_client_create(const struct ration_redis_options *options,
                                         const struct ration_redis_loop *loop,
                                         struct ration_redis_client **out_client);

/* Whoever waits is told first. NULL is fine. */
void ration_redis_client_free(struct ration_redis_client *client);

/* When an ask of now has to be answered. */
uint64_t ration_redis_client_deadline(const struct ration_redis_client *client);

/*
 * Decides, now or later. The limits must stay until then; the keys need not. decided() may be called
 * before this returns.
 */
void ration_redis_client_take(struct ration_redis_client *client,
                              const struct ration_redis_ask *ask, ration_redis_decided *decided,
                              void *context);

/*
 * Calls a script about one bucket: words are how many keys there are, the keys and the arguments. deadline_ns is a
 * moment of the loop's; 0: the client's deadline, from now on.
 */
void ration_redis_client_call(struct ration_redis_client *client, enum ration_redis_script script,
                              const struct ration_redis_words *words, uint64_t deadline_ns,
                              ration_redis_done *done, void *context);

/* The same for a command: its name, a key and the rest. */
void ration_redis_client_send(struct ration_redis_client *client,
                              const struct ration_redis_words *words, uint64_t deadline_ns,
                              ration_redis_done *done, void *context);

const struct ration_redis_names *ration_redis_client_names(
    const struct ration_redis_client *client);

bool ration_redis_client_is_up(const struct ration_redis_client *client);
/* Whether a connection is being made, or found. */
bool ration_redis_client_is_trying(const struct ration_redis_client *client);
bool ration_redis_client_is_tried(const struct ration_redis_client *client);
const char *ration_redis_client_trouble(const struct ration_redis_client *client);
void ration_redis_client_stats(const struct ration_redis_client *client,
                               struct ration_redis_stats *out_stats);

#endif
