/*
 * client: decisions that Redis makes, for one event loop.
 *
 * Each take is one call of a script; more if a bucket must be converted or the script's text must be sent again. It
 * is completed within the deadline: decided, or not decided and why. If it was sent, an undecided take may still
 * have been charged.
 */
#ifndef RATION_REDIS_CLIENT_H
#define RATION_REDIS_CLIENT_H

#include "base/hash_blake2b.h"
#include "redis/redis_connection.h"
#include "redis/scripts.h"
#include "redis/take_request.h"
#include "redis/url.h"

struct ration_redis_client;

#define RATION_REDIS_PREFIX_MAX 63

/* The values of struct ration_redis, checked, with the defaults filled in. */
struct ration_redis_options {
    struct ration_redis_url url;
    struct ration_redis_times times;
    char prefix[RATION_REDIS_PREFIX_MAX + 1];
    uint32_t node_count;
    bool is_one_slot; /* all buckets share one cluster slot; else only those of the same key do */
    bool has_key_secret;
    uint8_t key_secret[RATION_BLAKE2B_SIZE]; /* key of the hash of long keys */
};

/* Returns RATION_EINVAL; error (may be NULL) then says why. */
ration_status ration_redis_options_read(const struct ration_redis *redis,
                                        struct ration_redis_options *out_options,
                                        struct ration_error *error);

/* Defaults, for options that are 0. */
#define RATION_REDIS_TIMEOUT_NS         (20 * RATION_NS_PER_MS)
#define RATION_REDIS_CONNECT_TIMEOUT_NS RATION_NS_PER_SECOND
#define RATION_REDIS_RETRY_MIN_NS       (100 * RATION_NS_PER_MS)
#define RATION_REDIS_RETRY_MAX_NS       (2 * RATION_NS_PER_SECOND)

/* Why a take was not decided. */
enum ration_redis_undecided {
    RATION_REDIS_NOT_DONE, /* nothing was charged */
    RATION_REDIS_UNKNOWN   /* it was sent, and may have been charged */
};

/* result is borrowed for the call; NULL: not decided, and why says whether it may have been charged. */
typedef void ration_redis_decided(void *context, const struct ration_redis_take_result *result,
                                  enum ration_redis_undecided why);

/*
 * options are borrowed for the life of the client, so that there is only one copy of a password. Release:
 * ration_redis_client_free(). Returns RATION_ENOMEM.
 */
ration_status ration_redis_client_create(const struct ration_redis_options *options,
                                         const struct ration_redis_loop *loop,
                                         struct ration_redis_client **out_client);

/* Completes all pending calls first. NULL is allowed. */
void ration_redis_client_free(struct ration_redis_client *client);

/* The deadline of a call that is sent now, on the loop's clock. */
uint64_t ration_redis_client_deadline(const struct ration_redis_client *client);

/*
 * Decides, now or asynchronously. The limits of request must stay valid until decided() is called; the keys
 * need not. decided() may be called before this returns.
 */
void ration_redis_client_take(struct ration_redis_client *client,
                              const struct ration_redis_take_request *request,
                              ration_redis_decided *decided, void *context);

/*
 * Calls a script about one bucket. argv is the number of keys, the keys and the arguments. deadline_ns is a
 * time of the loop's clock; 0: now plus the client's timeout.
 */
void ration_redis_client_call(struct ration_redis_client *client, enum ration_redis_script script,
                              const struct ration_redis_argv *argv, uint64_t deadline_ns,
                              ration_redis_done *done, void *context);

/* The same for a plain command: its name, a key and the other arguments. */
void ration_redis_client_send(struct ration_redis_client *client,
                              const struct ration_redis_argv *argv, uint64_t deadline_ns,
                              ration_redis_done *done, void *context);

const struct ration_redis_names *ration_redis_client_names(
    const struct ration_redis_client *client);

bool ration_redis_client_is_connected(const struct ration_redis_client *client);
/* Whether the client is connecting, or looking for the node to connect to. */
bool ration_redis_client_is_trying(const struct ration_redis_client *client);
bool ration_redis_client_has_connected(const struct ration_redis_client *client);
const char *ration_redis_client_last_error(const struct ration_redis_client *client);
void ration_redis_client_stats(const struct ration_redis_client *client,
                               struct ration_redis_stats *out_stats);

#endif
