/*
 * turns: measures the cost of a request in a server with one loop (support/whole_server.h), turn by turn, while another
 * client sends a request in each turn. A turn is one iteration of the loop.
 */
#ifndef RATION_TESTS_TURNS_H
#define RATION_TESTS_TURNS_H

#include "base/output.h"
#include "support/whole_server.h"

/* A turn should cost 5 ms at most; another machine, another load and instrumentation may cost more. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__) || !defined(__OPTIMIZE__)
#define TURNS_NS_MAX      400000000
#define TURNS_IS_MEASURED 0
#else
#define TURNS_NS_MAX      20000000
#define TURNS_IS_MEASURED 1
#endif

/* A turn that takes this long does more than a small read and write. */
#define TURNS_BUSY_NS_MIN 50000

struct turns_cost {
    uint64_t turn_ns_max; /* of processor time */
    unsigned turn_count;
    unsigned busy_count;      /* turns of at least TURNS_BUSY_NS_MIN */
    unsigned answered_beside; /* turns in which the other client was answered */
};

/* Sends a request and runs turns until it is answered. Opens the client, which the caller closes. */
struct turns_cost turns_serve(struct whole_server *server, enum whole_protocol protocol,
                              const struct ration_output *request, struct whole_client *client);

void turns_append_many(struct ration_output *output, const char *text, unsigned count);

#endif
