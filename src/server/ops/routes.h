/*
 * routes: the table of HTTP paths. The HTTP service dispatches by it, and `ration serve --access` lists it.
 */
#ifndef RATION_SERVER_OPS_ROUTES_H
#define RATION_SERVER_OPS_ROUTES_H

#include <stdbool.h>
#include <stddef.h>

#include "codec/resp/access.h"

struct ration_http_worker;

typedef void ration_http_handler(struct ration_http_worker *worker);

/* The handlers of a path; NULL: the method is not allowed. */
struct ration_http_route {
    const char *path;
    ration_http_handler *get;
    ration_http_handler *post;
    enum ration_access access; /* needed by the client */
    /* Reads every limit or key. The connection then yields: one read may hold thousands of requests. */
    bool is_costly;
};

extern const struct ration_http_route ration_http_routes[];
extern const size_t ration_http_route_count;

#endif
